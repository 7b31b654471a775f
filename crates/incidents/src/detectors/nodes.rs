//! Detectors of nodes.

use jiff::Timestamp;

use super::Context;
use crate::{
    messages::words,
    objects::{Condition, Node, Object},
    symptom::{Severity, Symptom},
};

/// Conditions that are bad if they are true.
const PRESSURES: [(&str, &str); 3] = [
    ("MemoryPressure", "is short of memory"),
    ("DiskPressure", "is short of disk"),
    ("PIDPressure", "is short of process ids"),
];

/// Changes of the readiness of a node count for so long (seconds).
const FLAPPING_WINDOW: i64 = 15 * 60;

/// So many changes are no flapping: a reboot has two.
const CALM_CHANGES: usize = 2;

/// Reboots and losses count for so long (seconds).
const EVENTS_WINDOW: i64 = 60 * 60;

/// A node that has been ready for so long is steady (seconds).
const CAME_BACK: i64 = 30 * 60;

/// So many reboots may be meant: an upgrade has one or two.
const CALM_EVENTS: i64 = 2;

pub(super) fn detect(context: &Context<'_>, found: &mut Vec<Symptom>) {
    for node in context.state.nodes.iter() {
        if node.is_leaving() || context.is_new(node) {
            continue;
        }
        found.extend(of(context, node));
    }
}

fn of(context: &Context<'_>, node: &Node) -> Option<Symptom> {
    let id = node.object_ref();
    let since = |condition: &Condition| context.since(condition.last_transition_time, node);
    let ready = node.condition("Ready");
    if let Some(ready) = ready.filter(|ready| !ready.is_true()) {
        let what = match &*ready.status {
            "Unknown" => "is unreachable",
            _ => "is not ready",
        };
        let symptom = Symptom::new("node", id, since(ready), what).reason(&ready.reason);
        let why = words(&ready.message);
        let lacks_network = why.contains("NetworkPluginNotReady") || why.contains("cni ");
        let agent = if lacks_network && ready.is_false() {
            super::pods::agent_words(context, &node.metadata.name)
        } else {
            None
        };
        let why = agent.map_or_else(|| why.clone(), |agent| format!("{agent}; {why}"));
        return Some(symptom.why(why).severity(Severity::Critical).certain());
    }
    let network = node.condition("NetworkUnavailable");
    if let Some(network) = network.filter(|network| network.is_true()) {
        let symptom = Symptom::new("node", id, since(network), "has no network");
        let symptom = symptom.reason("NetworkUnavailable");
        let why = words(&network.message);
        return Some(symptom.why(why).severity(Severity::Critical).certain());
    }
    for (kind, what) in PRESSURES {
        let condition = node.condition(kind);
        if let Some(condition) = condition.filter(|condition| condition.is_true()) {
            let symptom = Symptom::new("node-pressure", id, since(condition), what);
            let symptom = symptom.reason(kind);
            return Some(symptom.why(words(&condition.message)).certain());
        }
    }
    flapping(context, node).or_else(|| unsteady(context, node))
}

/// A node that is ready at the moment.
fn flapping(context: &Context<'_>, node: &Node) -> Option<Symptom> {
    let changes = node.ready_changes.iter().copied();
    let recent: Vec<_> = changes
        .filter(|at| context.within(Some(*at), FLAPPING_WINDOW))
        .collect();
    let [first, ..] = recent.as_slice() else {
        return None;
    };
    let what = format!("was ready and not ready in turn, {} times", recent.len());
    let symptom = Symptom::new("node-flapping", node.object_ref(), *first, what);
    (recent.len() > CALM_CHANGES).then(|| symptom.certain())
}

/// A node whose events tell that it comes and goes, and that came back not long ago.
fn unsteady(context: &Context<'_>, node: &Node) -> Option<Symptom> {
    let ready = node.condition("Ready")?.last_transition_time;
    if !context.within(ready, CAME_BACK) {
        return None;
    }
    let (mut worst, mut most) = ("", (0, None));
    for (reason, what) in [("Rebooted", "rebooted"), ("NodeNotReady", "lost")] {
        let told = times_told(context, node, reason);
        if told.0 > most.0 {
            (worst, most) = (what, told);
        }
    }
    let (times, Some(first)) = most else {
        return None;
    };
    let what = format!("was {worst} {times} times within the hour, and is back");
    let symptom = Symptom::new("node-flapping", node.object_ref(), first, what);
    (times > CALM_EVENTS).then(|| symptom.reason("NodeNotReady").certain())
}

/// How often something happened to a node within the window, and when first.
fn times_told(context: &Context<'_>, node: &Node, reason: &str) -> (i64, Option<Timestamp>) {
    let (mut times, mut first) = (0, None);
    let events = context
        .events(node)
        .filter(|event| &*event.reason == reason);
    for event in events.filter(|event| context.within(event.last_seen(), EVENTS_WINDOW)) {
        let began = event
            .first_seen()
            .filter(|at| context.within(Some(*at), EVENTS_WINDOW));
        // Of those that began before, only the last one is known to be within it.
        times += began.map_or(1, |_| event.times_seen());
        let at = began.or(event.last_seen());
        first = first.map_or(at, |known: Timestamp| at.map(|at| at.min(known)));
    }
    (times, first)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use crate::{State, incidents};

    #[test]
    fn a_node_that_is_ready_and_not_ready_in_turn_is_told() {
        let at = |seconds: i64| Timestamp::from_second(1_790_000_000 + seconds).unwrap();
        let mut state = State::default();
        let mut told = Vec::new();
        for turn in 0..4 {
            let now = at(60 * turn);
            let ready = if turn % 2 == 0 { "True" } else { "False" };
            let node = json!({
                "kind": "Node", "metadata": {"name": "worker", "uid": "n", "creationTimestamp": at(-90_000)},
                "status": {"conditions": [
                    {"type": "Ready", "status": ready, "lastTransitionTime": now, "lastHeartbeatTime": now},
                ]},
            });
            // A state that is told twice is no change.
            state.apply_json(node.clone()).unwrap();
            state.apply_json(node).unwrap();
            let found = incidents(&state, now);
            told.push(found.iter().map(|one| one.detector).collect::<Vec<_>>());
        }
        state
            .nodes
            .replace([(**state.nodes.get("", "worker").unwrap()).clone()]);
        let mut well = (**state.nodes.get("", "worker").unwrap()).clone();
        well.status.conditions[0].status = "True".into();
        well.status.conditions[0].last_transition_time = Some(at(240));
        state.nodes.apply(well.clone());
        let found = incidents(&state, at(250));
        let names: Vec<_> = found.iter().map(|one| one.detector).collect();
        assert_eq!(names, ["node-flapping"], "{told:?}");
        assert!(told[..3].iter().all(Vec::is_empty), "{told:?}");
        let mut later = (**state.nodes.get("", "worker").unwrap()).clone();
        later.status.conditions[0].last_heartbeat_time = Some(at(3_500));
        state.nodes.apply(later);
        assert!(incidents(&state, at(3_600)).is_empty());
        // Another machine of the same name has another history.
        well.metadata.uid = "other".into();
        well.ready_changes.clear();
        state.nodes.apply(well);
        assert!(incidents(&state, at(250)).is_empty());
    }
}
