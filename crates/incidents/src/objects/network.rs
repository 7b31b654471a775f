//! What sends traffic to pods.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use serde_json::Value;

use super::{Condition, Meta, nullable};

/// A stable address of pods.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Service {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: ServiceSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: EntryStatus,
}

/// What the outside of a Service or an Ingress is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct EntryStatus {
    /// What a load balancer has for it.
    #[serde(deserialize_with = "nullable")]
    pub load_balancer: LoadBalancer,
}

/// A load balancer.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct LoadBalancer {
    /// Its addresses; only how many there are is read.
    #[serde(deserialize_with = "nullable")]
    pub ingress: Vec<Address>,
}

/// An address of a load balancer.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Address {}

/// Which pods a Service sends traffic to, and how.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: Box<str>,
    /// `None` for a headless one.
    #[serde(rename = "clusterIP", deserialize_with = "nullable")]
    pub cluster_ip: Box<str>,
    /// Labels of its pods; empty if somebody else writes its endpoints.
    #[serde(deserialize_with = "nullable")]
    pub selector: BTreeMap<Box<str>, Box<str>>,
    /// Its ports.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<ServicePort>,
    /// Whether pods that are not ready count.
    #[serde(deserialize_with = "nullable")]
    pub publish_not_ready_addresses: bool,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort {
    /// Routes may refer to it by name.
    #[serde(deserialize_with = "nullable")]
    pub name: Box<str>,
    /// Its number.
    #[serde(deserialize_with = "nullable")]
    pub port: i64,
    /// The number or the name of a container's port.
    #[serde(deserialize_with = "nullable")]
    pub target_port: Value,
    /// Empty is `TCP`.
    #[serde(deserialize_with = "nullable")]
    pub protocol: Box<str>,
}

/// Some of the addresses behind a Service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct EndpointSlice {
    /// What every object has; a label names the Service.
    pub metadata: Meta,
    /// The addresses.
    #[serde(deserialize_with = "nullable")]
    pub endpoints: Vec<Endpoint>,
}

/// An address behind a Service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Endpoint {
    /// Whether it gets traffic.
    #[serde(deserialize_with = "nullable")]
    pub conditions: EndpointConditions,
    /// The pod behind it.
    #[serde(rename = "targetRef", deserialize_with = "nullable")]
    pub target: TargetRef,
}

/// The object behind an address.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct TargetRef {
    /// Empty if it is no object.
    #[serde(deserialize_with = "nullable")]
    pub name: Arc<str>,
}

/// Whether an address gets traffic.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct EndpointConditions {
    /// None counts as ready.
    pub ready: Option<bool>,
}

/// A way in from outside.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Ingress {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: IngressSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: EntryStatus,
}

/// Who serves an Ingress.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct IngressClass {
    /// What every object has.
    pub metadata: Meta,
}

/// Where an Ingress leads.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressSpec {
    /// Who serves it; none is the cluster's default, or an annotation says so.
    pub ingress_class_name: Option<Arc<str>>,
    /// For everything that no rule matches.
    pub default_backend: Option<Backend>,
    /// By host and path.
    #[serde(deserialize_with = "nullable")]
    pub rules: Vec<IngressRule>,
}

/// The paths of a host.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct IngressRule {
    /// Its paths.
    #[serde(deserialize_with = "nullable")]
    pub http: IngressPaths,
}

/// Paths.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct IngressPaths {
    /// One by one.
    #[serde(deserialize_with = "nullable")]
    pub paths: Vec<IngressPath>,
}

/// A path.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct IngressPath {
    /// Where it leads.
    #[serde(deserialize_with = "nullable")]
    pub backend: Backend,
}

/// Where a path leads.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Backend {
    /// None if it leads to another kind of object.
    pub service: Option<BackendService>,
}

/// A Service behind a path.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct BackendService {
    /// Its name, in the namespace of the Ingress.
    #[serde(deserialize_with = "nullable")]
    pub name: Arc<str>,
    /// One of its ports.
    #[serde(deserialize_with = "nullable")]
    pub port: BackendPort,
}

/// A port of a Service, by name or number.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct BackendPort {
    /// Empty if it is named by number.
    #[serde(deserialize_with = "nullable")]
    pub name: Box<str>,
    /// Zero if it is named by name.
    #[serde(deserialize_with = "nullable")]
    pub number: i64,
}

/// A route of the Gateway API.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct HttpRoute {
    /// What every object has.
    pub metadata: Meta,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: RouteStatus,
}

/// What the gateways say about a route.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct RouteStatus {
    /// One by one.
    #[serde(deserialize_with = "nullable")]
    pub parents: Vec<RouteParent>,
}

/// What one gateway says about a route.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct RouteParent {
    /// `Accepted`, `ResolvedRefs`.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

// === impl Service ===

impl Service {
    /// Whether Kubernetes itself finds its endpoints.
    pub fn is_selecting(&self) -> bool {
        !self.spec.selector.is_empty() && &*self.spec.kind != "ExternalName"
    }

    /// Whether it has no address of its own.
    pub fn is_headless(&self) -> bool {
        &*self.spec.cluster_ip == "None"
    }

    /// Whether it asks for a load balancer and has no address of one.
    pub fn lacks_load_balancer(&self) -> bool {
        &*self.spec.kind == "LoadBalancer" && self.status.load_balancer.ingress.is_empty()
    }
}

// === impl EndpointSlice ===

impl EndpointSlice {
    /// The Service that it belongs to.
    pub fn service(&self) -> Option<&str> {
        self.metadata.label("kubernetes.io/service-name")
    }

    /// How many addresses get traffic.
    pub fn ready(&self) -> usize {
        let all = self.endpoints.iter();
        all.filter(|one| one.conditions.ready.unwrap_or(true))
            .count()
    }
}

// === impl Ingress ===

impl Ingress {
    /// All Services that it leads to.
    pub fn services(&self) -> impl Iterator<Item = &BackendService> {
        let rules = self.spec.rules.iter();
        let paths = rules.flat_map(|rule| &rule.http.paths);
        let backends = paths.map(|path| &path.backend);
        backends
            .chain(&self.spec.default_backend)
            .filter_map(|backend| backend.service.as_ref())
    }
}

// === impl ServicePort ===

impl ServicePort {
    /// The container's port: the API server fills it in, and a dump may lack it.
    pub fn target(&self) -> Value {
        match &self.target_port {
            Value::Null => self.port.into(),
            given => given.clone(),
        }
    }
}
