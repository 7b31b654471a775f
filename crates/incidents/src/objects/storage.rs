//! Volumes and the claims on them.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;

use super::{Condition, Meta, nullable};

/// A claim on storage.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: ClaimSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: VolumeStatus,
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimSpec {
    /// None is the cluster's default; empty is no class at all.
    pub storage_class_name: Option<Arc<str>>,
    /// The volume that it is bound to.
    #[serde(deserialize_with = "nullable")]
    pub volume_name: Arc<str>,
}

/// The state of a claim or of a volume.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeStatus {
    /// `Pending`, `Bound`, `Lost`; `Available`, `Released`, `Failed`.
    #[serde(deserialize_with = "nullable")]
    pub phase: Box<str>,
    /// One word for programs.
    #[serde(deserialize_with = "nullable")]
    pub reason: Box<str>,
    /// A sentence for people.
    #[serde(deserialize_with = "nullable")]
    pub message: Box<str>,
    /// Of a claim that is resized.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    /// How far that is, by resource: `NodeResizeInfeasible`.
    #[serde(deserialize_with = "nullable")]
    pub allocated_resource_statuses: BTreeMap<Box<str>, Box<str>>,
}

/// Storage.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct PersistentVolume {
    /// What every object has.
    pub metadata: Meta,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: VolumeStatus,
}

/// A kind of storage that a cluster offers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageClass {
    /// What every object has.
    pub metadata: Meta,
    /// `Immediate` or `WaitForFirstConsumer`.
    #[serde(deserialize_with = "nullable")]
    pub volume_binding_mode: Box<str>,
}
