//! Evidence of faults, read from a cluster: the pod, its owners, its logs.

mod log;

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use k8s_openapi::{
    api::{
        apps::v1::ReplicaSet,
        core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, PodStatus},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::Api;

use super::{
    allowed::ReadScope,
    client::Cluster,
    contexts::Contexts,
    error::{ClusterError, ErrorKind, Operation},
    identity,
    impersonation::Actor,
    logs::container_names,
    name::Name,
    pods::read::Pod,
    termination::hide_log_tails_of,
};
use kubecrier_core::faults::{
    CaptureError, Condition, ContainerContext, ContainerFacts, EvidenceProvider, EvidenceSource,
    Fault, LogError, LogRequest, LogSample, PodContext, PodFacts, PodOwner, Termination,
};
use kubecrier_core::ttl_cache::{CacheLimits, TtlCache};
use kubecrier_redact::Redactor;

/// The longest message of a condition or a termination; the whole state has a limit besides.
const TEXT_BYTES_MAX: usize = 4096;

/// A pod's state changes soon; the owner of a ReplicaSet never does.
const POD_TTL: Duration = Duration::from_secs(2);
const OWNER_TTL: Duration = Duration::from_mins(5);
const PODS_MAX: usize = 256;
const OWNERS_MAX: usize = 1024;

/// Evidence from the clusters of the kubeconfig.
#[derive(Debug)]
pub struct ClusterEvidence {
    contexts: Arc<Contexts>,
    cache: Arc<Cache>,
}

/// Pods, and owners of ReplicaSets, by cluster, namespace and name.
#[derive(Debug)]
struct Cache {
    pods: TtlCache<[String; 3], Arc<PodFacts>>,
    owners: TtlCache<[String; 3], Option<PodOwner>>,
}

/// Evidence from one cluster.
struct PodReader {
    cluster: Cluster,
    cache: Arc<Cache>,
}

// === impl ClusterEvidence ===

impl ClusterEvidence {
    /// Evidence from these clusters.
    pub fn new(contexts: Arc<Contexts>) -> Self {
        Self {
            contexts,
            cache: Arc::new(Cache {
                pods: TtlCache::new(CacheLimits::new(PODS_MAX, POD_TTL)),
                owners: TtlCache::new(CacheLimits::new(OWNERS_MAX, OWNER_TTL)),
            }),
        }
    }
}

impl EvidenceProvider for ClusterEvidence {
    fn connect<'a>(
        &'a self,
        cluster: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn EvidenceSource>, CaptureError>> {
        async move {
            let source: Arc<dyn EvidenceSource> = Arc::new(PodReader {
                cluster: self.contexts.cluster(&Actor::Server, Some(cluster)).await?,
                cache: Arc::clone(&self.cache),
            });
            Ok(source)
        }
        .boxed()
    }

    fn remove_expired(&self) {
        self.cache.pods.remove_expired();
        self.cache.owners.remove_expired();
    }
}

// === impl PodReader ===

impl EvidenceSource for PodReader {
    fn pod<'a>(&'a self, fault: &'a Fault) -> BoxFuture<'a, Result<Arc<PodFacts>, CaptureError>> {
        self.read_pod(fault).boxed()
    }

    fn log<'a>(&'a self, request: &'a LogRequest) -> BoxFuture<'a, Result<LogSample, LogError>> {
        self.read_log(request).boxed()
    }
}

impl PodReader {
    async fn read_pod(&self, fault: &Fault) -> Result<Arc<PodFacts>, CaptureError> {
        let key = self.key(&fault.key.namespace, &fault.key.pod);
        let same = |cached: &Arc<PodFacts>| fault.uid.as_ref().is_none_or(|uid| *uid == cached.uid);
        if let Some(cached) = self.cache.pods.get(&key).filter(same) {
            return Ok(cached);
        }
        let (api, name) = self.api(&fault.key.namespace, &fault.key.pod)?;
        let operation = self.operation("get", "pods", &key);
        let mut pod = self
            .cluster
            .request(&operation, api.get(name.as_str()))
            .await?;
        if self.cluster.scope().hides_logs {
            hide_log_tails_of(&mut pod);
        }
        let owners = self.owners(&fault.key.namespace, &pod).await;
        let facts = Arc::new(facts(pod, owners, self.cluster.redactor()));
        self.cache.pods.insert(key, Arc::clone(&facts));
        Ok(facts)
    }

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

    /// The API of a pod; a name that is not valid belongs to no pod.
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

    /// The owner of the pod and the owner of that. The nearest is known from the pod, also
    /// without the right to read owners.
    async fn owners(&self, namespace: &str, pod: &Pod) -> Vec<PodOwner> {
        let scope = self.cluster.scope();
        let Some(nearest) = controller(pod.metadata.owner_references.as_deref(), scope) else {
            return Vec::new();
        };
        if nearest.kind != "ReplicaSet" {
            return vec![nearest];
        }
        let key = self.key(namespace, &nearest.name);
        let above = match self.cache.owners.get(&key) {
            Some(cached) => cached,
            None => {
                let api: Api<ReplicaSet> = Api::namespaced(self.cluster.client(), namespace);
                let operation = self.operation("get", "replicasets", &key);
                let Ok(name) = Name::dns("replicaset", &nearest.name) else {
                    return vec![nearest];
                };
                let answer = self
                    .cluster
                    .request(&operation, api.get_metadata(name.as_str()));
                let Ok(set) = answer.await else {
                    return vec![nearest];
                };
                let above = controller(set.metadata.owner_references.as_deref(), scope);
                self.cache.owners.insert(key, above.clone());
                above
            }
        };
        std::iter::once(nearest).chain(above).collect()
    }
}

/// The one mapping from a cluster's errors to the errors of a capture.
impl From<ClusterError> for CaptureError {
    fn from(error: ClusterError) -> Self {
        match error.kind() {
            ErrorKind::Forbidden | ErrorKind::Unauthorized => Self::Forbidden,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Timeout => Self::Timeout,
            ErrorKind::Throttled => Self::Throttled,
            ErrorKind::Unreachable
            | ErrorKind::Certificate
            | ErrorKind::Invalid
            | ErrorKind::Kubeconfig
            | ErrorKind::Context => Self::Unavailable,
            ErrorKind::TooLarge | ErrorKind::Other => Self::Unknown,
        }
    }
}

impl From<ClusterError> for LogError {
    fn from(error: ClusterError) -> Self {
        Self::Failed(error.into())
    }
}

/// The type of a condition; of a custom condition it has a domain, as a label has.
fn condition_type(redactor: &Redactor, text: &str) -> String {
    match text.rsplit_once('/') {
        Some((domain, word)) => {
            let domain = identity::name(redactor, domain);
            format!("{domain}/{}", identity::word(redactor, word))
        }
        None => identity::word(redactor, text).into_owned(),
    }
}

/// The controller of an object, else its first owner; none if it is of a denied kind.
pub(super) fn controller(owners: Option<&[OwnerReference]>, scope: &ReadScope) -> Option<PodOwner> {
    let owners = owners?;
    let owner = owners
        .iter()
        .find(|owner| owner.controller == Some(true))
        .or(owners.first())?;
    if scope.denied.denies_object(&owner.api_version, &owner.kind) {
        return None;
    }
    Some(PodOwner {
        kind: owner.kind.clone(),
        name: owner.name.clone(),
    })
}

/// A pod as a capture needs it, redacted, failing containers first.
pub(super) fn facts(pod: Pod, owners: Vec<PodOwner>, redactor: &Redactor) -> PodFacts {
    let names = container_names(&pod);
    let spec = pod.spec;
    let status = pod.status.unwrap_or_default();
    let images = spec.containers.iter().chain(&spec.init_containers);
    let images: Vec<_> = images
        .map(|container| (&container.name, &container.image))
        .collect();
    let mut containers: Vec<_> = names
        .into_iter()
        .map(|name| {
            let image = images.iter().find(|(container, _)| **container == name);
            let image = image
                .and_then(|(_, image)| (*image).clone())
                .unwrap_or_default();
            container(name, &image, &status, redactor)
        })
        .collect();
    containers.sort_by_key(|container| !container.failing);
    let word = |text: &String| identity::word(redactor, text).into_owned();
    let text = |text: &String| identity::bounded(redactor, text, TEXT_BYTES_MAX).into_owned();
    let conditions = status
        .conditions
        .iter()
        .flatten()
        .map(|condition| Condition {
            kind: condition_type(redactor, &condition.type_),
            status: word(&condition.status),
            reason: condition.reason.as_ref().map(word),
            message: condition.message.as_ref().map(text),
        });
    let context = PodContext {
        phase: status.phase.as_ref().map(word).unwrap_or_default(),
        reason: status.reason.as_ref().map(word),
        node: (spec.node_name).map(|node| identity::name(redactor, &node).into_owned()),
        conditions: conditions.collect(),
        containers: containers
            .iter()
            .map(|container| container.context.clone())
            .collect(),
        owners,
        shortened: false,
    };
    PodFacts {
        uid: pod.metadata.uid.unwrap_or_default(),
        context: context.bounded(),
        containers: containers
            .into_iter()
            .map(|container| container.facts)
            .collect(),
    }
}

struct ContainerReading {
    failing: bool,
    facts: ContainerFacts,
    context: ContainerContext,
}

fn container(
    name: String,
    image: &str,
    status: &PodStatus,
    redactor: &Redactor,
) -> ContainerReading {
    let statuses = [
        &status.container_statuses,
        &status.init_container_statuses,
        &status.ephemeral_container_statuses,
    ];
    let status = statuses
        .into_iter()
        .flatten()
        .flatten()
        .find(|container| container.name == name);
    let now = status.and_then(|container| container.state.as_ref());
    let ended = |state: Option<&ContainerState>| state.and_then(|state| state.terminated.clone());
    let before = status.and_then(|container| ended(container.last_state.as_ref()));
    let last = ended(now).or(before.clone());
    let restart_count = status.map_or(0, |container| container.restart_count);
    let word = |text: String| identity::word(redactor, &text).into_owned();
    let text = |text: String| identity::bounded(redactor, &text, TEXT_BYTES_MAX).into_owned();
    let termination = |end: ContainerStateTerminated| Termination {
        exit_code: end.exit_code,
        signal: end.signal,
        reason: end.reason.map(word),
        message: end.message.map(text),
        finished_at: end.finished_at.map(|time| time.0),
    };
    ContainerReading {
        failing: status.is_some_and(is_failing),
        facts: ContainerFacts {
            name: name.clone(),
            restarted: restart_count > 0 || before.is_some(),
        },
        context: ContainerContext {
            name,
            image: identity::image(redactor, image).into_owned(),
            state: word(now.map_or_else(|| "Unknown".to_owned(), state_name)),
            restart_count,
            last_termination: last.map(termination),
        },
    }
}

fn is_failing(container: &ContainerStatus) -> bool {
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
    container.state.as_ref().is_some_and(bad) || container.last_state.as_ref().is_some_and(bad)
}

/// The reason of a state, as kubectl shows it.
fn state_name(state: &ContainerState) -> String {
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
