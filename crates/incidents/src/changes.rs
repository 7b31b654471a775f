//! What changed shortly before an incident began, as far as the state tells: rollouts, scaling,
//! and changes of nodes.

mod revisions;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::{
    detectors::Context,
    incident::Change,
    messages::cut,
    objects::{Container, Deployment, Event, Node, Object, ObjectRef, Pod, ReplicaSet},
    symptom::Symptom,
};

/// How long before an incident a change may have caused it.
const BEFORE: SignedDuration = SignedDuration::from_mins(30);

/// Clocks differ, and a rollout is seen a moment after its first pod.
const AFTER: SignedDuration = SignedDuration::from_mins(2);

/// Changes that are told.
const CHANGES_MAX: usize = 5;

/// Bytes of what changed.
const WHAT_MAX: usize = 80;

/// What the events of nodes say about a change of them.
const NODE_CHANGES: [(&str, &str); 4] = [
    ("NodeNotSchedulable", "cordoned"),
    ("NodeSchedulable", "uncordoned"),
    ("Rebooted", "rebooted"),
    ("RegisteredNode", "joined"),
];

/// Detectors that a new template of pods can set off.
const BY_TEMPLATE: [&str; 14] = [
    "image-pull",
    "image-name",
    "config-missing",
    "cannot-start",
    "oom-loop",
    "crash-loop",
    "liveness",
    "mount",
    "init-hangs",
    "unschedulable",
    "not-ready",
    "rollout",
    "replicas",
    "cannot-create",
];

/// The newest revision of a Deployment.
#[derive(Debug)]
struct Rollout<'a> {
    set: &'a ReplicaSet,
    what: String,
    at: Timestamp,
}

/// The changes in the half hour before something began, those of the nearest objects first.
pub(crate) fn before(
    context: &Context<'_>,
    object: &ObjectRef,
    cause: &ObjectRef,
    lead: &Symptom,
    since: Timestamp,
) -> Vec<Change> {
    let mut near = vec![lead.workload.clone(), object.clone(), cause.clone()];
    let pod = context
        .state
        .pods
        .get(&lead.object.namespace, &lead.object.name);
    if let Some(pod) =
        pod.filter(|pod| &*lead.object.kind == "Pod" && !pod.spec.node_name.is_empty())
    {
        near.push(ObjectRef::new("Node", "", pod.spec.node_name.clone()));
    }
    let mut seen = Vec::new();
    let mut changes = Vec::new();
    for one in near {
        if !seen.contains(&one) {
            changes.extend(of(context, &one));
            seen.push(one);
        }
    }
    changes.retain(|change| is_near(change.at, since));
    if changes.len() < CHANGES_MAX && !object.namespace.is_empty() {
        let others = rollouts(context, &object.namespace).iter();
        let others = others.filter(|one| is_near(one.at, since) && !seen.contains(&one.object));
        changes.extend(others.take(CHANGES_MAX).cloned());
    }
    changes.truncate(CHANGES_MAX);
    changes
}

/// The rollouts of the Deployments of a namespace, the newest first.
fn rollouts<'c>(context: &'c Context<'_>, namespace: &str) -> &'c [Change] {
    context.rollouts(namespace, || {
        let all = context.state.deployments.in_namespace(namespace);
        let rollouts = all.filter_map(|one| {
            let rollout = rollout(context, one)?;
            Some(change(one.object_ref(), rollout.what, rollout.at))
        });
        let mut rollouts: Vec<_> = rollouts.collect();
        rollouts.sort_by_key(|change| std::cmp::Reverse(change.at));
        rollouts
    })
}

