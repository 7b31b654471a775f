//! Label selectors of subscriptions, while labels change and where they cannot be read.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use testbed::{User, event, namespace, pod};
use tokio::time::{Duration, Instant};

use crate::harness::{Http, Subscriber, one_context};

async fn happens(space: &str, object: &str, reason: &str) {
    let cluster = testbed::shared().unwrap().dev();
    let event = event(space, object, "Warning", reason, "x");
    cluster.create(&event).await.unwrap();
}

/// What arrives until the event with this reason, as reasons and kinds without labels.
async fn until(client: &mut Subscriber<'_>, reason: &str) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let data = client.message().await["data"].take();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let shown = text(&data["event"]["reason"]).or(text(&data["unlabelled"]["kind"]));
        let shown = shown.unwrap_or_else(|| panic!("{data}"));
        if shown == reason {
            return seen;
        }
        seen.push(shown);
    }
}

#[tokio::test]
async fn what_cannot_be_read_never_matches_by_mistake_and_is_told_once() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "labels-unknown");
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let mut plain = pod(space, "plain", &["app"]);
    plain.metadata.labels = None;
    cluster.create(&plain).await.unwrap();
    // The reader may get pods, but no ConfigMaps.
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    for selector in ["!app", "app notin (db)"] {
        let filters = json!({"namespace": space, "labelSelector": selector});
        let made = http.call("events_subscribe", filters).await.ok().data;
        assert_eq!(made["warnings"], json!([]), "pods can be read");
        for object in ["Secret/token", "ConfigMap/settings", "Secret/other"] {
            happens(space, object, "Unknown").await;
        }
        happens(space, "Pod/plain", "Known").await;
        assert_eq!(until(&mut client, "Known").await, ["Secret", "ConfigMap"]);
        let id = json!({"subscriptionId": made["subscriptionId"]});
        http.call("events_unsubscribe", id).await.ok();
    }
    for (kind, part) in [
        ("Secret", "are never read"),
        ("ConfigMap", "`configmaps` is forbidden"),
    ] {
        let filters = json!({"namespace": space, "labelSelector": "!app", "involvedKind": kind});
        let made = http.call("events_subscribe", filters).await.ok().data;
        let warning = made["warnings"][0].as_str().unwrap();
        assert!(warning.contains(part), "{warning}");
    }
    let filters = json!({"namespace": space, "involvedKind": "ConfigMap"});
    let made = http.call("events_subscribe", filters).await.ok().data;
    assert_eq!(
        made["warnings"],
        json!([]),
        "no selector, no need of labels"
    );
}

#[tokio::test]
async fn a_pod_that_is_relabelled_matches_by_its_new_labels() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "labels-new");
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let mut web = pod(space, "web", &["app"]);
    web.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    cluster.create(&web).await.unwrap();
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    let filters = json!({"namespace": space, "labelSelector": "app=web"});
    let old = client.subscribe(filters).await;
    happens(space, "Pod/web", "Before").await;
    assert_eq!(client.event(&old).await["event"]["reason"], "Before");
    let filters = json!({"namespace": space, "labelSelector": "app=db"});
    let new = client.subscribe(filters).await;
    let admin = cluster.client(User::Admin).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(admin, space);
    let patch = json!({"metadata": {"labels": {"app": "db"}}});
    let params = PatchParams::default();
    pods.patch("web", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    // Every event matches by the old labels or by the new ones, and by the new ones soon.
    let began = Instant::now();
    let took = loop {
        happens(space, "Pod/web", "After").await;
        let data = client.message().await["data"].take();
        assert_eq!(data["event"]["reason"], "After", "{data}");
        if data["subscriptionId"] == json!(new) {
            break began.elapsed();
        }
        assert_eq!(data["subscriptionId"], json!(old));
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert!(took < Duration::from_secs(12), "{took:?}");
    happens(space, "Pod/web", "Last").await;
    let data = client.message().await["data"].take();
    assert_eq!(
        data["subscriptionId"],
        json!(new),
        "the old ones count no more"
    );
}
