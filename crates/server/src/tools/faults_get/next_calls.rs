//! The calls that show more of an incident.

use serde_json::{Map, Value, json};

use super::super::ToolContext;
use kubecrier_incidents::{Incident, Symptom, objects::ObjectRef};

/// Detectors of containers that never started: there is no log to look at.
const WITHOUT_LOG: [&str; 9] = [
    "image-pull",
    "image-name",
    "config-missing",
    "cannot-start",
    "mount",
    "unschedulable",
    "scheduling-gate",
    "evicted",
    "refused",
];

/// The calls that show more, of the tools that are on.
pub(super) fn next_calls(
    context: &ToolContext<'_>,
    in_context: Option<&str>,
    incident: &Incident,
    pod: Option<&Symptom>,
) -> Vec<(&'static str, Value)> {
    let object = &incident.object;
    let place = |object: &ObjectRef| {
        let mut arguments = Map::new();
        if let Some(name) = in_context {
            arguments.insert("context".to_owned(), name.into());
        }
        if !object.namespace.is_empty() {
            arguments.insert("namespace".to_owned(), (*object.namespace).into());
        }
        arguments
    };
    let mut calls = Vec::new();
    let mut add = |tool: &'static str, object: &ObjectRef, more: &[(&str, Value)]| {
        if context.tool_filter.check_tool(tool).is_ok() {
            let mut arguments = place(object);
            for (key, value) in more {
                arguments.insert((*key).to_owned(), value.clone());
            }
            calls.push((tool, Value::Object(arguments)));
        }
    };
    let name = |object: &ObjectRef| ("name", json!(&*object.name));
    if let Some(pod) = pod.filter(|pod| !WITHOUT_LOG.contains(&pod.detector)) {
        let mut log = vec![name(&pod.object)];
        if let Some(container) = &pod.container {
            log.push(("container", json!(container)));
        }
        if matches!(pod.detector, "crash-loop" | "oom-loop" | "liveness" | "oom") {
            log.push(("previous", json!(true)));
        }
        add("pods_log", &pod.object, &log);
    }
    let kind = ("kind", json!(object.kind));
    add(
        "resources_get",
        object,
        &[kind.clone(), name(object), ("output", json!("yaml"))],
    );
    let about = pod.map_or(object, |pod| &pod.object);
    add("events_list", about, &[("for", json!(about.short()))]);
    add("resources_graph", object, &[kind, name(object)]);
    if !object.namespace.is_empty() {
        add("changes_list", object, &[("since", json!("2h"))]);
    }
    calls
}
