//! The table of resources that the demo cluster serves, and discovery made of it.

use kubecrier_k8s_api::{BuiltinKind, kinds, names::group_version};
use serde_json::{Value, json};

/// A resource of the API: what every cluster calls it, and how this one serves it.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) api: &'static BuiltinKind,
    /// Supported field selectors besides name and namespace, with JSON pointers into the
    /// stored object.
    pub(crate) fields: &'static [(&'static str, &'static str)],
    pub(crate) unsupported_field: UnsupportedField,
    /// The fields that the API server prints of an empty object, as in bookmarks.
    pub(crate) empty: &'static str,
    pub(crate) storage: Storage,
}

/// How the API server words its error about an unsupported field selector.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UnsupportedField {
    Plain,
    NamesKind,
    NamesSupported,
}

/// Group and plural of a stored resource.
pub(crate) type StoreKey = (&'static str, &'static str);

pub(crate) const PODS: StoreKey = (kinds::POD.group, kinds::POD.plural);

pub(crate) const EVENTS: StoreKey = (kinds::EVENT.group, kinds::EVENT.plural);

/// How a resource is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Behind the API server's watch cache.
    Cached,
    /// Read from etcd directly, as events are.
    Direct,
    /// The core events under the names of `events.k8s.io`.
    EventsView,
    /// Not stored: a request is answered from its body.
    Review,
}

const DEFAULTS: Resource = Resource {
    api: &kinds::CONFIG_MAP,
    fields: &[],
    unsupported_field: UnsupportedField::NamesSupported,
    empty: "{}",
    storage: Storage::Cached,
};

/// In the order of discovery: by group, then by name.
pub(crate) static RESOURCES: &[Resource] = &[
    Resource {
        api: &kinds::CONFIG_MAP,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::EVENT,
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
        unsupported_field: UnsupportedField::Plain,
        empty: r#"{"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":""}"#,
        storage: Storage::Direct,
    },
    Resource {
        api: &kinds::NAMESPACE,
        fields: &[("status.phase", "/status/phase")],
        unsupported_field: UnsupportedField::Plain,
        empty: r#"{"spec":{},"status":{}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::NODE,
        fields: &[("spec.unschedulable", "/spec/unschedulable")],
        unsupported_field: UnsupportedField::Plain,
        empty: r#"{"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::PERSISTENT_VOLUME_CLAIM,
        empty: r#"{"spec":{"resources":{}},"status":{}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::PERSISTENT_VOLUME,
        empty: r#"{"spec":{},"status":{}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::POD,
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
        unsupported_field: UnsupportedField::Plain,
        empty: r#"{"spec":{"containers":null},"status":{}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::RESOURCE_QUOTA,
        empty: r#"{"spec":{},"status":{}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::SECRET,
        fields: &[("type", "/type")],
        unsupported_field: UnsupportedField::Plain,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::SERVICE,
        fields: &[
            ("spec.clusterIP", "/spec/clusterIP"),
            ("spec.type", "/spec/type"),
        ],
        unsupported_field: UnsupportedField::Plain,
        empty: r#"{"spec":{},"status":{"loadBalancer":{}}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::MUTATING_WEBHOOK_CONFIGURATION,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::VALIDATING_WEBHOOK_CONFIGURATION,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::API_SERVICE,
        empty: r#"{"spec":{"groupPriorityMinimum":0,"versionPriority":0},"status":{}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::CONTROLLER_REVISION,
        empty: r#"{"revision":0}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::DAEMON_SET,
        empty: r#"{"metadata":{"annotations":{"deprecated.daemonset.template.generation":"0"}},"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"updateStrategy":{}},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::DEPLOYMENT,
        empty: r#"{"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::REPLICA_SET,
        empty: r#"{"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}}},"status":{"replicas":0}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::STATEFUL_SET,
        empty: r#"{"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"serviceName":"","updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::SELF_SUBJECT_ACCESS_REVIEW,
        storage: Storage::Review,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::SELF_SUBJECT_RULES_REVIEW,
        storage: Storage::Review,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::HORIZONTAL_POD_AUTOSCALER,
        empty: r#"{"spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"desiredReplicas":0,"currentMetrics":null}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::CRON_JOB,
        empty: r#"{"spec":{"schedule":"","jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},"spec":{"containers":null}}}}},"status":{}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::JOB,
        fields: &[("status.successful", "/status/succeeded")],
        unsupported_field: UnsupportedField::NamesKind,
        empty: r#"{"spec":{"template":{"metadata":{},"spec":{"containers":null}}},"status":{}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::ENDPOINT_SLICE,
        empty: r#"{"addressType":"","endpoints":null,"ports":null}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::EVENTS_K8S_IO_EVENT,
        // The names of this view, the pointers of the stored object.
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
        unsupported_field: UnsupportedField::Plain,
        empty: r#"{"eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null}"#,
        storage: Storage::EventsView,
    },
    Resource {
        api: &kinds::INGRESS,
        empty: r#"{"spec":{},"status":{"loadBalancer":{}}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::INGRESS_CLASS,
        empty: r#"{"spec":{}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::POD_DISRUPTION_BUDGET,
        empty: r#"{"spec":{},"status":{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,"expectedPods":0}}"#,
        ..DEFAULTS
    },
    Resource {
        api: &kinds::STORAGE_CLASS,
        empty: r#"{"provisioner":""}"#,
        ..DEFAULTS
    },
];

