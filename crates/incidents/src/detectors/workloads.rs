//! Detectors of what keeps a number of pods running.

use jiff::{SignedDuration, Timestamp};

use super::Context;
use crate::{
    messages::{explain, webhook, words},
    objects::{Condition, DaemonSet, Deployment, Meta, Object, ObjectRef, StatefulSet, condition},
    symptom::{Severity, Symptom},
};

/// Time for some pods of several to become available (seconds).
const PARTLY: i64 = 5 * 60;

pub(super) fn detect(context: &Context<'_>, found: &mut Vec<Symptom>) {
    for one in context.state.deployments.iter() {
        found.extend(deployment(context, one));
    }
    for one in context.state.stateful_sets.iter() {
        found.extend(stateful_set(context, one));
    }
    for one in context.state.daemon_sets.iter() {
        found.extend(daemon_set(context, one));
    }
    cannot_create(context, found);
}

fn deployment(context: &Context<'_>, one: &Deployment) -> Option<Symptom> {
    let (spec, status) = (&one.spec, &one.status);
    if one.metadata.is_deleted() || one.metadata.generation > status.observed_generation {
        return None;
    }
    let id = one.object_ref();
    let progressing = condition(&status.conditions, "Progressing");
    if let Some(stuck) = progressing.filter(|one| &*one.reason == "ProgressDeadlineExceeded")
        && stuck.is_false()
        && !spec.paused
    {
        let since = stuck.last_transition_time.unwrap_or(context.now);
        let what = format!(
            "rollout is stuck past its deadline ({} of {} pods updated)",
            status.updated_replicas,
            spec.wanted()
        );
        return Some(missing(
            Symptom::new("rollout", id, since, what),
            status.available_replicas,
        ));
    }
    let available = condition(&status.conditions, "Available");
    let since = available
        .filter(|one| one.is_false())
        .and_then(|one| one.last_transition_time);
    short_of(
        context,
        &one.metadata,
        id,
        (status.available_replicas, spec.wanted()),
        since,
    )
}

fn stateful_set(context: &Context<'_>, one: &StatefulSet) -> Option<Symptom> {
    let (spec, status) = (&one.spec, &one.status);
    if one.metadata.is_deleted() || one.metadata.generation > status.observed_generation {
        return None;
    }
    // Older clusters do not count available pods of StatefulSets.
    let available = status.available_replicas.max(status.ready_replicas);
    let numbers = (available, spec.wanted());
    short_of(context, &one.metadata, one.object_ref(), numbers, None)
}

fn daemon_set(context: &Context<'_>, one: &DaemonSet) -> Option<Symptom> {
    let status = &one.status;
    if one.metadata.is_deleted() || one.metadata.generation > status.observed_generation {
        return None;
    }
    let numbers = (status.number_available, status.desired_number_scheduled);
    short_of(context, &one.metadata, one.object_ref(), numbers, None)
}

/// A workload with fewer pods than it wants.
fn short_of(
    context: &Context<'_>,
    meta: &Meta,
    id: ObjectRef,
    (available, wanted): (i64, i64),
    told: Option<Timestamp>,
) -> Option<Symptom> {
    if available >= wanted || wanted == 0 {
        return None;
    }
    if available > 0 && available + standing_by(context, &id) >= wanted {
        return None;
    }
    let since = told.unwrap_or_else(|| short_since(context, meta, &id));
    if available > 0 && context.ago(since) < SignedDuration::from_secs(PARTLY) {
        return None;
    }
    let what = match available {
        0 => format!("has none of {wanted} pods available"),
        some => format!("has {some} of {wanted} pods available"),
    };
    Some(missing(
        Symptom::new("replicas", id, since, what),
        available,
    ))
}

/// Pods that are not ready and need not be.
fn standing_by(context: &Context<'_>, id: &ObjectRef) -> i64 {
    let pods = context.state.pods_of(id);
    let standing = pods.filter(|pod| super::pods::is_standby(context, pod));
    i64::try_from(standing.count()).unwrap_or(i64::MAX)
}

