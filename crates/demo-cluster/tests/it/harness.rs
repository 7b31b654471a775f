//! Objects and requests that tests share.

use bytes::Bytes;
use demo_cluster::{DemoCluster, Options};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    Api, Client,
    api::{WatchEvent, WatchParams},
    client::Body,
};
use serde_json::{Value, json};

/// A cluster at a known time.
pub(crate) fn cluster() -> DemoCluster {
    DemoCluster::new(Options {
        starts_at: "2026-01-01T00:00:00Z".parse().unwrap(),
        history_max: 100,
        ..Options::default()
    })
}

pub(crate) fn client(cluster: &DemoCluster) -> Client {
    Client::new(cluster.service(), "default")
}

pub(crate) fn pods(cluster: &DemoCluster) -> Api<Pod> {
    Api::namespaced(client(cluster), "shop")
}

pub(crate) fn events(cluster: &DemoCluster) -> Api<Event> {
    Api::namespaced(client(cluster), "shop")
}

pub(crate) fn pod(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "shop/main:1"}]},
        "status": {"phase": "Running", "containerStatuses": [{
            "name": "main", "image": "shop/main:1", "imageID": "", "ready": true,
            "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }]},
    })
}

/// The status and the body of a response.
pub(crate) async fn ask(client: &Client, request: http::Request<Vec<u8>>) -> (u16, String) {
    let answer = client.send(request.map(Body::from)).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, text(&body))
}

pub(crate) async fn get(client: &Client, path: &str) -> (u16, Value) {
    let (status, body) = ask(client, http::Request::get(path).body(Vec::new()).unwrap()).await;
    let value = serde_json::from_str(&body).unwrap_or(Value::String(body));
    (status, value)
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The events of a watch, as text: `ADDED web`, `BOOKMARK`, `ERROR 410`.
pub(crate) async fn watch(
    api: &Api<Pod>,
    params: &WatchParams,
    version: &str,
) -> impl Stream<Item = Result<String, String>> + Unpin + use<> {
    let stream = api.watch(params, version).await.unwrap();
    Box::pin(
        stream
            .map_ok(|event| words(&event))
            .map_err(|error| error.to_string()),
    )
}

pub(crate) async fn told(
    stream: &mut (impl Stream<Item = Result<String, String>> + Unpin),
) -> String {
    match stream.next().await {
        None => "end".to_owned(),
        Some(Ok(words)) => words,
        Some(Err(error)) => error,
    }
}

fn words(event: &WatchEvent<Pod>) -> String {
    let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
    match event {
        WatchEvent::Added(pod) => format!("ADDED {}", name(pod)),
        WatchEvent::Modified(pod) => format!("MODIFIED {}", name(pod)),
        WatchEvent::Deleted(pod) => format!("DELETED {}", name(pod)),
        WatchEvent::Bookmark(mark) => format!("BOOKMARK {}", mark.metadata.resource_version),
        WatchEvent::Error(status) => format!("ERROR {}", status.code),
    }
}
