//! The pages for operators.

use serde_json::{Value, json};
use testbed::User;

use crate::harness::{Http, HttpSession, Server, command, one_context};

#[tokio::test]
async fn health_readiness_metrics_and_stats_are_served() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    assert_eq!(http.get("/healthz").await.status(), 200);
    assert_eq!(http.get("/readyz").await.status(), 200);
    http.call("namespaces_list", json!({})).await.ok();
    http.call("namespaces_list", json!({"context": "nope"}))
        .await
        .refused("context", &[]);
    let metrics = http.get("/metrics").await.text().await.unwrap();
    let counted = |tool: &str, outcome: &str| {
        let series =
            format!("kubecrier_tool_calls_total{{tool=\"{tool}\",outcome=\"{outcome}\"}} 1");
        assert!(metrics.contains(&series), "no {series} in\n{metrics}");
    };
    counted("namespaces_list", "ok");
    counted("namespaces_list", "context");
    assert!(metrics.contains("kubecrier_tool_seconds_count{tool=\"namespaces_list\"} 2"));
    assert!(
        metrics.contains("kubecrier_build_info{version="),
        "{metrics}"
    );
    assert!(metrics.ends_with("# EOF\n"));
    let failures =
        "mcp_notification_failures_total{resource_type=\"events\",error_type=\"network\"} 0";
    assert!(metrics.contains(failures), "{metrics}");
    let family = metrics
        .lines()
        .filter(|line| line.starts_with("mcp_"))
        .count();
    assert_eq!(family, 12, "and nothing else is in that family");
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    assert_eq!(stats["contexts"], json!(["dev"]));
    assert_eq!(
        (&stats["ready"], &stats["callsRunning"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(stats["clientsConnected"], 1);
    assert_eq!(http.get("/no-such-page").await.status(), 404);
    let stranger = reqwest::Client::new().get(format!("{}/stats", http.base));
    let stranger = stranger
        .header("host", "evil.example")
        .send()
        .await
        .unwrap();
    assert_eq!(
        stranger.status(),
        403,
        "context names are nothing for a web page"
    );
}

/// Where `--admin-address` listens, of a server that was started with port 0 for it.
pub(crate) fn admin_address(server: &Server) -> String {
    let log = server.log();
    let line = (log.lines())
        .find(|line| line.contains("serving pages for operators"))
        .unwrap();
    let (_, url) = line.split_once("://").unwrap();
    url.split('/').next().unwrap().to_owned()
}

/// A file of tokens for `ann` and `bob`.
fn tokens() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("ann:{ANN}\nbob:{BOB}\n")).unwrap();
    file
}

const ANN: &str = "0123456789abcdef-ann";
const BOB: &str = "0123456789abcdef-bob";

#[tokio::test]
async fn pages_need_a_token_where_calls_do_and_show_a_caller_only_its_own() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let tokens = tokens();
    let (_server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .arg("--auth-token-file")
            .arg(tokens.path()),
    );
    let anonymous = async |path: &str| {
        let answer = reqwest::get(format!("{base}{path}")).await.unwrap();
        answer.status().as_u16()
    };
    for (path, status) in [
        ("/metrics", 401),
        ("/stats", 401),
        ("/healthz", 200),
        ("/readyz", 200),
    ] {
        assert_eq!(anonymous(path).await, status, "{path}");
    }
    let (ann, bob) = (
        HttpSession::signed(&base, ANN).await,
        HttpSession::signed(&base, BOB).await,
    );
    let filters = json!({"namespace": "only-of-bob"});
    bob.call("events_subscribe", filters).await.ok();
    let metrics = ann.get("/metrics").await.text().await.unwrap();
    assert!(metrics.ends_with("# EOF\n"));
    let stats = async |session: &HttpSession| -> Value {
        session.get("/stats").await.json().await.unwrap()
    };
    let (of_ann, of_bob) = (stats(&ann).await, stats(&bob).await);
    assert_eq!(
        (
            &of_ann["caller"],
            &of_ann["sessions"],
            &of_ann["subscriptions"]
        ),
        (&json!("ann"), &json!(1), &json!(0))
    );
    assert_eq!(
        (
            &of_bob["caller"],
            &of_bob["sessions"],
            &of_bob["subscriptions"]
        ),
        (&json!("bob"), &json!(1), &json!(1))
    );
    for text in [metrics, of_ann.to_string()] {
        assert!(
            !text.contains("only-of-bob") && !text.contains("bob"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn an_address_of_its_own_has_the_pages_for_the_operator_alone() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let tokens = tokens();
    let (server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .arg("--auth-token-file")
            .arg(tokens.path())
            .args(["--admin-address", "127.0.0.1:0"]),
    );
    let operators = format!("http://{}", admin_address(&server));
    let bob = HttpSession::signed(&base, BOB).await;
    let filters = json!({"namespace": "only-of-bob"});
    bob.call("events_subscribe", filters).await.ok();
    for (path, status) in [("/metrics", 404), ("/stats", 404), ("/healthz", 200)] {
        assert_eq!(bob.get(path).await.status(), status, "{path}");
    }
    for (path, part) in [
        ("/metrics", "# EOF"),
        ("/stats", "only-of-bob"),
        ("/healthz", "ok"),
        ("/readyz", "ok"),
    ] {
        let answer = reqwest::get(format!("{operators}{path}")).await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        assert!(answer.text().await.unwrap().contains(part), "{path}");
    }
    let mcp = reqwest::get(format!("{operators}/mcp")).await.unwrap();
    assert_eq!(mcp.status(), 404, "nothing else is there");
    let page = reqwest::Client::new().get(format!("{operators}/stats"));
    let page = page.header("host", "evil.example").send().await.unwrap();
    assert_eq!(page.status(), 403, "nor for a web page");
}