/// Since when pods are missing: the youngest sign of any of them.
fn short_since(context: &Context<'_>, meta: &Meta, id: &ObjectRef) -> Timestamp {
    let unready = context.state.pods_of(id).filter(|pod| !pod.is_ready());
    let since = unready.filter_map(|pod| {
        let ready = pod
            .condition("Ready")
            .and_then(|one| one.last_transition_time);
        ready.or(pod.metadata.creation_timestamp)
    });
    since.min().unwrap_or_else(|| context.born(meta))
}

fn missing(symptom: Symptom, available: i64) -> Symptom {
    match available {
        0 => symptom.severity(Severity::Critical),
        _ => symptom,
    }
}

/// Controllers that may not create pods.
fn cannot_create(context: &Context<'_>, found: &mut Vec<Symptom>) {
    for set in context.state.replica_sets.iter() {
        let failure = condition(&set.status.conditions, "ReplicaFailure");
        let Some(failure) = failure.filter(|one| one.is_true()) else {
            continue;
        };
        if set.metadata.is_deleted() || set.spec.wanted() == 0 {
            continue;
        }
        let since = failure.last_transition_time.unwrap_or(context.now);
        let id = set.object_ref();
        found.push(refused(context, id, &set.metadata, since, failure));
    }
    let sets = context
        .state
        .stateful_sets
        .iter()
        .filter(|set| !set.metadata.is_deleted() && set.status.replicas < set.spec.wanted());
    for set in sets {
        found.extend(refused_by_event(context, set.object_ref(), &set.metadata));
    }
    let sets = context.state.daemon_sets.iter().filter(|set| {
        let status = &set.status;
        !set.metadata.is_deleted()
            && status.current_number_scheduled < status.desired_number_scheduled
    });
    for set in sets {
        found.extend(refused_by_event(context, set.object_ref(), &set.metadata));
    }
    let jobs = context.state.jobs.iter().filter(|job| {
        let status = &job.status;
        !job.metadata.is_deleted()
            && !job.is_over()
            && !job.spec.suspend
            && status.active == 0
            && status.succeeded == 0
    });
    for job in jobs {
        found.extend(refused_by_event(context, job.object_ref(), &job.metadata));
    }
}

/// A controller without a condition for it: pods are missing, and an event says why.
fn refused_by_event(context: &Context<'_>, id: ObjectRef, meta: &Meta) -> Option<Symptom> {
    let event = context.state.warning(&id, meta, &["FailedCreate"])?;
    let since = event.first_seen().unwrap_or(context.now);
    let failure = Condition {
        message: event.message.clone(),
        ..Condition::default()
    };
    Some(refused(context, id, meta, since, &failure))
}

fn refused(
    context: &Context<'_>,
    id: ObjectRef,
    meta: &Meta,
    since: Timestamp,
    failure: &Condition,
) -> Symptom {
    let said = explain(&id.namespace, &failure.message);
    let hook = webhook(&failure.message).and_then(|name| configuration(context, name));
    let why = reason(&failure.message);
    let workload = context.state.top_owner(&id, meta);
    let symptom = Symptom::new("cannot-create", id, since, "cannot create pods");
    symptom
        .why(why)
        .caused_by(said.cause.or(hook))
        .certain()
        .of(workload)
}

/// The configuration that a webhook is in.
fn configuration(context: &Context<'_>, webhook: &str) -> Option<ObjectRef> {
    let mut all = context.state.webhooks.iter();
    let found = all.find(|(_, hooks)| hooks.webhooks.iter().any(|one| &*one.name == webhook));
    found.map(|(id, _)| id.clone())
}

/// What the API server says, without the name of a pod that never was.
fn reason(message: &str) -> String {
    let rest = match message
        .strip_prefix("pods \"")
        .and_then(|rest| rest.split_once("\" "))
    {
        Some((_, rest)) => rest,
        None => message,
    };
    words(rest.strip_prefix("is forbidden: ").unwrap_or(rest))
}
