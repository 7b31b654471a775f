//! Faults that only a real control plane can show.

use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::{
    Api,
    api::{ListParams, WatchEvent, WatchParams},
};
use testbed::{Options, User, event, namespace};

#[tokio::test]
async fn an_api_server_comes_back_on_the_same_port_with_the_same_data() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("comes-back", Options::default());
    cluster
        .create_cluster_wide(&namespace("kept"))
        .await
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(cluster.client(User::Admin).await.unwrap());
    cluster.kill_api().unwrap();
    assert!(
        namespaces.get("kept").await.is_err(),
        "a killed server does not answer"
    );
    cluster.start_api().await.unwrap();
    namespaces.get("kept").await.unwrap();
    cluster.stop_api().unwrap();
    assert!(
        namespaces.get("kept").await.is_err(),
        "a stopped server does not answer"
    );
    cluster.start_api().await.unwrap();
    namespaces.get("kept").await.unwrap();
}

#[tokio::test]
async fn a_frozen_api_server_sends_nothing_until_it_thaws() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("frozen", Options::default());
    let namespaces: Api<Namespace> = Api::all(cluster.client(User::Admin).await.unwrap());
    namespaces.get("default").await.unwrap();
    cluster.freeze_api().unwrap();
    let asked = namespaces.get("default");
    assert!(
        tokio::time::timeout(Duration::from_secs(1), asked)
            .await
            .is_err()
    );
    cluster.thaw_api().unwrap();
    namespaces.get("default").await.unwrap();
}

#[tokio::test]
async fn a_compacted_version_is_really_gone() {
    let Some(bed) = testbed::shared() else { return };
    // Without the watch cache the API server reads from etcd, which has compacted it.
    let args = vec!["--watch-cache-sizes=events#0".to_owned()];
    let cluster = bed.fresh(
        "compacted",
        Options {
            api_server_args: args,
            ..Options::default()
        },
    );
    let events: Api<Event> = Api::namespaced(cluster.client(User::Admin).await.unwrap(), "default");
    let old = events
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    for number in 0..3 {
        let what = event(
            "default",
            "Pod/web",
            "Warning",
            "BackOff",
            &format!("{number}"),
        );
        cluster.create(&what).await.unwrap();
    }
    let watch = |version: String| {
        let events = events.clone();
        async move {
            let stream = events
                .watch(&WatchParams::default(), &version)
                .await
                .unwrap();
            std::pin::pin!(stream).try_next().await.unwrap().unwrap()
        }
    };
    assert!(
        matches!(watch(old.clone()).await, WatchEvent::Added(_)),
        "history is there"
    );
    cluster.compact().await.unwrap();
    match watch(old).await {
        WatchEvent::Error(status) => assert_eq!(status.code, 410),
        other => panic!("expected 410 Gone, got {other:?}"),
    }
}
