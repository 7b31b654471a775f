//! Why containers ended, in the words of their logs: read once for each end that an incident
//! tells of, beside the evaluation.
//!
//! ```text
//!  evaluator ──▶ wanted ──▶ queue ──▶ a few reads at a time ──▶ State::set_log_line ──▶ evaluator
//! ```

use std::{
    collections::{HashSet, VecDeque},
    convert::Infallible,
    sync::Arc,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use kubecrier_core::faults::{EvidenceProvider, LogError, LogRequest, LogSample};
use kubecrier_incidents::{
    Incident, State,
    objects::{ContainerStatus, Object, ObjectRef, Pod, Terminated},
    telling_line,
};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{Duration, Instant},
};

use super::watcher::IncidentWatcher;
use crate::{capture::ClusterEvidence, contexts::Contexts};

/// Logs that are read at the same time.
const CONCURRENCY: usize = 4;

/// Reads that wait; more are wanted again by the next evaluation.
const QUEUE_MAX: usize = 64;

/// Pods of one incident whose logs are read: all say the same as a rule.
const PODS_MAX: usize = 3;

/// Bytes at the end of a log that are searched.
const LOG_BYTES_MAX: usize = 8 * 1024;

/// The longest time that a read takes.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Ends that are remembered; beyond that, those of pods that are gone are dropped.
const ASKED_MAX: usize = 4096;

/// The detectors whose containers ended with an error.
const DETECTORS: [&str; 4] = ["crash-loop", "exit", "job", "cron-job"];

/// One end of a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ContainerEnd {
    namespace: Arc<str>,
    pod: Arc<str>,
    uid: Box<str>,
    container: Box<str>,
    restarts: i64,
    /// Whether the container was restarted since, so that its log is the previous one.
    previous: bool,
}

/// The reads of one scope.
#[derive(Debug)]
pub(super) struct CrashWords {
    reads: Mutex<Reads>,
    queued: Notify,
    /// Reads that wait or run.
    pending: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Reads {
    /// Those of them that wait or are being read.
    unread: HashSet<ContainerEnd>,
    /// Ends that were asked for, whatever the answer was.
    asked: HashSet<ContainerEnd>,
    queue: VecDeque<ContainerEnd>,
}

/// The ends that these incidents tell of and whose words are not known.
pub(super) fn wanted<'a>(
    state: &State,
    incidents: impl IntoIterator<Item = &'a Incident>,
) -> Vec<ContainerEnd> {
    incidents
        .into_iter()
        .flat_map(|incident| of_incident(state, incident))
        .collect()
}

/// The ends that an incident tells of.
pub(super) fn of_incident(state: &State, incident: &Incident) -> Vec<ContainerEnd> {
    let symptoms = incident.symptoms.iter();
    let symptoms = symptoms.filter(|symptom| DETECTORS.contains(&symptom.detector));
    let pods = symptoms.flat_map(|symptom| pods_of(state, &symptom.object));
    let ends = pods.filter_map(|pod| {
        let mut containers = pod.containers();
        containers.find_map(|status| silent_end(pod, status))
    });
    ends.take(PODS_MAX).collect()
}

/// The pods that a symptom of this object is about.
fn pods_of<'a>(state: &'a State, object: &ObjectRef) -> Vec<&'a Arc<Pod>> {
    let (namespace, name) = (&*object.namespace, &*object.name);
    if object.kind == "Pod" {
        return state.pods.get(namespace, name).into_iter().collect();
    }
    let pods = state.pods.in_namespace(namespace);
    let is_of = |pod: &&Arc<Pod>| state.top_owner(&pod.object_ref(), &pod.metadata) == *object;
    let mut pods: Vec<_> = pods.filter(is_of).collect();
    pods.sort_by_key(|pod| std::cmp::Reverse(pod.metadata.creation_timestamp));
    pods
}

/// The last end of a container, if it was an error and left no message.
fn silent_end(pod: &Pod, status: &ContainerStatus) -> Option<ContainerEnd> {
    let now = status.state.terminated.as_ref();
    let ended = now.or(status.last_state.terminated.as_ref())?;
    is_silent_error(ended).then(|| ContainerEnd {
        namespace: Arc::clone(&pod.metadata.namespace),
        pod: Arc::clone(&pod.metadata.name),
        uid: pod.metadata.uid.clone(),
        container: status.name.clone(),
        restarts: status.restart_count,
        previous: now.is_none(),
    })
}

/// Whether a container failed by itself and said nothing. One that was never started, or was
/// killed for its memory, has no words about it in its log.
fn is_silent_error(ended: &Terminated) -> bool {
    let by_itself = !matches!(
        &*ended.reason,
        "OOMKilled" | "StartError" | "ContainerCannotRun"
    );
    ended.exit_code != 0 && by_itself && ended.message.trim().is_empty()
}

