//! What makes pods, and what makes more of them.

use serde::{Deserialize, de::IgnoredAny};

use super::{Object, Owner, Shape, nullable, status_line};
use kubecrier_topology::{Kind, ObjectId, Reference, Relation};

pub(in super::super) type Replicated = Object<ReplicaSpec, ReplicaStatus>;
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
    scale_target_ref: Owner,
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

fn is_true<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    let mut conditions = conditions.iter();
    conditions.find(|one| one.kind == kind && one.status == "True")
}

impl Shape for Replicated {
    fn status(&self) -> String {
        let (spec, status) = (&self.spec, &self.status);
        // The API server writes it down even where nobody did.
        let wanted = spec.replicas.unwrap_or(1);
        let mut conditions = status.conditions.iter();
        let stuck = conditions.find(|one| one.kind == "Progressing" && one.status == "False");
        // A revision replaces nothing; for what does, nothing said is none so far.
        let replaces = spec.strategy.is_some() || spec.update_strategy.is_some();
        status_line::replicas(
            status.ready_replicas,
            wanted,
            replaces.then(|| status.updated_replicas.unwrap_or_default()),
            spec.paused,
            stuck.map(|one| one.reason.as_str()),
        )
    }
}

impl Shape for DaemonSet {
    fn status(&self) -> String {
        let DaemonStatus {
            number_ready,
            desired_number_scheduled,
        } = self.status;
        status_line::replicas(number_ready, desired_number_scheduled, None, false, None)
    }
}

impl Shape for Job {
    fn status(&self) -> String {
        let JobStatus {
            active,
            succeeded,
            failed,
            conditions,
        } = &self.status;
        if let Some(failed) = is_true(conditions, "Failed") {
            return status_line::with_reason("Failed", &failed.reason);
        }
        let done = is_true(conditions, "Complete").is_some();
        status_line::job(done, self.spec.suspend, *active, *succeeded, *failed)
    }
}

impl Shape for CronJob {
    fn status(&self) -> String {
        let suspended = if self.spec.suspend { ", suspended" } else { "" };
        format!("{}{suspended}", self.spec.schedule)
    }
}

impl Shape for Autoscaler {
    fn status(&self) -> String {
        let (least, most) = (self.spec.min_replicas.unwrap_or(1), self.spec.max_replicas);
        format!("{} of {least}-{most}", self.status.current_replicas)
    }

    fn claims(&self, namespace: &str) -> Vec<Reference> {
        let target = &self.spec.scale_target_ref;
        let kind = Kind::exact(&target.kind, &target.api_version);
        let id = kind.map(|kind| ObjectId::new(kind, namespace, &target.name));
        id.map(|id| Reference::new(Relation::Scales, id))
            .into_iter()
            .collect()
    }
}
