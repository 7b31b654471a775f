//! Builds the cluster of a case on a real API server, object by object.
//!
//! ```text
//!  POST what nobody owns, then what it owns, ...    the server gives uids: references follow
//!   └▶ POST EndpointSlices, PersistentVolumes, Events, which name others by uid
//!       └▶ DELETE what was being deleted
//!           └▶ PATCH every status
//! ```
//!
//! The API server sets `creationTimestamp`, `deletionTimestamp`, `uid` and `generation`
//! itself: what tells time by those is younger than it was.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Context, Result, anyhow};
use futures_util::{StreamExt, TryStreamExt, stream};
use http::Request;
use kube::{
    Client,
    core::GroupVersionKind,
    discovery::{ApiCapabilities, ApiGroup, ApiResource, Discovery, Scope, verbs},
};
use serde_json::{Map, Value, json};
use testbed::{Cluster, LogScript, Options, User};

use crate::world::World;

/// Requests at a time.
const CONCURRENT: usize = 16;

/// What would refuse or change objects, or wants controllers that do not run here.
const ADMISSION: [&str; 15] = [
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "LimitRanger",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceLifecycle",
    "PersistentVolumeClaimResize",
    "PodSecurity",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
    "ValidatingAdmissionWebhook",
];

/// An API server that takes any object.
pub(crate) struct Lane {
    cluster: Cluster,
    client: Client,
    discovery: Discovery,
    /// What is there before any case.
    empty: BTreeSet<String>,
}

/// How an object of a case is reached.
struct Target {
    collection: String,
    object: String,
    has_status: bool,
}

// === impl Lane ===

