//! Which resources there are: data, not code.

use serde_json::{Value, json};

/// A resource of the API, as discovery lists it.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) short: &'static [&'static str],
    /// In `kubectl get all`.
    pub(crate) in_all: bool,
    /// Fields one may select by, beside name and namespace, and where they are.
    pub(crate) fields: &'static [(&'static str, &'static str)],
    pub(crate) unknown_field: UnknownField,
    /// What an object without content looks like, as in bookmarks.
    pub(crate) empty: &'static str,
    pub(crate) storage: Storage,
}

/// How the API server words its refusal of a field selector.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UnknownField {
    Plain,
    NamesTheKind,
    NamesTheKnown,
}

/// How a resource is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Behind the API server's watch cache.
    Cached,
    /// Straight from the store, as events are.
    Direct,
    /// Another way to see the core events.
    EventsView,
    /// A question; nothing is kept.
    Review,
}

/// What most rows have in common.
const USUAL: Resource = Resource {
    group: "",
    version: "v1",
    plural: "",
    singular: "",
    kind: "",
    namespaced: true,
    short: &[],
    in_all: false,
    fields: &[],
    unknown_field: UnknownField::NamesTheKnown,
    empty: "{}",
    storage: Storage::Cached,
};

const REVIEW: Resource = Resource {
    group: "authorization.k8s.io",
    namespaced: false,
    storage: Storage::Review,
    ..USUAL
};

