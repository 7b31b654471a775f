//! A cluster as the source of a fault's evidence: the pod, its owners, its logs.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        apps::v1::ReplicaSet,
        core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Api, api::LogParams};
use tokio::time::Instant;

use super::{
    error::{ClusterError, ErrorKind, Operation},
    logs::{container_names, read},
    name::Name,
    target::Cluster,
};
use kubecrier_core::{
    faults::{
        cache::ShortMemory,
        captures::{
            CaptureLimits, Captured, Captures, ContainerFacts, Fault, LogRequest, LogSample,
            PodFacts, Source,
        },
        evidence::{CaptureError, Condition, ContainerContext, Owner, PodContext, Termination},
        signatures::Detector,
        tail::TailBuffer,
    },
    metrics::CaptureMetrics,
};
use kubecrier_redact::Redactor;

/// Lines of a log that are looked at: where a crash begins may be far above its end.
const TAIL_LINES: i64 = 200;

/// A kubelet cuts the end off what is longer, so this only guards against lines
/// without end; the sample is cut here.
const LIMIT_BYTES: i64 = 512 * 1024;

/// When the limit was met, the newest lines are asked for once more, and only them.
const LAST_LINES: i64 = 2;

/// A pod's state is old soon; who made a ReplicaSet never changes.
const POD_LIVES: Duration = Duration::from_secs(2);
const OWNER_LIVES: Duration = Duration::from_mins(5);
const PODS_MAX: usize = 256;
const OWNERS_MAX: usize = 1024;

/// Captures evidence of faults from any cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FaultCaptures {
    captures: Captures,
    known: Arc<Known>,
}

/// What was read of late, by cluster, namespace and name.
#[derive(Debug)]
struct Known {
    pods: ShortMemory<[String; 3], Arc<PodFacts>>,
    owners: ShortMemory<[String; 3], Option<Owner>>,
}

/// One cluster, with what is known of it.
#[derive(Clone)]
struct Place {
    cluster: Cluster,
    known: Arc<Known>,
}

// === impl FaultCaptures ===

impl FaultCaptures {
    /// A pool of its own.
    pub fn new(limits: CaptureLimits, metrics: CaptureMetrics) -> Self {
        Self {
            captures: Captures::new(limits, metrics),
            known: Arc::new(Known {
                pods: ShortMemory::new(POD_LIVES, PODS_MAX),
                owners: ShortMemory::new(OWNER_LIVES, OWNERS_MAX),
            }),
        }
    }

    /// The evidence of a fault, within the deadline; never fails, but says what did.
    pub async fn capture(&self, cluster: &Cluster, fault: &Fault) -> Captured {
        let place = Place {
            cluster: cluster.clone(),
            known: Arc::clone(&self.known),
        };
        self.captures.capture(&place, fault).await
    }

    /// Whether a capture of that cluster would be throttled now, for a warning.
    pub fn is_saturated(&self, context: &str) -> bool {
        self.captures.is_saturated(context)
    }

    /// Lets go of what has been remembered for long enough.
    pub fn forget_old(&self) {
        self.captures.forget_old();
        self.known.pods.forget_old();
        self.known.owners.forget_old();
    }
}

// === impl Place ===

impl Source for Place {
    async fn pod(&self, fault: &Fault) -> Result<Arc<PodFacts>, CaptureError> {
        let key = self.key(&fault.key.namespace, &fault.key.pod);
        let meant = |known: &Arc<PodFacts>| fault.uid.as_ref().is_none_or(|uid| *uid == known.uid);
        if let Some(known) = self.known.pods.get(&key).filter(meant) {
            return Ok(known);
        }
        let (api, name) = self.api(&fault.key.namespace, &fault.key.pod)?;
        let operation = self.operation("get", "pods", &key);
        let answer = self.cluster.ask(&operation, api.get(name.as_str())).await;
        let pod = answer.map_err(|error| why(&error))?;
        let owners = self.owners(&fault.key.namespace, &pod).await;
        let facts = Arc::new(facts(pod, owners, self.cluster.redactor()));
        self.known.pods.put(key, Arc::clone(&facts));
        Ok(facts)
    }

    async fn log(&self, request: LogRequest) -> Result<LogSample, CaptureError> {
        let (sample, cut) = self.read(&request, TAIL_LINES).await?;
        if !cut {
            return Ok(sample);
        }
        // What came is the beginning of the last lines, not their end.
        let (mut sample, cut, signature) = match self.read(&request, LAST_LINES).await {
            Ok((newest, cut)) => (newest, cut, sample.signature),
            // Better the beginning than nothing.
            Err(_) => (sample, true, None),
        };
        sample.tail.truncated = true;
        sample.signature = sample.signature.or(signature);
        if cut && sample.incomplete.is_none() {
            let limit = LIMIT_BYTES / 1024;
            sample.incomplete = Some(format!("its last lines are longer than {limit} KiB"));
        }
        Ok(sample)
    }
}