impl Lane {
    /// Starts an API server without anything that would get in the way of a case.
    pub(crate) async fn start(name: &str, binaries: &testbed::Binaries) -> Result<Self> {
        let plugins = ADMISSION.join(",");
        let options = Options {
            api_server_args: vec![
                format!("--disable-admission-plugins={plugins}"),
                // Nobody has these addresses: an API service of a case leads nowhere.
                "--service-cluster-ip-range=192.0.2.0/24".to_owned(),
            ],
            ..Options::default()
        };
        let cluster = Cluster::start(name, binaries, options).await?;
        let client = cluster.client(User::Admin).await?;
        for kind in [("Gateway", "gateways"), ("HTTPRoute", "httproutes")] {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            send(&client, "POST", path, &definition(kind)).await?;
        }
        // Removes the testbed's own node: no case has it.
        send(&client, "DELETE", "/api/v1/nodes/node-1", &json!({})).await?;
        let served = "/apis/gateway.networking.k8s.io/v1/httproutes";
        let own = "/api/v1/namespaces/default/services/kubernetes";
        for path in [served, own, "/api/v1/namespaces/kube-system"] {
            while send(&client, "GET", path, &Value::Null).await.is_err() {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
        let discovery = Discovery::new(client.clone()).run().await?;
        let empty = cluster.keys().await?;
        Ok(Self {
            cluster,
            client,
            discovery,
            empty,
        })
    }

    /// The cluster.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Removes everything of the last case.
    pub(crate) async fn clear(&self) -> Result<()> {
        self.cluster.node().forget_logs();
        self.cluster.erase_all_but(&self.empty).await
    }

    /// Builds the cluster of a case; returns what the API server refused, and why.
    pub(crate) async fn rebuild(&self, world: &World) -> Result<Vec<String>> {
        for (container, logs) in &world.logs {
            let node = self.cluster.node();
            let script = |text: &String| LogScript::lines(text.lines());
            if let Some(text) = &logs.previous {
                node.set_previous_log(container, script(text));
            }
            if let Some(text) = &logs.current {
                node.set_log(container, script(text));
            }
        }
        let mut refused = Vec::new();
        let mut uids = HashMap::new();
        let mut waiting: Vec<_> = world
            .objects
            .iter()
            .filter(|object| is_rebuilt(object))
            .collect();
        let all: BTreeSet<_> = waiting.iter().filter_map(|object| uid(object)).collect();
        let mut created = Vec::new();
        while !waiting.is_empty() {
            let is_ready = |object: &&Value| {
                owners(object).all(|owner| !all.contains(owner) || uids.contains_key(owner))
            };
            let (mut next, mut later): (Vec<_>, Vec<_>) =
                waiting.iter().copied().partition(is_ready);
            if next.iter().any(|object| !names_others(object)) {
                let (last, first) = next.into_iter().partition(|object| names_others(object));
                next = first;
                later.extend::<Vec<_>>(last);
            } else if next.is_empty() {
                // An owner was refused.
                next = std::mem::take(&mut later);
            }
            let posts = next.iter().map(|object| self.post(object, &uids));
            let answers: Vec<_> = stream::iter(posts).buffered(CONCURRENT).collect().await;
            for (object, answer) in next.iter().zip(answers) {
                match answer {
                    Ok(answer) => {
                        if let (Some(old), Some(new)) =
                            (uid(object), answer["metadata"]["uid"].as_str())
                        {
                            uids.insert(old.to_owned(), new.to_owned());
                        }
                        created.push(*object);
                    }
                    Err(error) => refused.push(format!("{error:#}")),
                }
            }
            waiting = later;
        }
        let finish = created.iter().map(|object| self.finish(object, &uids));
        let answers: Vec<_> = stream::iter(finish).buffered(CONCURRENT).collect().await;
        refused.extend(
            answers
                .into_iter()
                .filter_map(|answer| Some(format!("{:#}", answer.err()?))),
        );
        Ok(refused)
    }

    /// All objects that can be listed, as they are now.
    pub(crate) async fn read_back(&self) -> Result<Vec<Value>> {
        // Events are in two groups, in other words.
        let groups = self
            .discovery
            .groups()
            .filter(|group| group.name() != "events.k8s.io");
        let kinds = groups.flat_map(ApiGroup::recommended_resources);
        let kinds = kinds.filter(|(_, can)| can.supports_operation(verbs::LIST));
        let lists = kinds.map(|(kind, _)| async move {
            let list = send(&self.client, "GET", &kind_path(&kind, None), &Value::Null).await?;
            let items = list["items"].as_array().cloned().unwrap_or_default();
            let with_kind = |mut item: Value| {
                item["kind"] = kind.kind.as_str().into();
                item["apiVersion"] = kind.api_version.as_str().into();
                item
            };
            anyhow::Ok(items.into_iter().map(with_kind).collect::<Vec<_>>())
        });
        let lists: Vec<_> = stream::iter(lists)
            .buffered(CONCURRENT)
            .try_collect()
            .await?;
        Ok(lists.concat())
    }

    async fn post(&self, object: &Value, uids: &HashMap<String, String>) -> Result<Value> {
        let target = self.target(object)?;
        let body = as_written(object, uids);
        match send(&self.client, "POST", &target.collection, &body).await {
            // Such as the namespace `default`, which an API server makes itself.
            Err(Refused { code: 409, .. }) => {
                Ok(send(&self.client, "GET", &target.object, &Value::Null).await?)
            }
            answer => answer.with_context(|| format!("POST {}", target.object)),
        }
    }

    async fn finish(&self, object: &Value, uids: &HashMap<String, String>) -> Result<()> {
        let target = self.target(object)?;
        let meta = &object["metadata"];
        if !meta["deletionTimestamp"].is_null() {
            let grace = meta["deletionGracePeriodSeconds"].as_i64().unwrap_or(30);
            let options = json!({"gracePeriodSeconds": grace, "propagationPolicy": "Background"});
            let answer = send(&self.client, "DELETE", &target.object, &options).await;
            answer.with_context(|| format!("DELETE {}", target.object))?;
        }
        if let Some(containers) = ephemeral(object) {
            let path = format!("{}/ephemeralcontainers", target.object);
            let body = json!({"spec": {"ephemeralContainers": containers}});
            let answer = send(&self.client, "PATCH", &path, &body).await;
            answer.with_context(|| format!("PATCH {path}"))?;
        }
        if object["status"].is_object() && target.has_status {
            let mut status = json!({"status": object["status"]});
            replace(&mut status, uids);
            if object["kind"] == "Node" {
                // The API server reads logs where the node says that it is.
                let port = self.cluster.node().port();
                status["status"]["addresses"] =
                    json!([{"type": "InternalIP", "address": "127.0.0.1"}]);
                status["status"]["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": port}});
            }
            let path = format!("{}/status", target.object);
            let answer = send(&self.client, "PATCH", &path, &status).await;
            answer.with_context(|| format!("PATCH {path}"))?;
        }
        Ok(())
    }

