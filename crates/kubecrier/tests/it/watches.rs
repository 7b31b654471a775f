//! Subscriptions while the API server restarts, freezes, compacts its history, or rejects
//! the credentials.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use testbed::{Cluster, Kubeconfig, Options, User, event, namespace};
use tokio::time::Instant;

use crate::{
    harness::{Http, Subscriber, one_context},
    upstream::until_watches,
};

async fn started(cluster: &Cluster, reason: &str) {
    let new_event = event("default", "Pod/web-0", "Normal", reason, "x");
    cluster.create(&new_event).await.unwrap();
}

async fn metric(http: &Http, name: &str) -> u64 {
    let text = http.get("/metrics").await.text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |count| count.trim().parse().unwrap())
}

/// Waits until the metric is at least that.
async fn until(http: &Http, name: &str, least: u64) {
    let there = async {
        while metric(http, name).await < least {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), there)
        .await
        .expect(name);
}

fn reason(data: &Value) -> &str {
    data["event"]["reason"].as_str().unwrap_or_default()
}

/// The next event after an outage of the API server. Subscribers are not notified of the
/// outage, unless five attempts fail on a busy machine (after 15 s).
async fn event_after(client: &mut Subscriber<'_>, id: &str, away: Duration) -> Value {
    loop {
        let data = client.event(id).await;
        if data.get("degraded").is_none() {
            return data;
        }
        assert!(away > Duration::from_secs(14), "{data} after {away:?}");
    }
}

/// S3-46, S3-48, S3-49, S3-53, S3-55.
#[tokio::test]
async fn a_restart_of_the_api_server_loses_nothing_and_tells_nobody() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("restarted", Options::default());
    let file = one_context(&cluster, User::Reader);
    let http = Http::start(&file.path, &["--watch-renewal-seconds", "3"]).await;
    let mut client = Subscriber::new(&http).await;
    let id = client.subscribe(json!({"namespace": "default"})).await;
    started(&cluster, "Before").await;
    assert_eq!(reason(&client.event(&id).await), "Before");
    let killed = Instant::now();
    cluster.kill_api().unwrap();
    let listed = http.call("events_list_subscriptions", json!({})).await.ok();
    assert_eq!(
        listed.data["total"], 1,
        "it stays while the watch is being mended"
    );
    assert_eq!(listed.data["subscriptions"][0]["status"], "active");
    cluster.start_api().await.unwrap();
    // The watch may not be back yet: it resumes where it was.
    started(&cluster, "Meanwhile").await;
    let meanwhile = event_after(&mut client, &id, killed.elapsed()).await;
    assert_eq!(reason(&meanwhile), "Meanwhile");
    let stopped = Instant::now();
    cluster.stop_api().unwrap();
    cluster.start_api().await.unwrap();
    started(&cluster, "After").await;
    let last = event_after(&mut client, &id, stopped.elapsed()).await;
    assert_eq!(reason(&last), "After");
    started(&cluster, "Marker").await;
    assert_eq!(reason(&client.event(&id).await), "Marker");
}

/// A cluster that is recreated at its address, or restored, has lower resourceVersions than
/// before: a watch from an old one would never receive anything.
#[tokio::test]
async fn a_cluster_made_anew_at_its_address_is_watched_from_its_beginning() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("anew", Options::default());
    let file = one_context(&cluster, User::Reader);
    // Far ahead of where a new cluster begins.
    for _ in 0..800 {
        started(&cluster, "Old").await;
    }
    let http = Http::start(&file.path, &["--watch-renewal-seconds", "3"]).await;
    let mut client = Subscriber::new(&http).await;
    let id = client.subscribe(json!({"namespace": "default"})).await;
    started(&cluster, "Before").await;
    assert_eq!(reason(&client.event(&id).await), "Before");
    cluster.start_over().await.unwrap();
    let gap = loop {
        let message = client.message().await;
        // The outage may take so long that subscribers are notified.
        if message["data"].get("degraded").is_none() {
            break message;
        }
    };
    let detail = gap["data"]["gap"]["detail"].as_str().unwrap();
    assert!(detail.contains("another cluster"), "{gap}");
    started(&cluster, "After").await;
    assert_eq!(reason(&client.event(&id).await), "After");
}

