//! Pods, and what they name.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSpec, PodStatus};
use serde::{Deserialize, de::IgnoredAny};

use super::{Object, Shape, nullable, status_line};
use crate::pods;
use kubecrier_topology::{Kind, ObjectId, Reference, Relation};

/// Every pod has it, so it says nothing of any.
const IN_EVERY_POD: &str = "kube-root-ca.crt";

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
    image_pull_secrets: Vec<Ref>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SlimContainer {
    #[serde(deserialize_with = "nullable")]
    name: String,
    restart_policy: Option<String>,
    #[serde(deserialize_with = "nullable")]
    env: Vec<Variable>,
    #[serde(deserialize_with = "nullable")]
    env_from: Vec<Variables>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Variable {
    value_from: Option<ValueFrom>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ValueFrom {
    config_map_key_ref: Option<Ref>,
    secret_key_ref: Option<Ref>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Variables {
    config_map_ref: Option<Ref>,
    secret_ref: Option<Ref>,
}

/// Something that is named.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Ref {
    #[serde(deserialize_with = "nullable")]
    pub(super) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Volume {
    #[serde(deserialize_with = "nullable")]
    name: String,
    config_map: Option<Ref>,
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
    config_map: Option<Ref>,
    secret: Option<Ref>,
}

impl Shape for Pod {
    fn status(&self) -> String {
        // As pods_list says it, from as much of the spec as that looks at.
        let plain = |one: &SlimContainer| Container {
            name: one.name.clone(),
            restart_policy: one.restart_policy.clone(),
            ..Container::default()
        };
        let spec = PodSpec {
            containers: self.spec.containers.iter().map(plain).collect(),
            init_containers: Some(self.spec.init_containers.iter().map(plain).collect()),
            ..PodSpec::default()
        };
        let deleting = self.metadata.deletion_timestamp.is_some();
        let is = pods::summary(&spec, &self.status, deleting);
        status_line::pod(&is.status, is.ready, is.containers, is.restarts)
    }

    fn claims(&self, namespace: &str) -> Vec<Reference> {
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
    /// What its containers read or keep: volumes, variables, pull secrets.
    fn mounted(&self) -> BTreeSet<(Kind, String)> {
        let mut all = BTreeSet::new();
        let mut add = |kind: Kind, name: Option<&str>| {
            let name = name.filter(|name| !name.is_empty() && *name != IN_EVERY_POD);
            all.extend(name.map(|name| (kind, name.to_owned())));
        };
        let name = |one: &'_ Option<Ref>| one.as_ref().map(|one| one.name.clone());
        for volume in &self.spec.volumes {
            add(Kind::ConfigMap, name(&volume.config_map).as_deref());
            let secret = volume.secret.as_ref().map(|one| one.secret_name.as_str());
            add(Kind::Secret, secret);
            let claim = volume.persistent_volume_claim.as_ref();
            let claim = claim.map(|one| one.claim_name.clone());
            // What is made for the pod is called after it.
            let own = || format!("{}-{}", self.metadata.name, volume.name);
            let claim = claim.or_else(|| volume.ephemeral.map(|_| own()));
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
