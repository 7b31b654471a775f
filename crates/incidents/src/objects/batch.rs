//! Pods that come to an end.

use jiff::Timestamp;
use serde::Deserialize;

use super::{Condition, Meta, count, nullable, time};

/// Runs pods until enough of them succeeded.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Job {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: JobSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: JobStatus,
}

/// What is wanted of a Job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpec {
    /// Whether it waits for a person or a queue.
    #[serde(deserialize_with = "nullable")]
    pub suspend: bool,
    /// How many pods at a time; the API server's default is one.
    pub parallelism: Option<i64>,
}

/// How far a Job is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    /// `Complete`, `Failed`, `Suspended`.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    /// Pods that run or wait.
    #[serde(deserialize_with = "nullable")]
    pub active: i64,
    /// Pods that succeeded.
    #[serde(deserialize_with = "nullable")]
    pub succeeded: i64,
    /// Pods that failed.
    #[serde(deserialize_with = "nullable")]
    pub failed: i64,
    /// When the controller took it on.
    #[serde(deserialize_with = "time")]
    pub start_time: Option<Timestamp>,
    /// When it was complete.
    #[serde(deserialize_with = "time")]
    pub completion_time: Option<Timestamp>,
}

/// Starts Jobs by the clock.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct CronJob {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: CronJobSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: CronJobStatus,
}

/// When a CronJob starts Jobs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJobSpec {
    /// Five fields, as cron has them.
    #[serde(deserialize_with = "nullable")]
    pub schedule: Box<str>,
    /// Of the schedule; empty is that of the controller.
    #[serde(deserialize_with = "nullable")]
    pub time_zone: Box<str>,
    /// Whether it rests.
    #[serde(deserialize_with = "nullable")]
    pub suspend: bool,
    /// `Allow`, `Forbid` or `Replace`.
    #[serde(deserialize_with = "nullable")]
    pub concurrency_policy: Box<str>,
    /// Seconds after which a start counts as missed.
    pub starting_deadline_seconds: Option<i64>,
}

/// When a CronJob started Jobs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJobStatus {
    /// The last start.
    #[serde(deserialize_with = "time")]
    pub last_schedule_time: Option<Timestamp>,
    /// The last Job that succeeded.
    #[serde(deserialize_with = "time")]
    pub last_successful_time: Option<Timestamp>,
    /// Jobs that run.
    #[serde(deserialize_with = "count")]
    pub active: usize,
}

// === impl Job ===

impl Job {
    /// The condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        super::condition(&self.status.conditions, kind)
    }

    /// Whether it is over, well or not.
    pub fn is_over(&self) -> bool {
        let over = |kind| self.condition(kind).is_some_and(Condition::is_true);
        over("Complete") || over("Failed")
    }
}
