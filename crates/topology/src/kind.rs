//! What kinds of nodes there are.

use std::{collections::BTreeSet, fmt};

use kubecrier_k8s_api::{BuiltinKind, kinds, names::split_group_version};
use serde::{Serialize, Serializer};

/// A kind of node, in the order in which people read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Kind {
    /// A namespace.
    Namespace,
    /// A machine.
    Node,
    /// A way in from outside.
    Ingress,
    /// A stable address of pods.
    Service,
    /// What changes the number of pods.
    HorizontalPodAutoscaler,
    /// Starts jobs by the clock.
    CronJob,
    /// Pods in revisions.
    Deployment,
    /// Pods with names.
    StatefulSet,
    /// A pod per node.
    DaemonSet,
    /// Pods that come to an end.
    Job,
    /// One revision of a deployment.
    ReplicaSet,
    /// Containers that run together.
    Pod,
    /// Known by its name only.
    ConfigMap,
    /// Known by its name only.
    Secret,
    /// Known by its name only.
    PersistentVolumeClaim,
}

/// Matches some kinds; an empty filter matches all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindFilter(BTreeSet<Kind>);

/// Reports a word that names no kind of the graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the graph has no kind `{word}`; nearest: {nearest}; it has {}", names(&Kind::ALL))]
pub struct UnknownKind {
    word: String,
    nearest: String,
}

/// The longest word that is compared with the known kinds.
const WORD_CHARS_MAX: usize = 63;

// === impl Kind ===

impl Kind {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Namespace,
        Self::Node,
        Self::Ingress,
        Self::Service,
        Self::HorizontalPodAutoscaler,
        Self::CronJob,
        Self::Deployment,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Job,
        Self::ReplicaSet,
        Self::Pod,
        Self::ConfigMap,
        Self::Secret,
        Self::PersistentVolumeClaim,
    ];

    /// The row of the table of built-in kinds.
    pub fn resource(self) -> &'static BuiltinKind {
        match self {
            Self::Namespace => &kinds::NAMESPACE,
            Self::Node => &kinds::NODE,
            Self::Ingress => &kinds::INGRESS,
            Self::Service => &kinds::SERVICE,
            Self::HorizontalPodAutoscaler => &kinds::HORIZONTAL_POD_AUTOSCALER,
            Self::CronJob => &kinds::CRON_JOB,
            Self::Deployment => &kinds::DEPLOYMENT,
            Self::StatefulSet => &kinds::STATEFUL_SET,
            Self::DaemonSet => &kinds::DAEMON_SET,
            Self::Job => &kinds::JOB,
            Self::ReplicaSet => &kinds::REPLICA_SET,
            Self::Pod => &kinds::POD,
            Self::ConfigMap => &kinds::CONFIG_MAP,
            Self::Secret => &kinds::SECRET,
            Self::PersistentVolumeClaim => &kinds::PERSISTENT_VOLUME_CLAIM,
        }
    }

    /// As Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        self.resource().kind
    }

    /// As paths and rules spell it.
    pub fn plural(self) -> &'static str {
        self.resource().plural
    }

    /// The API group; empty for the core one.
    pub fn group(self) -> &'static str {
        self.resource().group
    }

    /// Whether its objects live in namespaces.
    pub fn is_namespaced(self) -> bool {
        self.resource().namespaced
    }

    /// Whether objects of the kind are only known from references to them, and never read.
    pub fn is_reference(self) -> bool {
        matches!(
            self,
            Self::ConfigMap | Self::Secret | Self::PersistentVolumeClaim
        )
    }

    /// The kind with this exact name in the group of `api_version`: a custom resource of
    /// another group may have the same name.
    pub fn exact(kind: &str, api_version: &str) -> Option<Self> {
        let (group, _version) = split_group_version(api_version);
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.as_str() == kind && one.group() == group)
    }

    /// Parses a kind as kubectl does: singular, plural, short name, with or without group.
    pub fn parse(word: &str) -> Result<Self, UnknownKind> {
        let lower = word.trim().to_lowercase();
        let (name, group) = lower.split_once('.').unwrap_or((&lower, ""));
        let is = |kind: &Self| {
            // `deployments.v1.apps` is how kubectl writes it in full.
            let of = kind.group();
            kind.resource().is_named(name)
                && (group.is_empty()
                    || group == of
                    || group.split_once('.').is_some_and(|(_, end)| end == of))
        };
        let found = Self::ALL.into_iter().find(is);
        found.ok_or_else(|| UnknownKind::new(word, name))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl KindFilter ===

impl KindFilter {
    /// A filter that matches all kinds.
    pub fn all() -> Self {
        Self::default()
    }

    /// Parses the names of kinds; without any the filter matches all kinds.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownKind> {
        let kinds = words.into_iter().map(Kind::parse);
        kinds.collect::<Result<_, _>>().map(Self)
    }

    /// Whether a kind passes the filter.
    pub fn matches(&self, kind: Kind) -> bool {
        self.0.is_empty() || self.0.contains(&kind)
    }
}

