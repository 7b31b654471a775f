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
        let failed = failed(context, job).filter(|_| !job.metadata.is_deleted());
        found.extend(failed.filter(|_| !is_superseded(context, job)));
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
    let since = context.since(failure.last_transition_time, job);
    let exit = last_exit(context, job);
    let what = match exit {
        Some(code) => format!("failed (exit {code})"),
        None => "failed".to_owned(),
    };
    let why = match last_words(context, job) {
        Some(said) => said,
        None => words(&failure.message),
    };
    let workload = context.state.top_owner(&id, &job.metadata);
    let symptom = Symptom::new("job", id, since, what);
    Some(
        symptom
            .reason(&failure.reason)
            .why(why)
            .certain()
            .of(workload),
    )
}

/// What the last pod of a Job said before it ended.
fn last_words(context: &Context<'_>, job: &Job) -> Option<String> {
    let mut pods = pods_of(context, job);
    pods.sort_by_key(|pod| pod.status.start_time.or(pod.metadata.creation_timestamp));
    let mut said = pods
        .iter()
        .rev()
        .map(|pod| super::pods::last_words_of(context, pod));
    said.find_map(|words| words)
}

/// The pods of a Job.
fn pods_of<'a>(context: &Context<'a>, job: &Job) -> Vec<&'a Arc<Pod>> {
    let top = context.state.top_owner(&job.object_ref(), &job.metadata);
    let pods = context.pods_of(&top).iter().copied();
    let mine = pods.filter(|pod| {
        let owner = context.state.owner("Pod", &pod.metadata);
        owner.is_some_and(|(kind, name)| kind == "Job" && name == job.metadata.name)
    });
    mine.collect()
}

/// The exit code of the last pod of a Job.
fn last_exit(context: &Context<'_>, job: &Job) -> Option<i32> {
    let ends = pods_of(context, job).into_iter().flat_map(|pod| {
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
    let owner = |job: &Job| {
        let owner = context.state.owner("Job", &job.metadata);
        owner.filter(|(kind, _)| kind == "CronJob")
    };
    let Some(cron_job) = owner(job) else {
        return false;
    };
    let began = |job: &Job| job.status.start_time.or(job.metadata.creation_timestamp);
    let mut others = context.state.jobs.in_namespace(&job.metadata.namespace);
    others.any(|other| {
        other.is_over() && began(other) > began(job) && owner(other).as_ref() == Some(&cron_job)
    })
}

/// A CronJob whose last run did not succeed and left no Job that would say so, or that missed
/// its time.
fn unsuccessful(context: &Context<'_>, job: &CronJob) -> Option<Symptom> {
    let status = &job.status;
    let id = job.object_ref();
    let born = context.born(job);
    let last = status.last_schedule_time;
    // When one of a copy was made, and so when it should have run first, nobody knows.
    let from = last.or_else(|| (!context.is_copy()).then_some(born));
    let refused = [
        "UnknownTimeZone",
        "UnparseableSchedule",
        "UnParseableCronJobSchedule",
    ];
    if let Some(event) = context.warning(job, &refused) {
        let since = context.since(event.first_seen(), job);
        let symptom = Symptom::new("cron-job", id, since, "has a schedule that nobody can read");
        return Some(symptom.why(words(&event.message)));
    }
    if let Some(due) = from.and_then(|from| next_run(&job.spec, from))
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
        let owner = context.state.owner("Job", &one.metadata);
        owner.is_some_and(|(kind, name)| kind == "CronJob" && name == job.metadata.name)
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