impl Place {
    fn key(&self, namespace: &str, name: &str) -> [String; 3] {
        [self.cluster.context(), namespace, name].map(str::to_owned)
    }

    fn operation<'a>(
        &'a self,
        verb: &'static str,
        resource: &'static str,
        [_, namespace, name]: &'a [String; 3],
    ) -> Operation<'a> {
        Operation {
            verb,
            resource,
            name: Some(name),
            namespace: Some(namespace),
            context: self.cluster.context(),
        }
    }

    /// No pod has a name that is none.
    fn api(&self, namespace: &str, pod: &str) -> Result<(Api<Pod>, Name), CaptureError> {
        let namespace = Name::label("namespace", namespace);
        let (Ok(namespace), Ok(name)) = (namespace, Name::dns("pod", pod)) else {
            return Err(CaptureError::NotFound);
        };
        Ok((
            Api::namespaced(self.cluster.client(), namespace.as_str()),
            name,
        ))
    }

    /// Who made the pod, and who made that. Whoever may not read owners still learns
    /// the nearest.
    async fn owners(&self, namespace: &str, pod: &Pod) -> Vec<Owner> {
        let Some(nearest) = controller(pod.metadata.owner_references.as_deref()) else {
            return Vec::new();
        };
        if nearest.kind != "ReplicaSet" {
            return vec![nearest];
        }
        let key = self.key(namespace, &nearest.name);
        let above = match self.known.owners.get(&key) {
            Some(known) => known,
            None => {
                let api: Api<ReplicaSet> = Api::namespaced(self.cluster.client(), namespace);
                let operation = self.operation("get", "replicasets", &key);
                let Ok(name) = Name::dns("replicaset", &nearest.name) else {
                    return vec![nearest];
                };
                let answer = self
                    .cluster
                    .ask(&operation, api.get_metadata(name.as_str()));
                let Ok(set) = answer.await else {
                    return vec![nearest];
                };
                let above = controller(set.metadata.owner_references.as_deref());
                self.known.owners.put(key, above.clone());
                above
            }
        };
        std::iter::once(nearest).chain(above).collect()
    }

    /// Reads the last lines; also says whether the kubelet cut their end off.
    async fn read(
        &self,
        request: &LogRequest,
        tail_lines: i64,
    ) -> Result<(LogSample, bool), CaptureError> {
        let LogRequest {
            container,
            previous,
            bytes_max,
            deadline,
            ..
        } = request;
        let (api, name) = self.api(&request.namespace, &request.pod)?;
        let params = LogParams {
            container: Some(container.clone()),
            previous: *previous,
            // One more than wanted tells whether there is more.
            tail_lines: Some(tail_lines + 1),
            limit_bytes: Some(LIMIT_BYTES),
            ..LogParams::default()
        };
        let key = self.key(&request.namespace, &request.pod);
        let operation = self.operation("get", "pods/log", &key);
        let answer = self
            .cluster
            .ask(&operation, api.log_stream(name.as_str(), &params));
        let stream = answer.await.map_err(|error| match why(&error) {
            // A kubelet and an API server answer 400 for a run that left no log.
            CaptureError::Unavailable if *previous && error.kind() == ErrorKind::Invalid => {
                CaptureError::NotFound
            }
            other => other,
        })?;
        let mut lines = self.cluster.redactor().lines();
        let mut detector = Detector::default();
        let mut tail = TailBuffer::new(*bytes_max);
        let mut looked = 0;
        let left = deadline.saturating_duration_since(Instant::now());
        let ended = read(stream, left, *deadline, |line| {
            looked += 1;
            // One line may have become several.
            for line in lines.clean(line).split('\n') {
                detector.line(line);
                tail.push(line);
            }
        })
        .await;
        if looked > tail_lines {
            tail.lost_some();
        }
        let out_of_time = Instant::now() >= *deadline;
        if tail.is_empty() && ended.early.is_some() {
            return Err(if out_of_time {
                CaptureError::Timeout
            } else {
                CaptureError::Unavailable
            });
        }
        let sample = LogSample {
            tail: tail.finish(),
            signature: detector.finish(),
            incomplete: ended.early,
        };
        let cut = i64::try_from(ended.bytes).is_ok_and(|bytes| bytes >= LIMIT_BYTES);
        Ok((sample, cut && tail_lines > 0))
    }
}

