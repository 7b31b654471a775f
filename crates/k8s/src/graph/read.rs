//! Objects as far as the graph needs them. What is not named here is skipped while it
//! is read, and never in memory.

mod pods;
mod ways_in;
mod workloads;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeCondition;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, IgnoredAny},
};
use serde_json::Value;

pub(super) use self::{
    pods::Pod,
    ways_in::{Ingress, Service},
    workloads::{Autoscaler, CronJob, DaemonSet, Job, Replicated},
};
use super::status_line;
use crate::{nodes, read_only::DeniedKinds};
use kubecrier_redact::Redactor;
use kubecrier_topology::{Kind, Labels, ObjectId, ObjectSummary, Reference};

/// More of what one object names, or is called by, is not shown: an object may be a
/// megabyte of nothing else.
const CLAIMS_MAX: usize = 256;
const LABELS_MAX: usize = 64;
const STATUS_CHARS_MAX: usize = 160;

/// As much of a text is looked through for what may not leave.
const CLEANED_BYTES_MAX: usize = 4096;

/// An object, as far as it is read.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default, T: Deserialize<'de> + Default"))]
pub(super) struct Object<S, T> {
    metadata: Meta,
    #[serde(default, deserialize_with = "nullable")]
    spec: S,
    #[serde(default, deserialize_with = "nullable")]
    status: T,
}

/// An object of which not even what is read has the form that it should.
type Bare = Object<IgnoredAny, IgnoredAny>;

/// An object that may have an unexpected form: then it has a name, labels and owners, and
/// the others of its kind are read all the same.
#[derive(Clone, Debug)]
pub(super) enum Lenient<T> {
    Whole(T),
    Bare(Bare),
}

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
    owner_references: Option<Vec<Owner>>,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Owner {
    #[serde(deserialize_with = "nullable")]
    api_version: String,
    #[serde(deserialize_with = "nullable")]
    kind: String,
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(deserialize_with = "nullable")]
    uid: String,
}

/// How a kind's objects are read.
pub(super) trait Shape: Clone + DeserializeOwned + Send + Sync + 'static {
    /// How it is, in one line.
    fn status(&self) -> String;

    /// What it names, beside its owners.
    fn claims(&self, _namespace: &str) -> Vec<Reference> {
        Vec::new()
    }

    /// Which pods it sends to.
    fn selector(&self) -> Labels {
        Labels::default()
    }
}

/// Something that can be told apart by its name.
pub(super) trait Named {
    fn id(&self, kind: Kind) -> ObjectId;
    fn version(&self) -> &str;
    fn facts(self, kind: Kind, redactor: &Redactor, denied: &DeniedKinds) -> ObjectSummary;

    /// Whether it had the form that it should.
    fn is_whole(&self) -> bool {
        true
    }
}

/// The beginning of a text as it may leave. It is cut when it is clean: half of a secret
/// is not known for one.
pub(super) fn clean(text: &str, chars_max: usize, redactor: &Redactor) -> String {
    let begin = &text[..text.floor_char_boundary(CLEANED_BYTES_MAX)];
    redactor.workload(begin).chars().take(chars_max).collect()
}

/// What is written as nothing is as good as not written: the API server says `null` for
/// some lists that are empty.
fn nullable<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(from).map(Option::unwrap_or_default)
}

// === impl Object ===

impl<S, T> Named for Object<S, T>
where
    Self: Shape,
{
    fn id(&self, kind: Kind) -> ObjectId {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        ObjectId::new(kind, namespace, &self.metadata.name)
    }

    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    /// What it says, with nothing in it that may not leave.
    fn facts(self, kind: Kind, redactor: &Redactor, denied: &DeniedKinds) -> ObjectSummary {
        let id = self.id(kind);
        let status = self.status();
        let owners = self.metadata.owner_references.iter().flatten();
        let owners = owners.filter_map(|owner| {
            let kind = Kind::exact(&owner.kind, &owner.api_version)?;
            let id = ObjectId::new(kind, &id.namespace, &owner.name);
            Some(Reference::owned_by(id, &owner.uid))
        });
        let claims = owners.chain(self.claims(&id.namespace)).filter(|claim| {
            let kind = claim.target.kind;
            !denied.denies(kind.group(), [kind.as_str(), kind.plural()])
        });
        let labels = self.metadata.labels.clone().unwrap_or_default();
        let claims: Vec<_> = claims.take(CLAIMS_MAX).collect();
        let mut facts = ObjectSummary::new(id).with_references(claims);
        facts.uid = self.metadata.uid.as_str().into();
        facts.labels = labels.into_iter().take(LABELS_MAX).collect();
        facts.status = clean(&status, STATUS_CHARS_MAX, redactor).into();
        facts.selector = self.selector();
        facts
    }
}

// === impl Lenient ===

impl<'de, T: DeserializeOwned> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(from)?;
        if let Ok(whole) = T::deserialize(&object) {
            return Ok(Self::Whole(whole));
        }
        Bare::deserialize(&object)
            .map(Self::Bare)
            .map_err(D::Error::custom)
    }
}

impl<T: Named> Named for Lenient<T> {
    fn id(&self, kind: Kind) -> ObjectId {
        match self {
            Self::Whole(one) => one.id(kind),
            Self::Bare(one) => one.id(kind),
        }
    }

    fn version(&self) -> &str {
        match self {
            Self::Whole(one) => one.version(),
            Self::Bare(one) => one.version(),
        }
    }

    fn facts(self, kind: Kind, redactor: &Redactor, denied: &DeniedKinds) -> ObjectSummary {
        match self {
            Self::Whole(one) => one.facts(kind, redactor, denied),
            Self::Bare(one) => one.facts(kind, redactor, denied),
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self, Self::Whole(_))
    }
}

impl Shape for Bare {
    fn status(&self) -> String {
        "not understood".to_owned()
    }
}

// === namespaces and nodes ===

pub(super) type Namespace = Object<IgnoredAny, Phase>;
pub(super) type Node = Object<NodeSpec, NodeStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Phase {
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

impl Shape for Namespace {
    fn status(&self) -> String {
        self.status.phase.clone()
    }
}

impl Shape for Node {
    fn status(&self) -> String {
        let word = nodes::word(&self.status.conditions, self.spec.unschedulable);
        let problems = nodes::problems(self.status.conditions.clone()).into_iter();
        let problems = problems.filter(|problem| !problem.starts_with("NotReady"));
        [word]
            .into_iter()
            .chain(problems)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

#[cfg(test)]
mod tests;
