//! Detectors of pods. A pod has at most one symptom: the one that explains the others.

mod containers;

use jiff::{SignedDuration, Timestamp};

pub(super) use self::containers::last_words_of;
use self::containers::{container, exited, last_end, limit};
use super::Context;
use crate::{
    messages::{cause, explain, words},
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

/// Time that a new node may take (seconds).
const SCALE_UP: i64 = 5 * 60;

/// A scheduler that runs has looked at a pod by then (seconds).
const UNNOTICED: i64 = 120;

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
    for pod in context.state.pods.iter() {
        if let Some(symptom) = of(context, pod) {
            let workload = context.state.top_owner(&symptom.object, &pod.metadata);
            found.push(symptom.of(workload));
        }
    }
}

fn of(context: &Context<'_>, pod: &Pod) -> Option<Symptom> {
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

/// A pod that no node takes.
fn unscheduled(context: &Context<'_>, pod: &Pod) -> Option<Symptom> {
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
    let (_, after) = message.split_once("untolerated taint")?;
    let named = after
        .strip_prefix(" {")
        .and_then(|rest| rest.split([':', '}']).next());
    let (_, reasons) = message.split_once(" available: ")?;
    let reasons = reasons.split(". ").next().unwrap_or(reasons);
    let only_taints = reasons.split(", ").all(|reason| reason.contains("taint"));
    let mut nodes = context.state.nodes.iter();
    let node = nodes.find(|node| {
        let mut taints = node.spec.taints.iter();
        taints.any(|taint| {
            let own = taint.key.strip_prefix("node.kubernetes.io/");
            let is_own = own.is_some_and(|key| key != "unschedulable");
            is_own && named.map_or(only_taints, |named| *named == *taint.key)
        })
    })?;
    Some(node.object_ref())
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
