//! What kinds of nodes there are.

use std::{collections::BTreeSet, fmt};

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

/// Some kinds, or all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds(BTreeSet<Kind>);

/// A word that is none of the kinds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the graph has no kind `{word}`; nearest: {nearest}; it has {}", names(&Kind::ALL))]
pub struct NotAKind {
    word: String,
    nearest: String,
}

/// The longest word that is looked at.
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

    /// As Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::Node => "Node",
            Self::Ingress => "Ingress",
            Self::Service => "Service",
            Self::HorizontalPodAutoscaler => "HorizontalPodAutoscaler",
            Self::CronJob => "CronJob",
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Job => "Job",
            Self::ReplicaSet => "ReplicaSet",
            Self::Pod => "Pod",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
        }
    }

    /// As paths and rules spell it.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Namespace => "namespaces",
            Self::Node => "nodes",
            Self::Ingress => "ingresses",
            Self::Service => "services",
            Self::HorizontalPodAutoscaler => "horizontalpodautoscalers",
            Self::CronJob => "cronjobs",
            Self::Deployment => "deployments",
            Self::StatefulSet => "statefulsets",
            Self::DaemonSet => "daemonsets",
            Self::Job => "jobs",
            Self::ReplicaSet => "replicasets",
            Self::Pod => "pods",
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
            Self::PersistentVolumeClaim => "persistentvolumeclaims",
        }
    }

    fn short(self) -> &'static str {
        match self {
            Self::Namespace => "ns",
            Self::Node => "no",
            Self::Ingress => "ing",
            Self::Service => "svc",
            Self::HorizontalPodAutoscaler => "hpa",
            Self::CronJob => "cj",
            Self::Deployment => "deploy",
            Self::StatefulSet => "sts",
            Self::DaemonSet => "ds",
            Self::Job => "job",
            Self::ReplicaSet => "rs",
            Self::Pod => "po",
            Self::ConfigMap => "cm",
            Self::Secret => "secret",
            Self::PersistentVolumeClaim => "pvc",
        }
    }

    /// The API group; empty for the core one.
    pub fn group(self) -> &'static str {
        match self {
            Self::Ingress => "networking.k8s.io",
            Self::HorizontalPodAutoscaler => "autoscaling",
            Self::CronJob | Self::Job => "batch",
            Self::Deployment | Self::StatefulSet | Self::DaemonSet | Self::ReplicaSet => "apps",
            Self::Namespace
            | Self::Node
            | Self::Service
            | Self::Pod
            | Self::ConfigMap
            | Self::Secret
            | Self::PersistentVolumeClaim => "",
        }
    }

    /// Whether its objects live in namespaces.
    pub fn is_namespaced(self) -> bool {
        !matches!(self, Self::Namespace | Self::Node)
    }

    /// Whether it is known from what names it, and never read.
    pub fn is_reference(self) -> bool {
        matches!(
            self,
            Self::ConfigMap | Self::Secret | Self::PersistentVolumeClaim
        )
    }

    /// The kind of an object as objects spell it, if it is of that group: somebody
    /// else's kind may have the same name.
    pub fn exact(kind: &str, api_version: &str) -> Option<Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.as_str() == kind && one.group() == group)
    }

    /// The kind that a caller means, written as kubectl takes it.
    pub fn parse(word: &str) -> Result<Self, NotAKind> {
        let lower = word.trim().to_lowercase();
        let (name, group) = lower.split_once('.').unwrap_or((&lower, ""));
        let is = |kind: &Self| {
            let names = [kind.plural(), kind.short()];
            let named = names.contains(&name) || kind.as_str().to_lowercase() == name;
            // `deployments.v1.apps` is how kubectl writes it in full.
            let of = kind.group();
            named
                && (group.is_empty()
                    || group == of
                    || group.split_once('.').is_some_and(|(_, end)| end == of))
        };
        let found = Self::ALL.into_iter().find(is);
        found.ok_or_else(|| NotAKind::new(word, name))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Kinds ===

impl Kinds {
    /// All of them.
    pub fn all() -> Self {
        Self::default()
    }

    /// Those that are named; none is all of them.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, NotAKind> {
        let kinds = words.into_iter().map(Kind::parse);
        kinds.collect::<Result<_, _>>().map(Self)
    }

    /// Whether a kind is among them.
    pub fn has(&self, kind: Kind) -> bool {
        self.0.is_empty() || self.0.contains(&kind)
    }
}

impl Serialize for Kinds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

// === impl NotAKind ===

impl NotAKind {
    fn new(word: &str, name: &str) -> Self {
        let name: String = name.chars().take(WORD_CHARS_MAX).collect();
        let apart = |kind: &Kind| {
            let names = [
                kind.as_str().to_lowercase(),
                kind.plural().to_owned(),
                kind.short().to_owned(),
            ];
            names
                .iter()
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

/// Kinds, in a sentence.
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
            for word in [kind.as_str(), kind.plural(), kind.short()] {
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
    fn somebody_elses_kind_of_the_same_name_is_not_ours() {
        assert_eq!(Kind::exact("Deployment", "apps/v1"), Some(Kind::Deployment));
        assert_eq!(Kind::exact("Pod", "v1"), Some(Kind::Pod));
        assert_eq!(Kind::exact("Service", "serving.knative.dev/v1"), None);
        assert_eq!(Kind::exact("deployment", "apps/v1"), None);
    }

    #[test]
    fn no_kinds_are_all_kinds() {
        let some = Kinds::parse(["po", "services"]).unwrap();
        let has = |kinds: &Kinds| Kind::ALL.into_iter().filter(|one| kinds.has(*one)).count();
        assert_eq!((has(&some), has(&Kinds::all())), (2, Kind::ALL.len()));
        assert!(Kinds::parse(["po", "cows"]).is_err());
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
