//! The pages for operators.

use serde_json::{Value, json};
use testbed::User;

use crate::harness::{Http, one_context};

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
