//! Detectors of what keeps a number of pods running.

use jiff::{SignedDuration, Timestamp};

use super::Context;
use crate::{
    messages::{explain, webhook, words},
    objects::{Condition, DaemonSet, Deployment, Object, ObjectRef, StatefulSet, condition},
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
        let since = context.since(stuck.last_transition_time, one);
        let what = format!(
            "rollout is stuck past its deadline ({} of {} pods updated)",
            status.updated_replicas,
            spec.wanted()
        );
        return Some(missing(
            Symptom::new("rollout", id, since, what).reason("ProgressDeadlineExceeded"),
            status.available_replicas,
        ));
    }
    let available = condition(&status.conditions, "Available");
    let since = available
        .filter(|one| one.is_false())
        .and_then(|one| one.last_transition_time);
    let numbers = (status.available_replicas, spec.wanted());
    short_of(context, one, numbers, since)
}

fn stateful_set(context: &Context<'_>, one: &StatefulSet) -> Option<Symptom> {
    let (spec, status) = (&one.spec, &one.status);
    if one.metadata.is_deleted() || one.metadata.generation > status.observed_generation {
        return None;
    }
    // Older clusters do not count available pods of StatefulSets.
    let available = status.available_replicas.max(status.ready_replicas);
    let numbers = (available, spec.wanted());
    short_of(context, one, numbers, None)
}

fn daemon_set(context: &Context<'_>, one: &DaemonSet) -> Option<Symptom> {
    let status = &one.status;
    if one.metadata.is_deleted() || one.metadata.generation > status.observed_generation {
        return None;
    }
    let numbers = (status.number_available, status.desired_number_scheduled);
    short_of(context, one, numbers, None)
}

/// A workload with fewer pods than it wants.
fn short_of(
    context: &Context<'_>,
    object: &impl Object,
    (available, wanted): (i64, i64),
    told: Option<Timestamp>,
) -> Option<Symptom> {
    let id = object.object_ref();
    if available >= wanted || wanted == 0 {
        return None;
    }
    if available > 0 && available + standing_by(context, &id) >= wanted {
        return None;
    }
    let told = told.or_else(|| short_since(context, &id));
    let since = context.since(told, object);
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
    let pods = context.pods_of(id).iter();
    let standing = pods.filter(|pod| super::pods::is_standby(context, pod));
    i64::try_from(standing.count()).unwrap_or(i64::MAX)
}

/// Since when pods are missing: the oldest sign of any of them.
fn short_since(context: &Context<'_>, id: &ObjectRef) -> Option<Timestamp> {
    let pods = context.pods_of(id).iter();
    let unready = pods.filter(|pod| !pod.is_ready());
    let since = unready.map(|pod| {
        let ready = pod.condition("Ready");
        context.since(ready.and_then(|one| one.last_transition_time), &***pod)
    });
    since.min()
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
        let since = context.since(failure.last_transition_time, &**set);
        found.push(refused(context, &**set, since, failure));
    }
    let sets = context
        .state
        .stateful_sets
        .iter()
        .filter(|set| !set.metadata.is_deleted() && set.status.replicas < set.spec.wanted());
    for set in sets {
        found.extend(refused_by_event(context, &**set));
    }
    let sets = context.state.daemon_sets.iter().filter(|set| {
        let status = &set.status;
        !set.metadata.is_deleted()
            && status.current_number_scheduled < status.desired_number_scheduled
    });
    for set in sets {
        found.extend(refused_by_event(context, &**set));
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
        found.extend(refused_by_event(context, &**job));
    }
}

/// A controller without a condition for it: pods are missing, and an event says why.
fn refused_by_event(context: &Context<'_>, object: &impl Object) -> Option<Symptom> {
    let event = context.warning(object, &["FailedCreate"])?;
    let since = context.since(event.first_seen(), object);
    let failure = Condition {
        message: event.message.clone(),
        ..Condition::default()
    };
    Some(refused(context, object, since, &failure))
}

fn refused(
    context: &Context<'_>,
    object: &impl Object,
    since: Timestamp,
    failure: &Condition,
) -> Symptom {
    let id = object.object_ref();
    let said = explain(&id.namespace, &failure.message);
    let hook = webhook(&failure.message).and_then(|name| configuration(context, name));
    let why = reason(&failure.message);
    let workload = context.state.top_owner(&id, object.meta());
    let symptom = Symptom::new("cannot-create", id, since, "cannot create pods");
    let symptom = symptom.reason("FailedCreate");
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
