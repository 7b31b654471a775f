//! Detectors of pods that have no node.

use jiff::{SignedDuration, Timestamp};

use super::super::Context;
use crate::{
    messages::{cause, words},
    objects::{Object, ObjectRef, Pod},
    symptom::{Severity, Symptom},
};

/// Time that a new node may take (seconds).
const SCALE_UP: i64 = 5 * 60;

/// A scheduler that runs has looked at a pod by then (seconds).
const UNNOTICED: i64 = 120;

/// A pod that no node takes.
pub(super) fn unscheduled(context: &Context<'_>, pod: &Pod) -> Option<Symptom> {
    let id = pod.object_ref();
    let Some(scheduled) = pod.condition("PodScheduled") else {
        let is_waiting = pod.spec.node_name.is_empty() && &*pod.status.phase == "Pending";
        let born = made(context, pod)?;
        if !is_waiting || context.ago(born) < SignedDuration::from_secs(UNNOTICED) {
            return None;
        }
        let what = "is not looked at by any scheduler";
        let why = format!("it asks for scheduler `{}`", pod.spec.scheduler_name);
        return Some(Symptom::new("unschedulable", id, born, what).why(why));
    };
    if !scheduled.is_false() {
        return None;
    }
    let since = context.since(scheduled.last_transition_time, pod);
    if &*scheduled.reason == "SchedulingGated" {
        let gates: Vec<_> = pod
            .spec
            .scheduling_gates
            .iter()
            .map(|gate| &*gate.name)
            .collect();
        let symptom = Symptom::new("scheduling-gate", id, since, "is held back");
        let symptom = symptom.reason("SchedulingGated");
        let why = format!("non-empty scheduling gates: {}", gates.join(", "));
        return Some(symptom.why(why).severity(Severity::Info));
    }
    let scaling = context.events(pod).any(|event| {
        &*event.reason == "TriggeredScaleUp" && context.within(event.last_seen(), SCALE_UP)
    });
    if scaling
        || !pod.status.nominated_node_name.is_empty() && context.within(Some(since), SCALE_UP)
    {
        return None;
    }
    let failed = context.warning(pod, &["FailedScheduling"]);
    let message = match &*scheduled.message {
        "" => failed.map_or("", |event| &event.message),
        message => message,
    };
    let cause = cause(&pod.metadata.namespace, message)
        .or_else(|| unbound(context, pod, message))
        .or_else(|| tainted(context, message));
    let symptom = Symptom::new("unschedulable", id, since, "cannot be scheduled");
    let symptom = symptom.reason("FailedScheduling");
    Some(symptom.why(words(message)).caused_by(cause))
}

/// When a pod was made that tells nothing itself. In a copy its owner may know; otherwise it is
/// new, as long as it waits for a scheduler that runs everywhere.
fn made(context: &Context<'_>, pod: &Pod) -> Option<Timestamp> {
    if !context.is_copy() {
        return Some(context.born(pod));
    }
    let owner = context.state.owner("Pod", &pod.metadata);
    let owner = owner.map(|(kind, name)| ObjectRef::new(kind, &pod.metadata.namespace, name));
    let events = owner.map_or(&[][..], |owner| context.state.events(&owner));
    let mine = events.iter().filter(|event| {
        &*event.reason == "SuccessfulCreate" && event.message.ends_with(&*pod.metadata.name)
    });
    let made = mine.filter_map(|event| event.first_seen()).min();
    let is_special = &*pod.spec.scheduler_name != "default-scheduler";
    made.or_else(|| is_special.then(|| context.born(pod)))
}

/// The claim that a pod waits for.
fn unbound(context: &Context<'_>, pod: &Pod, message: &str) -> Option<ObjectRef> {
    if !message.contains("unbound immediate PersistentVolumeClaims") {
        return None;
    }
    let namespace = &*pod.metadata.namespace;
    let pending = |name: &str| {
        let claim = context.state.claims.get(namespace, name);
        claim.is_some_and(|claim| &*claim.status.phase != "Bound")
    };
    let name = pod.claims().find(|name| pending(name))?;
    Some(ObjectRef::new(
        "PersistentVolumeClaim",
        namespace,
        name.clone(),
    ))
}

/// A node whose own state keeps pods away: the message names its taint, or gives no other reason
/// than taints.
fn tainted(context: &Context<'_>, message: &str) -> Option<ObjectRef> {
    // As in `1 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }`.
    let mut parts = message.split("untolerated taint");
    parts.next();
    let named: Vec<_> = parts
        .clone()
        .filter_map(|rest| rest.strip_prefix(" {")?.split([':', '}']).next())
        .collect();
    parts.next()?;
    let (_, reasons) = message.split_once(" available: ")?;
    let reasons = reasons.split(". ").next().unwrap_or(reasons);
    let only_taints = reasons.split(", ").all(|reason| reason.contains("taint"));
    let mut nodes = context.state.nodes.iter();
    let node = nodes.find(|node| {
        let mut taints = node.spec.taints.iter();
        taints.any(|taint| {
            let own = taint.key.strip_prefix("node.kubernetes.io/");
            let is_own = own.is_some_and(|key| key != "unschedulable");
            is_own && (named.contains(&&*taint.key) || named.is_empty() && only_taints)
        })
    })?;
    Some(node.object_ref())
}
