//! What is refused where callers act as themselves.

use reqwest::StatusCode;
use serde_json::json;
use testbed::User;

use super::{ANN, Acting, BOB, TokenFile, furnish, grant};
use crate::harness::{Http, HttpSession, command, initialize, one_context};

#[tokio::test]
async fn a_caller_without_a_user_is_told_so() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let lines = [&*format!("ann:{ANN} user=ann"), &*format!("bare:{BOB}")];
    let acting = Acting::start(cluster, &lines);
    let post = async |token: &str, path: &str| {
        let request = reqwest::Client::new().post(format!("{}{path}", acting.base));
        let request = request.header("accept", "application/json, text/event-stream");
        let request = request.bearer_auth(token).json(&initialize("2025-11-25"));
        let answer = request.send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    };
    assert_eq!(post(ANN, "/mcp").await.0, StatusCode::OK);
    let (status, text) = post(BOB, "/mcp").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    for part in ["no Kubernetes user", "--auth-token-file", "user="] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert_eq!(
        post("0123456789abcdef-eve", "/mcp").await.0,
        StatusCode::UNAUTHORIZED
    );
    // What shows nothing of a cluster is still for everyone with a token.
    let metrics = reqwest::Client::new().get(format!("{}/metrics", acting.base));
    let metrics = metrics.bearer_auth(BOB).send().await.unwrap();
    assert_eq!(metrics.status(), StatusCode::OK);
}

/// The headers by which the server names a user come from nowhere else.
#[tokio::test]
async fn headers_of_a_caller_name_nobody() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let space = "acting-headers";
    furnish(cluster, space).await;
    grant(cluster, space, "gil", "User", "gil").await;
    let acting = Acting::start(cluster, &[&format!("hal:{ANN} user=hal")]);
    let mut headers = reqwest::header::HeaderMap::new();
    headers.insert("authorization", format!("Bearer {ANN}").parse().unwrap());
    headers.insert("impersonate-user", "gil".parse().unwrap());
    headers.insert("impersonate-group", "system:masters".parse().unwrap());
    let client = reqwest::Client::builder().default_headers(headers).build();
    let hal = HttpSession::begin_with(client.unwrap(), &acting.base, "2025-11-25", Some(ANN)).await;
    let answer = hal.call("pods_list", json!({"namespace": space})).await;
    answer.refused("forbidden", &["hal"]);
}

#[tokio::test]
async fn a_proxy_names_users_and_groups() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let space = "acting-proxy";
    furnish(cluster, space).await;
    grant(cluster, space, "proxied", "Group", "proxied").await;
    let file = one_context(cluster, User::ActsAsCallers);
    let (_server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--cluster-identity", "impersonate"])
            .args(["--trusted-user-header", "X-Forwarded-User"])
            .args(["--trusted-groups-header", "X-Forwarded-Groups"])
            .args(["--trusted-proxies", "127.0.0.0/8,::1"]),
    );
    let pods = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "pods_list", "arguments": {"namespace": space}}});
    let ann = async |groups: Option<&str>| {
        let mut headers = reqwest::header::HeaderMap::new();
        headers.insert("x-forwarded-user", "ann".parse().unwrap());
        if let Some(groups) = groups {
            headers.insert("x-forwarded-groups", groups.parse().unwrap());
        }
        let client = reqwest::Client::builder().default_headers(headers).build();
        HttpSession::begin_with(client.unwrap(), &base, "2025-11-25", None).await
    };
    let answer = async |request: reqwest::RequestBuilder| {
        let answer = request.send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    };
    let call = async |groups| answer(ann(groups).await.request(&pods)).await;
    let (_, text) = call(None).await;
    assert!(text.contains("forbidden") && text.contains("ann"), "{text}");
    let (_, text) = call(Some("idle, proxied")).await;
    assert!(
        !text.contains("forbidden") && text.contains("web"),
        "{text}"
    );
    let (_, text) = call(Some("idle")).await;
    assert!(text.contains("forbidden"), "{text}");
    // Who comes with other groups is another caller: the session of before is not theirs.
    let alone = ann(None).await;
    let grouped = alone.request(&pods).header("x-forwarded-groups", "proxied");
    let (status, text) = answer(grouped).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{text}");
    let system = alone
        .request(&pods)
        .header("x-forwarded-groups", "proxied,system:masters");
    let (status, text) = answer(system).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{text}");
    assert!(text.contains("`system:`"), "{text}");
    let url = format!("{base}/mcp");
    let system = reqwest::Client::new()
        .post(url)
        .json(&initialize("2025-11-25"));
    let system = system
        .header("x-forwarded-user", "system:admin")
        .send()
        .await
        .unwrap();
    assert_eq!(system.status(), StatusCode::FORBIDDEN);
}

/// The output of a server that does not start.
fn startup_error(arguments: &[&str]) -> String {
    let done = command().args(arguments).output().unwrap();
    assert_eq!(done.status.code(), Some(64), "{arguments:?}");
    String::from_utf8(done.stderr).unwrap()
}

#[test]
fn settings_that_leave_callers_unknown_are_refused_at_start() {
    let tokens = TokenFile::new(&[&format!("ann:{ANN} user=ann")]);
    let tokens = tokens.path.to_str().unwrap();
    let acting = ["--cluster-identity", "impersonate"];
    let with = |more: &[&'static str]| startup_error(&[&acting, more].concat());
    let text = with(&[]);
    assert!(
        text.contains("on stdio") && text.contains("hint: "),
        "{text}"
    );
    let text = with(&["--port", "0"]);
    assert!(
        text.contains("nothing tells who calls") && text.contains("--auth-token-file"),
        "{text}"
    );
    let project = [
        "--port",
        "0",
        "--project-root",
        "/tmp",
        "--auth-token-file",
        tokens,
    ];
    let text = startup_error(&[&acting[..], &project].concat());
    assert!(text.contains("`project-root`"), "{text}");
    let text = startup_error(&["--cluster-identity", "both"]);
    assert!(
        text.contains("shared") && text.contains("impersonate"),
        "{text}"
    );
}

#[test]
fn a_line_of_the_token_file_that_names_a_part_of_kubernetes_is_named() {
    let first = format!("ann:{ANN} user=ann groups=dev");
    for (second, part) in [
        ("user=system:admin", "user that begins with `system:`"),
        (
            "user=bob groups=dev,system:masters",
            "group that begins with `system:`",
        ),
        ("groups=dev", "no `user=`"),
        ("usr=bob", "neither `user=` nor `groups=`"),
    ] {
        let second = format!("bob:{BOB} {second}");
        let tokens = TokenFile::new(&[&first, &second]);
        let done = command()
            .args(["--port", "0", "--auth-token-file"])
            .arg(&tokens.path)
            .output()
            .unwrap();
        let text = String::from_utf8(done.stderr).unwrap();
        assert!(!done.status.success(), "{text}");
        assert!(
            text.contains("line 2 of the token file") && text.contains(part),
            "{text}"
        );
        assert!(!text.contains(BOB), "{text}");
    }
}
