//! Objects with the fields that the graph needs. Other fields are skipped by the decoder and
//! are never in memory.

mod networking;
mod pods;
mod workloads;

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::api::core::v1::NodeCondition;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny},
};

pub(super) use self::{
    networking::{Ingress, Service},
    pods::Pod,
    workloads::{Autoscaler, CronJob, DaemonSet, Job, ReplicaWorkload},
};
use super::status_line;
use crate::{
    allowed::{ObjectRef, ReadScope},
    identity,
    kind_watch::{ObjectName, WatchedObject},
    nodes,
};
use kubecrier_redact::Redactor;
use kubecrier_topology::{Kind, Labels, ObjectId, ObjectSummary, Reference};

/// Limits on the references and labels of one object: an object may have a megabyte of them.
const REFERENCES_MAX: usize = 256;
const LABELS_MAX: usize = 64;
const STATUS_CHARS_MAX: usize = 160;

/// Bytes of a text that are redacted; the rest is dropped.
const REDACTED_BYTES_MAX: usize = 1024;

/// An object with typed `spec` and `status`.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default, T: Deserialize<'de> + Default"))]
pub(super) struct Object<S, T> {
    metadata: Meta,
    #[serde(default, deserialize_with = "nullable")]
    spec: S,
    #[serde(default, deserialize_with = "nullable")]
    status: T,
}

/// An object whose `spec` and `status` cannot be decoded.
type MetadataOnly = Object<IgnoredAny, IgnoredAny>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    #[serde(deserialize_with = "nullable")]
    name: String,
    namespace: Option<String>,
    #[serde(deserialize_with = "nullable")]
    uid: String,
    #[serde(deserialize_with = "nullable")]
    resource_version: String,
    labels: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerRef>>,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OwnerRef {
    #[serde(deserialize_with = "nullable")]
    api_version: String,
    #[serde(deserialize_with = "nullable")]
    kind: String,
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(deserialize_with = "nullable")]
    uid: String,
}

/// An object of a kind that the graph shows.
pub(super) trait GraphObject: Clone + DeserializeOwned + Send + Sync + 'static {
    /// Its status, in one line.
    fn status(&self) -> String;

    /// The objects that it refers to, besides its owners.
    fn references(&self, _namespace: &str) -> Vec<Reference> {
        Vec::new()
    }

    /// The selector of the pods that it sends traffic to.
    fn selector(&self) -> Labels {
        Labels::default()
    }
}

/// The beginning of a text, redacted. It is truncated after the redaction: a part of a secret
/// would not be recognized.
pub(super) fn clean(text: &str, chars_max: usize, redactor: &Redactor) -> String {
    let prefix = &text[..text.floor_char_boundary(REDACTED_BYTES_MAX)];
    redactor.workload(prefix).chars().take(chars_max).collect()
}

/// Decodes `null` as the default: the API server sends `null` for some empty lists.
fn nullable<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Whether an object that another one refers to must not be shown.
fn hides(scope: &ReadScope, id: &ObjectId) -> bool {
    scope.hides_some()
        && scope.hides(ObjectRef {
            api_version: &id.kind.resource().api_version(),
            kind: id.kind.as_str(),
            namespace: &id.namespace,
            name: &id.name,
        })
}

// === impl Object ===

impl<S: 'static, T: 'static> WatchedObject for Object<S, T>
where
    Self: GraphObject,
{
    type Kind = Kind;
    type Kept = ObjectSummary;
    type Fallback = MetadataOnly;

    fn name(&self) -> ObjectName {
        ObjectName {
            namespace: self
                .metadata
                .namespace
                .as_deref()
                .unwrap_or_default()
                .into(),
            name: self.metadata.name.as_str().into(),
        }
    }

    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn keep(self, kind: Kind, redactor: &Redactor, scope: &ReadScope) -> ObjectSummary {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let id = ObjectId::new(kind, namespace, &self.metadata.name);
        let status = self.status();
        let owners = self.metadata.owner_references.iter().flatten();
        let owners = owners.filter_map(|owner| {
            let kind = Kind::exact(&owner.kind, &owner.api_version)?;
            let id = ObjectId::new(kind, &id.namespace, &owner.name);
            Some(Reference::owned_by(id, &owner.uid))
        });
        let references = owners
            .chain(self.references(&id.namespace))
            .filter(|reference| !hides(scope, &reference.target));
        let labels = self.metadata.labels.clone().unwrap_or_default();
        let references = references.take(REFERENCES_MAX).map(|mut reference| {
            // Some references may name what no object can be called.
            if let Cow::Owned(shown) = identity::name(redactor, &reference.target.name) {
                reference.target.name = shown.into();
            }
            reference
        });
        let references: Vec<_> = references.collect();
        let mut summary = ObjectSummary::new(id).with_references(references);
        summary.uid = self.metadata.uid.as_str().into();
        summary.labels = labels.into_iter().take(LABELS_MAX).collect();
        summary.status = clean(&status, STATUS_CHARS_MAX, redactor).into();
        summary.selector = self.selector();
        summary
    }
}

impl GraphObject for MetadataOnly {
    fn status(&self) -> String {
        "not understood".to_owned()
    }
}

// === namespaces and nodes ===

pub(super) type Namespace = Object<IgnoredAny, NamespaceStatus>;
pub(super) type Node = Object<NodeSpec, NodeStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NamespaceStatus {
    #[serde(deserialize_with = "nullable")]
    phase: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeSpec {
    #[serde(deserialize_with = "nullable")]
    unschedulable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeStatus {
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<NodeCondition>,
}

impl GraphObject for Namespace {
    fn status(&self) -> String {
        self.status.phase.clone()
    }
}

impl GraphObject for Node {
    fn status(&self) -> String {
        let status = nodes::status_column(&self.status.conditions, self.spec.unschedulable);
        let problems = nodes::problems(self.status.conditions.clone()).into_iter();
        let problems = problems.filter(|problem| !problem.starts_with("NotReady"));
        [status]
            .into_iter()
            .chain(problems)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

#[cfg(test)]
mod tests;
