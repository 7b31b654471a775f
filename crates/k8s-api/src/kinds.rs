//! The built-in kinds that kubecrier names in its code, each under all of its names.

use crate::names;

/// A kind that every cluster serves, as discovery lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct BuiltinKind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version that all supported clusters serve.
    pub version: &'static str,
    /// As objects spell it: `Deployment`.
    pub kind: &'static str,
    /// As paths and RBAC rules spell it: `deployments`.
    pub plural: &'static str,
    /// As kubectl prints it: `deployment`.
    pub singular: &'static str,
    /// As kubectl takes it for short: `deploy`.
    pub short_names: &'static [&'static str],
    /// Groups of kinds that kubectl knows, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// All kinds of this table, in the order of discovery: the core group first, then by the
/// names of groups and resources.
pub const KINDS: &[BuiltinKind] = &[
    CONFIG_MAP,
    ENDPOINTS,
    EVENT,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    PERSISTENT_VOLUME,
    POD,
    RESOURCE_QUOTA,
    SECRET,
    SERVICE_ACCOUNT,
    SERVICE,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
    API_SERVICE,
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    SELF_SUBJECT_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
    HORIZONTAL_POD_AUTOSCALER,
    CRON_JOB,
    JOB,
    ENDPOINT_SLICE,
    EVENTS_K8S_IO_EVENT,
    INGRESS,
    INGRESS_CLASS,
    POD_DISRUPTION_BUDGET,
    STORAGE_CLASS,
];

/// A route of the Gateway API, which many clusters serve: a custom resource, so not in
/// [`KINDS`].
pub const HTTP_ROUTE: BuiltinKind = BuiltinKind {
    group: "gateway.networking.k8s.io",
    kind: "HTTPRoute",
    plural: "httproutes",
    singular: "httproute",
    ..CORE
};

const CORE: BuiltinKind = BuiltinKind {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
};

const APPS: BuiltinKind = BuiltinKind {
    group: "apps",
    categories: ALL,
    ..CORE
};

const BATCH: BuiltinKind = BuiltinKind {
    group: "batch",
    categories: ALL,
    ..CORE
};

/// What `kubectl get all` shows.
const ALL: &[&str] = &["all"];

macro_rules! kinds {
    ($($name:ident = $base:ident { $($field:ident: $value:expr),+ $(,)? })+) => {
        $(
            #[doc = concat!("The row of the table for `", stringify!($name), "`.")]
            pub const $name: BuiltinKind = BuiltinKind { $($field: $value,)+ ..$base };
        )+
    };
}

