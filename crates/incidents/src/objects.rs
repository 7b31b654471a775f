//! Objects with the fields that detectors read. Other fields are skipped by the decoder and
//! are never in memory.

mod admission;
mod batch;
mod env;
mod event;
mod kinds;
mod network;
mod node;
mod pod;
mod scaling;
mod storage;
mod workload;

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::IgnoredAny};

pub use self::{
    admission::{ApiService, Webhook, WebhookConfiguration},
    batch::{CronJob, CronJobSpec, Job},
    event::{Event, Involved},
    network::{Endpoint, EndpointSlice, HttpRoute, Ingress, IngressClass, Service, ServicePort},
    node::{Namespace, Node, Taint},
    pod::{
        Container, ContainerPort, ContainerState, ContainerStatus, Pod, Probe, Terminated, Volume,
    },
    scaling::{HorizontalPodAutoscaler, PodDisruptionBudget, ResourceQuota},
    storage::{PersistentVolume, PersistentVolumeClaim, StorageClass},
    workload::{ControllerRevision, DaemonSet, Deployment, PodTemplate, ReplicaSet, StatefulSet},
};

/// Names one object of a cluster.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Empty for objects of the whole cluster.
    pub namespace: Arc<str>,
    /// As objects spell it: `Deployment`.
    pub kind: Cow<'static, str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// What every object has.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    /// Unique within namespace and kind.
    #[serde(deserialize_with = "nullable")]
    pub name: Arc<str>,
    /// Empty for objects of the whole cluster.
    #[serde(deserialize_with = "nullable")]
    pub namespace: Arc<str>,
    /// Tells an object from an earlier one of the same name.
    #[serde(deserialize_with = "nullable")]
    pub uid: Box<str>,
    /// Counts changes of the object; whoever watches it takes it.
    #[serde(deserialize_with = "nullable")]
    pub resource_version: Box<str>,
    /// Counts changes of the spec.
    #[serde(deserialize_with = "nullable")]
    pub generation: i64,
    /// When the API server stored the object first.
    #[serde(deserialize_with = "time")]
    pub creation_timestamp: Option<Timestamp>,
    /// When the object is to be gone.
    #[serde(deserialize_with = "time")]
    pub deletion_timestamp: Option<Timestamp>,
    /// What selectors match.
    #[serde(deserialize_with = "nullable")]
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Those that a detector knows.
    #[serde(deserialize_with = "known_annotations")]
    pub annotations: BTreeMap<Box<str>, Box<str>>,
    /// Objects without which this one would not be.
    #[serde(deserialize_with = "nullable")]
    pub owner_references: Vec<OwnerReference>,
    /// Names of controllers that have to agree before the object is gone.
    #[serde(deserialize_with = "nullable")]
    pub finalizers: Vec<Box<str>>,
}

/// The owner of an object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    /// `Deployment`, `Node`, or any custom kind.
    #[serde(deserialize_with = "nullable")]
    pub kind: Box<str>,
    /// Its name, in the namespace of the object.
    #[serde(deserialize_with = "nullable")]
    pub name: Arc<str>,
    /// A later object of the same name is not the owner.
    #[serde(deserialize_with = "nullable")]
    pub uid: Box<str>,
    /// Whether the owner manages the object.
    #[serde(deserialize_with = "nullable")]
    pub controller: bool,
}

/// One of the conditions in the status of an object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// `Ready`, `Progressing`, ...
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: Box<str>,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "nullable")]
    pub status: Box<str>,
    /// One word for programs.
    #[serde(deserialize_with = "nullable")]
    pub reason: Box<str>,
    /// A sentence for people.
    #[serde(deserialize_with = "nullable")]
    pub message: Box<str>,
    /// Since when it has this status.
    #[serde(deserialize_with = "time")]
    pub last_transition_time: Option<Timestamp>,
    /// When a kubelet last said so; other conditions have none.
    #[serde(deserialize_with = "time")]
    pub last_heartbeat_time: Option<Timestamp>,
}

/// An object of a kind that detectors read.
pub trait Object: for<'de> Deserialize<'de> {
    /// As objects spell it.
    const KIND: &'static str;

    /// What every object has.
    fn meta(&self) -> &Meta;

    /// Its name among all objects.
    fn object_ref(&self) -> ObjectRef {
        self.meta().object_ref(Self::KIND)
    }

