//! Which pods have recovered from their faults. The server does not say so yet: each pod with
//! a fault is looked at now and then, and what is not known is not claimed.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::Pin,
    time::Duration,
};

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{ClientError, notification::Notification, session::Session};

/// Pods that are looked at; of more, the oldest are forgotten.
const PODS_MAX: usize = 100;

/// A pod has recovered if it is well twice in a row, so far apart.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// A pod that stays in trouble is looked at less and less often, up to this.
const CHECK_INTERVAL_MAX: Duration = Duration::from_mins(2);

/// Requests at once.
const CHECKS_MAX: usize = 4;

/// Labels that only one revision of a workload has, or only one of its pods.
const OWN_LABELS: [&str; 5] = [
    "apps.kubernetes.io/pod-index",
    "controller-revision-hash",
    "pod-template-generation",
    "pod-template-hash",
    "statefulset.kubernetes.io/pod-name",
];

/// The pods with faults that have not recovered.
#[derive(Default)]
pub(crate) struct Healing {
    pods: VecDeque<FaultyPod>,
    /// The requests that are under way, so that they go on while notifications arrive.
    checking: Option<Checking>,
    recovered: VecDeque<Recovery>,
}

type Checking = Pin<Box<dyn Future<Output = Vec<(PodId, PodState)>> + Send>>;

/// A pod that was in trouble, and is not any more.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// The last fault.
    pub(crate) fault: Notification,
    /// When the first one came.
    pub(crate) since: Timestamp,
    /// How many there were.
    pub(crate) faults: u64,
    state: PodState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PodId {
    cluster: String,
    namespace: String,
    name: String,
}

/// What a look at a pod shows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PodState {
    /// It is not ready, or that is not known.
    InTrouble,
    /// All its containers are ready, after so many restarts.
    Ready { restarts: u64 },
    /// It has run to its end.
    Completed,
    /// It is gone, and the others with its labels, so many, are ready.
    Replaced { pods: usize, labels: String },
    /// It is gone, and there are no others.
    Gone,
}

struct FaultyPod {
    id: PodId,
    fault: Notification,
    since: Timestamp,
    faults: u64,
    /// Whether it was seen when it was not well. Some warnings are about pods that run.
    was_down: bool,
    /// What the last look has shown.
    state: PodState,
    next_check: Instant,
    interval: Duration,
}

// === impl Healing ===

impl Healing {
    /// Notes a fault.
    pub(crate) fn on_fault(&mut self, fault: Notification) {
        let Some(event) = fault.event.as_ref().filter(|_| fault.is_fault()) else {
            return;
        };
        let id = PodId {
            cluster: fault.cluster.clone(),
            namespace: event.namespace.clone(),
            name: event.involved_object.name.clone(),
        };
        let since = event.timestamp.unwrap_or_default();
        let known = self.pods.iter().position(|pod| pod.id == id);
        let before = known.and_then(|at| self.pods.remove(at));
        if self.pods.len() >= PODS_MAX {
            self.pods.pop_front();
        }
        self.pods.push_back(FaultyPod {
            id,
            since: before.as_ref().map_or(since, |pod| pod.since),
            faults: before.as_ref().map_or(0, |pod| pod.faults) + 1,
            was_down: before.is_some_and(|pod| pod.was_down) || is_down(&fault),
            fault,
            state: PodState::InTrouble,
            next_check: Instant::now() + CHECK_INTERVAL,
            interval: CHECK_INTERVAL,
        });
    }

    /// Waits for the next pod that has recovered. Cancel-safe.
    pub(crate) async fn next(&mut self, session: Option<&Session>) -> Recovery {
        loop {
            if let Some(recovery) = self.recovered.pop_front() {
                return recovery;
            }
            if self.checking.is_none() {
                let next = self.pods.iter().map(|pod| pod.next_check).min();
                let (Some(next), Some(session)) = (next, session) else {
                    return std::future::pending().await;
                };
                tokio::time::sleep_until(next).await;
                self.checking = Some(Box::pin(check(session.clone(), self.due())));
            }
            if let Some(checking) = &mut self.checking {
                let states = checking.await;
                self.checking = None;
                for (id, state) in states {
                    self.on_state(&id, state);
                }
            }
        }
    }

    /// The pods to look at now, and the labels by which to find those that replace them.
    fn due(&self) -> Vec<(PodId, Option<String>)> {
        let now = Instant::now();
        let due = self.pods.iter().filter(|pod| pod.next_check <= now);
        due.map(|pod| (pod.id.clone(), workload_labels(&pod.fault)))
            .collect()
    }

    fn on_state(&mut self, id: &PodId, state: PodState) {
        let Some(at) = self.pods.iter().position(|pod| pod.id == *id) else {
            return;
        };
        let is_same = self.pods[at].state == state;
        if state != PodState::InTrouble && is_same {
            let pod = self.pods.remove(at);
            self.recovered
                .extend(pod.filter(|pod| pod.was_down).map(|pod| Recovery {
                    fault: pod.fault,
                    since: pod.since,
                    faults: pod.faults,
                    state,
                }));
            return;
        }
        let pod = &mut self.pods[at];
        pod.interval = match state {
            PodState::InTrouble => (pod.interval * 2).min(CHECK_INTERVAL_MAX),
            PodState::Ready { .. }
            | PodState::Completed
            | PodState::Replaced { .. }
            | PodState::Gone => CHECK_INTERVAL,
        };
        pod.was_down |= !matches!(state, PodState::Ready { .. });
        pod.next_check = Instant::now() + pod.interval;
        pod.state = state;
    }
}