impl Serialize for KindFilter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

// === impl UnknownKind ===

impl UnknownKind {
    fn new(word: &str, name: &str) -> Self {
        let name: String = name.chars().take(WORD_CHARS_MAX).collect();
        let apart = |kind: &Kind| {
            let names = kind.resource().names();
            names
                .map(|one| strsim::damerau_levenshtein(one, &name))
                .min()
        };
        let nearest = Kind::ALL.into_iter().min_by_key(apart);
        Self {
            word: word
                .chars()
                .take(WORD_CHARS_MAX)
                .collect::<String>()
                .escape_debug()
                .to_string(),
            nearest: nearest.map_or("", Kind::as_str).to_owned(),
        }
    }
}

/// KindFilter, in a sentence.
fn names(kinds: &[Kind]) -> String {
    let names: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_as_kubectl_takes_them() {
        for kind in Kind::ALL {
            for word in kind.resource().names().chain([kind.as_str()]) {
                assert_eq!(Kind::parse(word), Ok(kind));
                assert_eq!(Kind::parse(&word.to_uppercase()), Ok(kind));
            }
        }
        assert_eq!(Kind::parse("deployments.apps"), Ok(Kind::Deployment));
        assert_eq!(Kind::parse("deployments.v1.apps"), Ok(Kind::Deployment));
        assert!(Kind::parse("deployments.extensions").is_err());
        let error = Kind::parse("deploymnet").unwrap_err().to_string();
        assert!(error.contains("nearest: Deployment;"), "{error}");
    }

    #[test]
    fn a_kind_of_the_same_name_in_another_group_does_not_match() {
        assert_eq!(Kind::exact("Deployment", "apps/v1"), Some(Kind::Deployment));
        assert_eq!(Kind::exact("Pod", "v1"), Some(Kind::Pod));
        assert_eq!(Kind::exact("Service", "serving.knative.dev/v1"), None);
        assert_eq!(Kind::exact("deployment", "apps/v1"), None);
    }

    #[test]
    fn no_kinds_are_all_kinds() {
        let some = KindFilter::parse(["po", "services"]).unwrap();
        let count = |kinds: &KindFilter| {
            let all = Kind::ALL.into_iter();
            all.filter(|one| kinds.matches(*one)).count()
        };
        assert_eq!(
            (count(&some), count(&KindFilter::all())),
            (2, Kind::ALL.len())
        );
        assert!(KindFilter::parse(["po", "cows"]).is_err());
    }

    proptest::proptest! {
        #[test]
        fn fuzz_any_word_is_a_kind_or_has_a_neighbour(word in "\\PC{0,80}|[a-zA-Z.]{0,30}") {
            if let Err(error) = Kind::parse(&word) {
                let text = error.to_string();
                proptest::prop_assert!(text.contains("nearest: ") && text.len() < 1000);
            }
        }
    }
}
