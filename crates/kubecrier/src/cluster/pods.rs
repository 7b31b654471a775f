//! Pods, as a reader wants them: the one word that kubectl would show, not the
//! whole status.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerState, ContainerStatus, Pod, PodStatus};
use kube::Api;
use serde::Serialize;

use super::{
    error::{ClusterError, Operation},
    list::{ListQuery, Page},
    target::Cluster,
};

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRow {
    /// Where it lives.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How many of its containers are ready.
    pub ready: usize,
    /// How many containers it has.
    pub containers: usize,
    /// What is going on: Running, CrashLoopBackOff, Init:1/2, ...
    pub status: String,
    /// Restarts of all containers together.
    pub restarts: i32,
    /// The node it runs on.
    pub node: Option<String>,
    /// When it was made.
    pub created: Option<Timestamp>,
}

impl Cluster {
    /// The pods of a namespace, or of all.
    pub async fn pods(&self, query: &ListQuery) -> Result<Page<PodRow>, ClusterError> {
        let operation = Operation {
            verb: "list",
            resource: "pods",
            name: None,
            namespace: query.namespace.as_deref(),
            context: self.context(),
        };
        let api: Api<Pod> = match &query.namespace {
            Some(namespace) => Api::namespaced(self.client(), namespace),
            None => Api::all(self.client()),
        };
        let page = self.list(&operation, &api, query).await?;
        Ok(Page {
            items: page.items.into_iter().map(row).collect(),
            more: page.more,
        })
    }
}

fn row(pod: Pod) -> PodRow {
    let spec = pod.spec.unwrap_or_default();
    let status = pod.status.unwrap_or_default();
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let inits = status
        .init_container_statuses
        .as_deref()
        .unwrap_or_default();
    let declared = spec.init_containers.as_deref().unwrap_or_default();
    PodRow {
        ready: containers.iter().filter(|status| status.ready).count(),
        containers: spec.containers.len(),
        status: summary(
            &status,
            containers,
            inits,
            declared,
            pod.metadata.deletion_timestamp.is_some(),
        ),
        restarts: containers
            .iter()
            .chain(inits)
            .map(|status| status.restart_count)
            .sum(),
        namespace: pod.metadata.namespace.unwrap_or_default(),
        name: pod.metadata.name.unwrap_or_default(),
        node: spec.node_name,
        created: pod.metadata.creation_timestamp.map(|time| time.0),
    }
}

/// The word in kubectl's STATUS column.
fn summary(
    status: &PodStatus,
    containers: &[ContainerStatus],
    inits: &[ContainerStatus],
    declared: &[Container],
    deleting: bool,
) -> String {
    if deleting {
        let lost = status.reason.as_deref() == Some("NodeLost");
        return if lost { "Unknown" } else { "Terminating" }.to_owned();
    }
    if let Some(waiting) = init_progress(inits, declared) {
        return waiting;
    }
    // The last container that says something wins, as in kubectl.
    let told = containers
        .iter()
        .rev()
        .filter_map(|one| trouble(one.state.as_ref()?))
        .next_back();
    let running = containers.iter().any(|one| {
        one.ready
            && one
                .state
                .as_ref()
                .is_some_and(|state| state.running.is_some())
    });
    let phase = || {
        let named = status.reason.clone().or_else(|| status.phase.clone());
        named.unwrap_or_else(|| "Unknown".to_owned())
    };
    match told {
        Some(word) if word == "Completed" && running => "Running".to_owned(),
        Some(word) => word,
        None => phase(),
    }
}

/// `Init:1/3`, or why an init container does not get on; `None` when all is done.
fn init_progress(inits: &[ContainerStatus], declared: &[Container]) -> Option<String> {
    let sidecar = |name: &str| {
        declared
            .iter()
            .any(|one| one.name == name && one.restart_policy.as_deref() == Some("Always"))
    };
    for (done, one) in inits.iter().enumerate() {
        let state = one.state.as_ref();
        let ended = state.and_then(|state| state.terminated.as_ref());
        if ended.is_some_and(|ended| ended.exit_code == 0)
            || (sidecar(&one.name) && one.started == Some(true))
        {
            continue;
        }
        return Some(
            match state
                .and_then(trouble)
                .filter(|word| word != "PodInitializing")
            {
                Some(word) => format!("Init:{word}"),
                None => format!("Init:{done}/{}", declared.len()),
            },
        );
    }
    None
}

