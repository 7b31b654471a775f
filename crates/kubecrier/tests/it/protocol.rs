//! Both transports, both eras.

use serde_json::{Value, json};
use testbed::User;

use crate::harness::{Http, StdioSession, command, initialize, message, one_context};

#[tokio::test]
async fn every_protocol_version_is_answered_on_stdio() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut session = StdioSession::start(&mut command());
        session.send(&initialize(version));
        let result = &session.receive()["result"];
        assert_eq!(result["protocolVersion"], version);
        let list_changed = if version > "2025-03-26" {
            json!({"listChanged": true})
        } else {
            json!({})
        };
        let mut resources = list_changed.clone();
        resources["subscribe"] = json!(true);
        let mut declared = json!({"tools": list_changed, "resources": resources, "prompts": list_changed, "logging": {}});
        if version > "2024-11-05" {
            declared["completions"] = json!({});
        }
        assert_eq!(result["capabilities"], declared, "{version}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_method_not_found() {
    let mut session = StdioSession::start(&mut command());
    session.handshake();
    // Without a kubeconfig there is no cluster to list anything of.
    let answer = session.rpc("resources/list", json!({}));
    assert_eq!(answer["result"]["resources"], json!([]), "{answer}");
    let answer = session.rpc("resources/read", json!({"uri": "x://y"}));
    assert_eq!(answer["error"]["code"], -32002, "{answer}");
    assert_eq!(answer["error"]["data"]["uri"], "x://y", "{answer}");
    let answer = session.rpc("prompts/get", json!({"name": "none"}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = session.rpc("resources/subscribe", json!({"uri": "x://y"}));
    assert_eq!(answer["error"]["code"], -32002, "{answer}");
    let answer = session.rpc("no/such", json!({"uri": "x://y"}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

#[tokio::test]
async fn an_answer_under_way_is_given_before_stdio_ends() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let mut session = StdioSession::start(command().arg("--kubeconfig").arg(&file.path));
    session.handshake();
    let call = json!({"name": "namespaces_list", "arguments": {}});
    session.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}));
    session.close();
    let answer = session.response();
    assert_eq!(answer["id"], 7);
    assert!(
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("kube-system")
    );
    assert!(session.server.exit().await.success());
}

#[tokio::test]
async fn the_newest_protocol_needs_no_session() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let ask = async |method: &str, name: Option<&str>, params: Value| {
        let answer = http.modern(method, name, params).await;
        assert!(answer.headers().get("mcp-session-id").is_none());
        message(&answer.text().await.unwrap())
    };
    let discovered = ask("server/discover", None, json!({})).await;
    let versions = discovered["result"]["supportedVersions"]
        .as_array()
        .unwrap()
        .clone();
    assert!(versions.contains(&json!("2026-07-28")), "{discovered}");
    assert!(
        discovered["result"]["capabilities"]
            .get("logging")
            .is_none(),
        "{discovered}"
    );
    let call = json!({"name": "namespaces_list", "arguments": {}});
    let answer = ask("tools/call", Some("namespaces_list"), call).await;
    assert!(
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("kube-system")
    );
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_turned_away_unless_it_is_named() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let status = async |http: &Http, header: &str, value: &str| {
        let list = json!({"jsonrpc": "2.0", "id": value, "method": "tools/list", "params": {}});
        http.request(&list)
            .header(header, value)
            .send()
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    let http = Http::start(&file.path, &[]).await;
    assert_eq!(status(&http, "host", "evil.example").await, 403);
    assert_eq!(status(&http, "origin", "https://evil.example").await, 403);
    assert_eq!(status(&http, "origin", "http://localhost:6274").await, 200);
    let named = [
        "--allowed-hosts",
        "kubecrier.example",
        "--allowed-origins",
        "https://ui.example:443",
    ];
    let http = Http::start(&file.path, &named).await;
    assert_eq!(status(&http, "host", "kubecrier.example").await, 200);
    assert_eq!(status(&http, "origin", "https://ui.example").await, 200);
    assert_eq!(status(&http, "origin", "https://evil.example").await, 403);
}