kinds! {
    CONFIG_MAP = CORE {
        kind: "ConfigMap", plural: "configmaps", singular: "configmap", short_names: &["cm"],
    }
    ENDPOINTS = CORE {
        kind: "Endpoints", plural: "endpoints", singular: "endpoints", short_names: &["ep"],
    }
    EVENT = CORE {
        kind: "Event", plural: "events", singular: "event", short_names: &["ev"],
    }
    NAMESPACE = CORE {
        kind: "Namespace", plural: "namespaces", singular: "namespace", short_names: &["ns"],
        namespaced: false,
    }
    NODE = CORE {
        kind: "Node", plural: "nodes", singular: "node", short_names: &["no"], namespaced: false,
    }
    PERSISTENT_VOLUME_CLAIM = CORE {
        kind: "PersistentVolumeClaim", plural: "persistentvolumeclaims",
        singular: "persistentvolumeclaim", short_names: &["pvc"],
    }
    PERSISTENT_VOLUME = CORE {
        kind: "PersistentVolume", plural: "persistentvolumes", singular: "persistentvolume",
        short_names: &["pv"], namespaced: false,
    }
    POD = CORE {
        kind: "Pod", plural: "pods", singular: "pod", short_names: &["po"], categories: ALL,
    }
    RESOURCE_QUOTA = CORE {
        kind: "ResourceQuota", plural: "resourcequotas", singular: "resourcequota",
        short_names: &["quota"],
    }
    SECRET = CORE {
        kind: "Secret", plural: "secrets", singular: "secret",
    }
    SERVICE_ACCOUNT = CORE {
        kind: "ServiceAccount", plural: "serviceaccounts", singular: "serviceaccount",
        short_names: &["sa"],
    }
    SERVICE = CORE {
        kind: "Service", plural: "services", singular: "service", short_names: &["svc"],
        categories: ALL,
    }
    MUTATING_WEBHOOK_CONFIGURATION = CORE {
        group: "admissionregistration.k8s.io", kind: "MutatingWebhookConfiguration",
        plural: "mutatingwebhookconfigurations", singular: "mutatingwebhookconfiguration",
        categories: &["api-extensions"], namespaced: false,
    }
    VALIDATING_WEBHOOK_CONFIGURATION = CORE {
        group: "admissionregistration.k8s.io", kind: "ValidatingWebhookConfiguration",
        plural: "validatingwebhookconfigurations", singular: "validatingwebhookconfiguration",
        categories: &["api-extensions"], namespaced: false,
    }
    API_SERVICE = CORE {
        group: "apiregistration.k8s.io", kind: "APIService", plural: "apiservices",
        singular: "apiservice", categories: &["api-extensions"], namespaced: false,
    }
    CONTROLLER_REVISION = CORE {
        group: "apps", kind: "ControllerRevision", plural: "controllerrevisions",
        singular: "controllerrevision",
    }
    DAEMON_SET = APPS {
        kind: "DaemonSet", plural: "daemonsets", singular: "daemonset", short_names: &["ds"],
    }
    DEPLOYMENT = APPS {
        kind: "Deployment", plural: "deployments", singular: "deployment", short_names: &["deploy"],
    }
    REPLICA_SET = APPS {
        kind: "ReplicaSet", plural: "replicasets", singular: "replicaset", short_names: &["rs"],
    }
    STATEFUL_SET = APPS {
        kind: "StatefulSet", plural: "statefulsets", singular: "statefulset", short_names: &["sts"],
    }
    SELF_SUBJECT_REVIEW = CORE {
        group: "authentication.k8s.io", kind: "SelfSubjectReview", plural: "selfsubjectreviews",
        singular: "selfsubjectreview", namespaced: false,
    }
    SELF_SUBJECT_ACCESS_REVIEW = CORE {
        group: "authorization.k8s.io", kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews", singular: "selfsubjectaccessreview", namespaced: false,
    }
    SELF_SUBJECT_RULES_REVIEW = CORE {
        group: "authorization.k8s.io", kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews", singular: "selfsubjectrulesreview", namespaced: false,
    }
    SUBJECT_ACCESS_REVIEW = CORE {
        group: "authorization.k8s.io", kind: "SubjectAccessReview",
        plural: "subjectaccessreviews", singular: "subjectaccessreview", namespaced: false,
    }
    HORIZONTAL_POD_AUTOSCALER = CORE {
        group: "autoscaling", version: "v2", kind: "HorizontalPodAutoscaler",
        plural: "horizontalpodautoscalers", singular: "horizontalpodautoscaler",
        short_names: &["hpa"], categories: ALL,
    }
    CRON_JOB = BATCH {
        kind: "CronJob", plural: "cronjobs", singular: "cronjob", short_names: &["cj"],
    }
    JOB = BATCH {
        kind: "Job", plural: "jobs", singular: "job",
    }
    ENDPOINT_SLICE = CORE {
        group: "discovery.k8s.io", kind: "EndpointSlice", plural: "endpointslices",
        singular: "endpointslice",
    }
    EVENTS_K8S_IO_EVENT = CORE {
        group: "events.k8s.io", kind: "Event", plural: "events", singular: "event",
        short_names: &["ev"],
    }
    INGRESS = CORE {
        group: "networking.k8s.io", kind: "Ingress", plural: "ingresses", singular: "ingress",
        short_names: &["ing"],
    }
    INGRESS_CLASS = CORE {
        group: "networking.k8s.io", kind: "IngressClass", plural: "ingressclasses",
        singular: "ingressclass", namespaced: false,
    }
    POD_DISRUPTION_BUDGET = CORE {
        group: "policy", kind: "PodDisruptionBudget", plural: "poddisruptionbudgets",
        singular: "poddisruptionbudget", short_names: &["pdb"],
    }
    STORAGE_CLASS = CORE {
        group: "storage.k8s.io", kind: "StorageClass", plural: "storageclasses",
        singular: "storageclass", short_names: &["sc"], namespaced: false,
    }
}