    fn target(&self, object: &Value) -> Result<Target> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = text(&object["apiVersion"]);
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let kind = GroupVersionKind::gvk(group, version, &text(&object["kind"]));
        let (kind, can): (ApiResource, ApiCapabilities) = self
            .discovery
            .resolve_gvk(&kind)
            .ok_or_else(|| anyhow!("the API server has no {kind:?}"))?;
        let namespace = text(&object["metadata"]["namespace"]);
        let namespace = (can.scope == Scope::Namespaced).then_some(&*namespace);
        let collection = kind_path(&kind, namespace);
        Ok(Target {
            object: format!("{collection}/{}", text(&object["metadata"]["name"])),
            collection,
            has_status: can
                .subresources
                .iter()
                .any(|(sub, _)| sub.plural == "status"),
        })
    }
}

fn kind_path(kind: &ApiResource, namespace: Option<&str>) -> String {
    let root = if kind.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    let within = namespace
        .map(|name| format!("/namespaces/{name}"))
        .unwrap_or_default();
    format!("{root}/{}{within}/{}", kind.api_version, kind.plural)
}

/// An API service that answers cannot be rebuilt: the API server would notice that nothing is
/// behind it.
fn is_rebuilt(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let is_available =
        |condition: &Value| condition["type"] == "Available" && condition["status"] == "True";
    object["kind"] != "APIService" || !conditions.is_some_and(|all| all.iter().any(is_available))
}

fn uid(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str()
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .filter_map(|owner| owner["uid"].as_str())
}

/// Whether an object names others, which are not its owners, by their uids.
fn names_others(object: &Value) -> bool {
    let kinds = ["EndpointSlice", "Event", "PersistentVolume"];
    kinds.iter().any(|kind| object["kind"] == **kind)
}

/// An object as somebody would create it.
fn as_written(object: &Value, uids: &HashMap<String, String>) -> Value {
    let mut object = object.clone();
    replace(&mut object, uids);
    let of_the_server = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
    ];
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.retain(|field, _| !of_the_server.contains(&&**field));
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if ephemeral(&object).is_some()
        && let Some(spec) = object["spec"].as_object_mut()
    {
        spec.remove("ephemeralContainers");
    }
    match object["kind"].as_str() {
        Some("Service") => without_allocated(&mut object["spec"]),
        // Its selector has the uid that it had.
        Some("Job") => object["spec"]["manualSelector"] = true.into(),
        _ => {}
    }
    object
}

/// Containers that somebody added to a pod to look into it.
fn ephemeral(object: &Value) -> Option<&Value> {
    let containers = &object["spec"]["ephemeralContainers"];
    (object["kind"] == "Pod" && containers.is_array()).then_some(containers)
}

/// Addresses and ports are given by the API server.
fn without_allocated(service: &mut Value) {
    let Some(spec) = service.as_object_mut() else {
        return;
    };
    if spec
        .get("clusterIP")
        .is_some_and(|address| address != "None")
    {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    spec.remove("healthCheckNodePort");
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        port.remove("nodePort");
    }
}

/// Puts the uids of now in place of those that were recorded.
fn replace(value: &mut Value, uids: &HashMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(new) = uids.get(text) {
                text.clone_from(new);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, uids)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, uids)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A definition of a kind of the Gateway API that takes any field.
fn definition((kind, plural): (&str, &str)) -> Value {
    let group = "gateway.networking.k8s.io";
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": any},
                "subresources": {"status": Map::new()},
            }],
        },
    })
}

/// A request that did not do what it asked for.
#[derive(Debug)]
struct Refused {
    code: u16,
    reason: String,
}

// === impl Refused ===

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.code, self.reason)
    }
}

impl std::error::Error for Refused {}

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Result<Value, Refused> {
    let failed = |code, error: &dyn std::fmt::Display| Refused {
        code,
        reason: error.to_string(),
    };
    let form = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = match body {
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", form);
    let request = request.body(body).map_err(|error| failed(0, &error))?;
    match client.request_text(request).await {
        Ok(text) => serde_json::from_str(&text).map_err(|error| failed(0, &error)),
        Err(kube::Error::Api(status)) => Err(failed(status.code, &status.message)),
        Err(error) => Err(failed(0, &error)),
    }
}