/// Reads what is wanted, for ever.
pub(super) async fn run(watcher: &IncidentWatcher, contexts: Arc<Contexts>) -> Infallible {
    let words = watcher.words();
    let evidence = ClusterEvidence::new(contexts);
    let mut reads = FuturesUnordered::new();
    loop {
        while reads.len() < CONCURRENCY
            && let Some(end) = words.next()
        {
            let (evidence, context) = (&evidence, &*watcher.scope.context);
            reads.push(async move {
                let line = read(evidence, context, &end).await;
                (end, line)
            });
        }
        tokio::select! {
            Some((end, line)) = reads.next() => {
                words.read(&end);
                if let Some(line) = line {
                    watcher.set_log_line(&end, &line);
                }
                words.pending.send_modify(|pending| *pending -= 1);
            }
            () = words.queued.notified() => {}
        }
    }
}

/// The line of a log that tells why a container ended: redacted, and one of the workload.
async fn read(evidence: &ClusterEvidence, context: &str, end: &ContainerEnd) -> Option<String> {
    let source = evidence.connect(context).await.ok()?;
    let mut request = LogRequest {
        namespace: (*end.namespace).to_owned(),
        pod: (*end.pod).to_owned(),
        container: end.container.clone().into_string(),
        previous: end.previous,
        bytes_max: LOG_BYTES_MAX,
        is_retry: false,
        deadline: Instant::now() + READ_TIMEOUT,
    };
    let sample = match source.log(&request).await {
        // A kubelet may need a moment to find the log of a container that has just ended.
        Err(LogError::Kubelet(_)) => {
            request.is_retry = true;
            source.log(&request).await
        }
        // The container was not restarted after all, or was meanwhile.
        Err(LogError::Failed(_)) => {
            request.previous = !end.previous;
            source.log(&request).await
        }
        sample => sample,
    };
    words(sample.ok()?)
}

fn words(sample: LogSample) -> Option<String> {
    match sample.signature {
        Some(signature) => Some(signature.line),
        None => telling_line(&sample.tail.text).map(str::to_owned),
    }
}

// === impl ContainerEnd ===

impl ContainerEnd {
    pub(super) fn is_of(&self, pod: &Pod) -> bool {
        self.uid == pod.metadata.uid
    }

    /// Whether the container has not ended again.
    fn is_last_of(&self, pod: &Pod) -> bool {
        let mut containers = pod.containers();
        self.is_of(pod)
            && containers.any(|status| {
                status.name == self.container && status.restart_count == self.restarts
            })
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn pod(&self) -> &str {
        &self.pod
    }

    pub(super) fn container(&self) -> &str {
        &self.container
    }
}

// === impl CrashWords ===

impl Default for CrashWords {
    fn default() -> Self {
        Self {
            reads: Mutex::default(),
            queued: Notify::new(),
            pending: watch::Sender::new(0),
        }
    }
}

impl CrashWords {
    /// Reads what was not read yet; answers whether there is anything.
    pub(super) fn enqueue(&self, ends: Vec<ContainerEnd>, state: &State) -> bool {
        let mut queued = 0;
        let mut reads = self.reads.lock();
        for end in ends {
            if reads.queue.len() < QUEUE_MAX && reads.asked.insert(end.clone()) {
                reads.unread.insert(end.clone());
                reads.queue.push_back(end);
                queued += 1;
            }
        }
        if reads.asked.len() > ASKED_MAX {
            reads.asked.retain(|end| {
                let pod = state.pods.get(&end.namespace, &end.pod);
                pod.is_some_and(|pod| end.is_last_of(pod))
            });
        }
        drop(reads);
        if queued > 0 {
            self.pending.send_modify(|pending| *pending += queued);
            self.queued.notify_one();
        }
        queued > 0
    }

    /// Waits until everything that was asked for is read. Cancel-safe.
    pub(super) async fn idle(&self) {
        let mut pending = self.pending.subscribe();
        // The sender is a part of this.
        let _ = pending.wait_for(|pending| *pending == 0).await;
    }

    /// Whether one of these is being read, or waits to be.
    pub(super) fn are_unread(&self, ends: &[ContainerEnd]) -> bool {
        let reads = self.reads.lock();
        ends.iter().any(|end| reads.unread.contains(end))
    }

    fn read(&self, end: &ContainerEnd) {
        self.reads.lock().unread.remove(end);
    }

    fn next(&self) -> Option<ContainerEnd> {
        self.reads.lock().queue.pop_front()
    }
}
