//! Termination messages that are the end of a log: a container with the policy
//! `FallbackToLogsOnError` has them in its status, where they are read with the pod. They are
//! left out where the operator has switched logs off.

use k8s_openapi::api::core::v1::ContainerState;
use serde_json::Value;

use super::pods::read::{Container, Pod};

const FALLBACK: &str = "FallbackToLogsOnError";
const HIDDEN: &str = "[the end of the log: logs are switched off]";

/// Replaces the messages of a pod.
pub(super) fn hide_log_tails_of(pod: &mut Pod) {
    let (spec, Some(status)) = (&pod.spec, pod.status.as_mut()) else {
        return;
    };
    let falls_back =
        |container: &&Container| container.termination_message_policy.as_deref() == Some(FALLBACK);
    let containers = spec.containers.iter();
    let containers = containers.chain(&spec.init_containers);
    let fallbacks: Vec<_> = containers
        .filter(falls_back)
        .map(|container| container.name.as_str())
        .collect();
    let statuses = status.container_statuses.iter_mut().flatten();
    let statuses = statuses.chain(status.init_container_statuses.iter_mut().flatten());
    for status in statuses.filter(|status| fallbacks.contains(&status.name.as_str())) {
        let states = [status.state.as_mut(), status.last_state.as_mut()];
        for state in states.into_iter().flatten() {
            hide(state);
        }
    }
}

fn hide(state: &mut ContainerState) {
    let ended = state.terminated.as_mut();
    if let Some(message) = ended.and_then(|ended| ended.message.as_mut()) {
        HIDDEN.clone_into(message);
    }
}

/// Replaces the messages of a pod as JSON; other objects stay as they are.
pub(super) fn hide_log_tails(object: &mut Value) {
    let falls_back = |container: &&Value| container["terminationMessagePolicy"] == FALLBACK;
    let containers = |list: &str| object["spec"][list].as_array().cloned();
    let fallbacks: Vec<Value> = ["containers", "initContainers", "ephemeralContainers"]
        .into_iter()
        .filter_map(containers)
        .flatten()
        .filter(|container| falls_back(&container))
        .map(|container| container["name"].clone())
        .collect();
    for list in [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ] {
        let statuses = object.pointer_mut(&format!("/status/{list}"));
        let statuses = statuses.and_then(Value::as_array_mut);
        for status in statuses.into_iter().flatten() {
            if !fallbacks.contains(&status["name"]) {
                continue;
            }
            for state in ["state", "lastState"] {
                let path = format!("/{state}/terminated/message");
                if let Some(message) = status.pointer_mut(&path) {
                    *message = HIDDEN.into();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_that_is_the_end_of_a_log_is_left_out() {
        let ended = |text: &str| json!({"terminated": {"exitCode": 1, "message": text}});
        let mut pod = json!({
            "metadata": {"name": "web"},
            "spec": {
                "containers": [
                    {"name": "log", "terminationMessagePolicy": FALLBACK},
                    {"name": "own", "terminationMessagePolicy": "File"},
                ],
                "initContainers": [{"name": "init", "terminationMessagePolicy": FALLBACK}],
            },
            "status": {
                "containerStatuses": [
                    {"name": "log", "state": ended("line 1"), "lastState": ended("line 2"),
                     "image": "", "imageID": "", "ready": false, "restartCount": 1},
                    {"name": "own", "state": ended("mine"),
                     "image": "", "imageID": "", "ready": false, "restartCount": 1},
                ],
                "initContainerStatuses": [
                    {"name": "init", "lastState": ended("line 3"),
                     "image": "", "imageID": "", "ready": false, "restartCount": 1},
                ],
            },
        });
        let mut typed: Pod = serde_json::from_value(pod.clone()).unwrap();
        hide_log_tails(&mut pod);
        hide_log_tails_of(&mut typed);
        for shown in [pod.to_string(), format!("{typed:?}")] {
            assert!(!shown.contains("line"), "{shown}");
            assert!(shown.contains("mine"), "{shown}");
        }
        let mut other = json!({"spec": {"containers": 7}, "status": []});
        hide_log_tails(&mut other);
    }
}