/// In the order of groups and names, which is discovery's.
pub(crate) static RESOURCES: &[Resource] = &[
    Resource {
        plural: "configmaps",
        singular: "configmap",
        kind: "ConfigMap",
        short: &["cm"],
        ..USUAL
    },
    Resource {
        plural: "events",
        singular: "event",
        kind: "Event",
        short: &["ev"],
        fields: &[
            ("involvedObject.kind", "/involvedObject/kind"),
            ("involvedObject.namespace", "/involvedObject/namespace"),
            ("involvedObject.name", "/involvedObject/name"),
            ("involvedObject.uid", "/involvedObject/uid"),
            ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
            (
                "involvedObject.resourceVersion",
                "/involvedObject/resourceVersion",
            ),
            ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
            ("reason", "/reason"),
            ("reportingComponent", "/reportingComponent"),
            ("source", "/source/component"),
            ("type", "/type"),
        ],
        unknown_field: UnknownField::Plain,
        empty: r#"{"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":""}"#,
        storage: Storage::Direct,
        ..USUAL
    },
    Resource {
        plural: "namespaces",
        singular: "namespace",
        kind: "Namespace",
        namespaced: false,
        short: &["ns"],
        fields: &[("status.phase", "/status/phase")],
        unknown_field: UnknownField::Plain,
        empty: r#"{"spec":{},"status":{}}"#,
        ..USUAL
    },
    Resource {
        plural: "nodes",
        singular: "node",
        kind: "Node",
        namespaced: false,
        short: &["no"],
        fields: &[("spec.unschedulable", "/spec/unschedulable")],
        unknown_field: UnknownField::Plain,
        empty: r#"{"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}"#,
        ..USUAL
    },
    Resource {
        plural: "persistentvolumeclaims",
        singular: "persistentvolumeclaim",
        kind: "PersistentVolumeClaim",
        short: &["pvc"],
        empty: r#"{"spec":{"resources":{}},"status":{}}"#,
        ..USUAL
    },
    Resource {
        plural: "pods",
        singular: "pod",
        kind: "Pod",
        short: &["po"],
        in_all: true,
        fields: &[
            ("spec.nodeName", "/spec/nodeName"),
            ("spec.restartPolicy", "/spec/restartPolicy"),
            ("spec.schedulerName", "/spec/schedulerName"),
            ("spec.serviceAccountName", "/spec/serviceAccountName"),
            ("spec.hostNetwork", "/spec/hostNetwork"),
            ("status.phase", "/status/phase"),
            ("status.podIP", "/status/podIP"),
            ("status.nominatedNodeName", "/status/nominatedNodeName"),
        ],
        unknown_field: UnknownField::Plain,
        empty: r#"{"spec":{"containers":null},"status":{}}"#,
        ..USUAL
    },
    Resource {
        plural: "secrets",
        singular: "secret",
        kind: "Secret",
        fields: &[("type", "/type")],
        unknown_field: UnknownField::Plain,
        ..USUAL
    },
    Resource {
        plural: "services",
        singular: "service",
        kind: "Service",
        short: &["svc"],
        in_all: true,
        fields: &[
            ("spec.clusterIP", "/spec/clusterIP"),
            ("spec.type", "/spec/type"),
        ],
        unknown_field: UnknownField::Plain,
        empty: r#"{"spec":{},"status":{"loadBalancer":{}}}"#,
        ..USUAL
    },
    Resource {
        group: "apps",
        plural: "daemonsets",
        singular: "daemonset",
        kind: "DaemonSet",
        short: &["ds"],
        in_all: true,
        empty: r#"{"metadata":{"annotations":{"deprecated.daemonset.template.generation":"0"}},"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"updateStrategy":{}},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}}"#,
        ..USUAL
    },
    Resource {
        group: "apps",
        plural: "deployments",
        singular: "deployment",
        kind: "Deployment",
        short: &["deploy"],
        in_all: true,
        empty: r#"{"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}"#,
        ..USUAL
    },
    Resource {
        group: "apps",
        plural: "replicasets",
        singular: "replicaset",
        kind: "ReplicaSet",
        short: &["rs"],
        in_all: true,
        empty: r#"{"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}}},"status":{"replicas":0}}"#,
        ..USUAL
    },
    Resource {
        group: "apps",
        plural: "statefulsets",
        singular: "statefulset",
        kind: "StatefulSet",
        short: &["sts"],
        in_all: true,
        empty: r#"{"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"serviceName":"","updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}}"#,
        ..USUAL
    },
    Resource {
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        kind: "SelfSubjectAccessReview",
        ..REVIEW
    },
    Resource {
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        kind: "SelfSubjectRulesReview",
        ..REVIEW
    },
    Resource {
        group: "autoscaling",
        version: "v2",
        plural: "horizontalpodautoscalers",
        singular: "horizontalpodautoscaler",
        kind: "HorizontalPodAutoscaler",
        short: &["hpa"],
        in_all: true,
        empty: r#"{"spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"desiredReplicas":0,"currentMetrics":null}}"#,
        ..USUAL
    },
    Resource {
        group: "batch",
        plural: "cronjobs",
        singular: "cronjob",
        kind: "CronJob",
        short: &["cj"],
        in_all: true,
        empty: r#"{"spec":{"schedule":"","jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},"spec":{"containers":null}}}}},"status":{}}"#,
        ..USUAL
    },
    Resource {
        group: "batch",
        plural: "jobs",
        singular: "job",
        kind: "Job",
        in_all: true,
        fields: &[("status.successful", "/status/succeeded")],
        unknown_field: UnknownField::NamesTheKind,
        empty: r#"{"spec":{"template":{"metadata":{},"spec":{"containers":null}}},"status":{}}"#,
        ..USUAL
    },
    Resource {
        group: "events.k8s.io",
        plural: "events",
        singular: "event",
        kind: "Event",
        short: &["ev"],
        // The names of this view, the places of the stored object.
        fields: &[
            ("regarding.kind", "/involvedObject/kind"),
            ("regarding.namespace", "/involvedObject/namespace"),
            ("regarding.name", "/involvedObject/name"),
            ("regarding.uid", "/involvedObject/uid"),
            ("regarding.apiVersion", "/involvedObject/apiVersion"),
            (
                "regarding.resourceVersion",
                "/involvedObject/resourceVersion",
            ),
            ("regarding.fieldPath", "/involvedObject/fieldPath"),
            ("reason", "/reason"),
            ("reportingController", "/reportingComponent"),
            ("type", "/type"),
        ],
        unknown_field: UnknownField::Plain,
        empty: r#"{"eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null}"#,
        storage: Storage::EventsView,
        ..USUAL
    },
    Resource {
        group: "networking.k8s.io",
        plural: "ingresses",
        singular: "ingress",
        kind: "Ingress",
        short: &["ing"],
        empty: r#"{"spec":{},"status":{"loadBalancer":{}}}"#,
        ..USUAL
    },
];

// === impl Resource ===

