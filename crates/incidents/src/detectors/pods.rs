//! Detectors of pods. A pod has at most one symptom: the one that explains the others.

mod containers;
mod scheduling;

use jiff::{SignedDuration, Timestamp};

pub(super) use self::containers::last_words_of;
use self::{
    containers::{container, exited, last_end, limit},
    scheduling::unscheduled,
};
use super::Context;
use crate::{
    messages::{explain, words},
    objects::{Event, Object, ObjectRef, Pod, Probe},
    symptom::{Severity, Symptom},
};

/// A restart counts as a part of a loop for so long (seconds).
const LOOP_WINDOW: i64 = 15 * 60;

/// Something that healed by itself is shown for so long (seconds).
const HEALED_WINDOW: i64 = 60 * 60;

/// Evictions are shown for so long (seconds).
const EVICTED_WINDOW: i64 = 30 * 60;

/// Time for the kubelet to write a status (seconds).
const STATUS_SLACK: i64 = 30;

/// Time for a node to get room for a pod that grows (seconds).
const DEFERRED: i64 = 5 * 60;

/// A pod that stands by has done so for at least this long (seconds).
const STANDBY_AGE: i64 = 24 * 60 * 60;

/// How the reasons begin with which a kubelet refuses a pod.
const REFUSALS: [&str; 6] = [
    "OutOf",
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "NodePorts",
    "TopologyAffinityError",
    "InvalidNodeInfo",
];

const MOUNT_REASONS: [&str; 6] = [
    "FailedMount",
    "FailedAttachVolume",
    "FailedMapVolume",
    "FailedCreatePodSandBox",
    "NetworkNotReady",
    "FailedCreatePodContainer",
];

pub(super) fn detect(context: &Context<'_>, found: &mut Vec<Symptom>) {
    let pods = context.state.pods.entries();
    for pod in pods
        .filter(|entry| !entry.is_plain)
        .map(|entry| &entry.object)
    {
        if let Some(symptom) = of(context, pod) {
            let workload = context.state.top_owner(&symptom.object, &pod.metadata);
            let symptom = match nameless(context, &symptom, &workload) {
                Some(why) => symptom.why(why),
                None => symptom,
            };
            found.push(symptom.of(workload));
        }
    }
}

/// Why pods of a StatefulSet do not find each other: the Service that names them is missing.
/// Many do without it, so it explains only what is wrong anyway.
fn nameless(context: &Context<'_>, symptom: &Symptom, workload: &ObjectRef) -> Option<String> {
    let needs_names = matches!(symptom.detector, "not-ready" | "crash-loop" | "liveness");
    if &*workload.kind != "StatefulSet" || !needs_names {
        return None;
    }
    let state = context.state;
    let set = (state.stateful_sets).get(&workload.namespace, &workload.name)?;
    let name = &*set.spec.service_name;
    let services = &state.services;
    let is_there = services.get(&workload.namespace, name).is_some();
    let is_missing = services.is_known() && !name.is_empty() && !is_there;
    is_missing.then(|| format!("service/{name} of its pods does not exist; {}", symptom.why))
}

/// What the agents of a node say that has no network: theirs is the reason.
pub(super) fn agent_words(context: &Context<'_>, node: &str) -> Option<String> {
    let mut pods = context.state.pods.iter().filter(|pod| {
        *pod.spec.node_name == *node && !pod.is_ready() && !pod.metadata.is_deleted()
    });
    pods.find_map(|pod| {
        let workload = context.state.top_owner(&pod.object_ref(), &pod.metadata);
        let sick = container(context, pod).filter(|_| &*workload.kind == "DaemonSet")?;
        let (who, what, why) = (workload.short(), sick.what, sick.why);
        Some(match &*why {
            "" => format!("{who} {what}"),
            why => format!("{who} {what}: {why}"),
        })
    })
}