/// The rollout that explains what a symptom shows: that of its own workload, and of the
/// revision of its pod.
pub(crate) fn explaining<'a>(
    context: &Context<'_>,
    changes: &'a [Change],
    lead: &Symptom,
) -> Option<&'a Change> {
    let change = changes.first().filter(|change| {
        change.object == lead.workload
            && change.what.starts_with("rollout ")
            && BY_TEMPLATE.contains(&lead.detector)
    })?;
    let state = context.state;
    if matches!(&*lead.workload.kind, "StatefulSet" | "DaemonSet") {
        let newest = revisions::newest(context, &lead.workload)?;
        let pod = state.pods.get(&lead.object.namespace, &lead.object.name);
        let is_of_it = &*lead.object.kind != "Pod" || pod.is_some_and(|pod| newest.made(pod));
        return is_of_it.then_some(change);
    }
    let deployment = state
        .deployments
        .get(&lead.workload.namespace, &lead.workload.name)?;
    let newest = rollout(context, deployment)?;
    let is_of_it = match &*lead.object.kind {
        "Pod" => {
            let pod = state.pods.get(&lead.object.namespace, &lead.object.name);
            pod.is_some_and(|pod| is_of(context, pod, newest.set))
        }
        "ReplicaSet" => lead.object.name == newest.set.metadata.name,
        _ => true,
    };
    is_of_it.then_some(change)
}

fn is_near(at: Timestamp, since: Timestamp) -> bool {
    let before = since.duration_since(at);
    (-AFTER..=BEFORE).contains(&before)
}

/// What changed about one object, the newest first.
fn of(context: &Context<'_>, id: &ObjectRef) -> Vec<Change> {
    let state = context.state;
    let mut changes = match &*id.kind {
        "Deployment" => match state.deployments.get(&id.namespace, &id.name) {
            Some(one) => of_deployment(context, one),
            None => Vec::new(),
        },
        "StatefulSet" | "DaemonSet" => match revisions::newest(context, id) {
            Some(newest) => vec![change(id.clone(), newest.what, newest.at)],
            None => Vec::new(),
        },
        "Node" => match state.nodes.get("", &id.name) {
            Some(one) => of_node(context, one),
            None => Vec::new(),
        },
        _ => Vec::new(),
    };
    changes.extend(rescaled(context, id));
    changes
}

fn of_deployment(context: &Context<'_>, one: &Deployment) -> Vec<Change> {
    let id = one.object_ref();
    let rollout = rollout(context, one);
    let rolled = rollout.as_ref().map(|rollout| rollout.at);
    let mut changes: Vec<_> = rollout
        .map(|rollout| change(id.clone(), rollout.what, rollout.at))
        .into_iter()
        .collect();
    // A rollout scales as well: only what is scaled at another time is told.
    let scaled = context.events(one).rev().find(|event| {
        let apart = |at: Timestamp| {
            rolled.is_none_or(|rolled| at < rolled || at.duration_since(rolled) > BEFORE)
        };
        &*event.reason == "ScalingReplicaSet" && event.last_seen().is_some_and(apart)
    });
    changes.extend(scaled.and_then(|event| {
        let what = scaling(&event.message)?;
        Some(change(id, what, event.last_seen()?))
    }));
    changes
}

/// The newest revision, if it replaced another one.
fn rollout<'a>(context: &Context<'a>, one: &Deployment) -> Option<Rollout<'a>> {
    let sets = context.replica_sets_of(&one.metadata);
    if sets.len() < 2 {
        return None;
    }
    let mut sets = sets.to_vec();
    let order = |set: &ReplicaSet| (set.metadata.revision(), set.metadata.creation_timestamp);
    sets.sort_by_key(|set| order(set));
    let [.., old, new] = sets.as_slice() else {
        return None;
    };
    let at = started(context, one, new)?;
    let what = told(
        &old.spec.template.spec.containers,
        &new.spec.template.spec.containers,
        new.metadata.revision(),
    );
    Some(Rollout { set: new, what, at })
}

/// When a revision began. One that a rollback took up again is older than that, and the time of
/// creation says nothing in a copy: there the first sign of it counts.
fn started(context: &Context<'_>, one: &Deployment, set: &ReplicaSet) -> Option<Timestamp> {
    let name = &*set.metadata.name;
    let scaled = context.events(one).filter(|event| {
        let mut words = event.message.split_whitespace();
        &*event.reason == "ScalingReplicaSet"
            && event.message.starts_with("Scaled up")
            && words.any(|word| word == name)
    });
    let scaled = scaled.filter_map(Event::first_seen).min();
    let pods = context.pods_of(&one.object_ref()).iter();
    let mine = pods.filter(|pod| is_of(context, pod, set));
    let pods = mine.map(|pod| context.born(&***pod));
    scaled.or_else(|| pods.min()).or_else(|| {
        let created = set.metadata.creation_timestamp;
        created.filter(|_| !context.is_copy())
    })
}

