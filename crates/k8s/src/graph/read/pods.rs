//! Pods and their references.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodStatus;
use serde::{Deserialize, de::IgnoredAny};

use super::{GraphObject, Object, nullable, status_line};
use crate::pods::{
    self,
    read::{Container, PodSpec},
};
use kubecrier_topology::{Kind, ObjectId, Reference, Relation};

/// Every pod mounts it, so the reference carries no information.
const ROOT_CA_CONFIG_MAP: &str = "kube-root-ca.crt";

pub(in super::super) type Pod = Object<SlimPodSpec, PodStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct SlimPodSpec {
    node_name: Option<String>,
    #[serde(deserialize_with = "nullable")]
    containers: Vec<SlimContainer>,
    #[serde(deserialize_with = "nullable")]
    init_containers: Vec<SlimContainer>,
    #[serde(deserialize_with = "nullable")]
    volumes: Vec<Volume>,
    #[serde(deserialize_with = "nullable")]
    image_pull_secrets: Vec<LocalObjectReference>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SlimContainer {
    #[serde(deserialize_with = "nullable")]
    name: String,
    restart_policy: Option<String>,
    #[serde(deserialize_with = "nullable")]
    env: Vec<EnvVar>,
    #[serde(deserialize_with = "nullable")]
    env_from: Vec<EnvFromSource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EnvVar {
    value_from: Option<EnvVarSource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EnvVarSource {
    config_map_key_ref: Option<LocalObjectReference>,
    secret_key_ref: Option<LocalObjectReference>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EnvFromSource {
    config_map_ref: Option<LocalObjectReference>,
    secret_ref: Option<LocalObjectReference>,
}

/// A reference to an object in the same namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LocalObjectReference {
    #[serde(deserialize_with = "nullable")]
    pub(super) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Volume {
    #[serde(deserialize_with = "nullable")]
    name: String,
    config_map: Option<LocalObjectReference>,
    secret: Option<SecretVolume>,
    persistent_volume_claim: Option<ClaimVolume>,
    ephemeral: Option<IgnoredAny>,
    projected: Option<Projected>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SecretVolume {
    #[serde(deserialize_with = "nullable")]
    secret_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimVolume {
    #[serde(deserialize_with = "nullable")]
    claim_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Projected {
    #[serde(deserialize_with = "nullable")]
    sources: Vec<ProjectedSource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ProjectedSource {
    config_map: Option<LocalObjectReference>,
    secret: Option<LocalObjectReference>,
}

impl GraphObject for Pod {
    fn status(&self) -> String {
        // The same status as pods_list, from the fields of the spec that it depends on.
        let to_container = |one: &SlimContainer| Container {
            name: one.name.clone(),
            restart_policy: one.restart_policy.clone(),
            ..Container::default()
        };
        let spec = PodSpec {
            containers: self.spec.containers.iter().map(to_container).collect(),
            init_containers: self.spec.init_containers.iter().map(to_container).collect(),
            ..PodSpec::default()
        };
        let deleting = self.metadata.deletion_timestamp.is_some();
        let summary = pods::summary(&spec, &self.status, deleting);
        status_line::pod(
            &summary.status,
            summary.ready,
            summary.containers,
            summary.restarts,
        )
    }

    fn references(&self, namespace: &str) -> Vec<Reference> {
        let spec = &self.spec;
        let node = spec.node_name.as_deref().filter(|name| !name.is_empty());
        let node =
            node.map(|name| Reference::new(Relation::RunsOn, ObjectId::new(Kind::Node, "", name)));
        let mounted = self.mounted().into_iter();
        let mounted = mounted.map(|(kind, name)| ObjectId::new(kind, namespace, &name));
        let mounted = mounted.map(|id| Reference::new(Relation::Mounts, id));
        node.into_iter().chain(mounted).collect()
    }
}

impl Pod {
    /// The ConfigMaps, Secrets and claims of its volumes, variables and pull secrets.
    fn mounted(&self) -> BTreeSet<(Kind, String)> {
        let mut all = BTreeSet::new();
        let mut add = |kind: Kind, name: Option<&str>| {
            let name = name.filter(|name| !name.is_empty() && *name != ROOT_CA_CONFIG_MAP);
            all.extend(name.map(|name| (kind, name.to_owned())));
        };
        let name = |one: &'_ Option<LocalObjectReference>| one.as_ref().map(|one| one.name.clone());
        for volume in &self.spec.volumes {
            add(Kind::ConfigMap, name(&volume.config_map).as_deref());
            let secret = volume.secret.as_ref().map(|one| one.secret_name.as_str());
            add(Kind::Secret, secret);
            let claim = volume.persistent_volume_claim.as_ref();
            let claim = claim.map(|one| one.claim_name.clone());
            // The claim of an ephemeral volume has a generated name.
            let generated_name = || format!("{}-{}", self.metadata.name, volume.name);
            let claim = claim.or_else(|| volume.ephemeral.map(|_| generated_name()));
            add(Kind::PersistentVolumeClaim, claim.as_deref());
            for source in volume.projected.iter().flat_map(|one| &one.sources) {
                add(Kind::ConfigMap, name(&source.config_map).as_deref());
                add(Kind::Secret, name(&source.secret).as_deref());
            }
        }
        for secret in &self.spec.image_pull_secrets {
            add(Kind::Secret, Some(&secret.name));
        }
        let containers = self
            .spec
            .containers
            .iter()
            .chain(&self.spec.init_containers);
        for container in containers {
            for from in container
                .env
                .iter()
                .filter_map(|one| one.value_from.as_ref())
            {
                add(Kind::ConfigMap, name(&from.config_map_key_ref).as_deref());
                add(Kind::Secret, name(&from.secret_key_ref).as_deref());
            }
            for from in &container.env_from {
                add(Kind::ConfigMap, name(&from.config_map_ref).as_deref());
                add(Kind::Secret, name(&from.secret_ref).as_deref());
            }
        }
        all
    }
}