pub(super) fn of(context: &Context<'_>, pod: &Pod) -> Option<Symptom> {
    if pod.metadata.is_deleted() {
        return terminating(context, pod);
    }
    match &*pod.status.phase {
        "Succeeded" => return None,
        "Failed" => return failed(context, pod),
        _ => {}
    }
    // A pod of a lost node says nothing new, and its own state may be old.
    if let Some(node) = context.failed_node(&pod.spec.node_name) {
        return lost_with(context, pod, node);
    }
    container(context, pod)
        .or_else(|| setup(context, pod))
        .or_else(|| unscheduled(context, pod))
        .or_else(|| not_ready(context, pod))
        .or_else(|| resize(context, pod))
        .or_else(|| healed(context, pod))
}

/// A pod that should be gone.
fn terminating(context: &Context<'_>, pod: &Pod) -> Option<Symptom> {
    let due = pod.metadata.deletion_timestamp?;
    if due > context.now {
        return None;
    }
    let killing = context.warning(
        pod,
        &["FailedKillPod", "ExceededGracePeriod", "FailedPreStopHook"],
    );
    let why = match pod.metadata.finalizers.as_slice() {
        [] => killing.map_or(String::new(), |event| words(&event.message)),
        finalizers => format!("held by finalizer {}", finalizers.join(", ")),
    };
    let target = pod
        .condition("DisruptionTarget")
        .filter(|target| target.is_true());
    let why = match target.map(|target| &*target.reason) {
        Some("PreemptionByScheduler") => format!("preempted; {why}"),
        _ => why,
    };
    let symptom = Symptom::new("terminating", pod.object_ref(), due, "does not terminate");
    let node = context.failed_node(&pod.spec.node_name);
    Some(symptom.why(why).caused_by(node))
}

/// A pod that has ended with an error.
fn failed(context: &Context<'_>, pod: &Pod) -> Option<Symptom> {
    let ended = ended_at(pod);
    let target = pod.condition("DisruptionTarget");
    let taken = target.is_some_and(|target| {
        target.is_true()
            && matches!(
                &*target.reason,
                "PreemptionByScheduler" | "TerminationByKubelet"
            )
    });
    if taken || &*pod.status.reason == "Evicted" {
        if !context.within(ended, EVICTED_WINDOW) {
            return None;
        }
        let what = match target.map(|target| &*target.reason) {
            Some("PreemptionByScheduler") => "was preempted",
            _ => "was evicted",
        };
        let message = match &*pod.status.message {
            "" => target.map_or("", |target| &target.message),
            message => message,
        };
        let symptom = Symptom::new("evicted", pod.object_ref(), ended?, what);
        let symptom = symptom.reason(match &*pod.status.reason {
            "" => target.map_or("", |target| &target.reason),
            reason => reason,
        });
        return Some(
            symptom
                .why(words(message))
                .severity(Severity::Info)
                .caused_by(context.pressed_node(&pod.spec.node_name))
                .certain(),
        );
    }
    let is_refused = REFUSALS
        .iter()
        .any(|word| pod.status.reason.starts_with(word));
    if is_refused && context.within(ended, LOOP_WINDOW) {
        let what = format!("is refused by its node ({})", pod.status.reason);
        let symptom = Symptom::new("refused", pod.object_ref(), ended?, what);
        let symptom = symptom.reason(&pod.status.reason);
        return Some(symptom.why(words(&pod.status.message)).certain());
    }
    // What a controller replaces is judged by what replaces it.
    if context.state.owner("Pod", &pod.metadata).is_some() {
        return None;
    }
    exited(context, pod).or_else(|| {
        let why = words(&pod.status.message);
        let what = format!("failed{}", reason(&pod.status.reason));
        let since = context.since(ended, pod);
        let symptom = Symptom::new("exit", pod.object_ref(), since, what);
        Some(symptom.why(why).certain())
    })
}

