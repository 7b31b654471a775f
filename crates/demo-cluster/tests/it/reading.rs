//! Lists and objects, through kube.

use demo_cluster::{DemoCluster, Grant, NewEvent, Options, RequestMatcher};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod, events::v1};
use kube::{
    Api, Error,
    api::ListParams,
    core::{DynamicObject, GroupVersionKind, PartialObjectMeta},
    discovery::Discovery,
};
use serde_json::json;

use crate::harness::{client, cluster, get, pod, pods};

#[tokio::test(start_paused = true)]
async fn kube_lists_page_by_page_at_one_version() {
    let cluster = cluster();
    for index in 0..7 {
        cluster.put(pod(&format!("web-{index}"), "web")).unwrap();
    }
    let api = pods(&cluster);
    let mut params = ListParams::default().limit(3);
    let mut names = Vec::new();
    loop {
        let page = api.list(&params).await.unwrap();
        names.extend(
            page.items
                .iter()
                .map(|pod| pod.metadata.name.clone().unwrap()),
        );
        // A change between two pages is not in this list.
        cluster
            .put(pod(&format!("web-{}-late", names.len()), "web"))
            .unwrap();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = ListParams::default().limit(3).continue_token(&token),
            None => break,
        }
    }
    let expected: Vec<_> = (0..7).map(|index| format!("web-{index}")).collect();
    assert_eq!(names, expected);
}

#[tokio::test(start_paused = true)]
async fn an_old_page_is_gone_after_compaction_and_says_where_to_go_on() {
    let cluster = cluster();
    for index in 0..3 {
        cluster.put(pod(&format!("web-{index}"), "web")).unwrap();
    }
    let client = client(&cluster);
    let path = "/api/v1/namespaces/shop/pods?limit=1";
    let (_, first) = get(&client, path).await;
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    cluster.put(pod("web-3", "web")).unwrap();
    cluster.compact();
    let (status, gone) = get(&client, &format!("{path}&continue={token}")).await;
    assert_eq!((status, &gone["reason"]), (410, &json!("Expired")));
    let token = gone["metadata"]["continue"].as_str().unwrap();
    let (status, next) = get(&client, &format!("{path}&continue={token}")).await;
    assert_eq!(
        (status, &next["items"][0]["metadata"]["name"]),
        (200, &json!("web-1"))
    );
}

#[tokio::test(start_paused = true)]
async fn selectors_select() {
    let cluster = cluster();
    cluster.put(pod("web", "web")).unwrap();
    cluster.put(pod("db", "db")).unwrap();
    let names = async |params: &ListParams| -> Vec<_> {
        let list = pods(&cluster).list(params).await.unwrap();
        list.items
            .into_iter()
            .filter_map(|pod| pod.metadata.name)
            .collect()
    };
    assert_eq!(
        names(&ListParams::default().labels("app in (web)")).await,
        ["web"]
    );
    assert_eq!(
        names(&ListParams::default().fields("metadata.name!=web")).await,
        ["db"]
    );
    let other: Api<Pod> = Api::namespaced(client(&cluster), "other");
    assert!(
        other
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn kube_discovers_what_there_is() {
    let cluster = cluster();
    let found = Discovery::new(client(&cluster)).run().await.unwrap();
    let deployments = GroupVersionKind::gvk("apps", "v1", "Deployment");
    let (resource, _) = found.resolve_gvk(&deployments).unwrap();
    assert_eq!(resource.plural, "deployments");
    let api: Api<DynamicObject> = Api::all_with(client(&cluster), &resource);
    assert!(
        api.list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let version = client(&cluster).apiserver_version().await.unwrap();
    assert_eq!(version.major, "1");
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_answered_to_those_who_ask_for_it() {
    let cluster = cluster();
    cluster.put(pod("web", "web")).unwrap();
    let api = pods(&cluster);
    let listed = api.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(
        listed.items[0].metadata.labels.as_ref().unwrap()["app"],
        "web"
    );
    let one: PartialObjectMeta<Pod> = api.get_metadata("web").await.unwrap();
    assert_eq!(one.metadata.name.as_deref(), Some("web"));
}

#[tokio::test(start_paused = true)]
async fn an_event_is_the_same_in_both_groups() {
    let cluster = cluster();
    let back_off = NewEvent::warning("shop", "Pod/web", "BackOff", "restarting").on("node-1");
    cluster.emit(&back_off).unwrap();
    cluster.emit(&back_off.clone().times(3)).unwrap();
    let api: Api<v1::Event> = Api::namespaced(client(&cluster), "shop");
    let params = ListParams::default().fields("regarding.name=web");
    let listed = api.list(&params).await.unwrap().items;
    let [event] = listed.as_slice() else {
        panic!("one event, counted on: {listed:?}");
    };
    assert_eq!(event.deprecated_count, Some(4));
    assert_eq!(event.note.as_deref(), Some("restarting"));
}

#[tokio::test(start_paused = true)]
async fn rights_are_refused_as_rbac_refuses() {
    let cluster = cluster();
    cluster.put(pod("web", "web")).unwrap();
    cluster.grant("demo", vec![Grant::reading(["pods"]).within("shop")]);
    let deployments: Api<Deployment> = Api::all(client(&cluster));
    let refused = deployments.list(&ListParams::default()).await.unwrap_err();
    let Error::Api(status) = refused else {
        panic!("not an answer: {refused}");
    };
    assert_eq!(status.code, 403);
    assert_eq!(
        status.message,
        "deployments.apps is forbidden: User \"demo\" cannot list resource \"deployments\" in API \
         group \"apps\" at the cluster scope"
    );
    assert_eq!(
        pods(&cluster)
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    cluster.deny(RequestMatcher::any().resource("pods"));
    assert!(pods(&cluster).get("web").await.is_err());
    cluster.allow_everything();
    assert!(pods(&cluster).get("web").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn events_end_after_their_time() {
    let cluster = cluster();
    let emit = |reason| {
        cluster
            .emit(&NewEvent::normal("shop", "Pod/web", reason, ""))
            .unwrap()
    };
    let first = emit("Pulled");
    tokio::time::advance(std::time::Duration::from_secs(3601)).await;
    let second = emit("Created");
    let name = |event: &serde_json::Value| event["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(cluster.get("events", "shop", &name(&first)).is_none());
    assert!(cluster.get("events", "shop", &name(&second)).is_some());
}

#[tokio::test(start_paused = true)]
async fn of_too_many_events_the_oldest_go() {
    let cluster = DemoCluster::new(Options {
        events_max: 3,
        ..Options::default()
    });
    for index in 0..5 {
        let reason = format!("Reason{index}");
        cluster
            .emit(&NewEvent::normal("shop", "Pod/web", &reason, ""))
            .unwrap();
    }
    let (_, list) = get(&client(&cluster), "/api/v1/events").await;
    let items = list["items"].as_array().unwrap();
    let mut reasons: Vec<_> = items
        .iter()
        .filter_map(|event| event["reason"].as_str())
        .collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["Reason2", "Reason3", "Reason4"]);
}