/// The kubeconfig is read again when it changes, and a watch follows: it does not stay
/// with the old cluster until its next renewal, a minute later.
#[tokio::test]
async fn a_context_that_is_pointed_elsewhere_is_followed() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    let id = client.subscribe(json!({"namespace": "moved-to"})).await;
    for cluster in [bed.dev(), bed.prod()] {
        let space = namespace("moved-to");
        cluster.create_cluster_wide(&space).await.unwrap();
    }
    let moved = |reason: &str| event("moved-to", "Pod/web-0", "Normal", reason, "x");
    bed.dev().create(&moved("Here")).await.unwrap();
    assert_eq!(reason(&client.event(&id).await), "Here");
    let began = Instant::now();
    let elsewhere = Kubeconfig::new().context("dev", bed.prod(), User::Reader);
    elsewhere.current("dev").write(&file.path).unwrap();
    let gap = client.message().await;
    let detail = gap["data"]["gap"]["detail"].as_str().unwrap();
    assert!(detail.contains("another cluster"), "{gap}");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(40), "{took:?}");
    bed.dev().create(&moved("Here")).await.unwrap();
    bed.prod().create(&moved("There")).await.unwrap();
    assert_eq!(reason(&client.event(&id).await), "There");
    // The watch of the old cluster has ended, and its last events would arrive first.
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    assert_eq!(stats["watches"].as_array().unwrap().len(), 1, "{stats}");
    bed.prod().create(&moved("Marker")).await.unwrap();
    assert_eq!(reason(&client.event(&id).await), "Marker");
}

/// The API server accepts events with an invalid time. Such an event must not stop the
/// delivery of others.
#[tokio::test]
async fn an_event_with_an_odd_time_is_told_like_any_other() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("odd-times", Options::default());
    let file = one_context(&cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    let id = client.subscribe(json!({"namespace": "default"})).await;
    let resource = ApiResource::erase::<Event>(&());
    let admin = cluster.client(User::Admin).await.unwrap();
    let api: Api<DynamicObject> = Api::namespaced_with(admin, "default", &resource);
    let odd: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "odd"},
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"},
        "reason": "Odd", "message": "from the end of time", "type": "Warning",
        "lastTimestamp": "9999-12-31T23:59:59Z",
    }))
    .unwrap();
    let made = api.create(&PostParams::default(), &odd).await.unwrap();
    assert_eq!(made.data["lastTimestamp"], "9999-12-31T23:59:59Z");
    let received = client.event(&id).await;
    assert_eq!(reason(&received), "Odd");
    let when = received["event"]["timestamp"].as_str().unwrap();
    assert!(when.parse::<Timestamp>().is_ok(), "{when}");
    started(&cluster, "Next").await;
    assert_eq!(reason(&client.event(&id).await), "Next");
    // A later subscriber and a plain list work too.
    client.subscribe(json!({"namespace": "default"})).await;
    let shown = http.call("events_list", json!({})).await.ok().text;
    assert!(shown.contains("Odd"), "{shown}");
    http.call("faults_list", json!({})).await.ok();
}

/// S3-50 to S3-52, S3-54, S3-77, S3-79, C33: five failures, one message, and one when
/// it is over.
#[tokio::test]
async fn a_cluster_that_stays_away_is_told_once_and_its_return_too() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("away", Options::default());
    let file = one_context(&cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    let id = client.subscribe(json!({})).await;
    cluster.kill_api().unwrap();
    // Four failures are not enough: it is active, and nothing is said.
    let failed = "kubecrier_watch_restarts_total{reason=\"failed\"}";
    until(&http, failed, 4).await;
    let listed = http.call("events_list_subscriptions", json!({})).await.ok();
    if metric(&http, failed).await == 4 {
        assert_eq!(listed.data["subscriptions"][0]["status"], "active");
    }
    let message = client.message().await;
    assert_eq!(metric(&http, failed).await, 5, "the fifth, and no other");
    assert_eq!(message["logger"], "kubernetes/subscription_error");
    assert_eq!(message["level"], "error");
    let data = &message["data"];
    assert_eq!(
        (&data["subscriptionId"], &data["cluster"]),
        (&json!(id), &json!("dev"))
    );
    assert_eq!(data["degraded"], true);
    assert!(
        data["error"]
            .as_str()
            .unwrap()
            .contains("cannot watch events"),
        "{data}"
    );
    let listed = http.call("events_list_subscriptions", json!({})).await.ok();
    assert_eq!(listed.data["subscriptions"][0]["status"], "degraded");
    assert_eq!(
        metric(&http, "kubecrier_watches{state=\"degraded\"}").await,
        1
    );
    // A new subscription during the outage is refused with the reason.
    let late = http.call("events_subscribe", json!({})).await;
    late.refused("unreachable", &["cannot list events"]);
    cluster.start_api().await.unwrap();
    let back = client.message().await;
    assert_eq!(
        (&back["level"], &back["data"]["degraded"]),
        (&json!("info"), &json!(false))
    );
    started(&cluster, "Back").await;
    assert_eq!(reason(&client.event(&id).await), "Back");
    assert_eq!(metric(&http, "kubecrier_watches{state=\"live\"}").await, 1);
}

