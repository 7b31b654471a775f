//! Workloads and autoscalers.

use serde::{Deserialize, de::IgnoredAny};

use super::{GraphObject, Object, OwnerRef, nullable, status_line};
use kubecrier_topology::{Kind, ObjectId, Reference, Relation};

pub(in super::super) type ReplicaWorkload = Object<ReplicaSpec, ReplicaStatus>;
pub(in super::super) type DaemonSet = Object<IgnoredAny, DaemonStatus>;
pub(in super::super) type Job = Object<JobSpec, JobStatus>;
pub(in super::super) type CronJob = Object<CronSpec, IgnoredAny>;
pub(in super::super) type Autoscaler = Object<ScaleSpec, ScaleStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct ReplicaSpec {
    replicas: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    paused: bool,
    strategy: Option<IgnoredAny>,
    update_strategy: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct ReplicaStatus {
    #[serde(deserialize_with = "nullable")]
    ready_replicas: i64,
    updated_replicas: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in super::super) struct Condition {
    #[serde(rename = "type", deserialize_with = "nullable")]
    kind: String,
    #[serde(deserialize_with = "nullable")]
    status: String,
    #[serde(deserialize_with = "nullable")]
    reason: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct DaemonStatus {
    #[serde(deserialize_with = "nullable")]
    number_ready: i64,
    #[serde(deserialize_with = "nullable")]
    desired_number_scheduled: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in super::super) struct JobSpec {
    #[serde(deserialize_with = "nullable")]
    suspend: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in super::super) struct JobStatus {
    #[serde(deserialize_with = "nullable")]
    active: i64,
    #[serde(deserialize_with = "nullable")]
    succeeded: i64,
    #[serde(deserialize_with = "nullable")]
    failed: i64,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in super::super) struct CronSpec {
    #[serde(deserialize_with = "nullable")]
    schedule: String,
    #[serde(deserialize_with = "nullable")]
    suspend: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct ScaleSpec {
    #[serde(deserialize_with = "nullable")]
    scale_target_ref: OwnerRef,
    min_replicas: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    max_replicas: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in super::super) struct ScaleStatus {
    #[serde(deserialize_with = "nullable")]
    current_replicas: i64,
}

fn true_condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    let mut conditions = conditions.iter();
    conditions.find(|condition| condition.kind == kind && condition.status == "True")
}

impl GraphObject for ReplicaWorkload {
    fn status(&self) -> String {
        let (spec, status) = (&self.spec, &self.status);
        // The API server writes this default into the spec, too.
        let desired = spec.replicas.unwrap_or(1);
        let mut conditions = status.conditions.iter();
        let stalled = conditions
            .find(|condition| condition.kind == "Progressing" && condition.status == "False");
        // A ReplicaSet has no rollouts. For the other kinds, a missing count is 0.
        let has_rollouts = spec.strategy.is_some() || spec.update_strategy.is_some();
        status_line::replicas(
            status.ready_replicas,
            desired,
            has_rollouts.then(|| status.updated_replicas.unwrap_or_default()),
            spec.paused,
            stalled.map(|condition| condition.reason.as_str()),
        )
    }
}

impl GraphObject for DaemonSet {
    fn status(&self) -> String {
        let DaemonStatus {
            number_ready,
            desired_number_scheduled,
        } = self.status;
        status_line::replicas(number_ready, desired_number_scheduled, None, false, None)
    }
}

impl GraphObject for Job {
    fn status(&self) -> String {
        let JobStatus {
            active,
            succeeded,
            failed,
            conditions,
        } = &self.status;
        if let Some(failed) = true_condition(conditions, "Failed") {
            return status_line::with_reason("Failed", &failed.reason);
        }
        let done = true_condition(conditions, "Complete").is_some();
        status_line::job(done, self.spec.suspend, *active, *succeeded, *failed)
    }
}

impl GraphObject for CronJob {
    fn status(&self) -> String {
        let suspended = if self.spec.suspend { ", suspended" } else { "" };
        format!("{}{suspended}", self.spec.schedule)
    }
}

impl GraphObject for Autoscaler {
    fn status(&self) -> String {
        let (min, max) = (self.spec.min_replicas.unwrap_or(1), self.spec.max_replicas);
        format!("{} of {min}-{max}", self.status.current_replicas)
    }

    fn references(&self, namespace: &str) -> Vec<Reference> {
        let target = &self.spec.scale_target_ref;
        let kind = Kind::exact(&target.kind, &target.api_version);
        let id = kind.map(|kind| ObjectId::new(kind, namespace, &target.name));
        id.map(|id| Reference::new(Relation::Scales, id))
            .into_iter()
            .collect()
    }
}