// === impl BuiltinKind ===

impl BuiltinKind {
    /// The kind that objects spell so; of several groups, the first.
    pub fn of_kind(kind: &str) -> Option<&'static Self> {
        KINDS.iter().find(|one| one.kind == kind)
    }

    /// The kind that kubectl takes a word for; of several groups, the first.
    pub fn of_word(word: &str) -> Option<&'static Self> {
        KINDS.iter().find(|one| one.is_named(word))
    }

    /// Whether kubectl takes a word for this kind: its kind, plural, singular or a short
    /// name, in upper or lower case.
    pub fn is_named(&self, word: &str) -> bool {
        self.names().any(|name| name.eq_ignore_ascii_case(word))
    }

    /// The names that kubectl takes, in lower case.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        [self.plural, self.singular]
            .into_iter()
            .chain(self.short_names.iter().copied())
    }

    /// Whether this is the resource of a path or of an RBAC rule.
    pub fn is_resource(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// `v1`, or `apps/v1`.
    pub fn api_version(&self) -> String {
        names::group_version(self.group, self.version)
    }

    /// `pods`, or `deployments.apps`.
    pub fn group_resource(&self) -> String {
        names::group_resource(self.group, self.plural)
    }

    /// `PodList`, as answers to lists spell their kind.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// The path of its objects, in a namespace or in all of them. A kind outside of
    /// namespaces has one path only.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let namespace = namespace.filter(|_| self.namespaced);
        names::collection_path(self.group, self.version, self.plural, namespace)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_is_whole() {
        for one in KINDS {
            assert_eq!(one.singular, one.kind.to_lowercase());
            let plural = names::is_plural_of(one.plural, one.singular);
            assert!(plural || one.plural == one.singular, "{one:?}");
            assert!(names::is_dns_label(one.version), "{one:?}");
            assert!(one.group.is_empty() || names::is_dns_subdomain(one.group));
        }
        let distinct: BTreeSet<_> = KINDS.iter().map(|one| (one.group, one.plural)).collect();
        assert_eq!(distinct.len(), KINDS.len());
    }

    #[test]
    fn groups_follow_each_other_as_in_discovery() {
        let mut groups: Vec<_> = KINDS.iter().map(|one| one.group).collect();
        groups.dedup();
        assert!(groups.is_sorted(), "{groups:?}");
    }

    #[test]
    fn a_kind_is_found_under_each_of_its_names() {
        for word in [
            "Deployment",
            "deployments",
            "deployment",
            "deploy",
            "DEPLOY",
        ] {
            assert_eq!(BuiltinKind::of_word(word), Some(&DEPLOYMENT), "{word}");
        }
        assert_eq!(BuiltinKind::of_word("ev"), Some(&EVENT));
        assert_eq!(BuiltinKind::of_word(""), None);
        assert_eq!(BuiltinKind::of_kind("Job"), Some(&JOB));
        assert_eq!(BuiltinKind::of_kind("job"), None);
    }

    #[test]
    fn paths_follow_from_the_row() {
        let hpa = HORIZONTAL_POD_AUTOSCALER;
        let path = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers";
        assert_eq!(hpa.path(Some("shop")), path);
        assert_eq!(NODE.path(Some("shop")), "/api/v1/nodes");
        assert_eq!(POD.path(None), "/api/v1/pods");
        assert_eq!(hpa.api_version(), "autoscaling/v2");
        assert_eq!(DEPLOYMENT.group_resource(), "deployments.apps");
        assert_eq!(POD.list_kind(), "PodList");
    }
}
