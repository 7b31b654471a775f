//! Detectors of Jobs and CronJobs.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Context;
use crate::{
    messages::words,
    objects::{CronJob, CronJobSpec, Job, Object, Pod},
    symptom::{Severity, Symptom},
};

/// Time for the controller to start a Job (seconds).
const LATE: i64 = 120;

pub(super) fn detect(context: &Context<'_>, found: &mut Vec<Symptom>) {
    for job in context.state.jobs.iter() {
        if !job.metadata.is_deleted() && !is_superseded(context, job) {
            found.extend(failed(context, job));
        }
    }
    for job in context.state.cron_jobs.iter() {
        if !job.metadata.is_deleted() && !job.spec.suspend {
            found.extend(unsuccessful(context, job));
        }
    }
}

fn failed(context: &Context<'_>, job: &Job) -> Option<Symptom> {
    let failure = job
        .condition("Failed")
        .filter(|failure| failure.is_true())?;
    let id = job.object_ref();
    let since = failure.last_transition_time.unwrap_or(context.now);
    let exit = last_exit(context, job);
    let what = match exit {
        Some(code) => format!("failed (exit {code})"),
        None => "failed".to_owned(),
    };
    let why = match last_words(context, job) {
        Some(said) => format!("{}: {said}", failure.reason),
        None => format!("{}: {}", failure.reason, words(&failure.message)),
    };
    let workload = context.state.top_owner(&id, &job.metadata);
    let symptom = Symptom::new("job", id, since, what);
    Some(
        symptom
            .why(why.trim_end_matches([':', ' ']))
            .certain()
            .of(workload),
    )
}

/// What the last pod of a Job said before it ended.
fn last_words(context: &Context<'_>, job: &Job) -> Option<String> {
    let mut pods: Vec<_> = pods_of(context, job).collect();
    pods.sort_by_key(|pod| pod.metadata.creation_timestamp);
    let mut said = pods
        .iter()
        .rev()
        .map(|pod| super::pods::last_words_of(context, pod));
    said.find_map(|words| words)
}

/// The pods of a Job.
fn pods_of<'a>(context: &Context<'a>, job: &'a Job) -> impl Iterator<Item = &'a Arc<Pod>> {
    let pods = context.state.pods.in_namespace(&job.metadata.namespace);
    pods.filter(|pod| {
        let owner = pod.metadata.controller();
        owner.is_some_and(|owner| &*owner.kind == "Job" && owner.name == job.metadata.name)
    })
}

/// The exit code of the last pod of a Job.
fn last_exit(context: &Context<'_>, job: &Job) -> Option<i32> {
    let ends = pods_of(context, job).flat_map(|pod| {
        let containers = pod.status.container_statuses.iter();
        containers.filter_map(|status| status.state.terminated.as_ref())
    });
    let last = ends
        .filter(|ended| ended.exit_code != 0)
        .max_by_key(|ended| ended.finished_at)?;
    Some(last.exit_code)
}

/// Whether a later Job of the same CronJob has begun: that one decides.
fn is_superseded(context: &Context<'_>, job: &Job) -> bool {
    let Some(owner) = job
        .metadata
        .controller()
        .filter(|owner| &*owner.kind == "CronJob")
    else {
        return false;
    };
    let born = job.metadata.creation_timestamp;
    let mut others = context.state.jobs.in_namespace(&job.metadata.namespace);
    others.any(|other| {
        let same = other
            .metadata
            .controller()
            .is_some_and(|one| one.uid == owner.uid);
        same && other.metadata.creation_timestamp > born && other.is_over()
    })
}

/// A CronJob whose last run did not succeed and left no Job that would say so, or that missed
/// its time.
fn unsuccessful(context: &Context<'_>, job: &CronJob) -> Option<Symptom> {
    let status = &job.status;
    let id = job.object_ref();
    let born = context.born(&job.metadata);
    let last = status.last_schedule_time;
    let refused = [
        "UnknownTimeZone",
        "UnparseableSchedule",
        "UnParseableCronJobSchedule",
    ];
    if let Some(event) = context.state.warning(&id, &job.metadata, &refused) {
        let since = event.first_seen().unwrap_or(born);
        let symptom = Symptom::new("cron-job", id, since, "has a schedule that nobody can read");
        return Some(symptom.why(words(&event.message)));
    }
    if let Some(due) = next_run(&job.spec, last.unwrap_or(born))
        && due < context.now
    {
        let deadline = job.spec.starting_deadline_seconds.unwrap_or(0).max(0);
        let is_late = context.ago(due) >= SignedDuration::from_secs(deadline.saturating_add(LATE));
        if is_late && status.active == 0 {
            return Some(Symptom::new("cron-job", id, due, "missed its schedule"));
        }
        if is_late && &*job.spec.concurrency_policy == "Forbid" {
            let what = "missed its schedule: a run before it has not ended";
            let symptom = Symptom::new("cron-job", id, due, what);
            let symptom = symptom.why("concurrencyPolicy is Forbid");
            // A run may take longer than its period, once.
            return Some(symptom.severity(Severity::Info));
        }
    }
    let last = last?;
    let succeeded = status.last_successful_time;
    if status.active > 0 || succeeded.is_some_and(|time| time >= last) {
        return None;
    }
    let mut jobs = context.state.jobs.in_namespace(&job.metadata.namespace);
    // Its Job is judged by itself.
    if jobs.any(|one| {
        let owner = one.metadata.controller();
        owner.is_some_and(|owner| owner.uid == job.metadata.uid)
    }) {
        return None;
    }
    let what = "did not succeed in its last run";
    Some(Symptom::new("cron-job", id, last, what))
}

/// When a schedule is due after a time; none if nobody can tell.
fn next_run(spec: &CronJobSpec, after: Timestamp) -> Option<Timestamp> {
    let zone = match &*spec.time_zone {
        "" => "UTC",
        zone => zone,
    };
    let schedule = cronexpr::parse_crontab(&format!("{} {zone}", spec.schedule)).ok()?;
    let next = schedule.find_next(after.to_string().as_str()).ok()?;
    Some(next.timestamp())
}