impl std::fmt::Debug for Healing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Healing")
            .field("pods", &self.pods.len())
            .finish_non_exhaustive()
    }
}

// === impl Recovery ===

impl Recovery {
    /// Whether it is known that the workload is well; otherwise the pod is only gone.
    pub(crate) fn is_healed(&self) -> bool {
        self.state != PodState::Gone
    }

    /// The state in one word.
    pub(crate) fn reason(&self) -> &'static str {
        match self.state {
            PodState::InTrouble => "",
            PodState::Ready { .. } => "Ready",
            PodState::Completed => "Completed",
            PodState::Replaced { .. } => "Replaced",
            PodState::Gone => "Deleted",
        }
    }

    /// What was seen.
    pub(crate) fn describe(&self) -> String {
        match &self.state {
            PodState::InTrouble => String::new(),
            PodState::Ready { .. } => "ready again".to_owned(),
            PodState::Completed => "it has completed".to_owned(),
            PodState::Replaced { pods: 1, labels } => {
                format!("it is gone; the pod with {labels} is ready")
            }
            PodState::Replaced { pods, labels } => {
                format!("it is gone; the {pods} pods with {labels} are ready")
            }
            PodState::Gone => "the pod is gone, and no other has its labels".to_owned(),
        }
    }
}

/// Whether the pod was not well when its fault was captured.
fn is_down(fault: &Notification) -> bool {
    let pod = fault.context.iter();
    pod.into_iter().any(|pod| {
        let is_running = pod.phase.is_empty() || pod.phase == "Running";
        !is_running || pod.containers.iter().any(|one| one.state != "Running")
    })
}

/// The labels that all pods of the workload have, as a selector.
fn workload_labels(fault: &Notification) -> Option<String> {
    let labels: &BTreeMap<_, _> = fault.event.as_ref()?.labels.as_ref()?;
    let labels = labels
        .iter()
        .filter(|(key, _)| !OWN_LABELS.contains(&key.as_str()));
    let labels: Vec<_> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    (!labels.is_empty()).then(|| labels.join(","))
}

async fn check(session: Session, due: Vec<(PodId, Option<String>)>) -> Vec<(PodId, PodState)> {
    let checks = due.into_iter().map(|(id, labels)| {
        let session = &session;
        async move {
            // What cannot be read is not claimed to be well.
            let state = look_at(session, &id, labels).await;
            (id, state.unwrap_or(PodState::InTrouble))
        }
    });
    let checks: Vec<_> = checks.collect();
    stream::iter(checks).buffered(CHECKS_MAX).collect().await
}

async fn look_at(
    session: &Session,
    id: &PodId,
    labels: Option<String>,
) -> Result<PodState, ClientError> {
    let arguments = json!({"context": id.cluster, "namespace": id.namespace, "name": id.name});
    match session.call_tool("pods_get", arguments).await {
        Ok(pod) if is_ready(&pod) => {
            let restarts = pod["restarts"].as_u64().unwrap_or_default();
            return Ok(PodState::Ready { restarts });
        }
        Ok(pod) if pod["status"] == "Completed" => return Ok(PodState::Completed),
        // The object of an evicted pod stays.
        Ok(pod) if pod["status"] == "Evicted" => {}
        Ok(_) => return Ok(PodState::InTrouble),
        Err(ClientError::Tool { kind, .. }) if kind == "not_found" => {}
        Err(error) => return Err(error),
    }
    let Some(labels) = labels else {
        return Ok(PodState::Gone);
    };
    let arguments = json!({"context": id.cluster, "namespace": id.namespace,
        "labelSelector": labels, "limit": 500});
    let pods = session.call_tool("pods_list", arguments).await?;
    Ok(others(&pods, id, labels))
}

/// The state of a pod that is gone, from the list of those with its labels.
fn others(list: &Value, id: &PodId, labels: String) -> PodState {
    let rows = list["pods"].as_array().into_iter().flatten();
    let others: Vec<_> = rows
        .filter(|row| row["name"] != *id.name)
        .filter(|row| row["status"] != "Evicted" && row["status"] != "Completed")
        .collect();
    let is_complete = list["more"]["exactly"] == 0;
    match others.as_slice() {
        [] if is_complete => PodState::Gone,
        all if is_complete && all.iter().all(|row| is_ready(row)) => PodState::Replaced {
            pods: all.len(),
            labels,
        },
        _ => PodState::InTrouble,
    }
}

/// Whether all containers of a pod are ready, in a row of `pods_list` or `pods_get`.
fn is_ready(row: &Value) -> bool {
    let count = |name: &str| row[name].as_u64().unwrap_or_default();
    row["status"] == "Running" && count("containers") > 0 && count("ready") == count("containers")
}

#[cfg(test)]
mod tests;