impl Resource {
    pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        RESOURCES
            .iter()
            .find(|one| one.group == group && one.version == version && one.plural == plural)
    }

    pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Self> {
        RESOURCES
            .iter()
            .find(|one| one.kind == kind && one.api_version() == api_version)
    }

    pub(crate) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// `deployments.apps`, as errors have it.
    pub(crate) fn qualified(&self) -> String {
        qualified(self.group, self.plural)
    }

    /// What names it in the store: views share what they show.
    pub(crate) fn store_key(&self) -> (&'static str, &'static str) {
        match self.storage {
            Storage::EventsView => ("", "events"),
            Storage::Cached | Storage::Direct | Storage::Review => (self.group, self.plural),
        }
    }

    /// The object of a bookmark.
    pub(crate) fn bookmark(&self, version: u64, ends_initial_events: bool) -> Value {
        let mut object: Value =
            serde_json::from_str(self.empty).expect("the table holds JSON, a test reads it all");
        object["kind"] = self.kind.into();
        object["apiVersion"] = self.api_version().into();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        if ends_initial_events {
            object["metadata"]["annotations"]["k8s.io/initial-events-end"] = "true".into();
        }
        object
    }

    fn discovery(&self) -> Value {
        let verbs: &[&str] = match self.storage {
            Storage::Review => &["create"],
            Storage::Cached | Storage::Direct | Storage::EventsView => &["get", "list", "watch"],
        };
        let mut entry = json!({
            "name": self.plural,
            "singularName": self.singular,
            "namespaced": self.namespaced,
            "kind": self.kind,
            "verbs": verbs,
        });
        if !self.short.is_empty() {
            entry["shortNames"] = json!(self.short);
        }
        if self.in_all {
            entry["categories"] = json!(["all"]);
        }
        entry
    }
}

/// `pods`, or `deployments.apps`.
pub(crate) fn qualified(group: &str, plural: &str) -> String {
    if group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{group}")
    }
}

/// `/apis`: every group but the core.
pub(crate) fn groups() -> Value {
    let mut names: Vec<_> = RESOURCES.iter().map(|one| one.group).collect();
    names.dedup();
    let groups: Vec<_> = names.into_iter().filter_map(group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// One entry of `/apis`, which is also `/apis/<group>` but for its kind.
pub(crate) fn group(name: &str) -> Option<Value> {
    let one = RESOURCES
        .iter()
        .find(|one| one.group == name && !name.is_empty())?;
    let version = json!({"groupVersion": one.api_version(), "version": one.version});
    Some(json!({"name": name, "versions": [version], "preferredVersion": version}))
}

/// `/api/v1`, `/apis/apps/v1`.
pub(crate) fn resources(group: &str, version: &str) -> Option<Value> {
    let mut entries = Vec::new();
    for one in RESOURCES
        .iter()
        .filter(|one| one.group == group && one.version == version)
    {
        entries.push(one.discovery());
        if one.kind == "Pod" {
            entries.push(json!({
                "name": "pods/log",
                "singularName": "",
                "namespaced": true,
                "kind": "Pod",
                "verbs": ["get"],
            }));
        }
    }
    if entries.is_empty() {
        return None;
    }
    let mut list = json!({"kind": "APIResourceList", "resources": entries});
    if group.is_empty() {
        list["groupVersion"] = version.into();
    } else {
        // The legacy group alone leaves its own version out.
        list["apiVersion"] = "v1".into();
        list["groupVersion"] = format!("{group}/{version}").into();
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_whole() {
        for one in RESOURCES {
            assert_eq!(one.bookmark(7, false)["metadata"]["resourceVersion"], "7");
            assert!(one.plural.starts_with(&one.singular[..3]), "{one:?}");
            assert_eq!(one.kind.to_lowercase(), one.singular);
            for (field, place) in one.fields {
                assert!(place.starts_with('/'), "{field}");
            }
        }
    }

    #[test]
    fn groups_are_named_once() {
        let groups = groups();
        let names: Vec<_> = groups["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|g| &g["name"])
            .collect();
        assert_eq!(
            names,
            [
                "apps",
                "authorization.k8s.io",
                "autoscaling",
                "batch",
                "events.k8s.io",
                "networking.k8s.io"
            ]
        );
    }
}
