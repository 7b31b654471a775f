//! Services and ingresses.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{GraphObject, LABELS_MAX, Object, nullable, pods::LocalObjectReference, status_line};
use kubecrier_topology::{Kind, Labels, ObjectId, Reference, Relation};

pub(in super::super) type Service = Object<ServiceSpec, LoadBalancedStatus>;
pub(in super::super) type Ingress = Object<IngressSpec, LoadBalancedStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct ServiceSpec {
    #[serde(rename = "type", deserialize_with = "nullable")]
    kind: String,
    selector: Option<BTreeMap<String, String>>,
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<String>,
    external_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct LoadBalancedStatus {
    #[serde(deserialize_with = "nullable")]
    load_balancer: LoadBalancerStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancerStatus {
    #[serde(deserialize_with = "nullable")]
    ingress: Vec<LoadBalancerIngress>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancerIngress {
    ip: Option<String>,
    hostname: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct IngressSpec {
    default_backend: Option<IngressBackend>,
    #[serde(deserialize_with = "nullable")]
    rules: Vec<IngressRule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct IngressRule {
    host: Option<String>,
    http: Option<HttpRule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct HttpRule {
    #[serde(deserialize_with = "nullable")]
    paths: Vec<HttpPath>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct HttpPath {
    #[serde(deserialize_with = "nullable")]
    backend: IngressBackend,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct IngressBackend {
    service: Option<LocalObjectReference>,
}

impl LoadBalancedStatus {
    fn address(&self) -> Option<&str> {
        let first = self.load_balancer.ingress.first()?;
        first.ip.as_deref().or(first.hostname.as_deref())
    }
}

impl GraphObject for Service {
    fn status(&self) -> String {
        let spec = &self.spec;
        let headless = spec.cluster_ip.as_deref() == Some("None");
        match spec.kind.as_str() {
            "ExternalName" => status_line::service(&spec.kind, spec.external_name.as_deref()),
            "LoadBalancer" => {
                status_line::service(&spec.kind, self.status.address().or(Some("no address yet")))
            }
            kind if headless => status_line::service(kind, Some("headless")),
            kind => status_line::service(kind, None),
        }
    }

    fn selector(&self) -> Labels {
        // An ExternalName service sends traffic to no pod, whatever its selector.
        if self.spec.kind == "ExternalName" {
            return Labels::default();
        }
        let selector = self.spec.selector.clone().unwrap_or_default();
        selector.into_iter().take(LABELS_MAX).collect()
    }
}

impl GraphObject for Ingress {
    fn status(&self) -> String {
        let hosts = self.spec.rules.iter().map(|rule| rule.host.as_deref());
        let hosts: BTreeSet<_> = hosts.map(|host| host.unwrap_or("*")).collect();
        status_line::ingress(&hosts, self.status.address())
    }

    fn references(&self, namespace: &str) -> Vec<Reference> {
        let paths = self.spec.rules.iter().filter_map(|rule| rule.http.as_ref());
        let backends = paths.flat_map(|http| http.paths.iter().map(|path| &path.backend));
        let backends = backends.chain(&self.spec.default_backend);
        let services = backends.filter_map(|backend| backend.service.as_ref());
        let ids = services.map(|service| ObjectId::new(Kind::Service, namespace, &service.name));
        ids.map(|id| Reference::new(Relation::Routes, id)).collect()
    }
}