/// S3-55's limit, C36, D3: the history is gone; what still exists is recovered, and
/// subscribers are notified of the gap.
#[tokio::test]
async fn a_compacted_history_is_recovered_as_far_as_it_goes_and_the_gap_is_told() {
    let Some(bed) = testbed::shared() else { return };
    // Without its watch cache the API server reads from etcd, which has compacted it.
    let options = Options {
        api_server_args: vec!["--watch-cache-sizes=events#0".to_owned()],
        ..Options::default()
    };
    let cluster = bed.fresh("compacted", options);
    let file = one_context(&cluster, User::Reader);
    let http = Http::start(&file.path, &["--watch-renewal-seconds", "1"]).await;
    let mut client = Subscriber::new(&http).await;
    let id = client.subscribe(json!({})).await;
    started(&cluster, "Before").await;
    assert_eq!(reason(&client.event(&id).await), "Before");
    // The server is stopped and its watch ends, while events go on.
    http.server.signal(Signal::STOP);
    until_watches(&cluster, 0).await;
    for reason in ["Missed", "MissedToo"] {
        started(&cluster, reason).await;
    }
    cluster.compact().await.unwrap();
    http.server.signal(Signal::CONT);
    assert_eq!(reason(&client.event(&id).await), "Missed");
    assert_eq!(reason(&client.event(&id).await), "MissedToo");
    let gap = client.message().await;
    assert_eq!(gap["logger"], "kubernetes/subscription_error");
    assert_eq!(gap["level"], "warning");
    let detail = gap["data"]["gap"]["detail"].as_str().unwrap();
    assert!(detail.contains("2 events were recovered"), "{detail}");
    assert_eq!(
        gap["data"]["seq"], 4,
        "the gap has its place in the sequence"
    );
    started(&cluster, "After").await;
    assert_eq!(reason(&client.event(&id).await), "After");
    // A compaction without lost events is no gap. Other writes increase the
    // resourceVersion.
    let gone = "kubecrier_watch_restarts_total{reason=\"gone\"}";
    let before = metric(&http, gone).await;
    for name in ["moves-on", "moves-on-too"] {
        cluster.create_cluster_wide(&namespace(name)).await.unwrap();
    }
    cluster.compact().await.unwrap();
    until(&http, gone, before + 1).await;
    // A later watch has ended, so that the result of the relist before it was delivered.
    let closed = "kubecrier_watch_restarts_total{reason=\"closed\"}";
    until(&http, closed, metric(&http, closed).await + 1).await;
    started(&cluster, "Again").await;
    assert_eq!(reason(&client.event(&id).await), "Again");
}

/// Expired tokens, and the kubeconfig that is read again.
#[tokio::test]
async fn expired_credentials_are_reported_and_renewed_ones_are_used() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.prod(), User::Reader);
    let http = Http::start(&file.path, &["--watch-renewal-seconds", "1"]).await;
    let mut client = Subscriber::new(&http).await;
    let id = client
        .subscribe(json!({"namespace": "default", "reason": "Renewed"}))
        .await;
    let rewrite = |user| {
        let file_now = Kubeconfig::new()
            .context("dev", bed.prod(), user)
            .current("dev");
        file_now.write(&file.path).unwrap();
    };
    rewrite(User::Unknown);
    let message = client.message().await;
    let error = message["data"]["error"].as_str().unwrap();
    assert_eq!(message["data"]["degraded"], true);
    assert!(error.contains("Unauthorized"), "{error}");
    rewrite(User::Reader);
    assert_eq!(client.message().await["data"]["degraded"], false);
    started(bed.prod(), "Renewed").await;
    assert_eq!(reason(&client.event(&id).await), "Renewed");
}
