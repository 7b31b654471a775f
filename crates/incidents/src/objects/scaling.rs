//! What bounds the number of pods.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Condition, Meta, nullable};

/// Changes the number of pods by what they use.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct HorizontalPodAutoscaler {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: AutoscalerSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: AutoscalerStatus,
}

/// What an autoscaler may do.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerSpec {
    /// What it scales.
    #[serde(deserialize_with = "nullable")]
    pub scale_target_ref: ScaleTarget,
    /// The API server's default is one.
    pub min_replicas: Option<i64>,
    /// At most.
    #[serde(deserialize_with = "nullable")]
    pub max_replicas: i64,
}

/// What an autoscaler scales.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ScaleTarget {
    /// `Deployment`, `StatefulSet`, or any custom kind.
    #[serde(deserialize_with = "nullable")]
    pub kind: Box<str>,
    /// Its name, in the namespace of the autoscaler.
    #[serde(deserialize_with = "nullable")]
    pub name: std::sync::Arc<str>,
}

/// What an autoscaler does.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerStatus {
    /// Pods that there are.
    #[serde(deserialize_with = "nullable")]
    pub current_replicas: i64,
    /// Pods that it wants.
    #[serde(deserialize_with = "nullable")]
    pub desired_replicas: i64,
    /// `ScalingActive`, `AbleToScale`, `ScalingLimited`.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

/// Keeps drains from taking too many pods.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct PodDisruptionBudget {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: BudgetSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: BudgetStatus,
}

/// Which pods a budget is about.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct BudgetSpec {
    /// Its pods.
    #[serde(deserialize_with = "nullable")]
    pub selector: super::workload::Selector,
}

/// How many pods may go.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct BudgetStatus {
    /// So many may go now.
    #[serde(deserialize_with = "nullable")]
    pub disruptions_allowed: i64,
    /// Pods that are healthy.
    #[serde(deserialize_with = "nullable")]
    pub current_healthy: i64,
    /// Pods that have to be.
    #[serde(deserialize_with = "nullable")]
    pub desired_healthy: i64,
    /// Pods that count.
    #[serde(deserialize_with = "nullable")]
    pub expected_pods: i64,
    /// `DisruptionAllowed`.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

/// What a namespace may use.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ResourceQuota {
    /// What every object has.
    pub metadata: Meta,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: QuotaStatus,
}

/// What a namespace uses.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct QuotaStatus {
    /// At most, as quantities.
    #[serde(deserialize_with = "nullable")]
    pub hard: BTreeMap<Box<str>, Value>,
    /// Now, as quantities.
    #[serde(deserialize_with = "nullable")]
    pub used: BTreeMap<Box<str>, Value>,
}
