//! Detectors of nodes.

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
    let since = |condition: &Condition| {
        let time = condition.last_transition_time;
        time.unwrap_or_else(|| context.born(&node.metadata))
    };
    let ready = node.condition("Ready");
    if let Some(ready) = ready.filter(|ready| !ready.is_true()) {
        let what = match &*ready.status {
            "Unknown" => "is unreachable",
            _ => "is not ready",
        };
        let symptom = Symptom::new("node", id, since(ready), what);
        let why = words(&ready.message);
        return Some(symptom.why(why).severity(Severity::Critical).certain());
    }
    let network = node.condition("NetworkUnavailable");
    if let Some(network) = network.filter(|network| network.is_true()) {
        let symptom = Symptom::new("node", id, since(network), "has no network");
        let why = words(&network.message);
        return Some(symptom.why(why).severity(Severity::Critical).certain());
    }
    for (kind, what) in PRESSURES {
        let condition = node.condition(kind);
        if let Some(condition) = condition.filter(|condition| condition.is_true()) {
            let symptom = Symptom::new("node-pressure", id, since(condition), what);
            return Some(symptom.why(words(&condition.message)).certain());
        }
    }
    None
}