    /// The words in it that a workload, a user or another server wrote, for redaction.
    fn free_texts(&mut self) -> Vec<&mut Box<str>>;

    /// When something happened to it, as its status tells; in no order. The API server knows
    /// nothing of these times: they stay the same when an object is copied.
    fn times(&self) -> impl Iterator<Item = Timestamp>;

    /// Takes over what only an earlier state of the same object shows.
    fn remember(&mut self, _earlier: &Self) {}

    /// Whether no detector can find anything wrong with it, at any time and whatever is around
    /// it. Most objects of a cluster are so, and are not looked at again and again.
    fn is_plain(&self) -> bool {
        false
    }
}

/// Annotations that a detector reads; all others are dropped, because they may be large. Of a
/// value only a number is kept.
const KNOWN_ANNOTATIONS: [&str; 2] = [LEADER, REVISION];

/// Says that endpoints are a lease of old.
pub(crate) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// Numbers the revisions of a Deployment.
const REVISION: &str = "deployment.kubernetes.io/revision";

// === impl ObjectRef ===

impl ObjectRef {
    /// Names an object; the namespace is empty for objects of the whole cluster.
    pub fn new(
        kind: impl Into<Cow<'static, str>>,
        namespace: &str,
        name: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            kind: kind.into(),
            name: name.into(),
        }
    }

    /// Kind and name, as kubectl takes them.
    pub fn short(&self) -> String {
        format!("{}/{}", self.kind.to_lowercase(), self.name)
    }
}

/// As an operator would write it: `shop/deployment/payment`, `node/worker-2`.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        write!(f, "{}/{}", self.kind.to_lowercase(), self.name)
    }
}

impl fmt::Debug for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ObjectRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// === impl Meta ===

impl Meta {
    /// The name among all objects, for an object of this kind.
    pub fn object_ref(&self, kind: &'static str) -> ObjectRef {
        ObjectRef {
            namespace: Arc::clone(&self.namespace),
            kind: Cow::Borrowed(kind),
            name: Arc::clone(&self.name),
        }
    }

    /// The owner that manages the object.
    pub fn controller(&self) -> Option<&OwnerReference> {
        let mut owners = self.owner_references.iter();
        owners.find(|owner| owner.controller)
    }

    /// Whether the object is on its way out.
    pub fn is_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The number of a revision of a Deployment.
    pub fn revision(&self) -> Option<u64> {
        self.annotations.get(REVISION)?.parse().ok()
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(|value| &**value)
    }
}

// === impl Condition ===

impl Condition {
    /// Whether the status is `True`.
    pub fn is_true(&self) -> bool {
        &*self.status == "True"
    }

    /// Whether the status is `False`.
    pub fn is_false(&self) -> bool {
        &*self.status == "False"
    }
}

/// The condition of a type.
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| &*condition.kind == kind)
}

/// Whether labels have everything that a selector of equalities asks for.
pub fn selects(
    selector: &BTreeMap<Box<str>, Box<str>>,
    labels: &BTreeMap<Box<str>, Box<str>>,
) -> bool {
    let mut wanted = selector.iter();
    wanted.all(|(key, value)| labels.get(key) == Some(value))
}

/// Decodes `null` as the default: the API server sends `null` for some empty lists.
fn nullable<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Nothing of Kubernetes is older. Kubelets write the beginning of 1970 where they know no time.
const OLDEST: Timestamp = Timestamp::constant(1_400_000_000, 0);

/// Decodes a time; one that nobody can read is none.
fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<Cow<'de, str>> = Option::deserialize(from)?;
    let time = text.and_then(|text| text.parse().ok());
    Ok(time.filter(|time| *time >= OLDEST))
}

fn known_annotations<'de, D>(from: D) -> Result<BTreeMap<Box<str>, Box<str>>, D::Error>
where
    D: Deserializer<'de>,
{
    let all: Option<BTreeMap<Box<str>, Box<str>>> = Option::deserialize(from)?;
    let mut all = all.unwrap_or_default();
    all.retain(|key, _| KNOWN_ANNOTATIONS.contains(&&**key));
    for value in all.values_mut() {
        if value.parse::<u64>().is_err() {
            *value = Box::default();
        }
    }
    Ok(all)
}

/// How many items a list has.
fn count<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    let items: Option<Vec<IgnoredAny>> = Option::deserialize(from)?;
    Ok(items.unwrap_or_default().len())
}

#[cfg(test)]
mod tests;
