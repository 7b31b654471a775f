//! A pod as a row needs it. A pod of a real cluster has some 10 KiB, most of them variables,
//! volumes and `managedFields`, and to parse those takes longer than anything else that is
//! done for a list.

use std::borrow::Cow;

use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::PodStatus,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::Resource;
use serde::{Deserialize, Deserializer, de::IgnoredAny};

use super::read::{Container, Pod, PodSpec};

/// The fields of a pod that a row is made of.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListedPod {
    #[serde(deserialize_with = "meta")]
    metadata: ObjectMeta,
    spec: ListedSpec,
    status: Option<PodStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListedSpec {
    node_name: Option<String>,
    containers: Option<Vec<IgnoredAny>>,
    init_containers: Option<Vec<ListedContainer>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListedContainer {
    name: String,
    restart_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListedMeta {
    name: Option<String>,
    namespace: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
}

fn meta<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let meta = ListedMeta::deserialize(from)?;
    Ok(ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        creation_timestamp: meta.creation_timestamp,
        deletion_timestamp: meta.deletion_timestamp,
        ..ObjectMeta::default()
    })
}

impl From<ListedPod> for Pod {
    /// A pod with those fields, and without the others.
    fn from(listed: ListedPod) -> Self {
        let ListedPod {
            metadata,
            spec,
            status,
        } = listed;
        let container = |one: ListedContainer| Container {
            name: one.name,
            restart_policy: one.restart_policy,
            ..Container::default()
        };
        let init_containers = spec.init_containers.into_iter().flatten().map(container);
        let containers = spec.containers.map_or(0, |declared| declared.len());
        Self {
            metadata,
            spec: PodSpec {
                node_name: spec.node_name,
                containers: vec![Container::default(); containers],
                init_containers: init_containers.collect(),
                ..PodSpec::default()
            },
            status,
        }
    }
}

impl Resource for ListedPod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        <Pod as Resource>::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        <Pod as Resource>::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        <Pod as Resource>::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        <Pod as Resource>::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use kubecrier_redact::Redactor;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::pods::row;

    fn state() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(json!({})),
            Just(json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}})),
            "(CrashLoopBackOff|PodInitializing|)"
                .prop_map(|reason| json!({"waiting": {"reason": reason}})),
            (0..3_i32, "(Completed|Error|)").prop_map(|(exit_code, reason)| {
                let ended = "2026-01-01T00:00:09Z";
                json!({"terminated": {"exitCode": exit_code, "reason": reason, "finishedAt": ended}})
            }),
        ]
    }

    fn container() -> impl Strategy<Value = (Value, Value)> {
        let flags = (any::<bool>(), any::<bool>(), 0..4_i32, any::<bool>());
        (state(), state(), flags, "[ab]").prop_map(|(now, before, flags, name)| {
            let (ready, started, restarts, is_sidecar) = flags;
            let mut declared =
                json!({"name": name, "image": "a", "env": [{"name": "A", "value": "b"}]});
            if is_sidecar {
                declared["restartPolicy"] = "Always".into();
            }
            let status = json!({
                "name": name, "image": "a", "imageID": "b", "ready": ready, "started": started,
                "restartCount": restarts, "state": now, "lastState": before,
            });
            (declared, status)
        })
    }

    proptest! {
        /// What is left out of a pod is not missed in its row.
        #[test]
        fn a_row_is_the_same_from_a_part_of_the_pod(
            containers in prop::collection::vec(container(), 0..3),
            inits in prop::collection::vec(container(), 0..3),
            (phase, is_deleted, node) in ("(Pending|Running|Failed)", any::<bool>(), any::<bool>()),
        ) {
            let (containers, statuses): (Vec<_>, Vec<_>) = containers.into_iter().unzip();
            let (inits, init_statuses): (Vec<_>, Vec<_>) = inits.into_iter().unzip();
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": "web", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z",
                    "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
                },
                "spec": {"containers": containers, "initContainers": inits, "volumes": [{"name": "v"}]},
                "status": {
                    "phase": phase, "containerStatuses": statuses,
                    "initContainerStatuses": init_statuses,
                    "conditions": [{"type": "Initialized", "status": "True"}],
                },
            });
            if is_deleted {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
            }
            if node {
                pod["spec"]["nodeName"] = "node-1".into();
            }
            let whole: Pod = serde_json::from_value(pod.clone()).unwrap();
            let listed: ListedPod = serde_json::from_value(pod).unwrap();
            let redactor = Redactor::default();
            prop_assert_eq!(row(listed.into(), &redactor), row(whole, &redactor));
        }
    }
}