/// Why a container is not simply running.
fn trouble(state: &ContainerState) -> Option<String> {
    if let Some(waiting) = &state.waiting {
        return waiting.reason.clone().filter(|reason| !reason.is_empty());
    }
    let ended = state.terminated.as_ref()?;
    Some(match (&ended.reason, ended.signal) {
        (Some(reason), _) if !reason.is_empty() => reason.clone(),
        (_, Some(signal)) if signal != 0 => format!("Signal:{signal}"),
        _ => format!("ExitCode:{}", ended.exit_code),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(expected: &str, spec: Value, status: Value) {
        let pod =
            json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec, "status": status});
        assert_eq!(row(serde_json::from_value(pod).unwrap()).status, expected);
    }

    fn container(state: Value, ready: bool) -> Value {
        json!({"name": "c", "image": "i", "imageID": "", "ready": ready, "restartCount": 2, "state": state})
    }

    fn one() -> Value {
        json!({"containers": [{"name": "c"}]})
    }

    fn with_inits() -> Value {
        json!({"containers": [{"name": "c"}], "initContainers": [{"name": "a"}, {"name": "b"}]})
    }

    #[test]
    fn the_status_is_the_word_kubectl_shows() {
        let running = json!({"running": {}});
        check(
            "Running",
            one(),
            json!({"phase": "Running", "containerStatuses": [container(running.clone(), true)]}),
        );
        check("Pending", one(), json!({"phase": "Pending"}));
        check(
            "Evicted",
            one(),
            json!({"phase": "Failed", "reason": "Evicted"}),
        );
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        check(
            "CrashLoopBackOff",
            one(),
            json!({"phase": "Running", "containerStatuses": [container(waiting, false)]}),
        );
        let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        check(
            "OOMKilled",
            one(),
            json!({"phase": "Failed", "containerStatuses": [container(killed, false)]}),
        );
        let signalled = json!({"terminated": {"exitCode": 1, "signal": 9}});
        check(
            "Signal:9",
            one(),
            json!({"phase": "Failed", "containerStatuses": [container(signalled, false)]}),
        );
        let coded = json!({"terminated": {"exitCode": 3}});
        check(
            "ExitCode:3",
            one(),
            json!({"phase": "Failed", "containerStatuses": [container(coded, false)]}),
        );
        let done = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
        check(
            "Running",
            one(),
            json!({"phase": "Running", "containerStatuses": [container(done.clone(), false), container(running, true)]}),
        );
        check(
            "Completed",
            one(),
            json!({"phase": "Succeeded", "containerStatuses": [container(done, false)]}),
        );
    }

    #[test]
    fn init_containers_come_first() {
        let named = |name: &str, state: Value| json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        let done = named(
            "a",
            json!({"terminated": {"exitCode": 0, "reason": "Completed"}}),
        );
        let busy = named("b", json!({"running": {}}));
        check(
            "Init:1/2",
            with_inits(),
            json!({"phase": "Pending", "initContainerStatuses": [done, busy]}),
        );
        let failing = named("a", json!({"waiting": {"reason": "ImagePullBackOff"}}));
        check(
            "Init:ImagePullBackOff",
            with_inits(),
            json!({"phase": "Pending", "initContainerStatuses": [failing]}),
        );
    }

    #[test]
    fn restarts_and_readiness_are_counted() {
        let status = json!({"containerStatuses": [container(json!({"running": {}}), true)]});
        let pod = json!({"metadata": {}, "spec": one(), "status": status});
        let row = row(serde_json::from_value(pod).unwrap());
        assert_eq!((row.ready, row.containers, row.restarts), (1, 1, 2));
    }
}
