//! The demo cluster and the real API server, compared by their responses to the same requests.
//!
//! Every object is created in the real cluster and copied, so responses are equal to the last
//! field; only resource versions, continue tokens and the like are left out of the comparison
//! (`normal`).

mod changes;
mod objects;
mod requests;
mod table;

use std::time::Duration;

use demo_cluster::{DemoCluster, Options};
use kube::{Client, Config, config::KubeConfigOptions};
use serde_json::{Value, json};
use testbed::{Cluster, Kubeconfig, User};
use tokio::time::timeout;

use crate::harness::ask;

/// A real cluster and its copy.
pub(crate) struct Pair {
    pub(crate) real: Client,
    pub(crate) demo: DemoCluster,
}

/// A response without the parts that differ every time.
#[derive(Debug, PartialEq)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// The lists that are copied.
const COPIED: [&str; 16] = [
    "/api/v1/configmaps",
    "/api/v1/events",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/pods",
    "/api/v1/secrets",
    "/api/v1/services",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/autoscaling/v2/horizontalpodautoscalers",
    "/apis/batch/v1/cronjobs",
    "/apis/batch/v1/jobs",
    "/apis/networking.k8s.io/v1/ingresses",
];

// === impl Pair ===

impl Pair {
    /// Creates objects in the namespace and copies all objects of the cluster.
    pub(crate) async fn new(cluster: &Cluster, namespace: &str) -> Self {
        let pair = Self {
            real: real(cluster, User::Admin).await,
            demo: DemoCluster::new(Options::default()),
        };
        objects::make(&pair.real, namespace).await;
        for path in COPIED {
            pair.copy_list(path).await;
        }
        pair
    }

    async fn copy_list(&self, path: &str) {
        let list = call(&self.real, "GET", path, None).await;
        let kind = list.body["kind"]
            .as_str()
            .unwrap()
            .trim_end_matches("List")
            .to_owned();
        for item in list.body["items"].as_array().unwrap() {
            let mut object = item.clone();
            object["kind"] = kind.as_str().into();
            object["apiVersion"] = list.body["apiVersion"].clone();
            self.demo.put(object).unwrap();
        }
    }

    /// Copies the current state of one object.
    pub(crate) async fn copy(&self, path: &str) {
        let object = call(&self.real, "GET", path, None).await;
        assert_eq!(object.status, 200, "{path}");
        self.demo.put(object.body).unwrap();
    }

    /// The responses of both clusters.
    pub(crate) async fn both(&self, request: &TestRequest<'_>) -> (TestResponse, TestResponse) {
        let demo = Client::new(self.demo.service(), "default");
        (request.ask(&self.real).await, request.ask(&demo).await)
    }
}

/// A request to both clusters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) accept: &'a str,
    pub(crate) body: &'a str,
    /// The user for the demo cluster; the real one knows its client.
    pub(crate) user: Option<&'a str>,
}

// === impl TestRequest ===

impl<'a> TestRequest<'a> {
    pub(crate) fn get(path: &'a str) -> Self {
        Self {
            method: "GET",
            path,
            accept: "application/json",
            body: "",
            user: None,
        }
    }

    pub(crate) async fn ask(&self, client: &Client) -> TestResponse {
        let mut request = http::Request::builder()
            .method(self.method)
            .uri(self.path)
            .header("accept", self.accept)
            .header("content-type", "application/json");
        if let Some(user) = self.user {
            request = request.header("impersonate-user", user);
        }
        let request = request.body(self.body.as_bytes().to_vec()).unwrap();
        let answered = timeout(Duration::from_secs(30), ask(client, request)).await;
        let (status, body) = answered.unwrap_or_else(|_| panic!("no answer to {self:?}"));
        let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
        TestResponse {
            status,
            body: normal(body),
        }
    }
}

/// A client of the real cluster without retries.
pub(crate) async fn real(cluster: &Cluster, user: User) -> Client {
    let file = Kubeconfig::new()
        .context("real", cluster, user)
        .current("real");
    let file = serde_json::from_value(file.to_value()).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(file, &options)
        .await
        .unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// Sends a request to the real cluster alone; the response is not normalised.
pub(crate) async fn call(
    client: &Client,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> TestResponse {
    let kind = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let body = body.map(ToString::to_string).unwrap_or_default();
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(body.into_bytes())
        .unwrap();
    let (status, body) = ask(client, request).await;
    let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
    TestResponse { status, body }
}

/// Removes what differs between any two clusters: versions, tokens, managed fields.
pub(crate) fn normal(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("managedFields");
            for (key, field) in fields.iter_mut() {
                let own = field.take();
                *field = match (key.as_str(), own) {
                    ("resourceVersion" | "continue" | "deletionTimestamp", Value::String(_)) => {
                        json!("...")
                    }
                    ("message", Value::String(text)) => json!(without_version(&text)),
                    ("serverAddress", _) => json!("..."),
                    (_, other) => normal(other),
                };
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = normal(item.take());
            }
        }
        _ => {}
    }
    value
}

/// `... current: 217` ends with a version.
fn without_version(text: &str) -> String {
    match text.split_once("current: ") {
        Some((before, _)) => format!("{before}current: ..."),
        None => text.to_owned(),
    }
}