/// A pod on a node that is not ready.
fn lost_with(context: &Context<'_>, pod: &Pod, node: ObjectRef) -> Option<Symptom> {
    let failed = context.state.nodes.get("", &node.name);
    let goes_or_comes = failed.is_some_and(|node| node.is_leaving() || context.is_new(node));
    if pod.is_ready() || goes_or_comes {
        return None;
    }
    let since = pod
        .condition("Ready")
        .and_then(|one| one.last_transition_time);
    let since = context.since(since, pod);
    let symptom = Symptom::new("not-ready", pod.object_ref(), since, "is on a failed node");
    Some(symptom.caused_by(Some(node)).certain())
}

/// A pod whose containers wait for volumes, a network, or an init container.
fn setup(context: &Context<'_>, pod: &Pod) -> Option<Symptom> {
    if pod.spec.node_name.is_empty() || &*pod.status.phase != "Pending" {
        return None;
    }
    let id = pod.object_ref();
    let since = context.since(pod.status.start_time, pod);
    if let Some(warning) = mount_warning(context, pod) {
        let said = explain(&pod.metadata.namespace, &warning.message);
        let what = match &*warning.reason {
            "FailedCreatePodSandBox" | "NetworkNotReady" => "cannot get its network",
            _ => "cannot mount its volumes",
        };
        let first = warning.first_seen().map_or(since, |first| first.min(since));
        let symptom = Symptom::new("mount", id, first, what).reason(&warning.reason);
        return Some(symptom.why(said.words).caused_by(said.cause));
    }
    let running = pod
        .status
        .init_container_statuses
        .iter()
        .find_map(|status| {
            let running = status.state.running.as_ref()?;
            pod.is_init(&status.name).then_some((status, running))
        });
    let (status, running) = running?;
    let what = format!("waits for its init container {}", status.name);
    let symptom = Symptom::new("init-hangs", id, running.started_at.unwrap_or(since), what);
    Some(symptom.container(&status.name))
}

/// The newest warning that says more than that time was over.
fn mount_warning<'a>(context: &Context<'a>, pod: &Pod) -> Option<&'a Event> {
    let warnings = context.events(pod).rev();
    let mounts = || {
        let all = warnings.clone();
        all.filter(|event| event.is_warning() && MOUNT_REASONS.contains(&&*event.reason))
    };
    let telling = mounts().find(|event| !event.message.contains("unmounted volumes="));
    telling.or_else(|| mounts().next())
}

/// A pod that runs and does not become ready.
fn not_ready(context: &Context<'_>, pod: &Pod) -> Option<Symptom> {
    let ready = pod.condition("Ready").filter(|ready| !ready.is_true())?;
    if &*pod.status.phase != "Running" || &*ready.reason == "PodCompleted" {
        return None;
    }
    let since = context.since(ready.last_transition_time, pod);
    let patience = pod.status.container_statuses.iter().map(|status| {
        let spec = pod.spec_of(&status.name);
        let startup = spec.and_then(|spec| spec.startup_probe.as_ref());
        let readiness = spec.and_then(|spec| spec.readiness_probe.as_ref());
        startup.map_or(0, Probe::patience) + readiness.map_or(0, Probe::patience)
    });
    let patience = patience.max().unwrap_or(0) + STATUS_SLACK;
    if context.ago(since) < SignedDuration::from_secs(patience) {
        return None;
    }
    let on = context.state.nodes.get("", &pod.spec.node_name);
    if on.is_some_and(|node| context.is_new(node)) {
        return None;
    }
    let id = pod.object_ref();
    if is_standby(context, pod) {
        let symptom = Symptom::new("not-ready", id, since, "is not ready, as if it stood by");
        return Some(symptom.severity(Severity::Info));
    }
    let gate = pod.spec.readiness_gates.iter().find(|gate| {
        let condition = pod.condition(&gate.condition_type);
        !condition.is_some_and(crate::objects::Condition::is_true)
    });
    let containers_ready = pod
        .condition("ContainersReady")
        .is_some_and(crate::objects::Condition::is_true);
    if let (Some(gate), true) = (gate, containers_ready) {
        let why = format!("readiness gate {} has not passed", gate.condition_type);
        let symptom = Symptom::new("not-ready", id, since, "is not ready");
        return Some(symptom.reason("ReadinessGatesNotReady").why(why));
    }
    let unhealthy = context.warning(pod, &["Unhealthy"]);
    let why = unhealthy.map_or(String::new(), |event| words(&event.message));
    Some(
        Symptom::new("not-ready", id, since, "is not ready")
            .reason(unhealthy.map_or(&ready.reason, |event| &event.reason))
            .why(why)
            .certain(),
    )
}