/// Whether a pod is of a revision.
fn is_of(context: &Context<'_>, pod: &Pod, set: &ReplicaSet) -> bool {
    let owner = context.state.owner("Pod", &pod.metadata);
    owner.is_some_and(|(_, name)| name == set.metadata.name)
}

/// A rollout by what it changed, or by its number.
fn told(old: &[Container], new: &[Container], revision: Option<u64>) -> String {
    match (difference(old, new), revision) {
        (Some(what), _) => format!("rollout {what}"),
        (None, Some(revision)) => format!("rollout of revision {revision}"),
        (None, None) => "rollout of a new revision".to_owned(),
    }
}

/// How the containers of two templates differ: `to payment:1.9.0`.
fn difference(old: &[Container], new: &[Container]) -> Option<String> {
    let old: BTreeMap<_, _> = old.iter().map(|one| (&*one.name, one)).collect();
    let pairs: Vec<_> = new
        .iter()
        .filter_map(|one| Some((*old.get(&*one.name)?, one)))
        .collect();
    let images: Vec<_> = pairs
        .iter()
        .filter(|(old, new)| old.image != new.image)
        .map(|(_, new)| short_image(&new.image))
        .collect();
    if !images.is_empty() {
        return Some(format!("to {}", images.join(", ")));
    }
    let differs = |is_other: fn(&Container, &Container) -> bool| {
        pairs.iter().any(|(old, new)| is_other(old, new))
    };
    if differs(|old, new| old.resources != new.resources) {
        return Some("with other resources".to_owned());
    }
    let probes = |one: &Container| {
        [
            one.readiness_probe.clone(),
            one.liveness_probe.clone(),
            one.startup_probe.clone(),
        ]
    };
    if pairs.iter().any(|(old, new)| probes(old) != probes(new)) {
        return Some("with other probes".to_owned());
    }
    differs(|old, new| old.ports != new.ports).then(|| "with other ports".to_owned())
}

/// An image without its registry, and with the beginning of its digest.
fn short_image(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    match name.split_once("@sha256:") {
        Some((name, digest)) => format!("{name}@{}", cut(digest, 11)),
        None => name.to_owned(),
    }
}

/// `Scaled down replica set web-5d9 to 0 from 3`, as people say it.
fn scaling(message: &str) -> Option<String> {
    let rest = message.strip_prefix("Scaled ")?;
    let (way, rest) = rest.split_once(" replica set ")?;
    let (_, numbers) = rest.split_once(' ')?;
    Some(format!("scaled {way} {numbers}"))
}

/// What autoscalers did to an object.
fn rescaled(context: &Context<'_>, id: &ObjectRef) -> Option<Change> {
    let mut scalers = context.state.autoscalers.in_namespace(&id.namespace);
    let scaler = scalers.find(|one| {
        let target = &one.spec.scale_target_ref;
        *target.kind == *id.kind && target.name == id.name
    })?;
    let mut events = context.events(&**scaler).rev();
    let event = events.find(|event| &*event.reason == "SuccessfulRescale")?;
    let size = event.message.strip_prefix("New size: ")?;
    let size: String = size.chars().take_while(char::is_ascii_digit).collect();
    let what = format!("scaled to {size} by its autoscaler");
    Some(change(id.clone(), what, event.last_seen()?))
}

fn of_node(context: &Context<'_>, node: &Node) -> Vec<Change> {
    let events = context.events(node).rev();
    let changes = events.filter_map(|event| {
        let (_, what) = NODE_CHANGES
            .iter()
            .find(|(reason, _)| *reason == &*event.reason)?;
        Some(change(
            node.object_ref(),
            (*what).to_owned(),
            event.last_seen()?,
        ))
    });
    changes.collect()
}

fn change(object: ObjectRef, what: String, at: Timestamp) -> Change {
    Change {
        object,
        what: cut(&what, WHAT_MAX),
        at,
    }
}

#[cfg(test)]
mod tests;