/// A failure in the words of a payload.
fn why(error: &ClusterError) -> CaptureError {
    match error.kind() {
        ErrorKind::Forbidden | ErrorKind::Unauthorized => CaptureError::Forbidden,
        ErrorKind::NotFound => CaptureError::NotFound,
        ErrorKind::Timeout => CaptureError::Timeout,
        ErrorKind::Throttled => CaptureError::Throttled,
        ErrorKind::Unreachable
        | ErrorKind::Certificate
        | ErrorKind::Invalid
        | ErrorKind::Kubeconfig
        | ErrorKind::Context => CaptureError::Unavailable,
        ErrorKind::Other => CaptureError::Unknown,
    }
}

pub(super) fn controller(owners: Option<&[OwnerReference]>) -> Option<Owner> {
    let owners = owners?;
    let one = owners
        .iter()
        .find(|one| one.controller == Some(true))
        .or(owners.first())?;
    Some(Owner {
        kind: one.kind.clone(),
        name: one.name.clone(),
    })
}

pub(super) fn facts(pod: Pod, owners: Vec<Owner>, redactor: &Redactor) -> PodFacts {
    let names = container_names(&pod);
    let spec = pod.spec.unwrap_or_default();
    let status = pod.status.unwrap_or_default();
    let images = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    let images: Vec<_> = images.map(|one| (&one.name, &one.image)).collect();
    let mut containers: Vec<_> = names
        .into_iter()
        .map(|name| {
            let image = images.iter().find(|(known, _)| **known == name);
            let image = image
                .and_then(|(_, image)| (*image).clone())
                .unwrap_or_default();
            container(name, image, &status, redactor)
        })
        .collect();
    containers.sort_by_key(|one| !one.failing);
    let clean = |text: &String| redactor.workload(text).into_owned();
    let conditions = status.conditions.iter().flatten().map(|one| Condition {
        kind: one.type_.clone(),
        status: one.status.clone(),
        reason: one.reason.as_ref().map(clean),
        message: one.message.as_ref().map(clean),
    });
    let context = PodContext {
        phase: status.phase.clone().unwrap_or_default(),
        reason: status.reason.as_ref().map(clean),
        node: spec.node_name,
        conditions: conditions.collect(),
        containers: containers.iter().map(|one| one.context.clone()).collect(),
        owners,
        shortened: false,
    };
    PodFacts {
        uid: pod.metadata.uid.unwrap_or_default(),
        context: context.bounded(),
        containers: containers.into_iter().map(|one| one.facts).collect(),
    }
}

struct Looked {
    failing: bool,
    facts: ContainerFacts,
    context: ContainerContext,
}

fn container(name: String, image: String, status: &PodStatus, redactor: &Redactor) -> Looked {
    let known = [
        &status.container_statuses,
        &status.init_container_statuses,
        &status.ephemeral_container_statuses,
    ];
    let found = known
        .into_iter()
        .flatten()
        .flatten()
        .find(|one| one.name == name);
    let now = found.and_then(|one| one.state.as_ref());
    let ended = |state: Option<&ContainerState>| state.and_then(|state| state.terminated.clone());
    let before = found.and_then(|one| ended(one.last_state.as_ref()));
    let last = ended(now).or(before.clone());
    let restart_count = found.map_or(0, |one| one.restart_count);
    let clean = |text: String| redactor.workload(&text).into_owned();
    let termination = |end: ContainerStateTerminated| Termination {
        exit_code: end.exit_code,
        signal: end.signal,
        reason: end.reason.map(clean),
        message: end.message.map(clean),
        finished_at: end.finished_at.map(|time| time.0),
    };
    Looked {
        failing: found.is_some_and(is_failing),
        facts: ContainerFacts {
            name: name.clone(),
            restarted: restart_count > 0 || before.is_some(),
        },
        context: ContainerContext {
            name,
            image,
            state: now.map_or_else(|| "Unknown".to_owned(), word),
            restart_count,
            last_termination: last.map(termination),
        },
    }
}

fn is_failing(one: &ContainerStatus) -> bool {
    let bad = |state: &ContainerState| {
        state
            .terminated
            .as_ref()
            .is_some_and(|end| end.exit_code != 0)
            || state.waiting.as_ref().is_some_and(|waiting| {
                let reason = waiting.reason.as_deref();
                !matches!(reason, None | Some("ContainerCreating" | "PodInitializing"))
            })
    };
    one.state.as_ref().is_some_and(bad) || one.last_state.as_ref().is_some_and(bad)
}

fn word(state: &ContainerState) -> String {
    let reason = match state {
        ContainerState {
            waiting: Some(waiting),
            ..
        } => waiting.reason.clone(),
        ContainerState {
            terminated: Some(end),
            ..
        } => end.reason.clone(),
        ContainerState {
            running: Some(_), ..
        } => Some("Running".to_owned()),
        _ => None,
    };
    reason.unwrap_or_else(|| "Unknown".to_owned())
}

#[cfg(test)]
mod tests;
