//! Subscriptions while the API server says nothing: its process is frozen, or its connections
//! are half open.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::{Cluster, Options, User, event};
use tokio::time::Instant;

use crate::harness::{Http, Proxy, Subscriber, kubeconfig, one_context};

/// A shorter renewal than the default of 20 s makes the silence as much shorter: it is noticed
/// 4 s after the renewal is due, and told when there is no answer for 5 s.
const RENEWAL: u64 = 4;
const NOTICED: Duration = Duration::from_secs(RENEWAL + 4);
const TOLD: Duration = Duration::from_secs(RENEWAL + 4 + 5);

/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(6);

async fn happens(cluster: &Cluster, reason: &str) {
    let new_event = event("default", "Pod/web-0", "Normal", reason, "x");
    cluster.create(&new_event).await.unwrap();
}

fn reason(data: &Value) -> &str {
    data["event"]["reason"].as_str().unwrap_or_default()
}

async fn status(http: &Http) -> Value {
    let listed = http.call("events_list_subscriptions", json!({})).await.ok();
    listed.data["subscriptions"][0]["status"].clone()
}

#[tokio::test]
async fn a_frozen_api_server_is_told_soon_and_its_return_too() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("frozen", Options::default());
    let file = one_context(&cluster, User::Reader);
    let renewal = RENEWAL.to_string();
    let http = Http::start(&file.path, &["--watch-renewal-seconds", &renewal]).await;
    let mut client = Subscriber::new(&http).await;
    let id = client.subscribe(json!({})).await;
    happens(&cluster, "Before").await;
    assert_eq!(reason(&client.event(&id).await), "Before");
    assert_eq!(status(&http).await, "active");
    cluster.freeze_api().unwrap();
    let frozen = Instant::now();
    let told = client.message().await;
    let took = frozen.elapsed();
    assert!(took < TOLD + SLACK, "{took:?}");
    assert_eq!(
        (&told["level"], &told["data"]["degraded"]),
        (&json!("error"), &json!(true))
    );
    let error = told["data"]["error"].as_str().unwrap();
    assert!(error.contains("no answer within 4 s"), "{error}");
    assert_eq!(status(&http).await, "degraded");
    cluster.thaw_api().unwrap();
    happens(&cluster, "Thawed").await;
    let back = client.message().await;
    assert_eq!(back["data"]["degraded"], false, "{back}");
    assert_eq!(reason(&client.event(&id).await), "Thawed");
    assert_eq!(status(&http).await, "active");
    happens(&cluster, "Marker").await;
    assert_eq!(reason(&client.event(&id).await), "Marker", "nothing twice");
}

#[tokio::test]
async fn half_open_connections_cost_no_event_and_little_time() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("half-open", Options::default());
    let proxy = Proxy::start(&cluster.url()).await;
    let url = format!("https://{}", proxy.address);
    let file = kubeconfig(|file| {
        file.context_at("dev", &url, &cluster, User::Reader)
            .current("dev")
    });
    let renewal = RENEWAL.to_string();
    let http = Http::start(&file.path, &["--watch-renewal-seconds", &renewal]).await;
    let mut client = Subscriber::new(&http).await;
    let id = client.subscribe(json!({})).await;
    happens(&cluster, "Before").await;
    assert_eq!(reason(&client.event(&id).await), "Before");
    // Idle connections, which are lost as well.
    let calls = (0..4).map(|_| http.call("namespaces_list", json!({})));
    for answer in futures_util::future::join_all(calls).await {
        answer.ok();
    }
    proxy.lose_open();
    let lost = Instant::now();
    for reason in ["Meanwhile", "MeanwhileToo"] {
        happens(&cluster, reason).await;
    }
    for expected in ["Meanwhile", "MeanwhileToo"] {
        let data = client.message().await["data"].take();
        assert_eq!(reason(&data), expected, "and nothing is degraded: {data}");
    }
    let took = lost.elapsed();
    assert!(took < NOTICED + SLACK, "{took:?}");
    happens(&cluster, "Marker").await;
    assert_eq!(reason(&client.event(&id).await), "Marker", "nothing twice");
    assert_eq!(status(&http).await, "active");
}