/// Whether a pod was never ready and never restarted while another of the same revision is
/// ready: leaders and their substitutes look like that.
pub(super) fn is_standby(context: &Context<'_>, pod: &Pod) -> bool {
    let never = pod.condition("Ready").and_then(|ready| {
        let since = ready.last_transition_time?;
        let began = context.since(pod.status.start_time, pod);
        Some(since.duration_since(began) < SignedDuration::from_mins(1))
    });
    let is_old = !context.within(Some(context.born(pod)), STANDBY_AGE);
    let restarted = pod.containers().any(|status| status.restart_count > 0);
    if never != Some(true) || !is_old || restarted {
        return false;
    }
    let revision = |pod: &Pod| {
        let label = |key| pod.metadata.label(key).map(str::to_owned);
        label("pod-template-hash").or_else(|| label("controller-revision-hash"))
    };
    let owner = context.state.top_owner(&pod.object_ref(), &pod.metadata);
    let mut siblings = context.pods_of(&owner).iter();
    siblings.any(|one| one.is_ready() && revision(one) == revision(pod))
}

/// A pod that runs and does not get the size that it was given.
fn resize(context: &Context<'_>, pod: &Pod) -> Option<Symptom> {
    let told = |kind: &str| pod.condition(kind).filter(|one| one.is_true());
    let pending = told("PodResizePending").filter(|one| {
        let since = context.since(one.last_transition_time, pod);
        &*one.reason == "Infeasible" || context.ago(since) >= SignedDuration::from_secs(DEFERRED)
    });
    let failed = || told("PodResizeInProgress").filter(|one| &*one.reason == "Error");
    let told = pending.or_else(failed)?;
    let since = context.since(told.last_transition_time, pod);
    let symptom = Symptom::new("resize", pod.object_ref(), since, "cannot be resized");
    let symptom = symptom.reason(&told.reason).why(words(&told.message));
    Some(symptom.severity(Severity::Info))
}

/// Something that happened not long ago and healed by itself.
fn healed(context: &Context<'_>, pod: &Pod) -> Option<Symptom> {
    let (status, ended) = pod.containers().find_map(|status| {
        let ended = last_end(status)?;
        (&*ended.reason == "OOMKilled").then_some((status, ended))
    })?;
    if !context.within(ended.finished_at, HEALED_WINDOW) {
        return None;
    }
    let what = format!("was OOMKilled{}", limit(pod, status));
    let symptom = Symptom::new("oom", pod.object_ref(), ended.finished_at?, what);
    let symptom = symptom.reason("OOMKilled");
    Some(
        symptom
            .container(&status.name)
            .severity(Severity::Info)
            .certain(),
    )
}

/// When the last container of a pod ended.
fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let ends = pod
        .containers()
        .filter_map(|status| last_end(status)?.finished_at);
    let told = pod
        .status
        .conditions
        .iter()
        .filter_map(|one| one.last_transition_time);
    let began = pod.status.start_time;
    ends.chain(told)
        .chain(began)
        .max()
        .or(pod.metadata.creation_timestamp)
}

fn reason(word: &str) -> String {
    if word.is_empty() {
        String::new()
    } else {
        format!(" ({word})")
    }
}