// === impl Resource ===

impl Resource {
    pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        let found = |one: &&Self| one.api.version == version && one.api.is_resource(group, plural);
        RESOURCES.iter().find(found)
    }

    pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Self> {
        RESOURCES
            .iter()
            .find(|one| one.api.kind == kind && one.api.api_version() == api_version)
    }

    /// The resource whose objects are in the store.
    pub(crate) fn store_key(&self) -> StoreKey {
        match self.storage {
            Storage::EventsView => EVENTS,
            Storage::Cached | Storage::Direct | Storage::Review => {
                (self.api.group, self.api.plural)
            }
        }
    }

    /// The object of a bookmark.
    pub(crate) fn bookmark(&self, version: u64, ends_initial_events: bool) -> Value {
        let mut object: Value =
            serde_json::from_str(self.empty).expect("every row holds valid JSON");
        object["kind"] = self.api.kind.into();
        object["apiVersion"] = self.api.api_version().into();
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
            "name": self.api.plural,
            "singularName": self.api.singular,
            "namespaced": self.api.namespaced,
            "kind": self.api.kind,
            "verbs": verbs,
        });
        if !self.api.short_names.is_empty() {
            entry["shortNames"] = json!(self.api.short_names);
        }
        if !self.api.categories.is_empty() {
            entry["categories"] = json!(self.api.categories);
        }
        entry
    }
}

/// The answer to `/apis`: every group but the core.
pub(crate) fn groups() -> Value {
    let mut names: Vec<_> = RESOURCES.iter().map(|one| one.api.group).collect();
    names.dedup();
    let groups: Vec<_> = names.into_iter().filter_map(group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// One entry of `/apis`. The answer to `/apis/<group>` is the same with a kind.
pub(crate) fn group(name: &str) -> Option<Value> {
    let one = RESOURCES
        .iter()
        .find(|one| one.api.group == name && !name.is_empty())?;
    let version = json!({"groupVersion": one.api.api_version(), "version": one.api.version});
    Some(json!({"name": name, "versions": [version], "preferredVersion": version}))
}

/// The answer to `/api/v1`, `/apis/apps/v1`.
pub(crate) fn resources(group: &str, version: &str) -> Option<Value> {
    let mut entries = Vec::new();
    for one in RESOURCES
        .iter()
        .filter(|one| one.api.group == group && one.api.version == version)
    {
        entries.push(one.discovery());
        if *one.api == kinds::POD {
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
        // Only the legacy group leaves out its own version.
        list["apiVersion"] = "v1".into();
        list["groupVersion"] = group_version(group, version).into();
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
            for (field, pointer) in one.fields {
                assert!(pointer.starts_with('/'), "{field}");
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
                "admissionregistration.k8s.io",
                "apiregistration.k8s.io",
                "apps",
                "authorization.k8s.io",
                "autoscaling",
                "batch",
                "discovery.k8s.io",
                "events.k8s.io",
                "networking.k8s.io",
                "policy",
                "storage.k8s.io"
            ]
        );
    }
}
