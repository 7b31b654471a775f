//! Callers that a proxy in front has authenticated.

use serde_json::json;

use crate::harness::{Http, HttpSession, Server, command};

fn start(proxies: &str) -> (Server, String) {
    let header = ["--trusted-user-header", "X-Forwarded-User"];
    Http::launch(command().args(header).args(["--trusted-proxies", proxies]))
}

#[tokio::test]
async fn each_user_of_a_proxy_is_a_caller() {
    let (_server, base) = start("127.0.0.0/8,::1");
    let ann = HttpSession::with_header(&base, "x-forwarded-user", "ann").await;
    let bob = HttpSession::with_header(&base, "x-forwarded-user", "bob").await;
    let stats: serde_json::Value = ann.get("/stats").await.json().await.unwrap();
    assert_eq!(
        (&stats["caller"], &stats["sessions"]),
        (&json!("user:ann"), &json!(1))
    );
    assert!(ann.rpc("tools/list", json!({})).await["result"]["tools"].is_array());
    // Ann's session is nothing for bob, nor for nobody.
    let url = format!("{base}/mcp");
    let other = |users: &[&str]| {
        let session = ann.request(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
        let id = session.build().unwrap().headers()["mcp-session-id"].clone();
        let mut request = reqwest::Client::new().delete(&url);
        request = request.header("mcp-session-id", id);
        for user in users {
            request = request.header("x-forwarded-user", *user);
        }
        async { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(other(&["bob"]).await, 404);
    assert_eq!(other(&[]).await, 401);
    assert_eq!(other(&["ann", "bob"]).await, 400);
    assert_eq!(other(&[""]).await, 400);
    assert_eq!(other(&["ann"]).await, 204);
    assert_eq!(bob.delete().await, 204);
}

#[tokio::test]
async fn nobody_else_may_name_a_user() {
    let (server, base) = start("10.0.0.0/8");
    let get = async |user: Option<&str>| {
        let mut request = reqwest::Client::new().get(format!("{base}/stats"));
        if let Some(user) = user {
            request = request.header("x-forwarded-user", user);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let (status, text) = get(Some("ann")).await;
    assert_eq!(status, 403);
    for part in ["x-forwarded-user", "--trusted-proxies", "127.0.0.1"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(get(None).await.0, 401);
    assert!(server.log().contains("--trusted-proxies"));
}
