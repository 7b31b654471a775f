//! Pods as rows of a list: the columns of kubectl, not the whole status.

mod listed;
pub(crate) mod read;

use std::{collections::BTreeMap, fmt::Debug};

use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ContainerState, ContainerStatus, PodStatus, Service},
};
use kube::{Api, api::ListParams};
use serde::{Serialize, de::DeserializeOwned};

use self::{
    listed::ListedPod,
    read::{Container, Pod, PodSpec},
};
use super::{
    capture::{controller, facts},
    client::Cluster,
    error::{ClusterError, Operation},
    identity,
    list::{ListQuery, PAGE_SIZE, Page},
    name::Name,
    termination::hide_log_tails_of,
};
use kubecrier_core::faults::PodContext;
use kubecrier_redact::Redactor;

/// One pod as a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRow {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// Number of containers that are ready.
    pub ready: usize,
    /// Number of containers.
    pub containers: usize,
    /// The column STATUS of kubectl: Running, CrashLoopBackOff, Init:1/2, ...
    pub status: String,
    /// Sum of the restarts of all containers.
    pub restarts: i32,
    /// When a container last ended before it was restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_restart: Option<Timestamp>,
    /// Node that the pod is assigned to.
    pub node: Option<String>,
    /// Creation time.
    pub created: Option<Timestamp>,
}

/// One pod in detail.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDetail {
    /// The row of the list.
    #[serde(flatten)]
    pub row: PodRow,
    /// Pod IP.
    pub ip: Option<String>,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// Conditions, containers and owners.
    pub state: PodContext,
}

impl Cluster {
    /// One pod as a row.
    pub async fn pod(&self, namespace: &Name, name: &Name) -> Result<PodDetail, ClusterError> {
        let operation = Operation {
            verb: "get",
            resource: "pods",
            name: Some(name.as_str()),
            namespace: Some(namespace.as_str()),
            context: self.context(),
        };
        let api: Api<Pod> = Api::namespaced(self.client(), namespace.as_str());
        let mut pod = self.request(&operation, api.get(name.as_str())).await?;
        if self.scope().hides_logs {
            hide_log_tails_of(&mut pod);
        }
        let owner = controller(pod.metadata.owner_references.as_deref(), self.scope());
        let redactor = self.redactor();
        Ok(PodDetail {
            ip: (pod.status.as_ref())
                .and_then(|status| status.pod_ip.as_deref())
                .map(|ip| identity::text(redactor, ip).into_owned()),
            labels: identity::labels(redactor, pod.metadata.labels.iter().flatten()),
            row: row(pod.clone(), redactor),
            state: facts(pod, owner.into_iter().collect(), redactor).context,
        })
    }

    /// The names of the pods of a namespace, up to one page.
    pub async fn pod_names(&self, namespace: &Name) -> Result<Vec<String>, ClusterError> {
        self.names::<Pod>("pods", namespace).await
    }

    /// The names of the services of a namespace, up to one page.
    pub async fn service_names(&self, namespace: &Name) -> Result<Vec<String>, ClusterError> {
        self.names::<Service>("services", namespace).await
    }

    async fn names<K>(&self, resource: &str, namespace: &Name) -> Result<Vec<String>, ClusterError>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let operation = Operation {
            verb: "list",
            resource,
            name: None,
            namespace: Some(namespace.as_str()),
            context: self.context(),
        };
        let api: Api<K> = Api::namespaced(self.client(), namespace.as_str());
        let params = ListParams::default().limit(PAGE_SIZE);
        let page = self.request(&operation, api.list_metadata(&params)).await?;
        let names = page.items.into_iter();
        Ok(names.filter_map(|one| one.metadata.name).collect())
    }

    /// The pods of a namespace, or of all.
    pub async fn pods(&self, query: &ListQuery) -> Result<Page<PodRow>, ClusterError> {
        let ask = async |namespace| self.pods_in(namespace, query).await;
        let pages = self.each_namespace(query.namespace.as_ref(), ask).await?;
        Ok(pages.into_page(query.limit))
    }

    async fn pods_in(
        &self,
        namespace: Option<Name>,
        query: &ListQuery,
    ) -> Result<Page<PodRow>, ClusterError> {
        let operation = Operation {
            verb: "list",
            resource: "pods",
            name: None,
            namespace: namespace.as_ref().map(Name::as_str),
            context: self.context(),
        };
        let api: Api<ListedPod> = match &namespace {
            Some(namespace) => Api::namespaced(self.client(), namespace.as_str()),
            None => Api::all(self.client()),
        };
        let page = self.list(&operation, &api, query).await?;
        Ok(page.map(|pod| row(pod.into(), self.redactor())))
    }
}

fn row(pod: Pod, redactor: &Redactor) -> PodRow {
    let spec = pod.spec;
    let status = pod.status.unwrap_or_default();
    let deleting = pod.metadata.deletion_timestamp.is_some();
    let PodSummary {
        ready,
        containers,
        status,
        restarts,
        last_restart,
    } = summary(&spec, &status, deleting);
    PodRow {
        ready,
        containers,
        status: identity::word(redactor, &status).into_owned(),
        restarts,
        last_restart,
        namespace: pod.metadata.namespace.unwrap_or_default(),
        name: pod.metadata.name.unwrap_or_default(),
        node: (spec.node_name).map(|node| identity::name(redactor, &node).into_owned()),
        created: pod.metadata.creation_timestamp.map(|time| time.0),
    }
}

/// The columns READY, STATUS and RESTARTS of kubectl.
pub(super) struct PodSummary {
    pub(super) ready: usize,
    pub(super) containers: usize,
    pub(super) status: String,
    pub(super) restarts: i32,
    pub(super) last_restart: Option<Timestamp>,
}

/// The progress of the init containers.
struct InitProgress {
    /// Why the pod is still initializing, if it is.
    pending_reason: Option<String>,
    /// Number of sidecars that are ready.
    ready: usize,
    restarts: i32,
    sidecar_restarts: i32,
    last_restart: Option<Timestamp>,
    sidecar_last_restart: Option<Timestamp>,
}

/// Computes the columns as kubectl does; a test compares with the table of an API server.
pub(super) fn summary(spec: &PodSpec, status: &PodStatus, deleting: bool) -> PodSummary {
    let declared = &spec.init_containers;
    let statuses = status.container_statuses.as_deref().unwrap_or_default();
    let inits = init_containers(status, declared);
    let phase = status.phase.as_deref().unwrap_or_default();
    let mut reason = status.reason.clone().filter(|reason| !reason.is_empty());
    if condition(status, "PodScheduled").is_some_and(|(_, why)| why == Some("SchedulingGated")) {
        reason = Some("SchedulingGated".to_owned());
    }
    let mut reason = reason.unwrap_or_else(|| phase.to_owned());
    let mut ready = inits.ready;
    let (mut restarts, mut last_restart) = (inits.restarts, inits.last_restart);
    let initializing = inits.pending_reason.is_some();
    if let Some(why) = inits.pending_reason {
        reason = why;
    }
    if !initializing || is_true(status, "Initialized") {
        restarts = inits.sidecar_restarts;
        let ends = statuses.iter().filter_map(last_end);
        last_restart = ends.max().max(inits.sidecar_last_restart);
        restarts += statuses.iter().map(|one| one.restart_count).sum::<i32>();
        ready += statuses.iter().filter(|one| is_running(one)).count();
        // The first container that is not running gives the status of the pod.
        let container_reason = statuses
            .iter()
            .find_map(|one| state_reason(one.state.as_ref()?));
        reason = container_reason.unwrap_or(reason);
        if reason == "Completed" {
            let running = statuses.iter().any(is_running);
            let failed = statuses
                .iter()
                .find_map(|one| failure_reason(one.state.as_ref()?));
            reason = match failed {
                _ if running && is_true(status, "Ready") => "Running".to_owned(),
                Some(failed) => failed,
                None if running => "NotReady".to_owned(),
                None => reason,
            };
        }
    }
    let reason = match deleting {
        true if status.reason.as_deref() == Some("NodeLost") => "Unknown".to_owned(),
        true if !matches!(phase, "Succeeded" | "Failed") => "Terminating".to_owned(),
        _ => reason,
    };
    let sidecars = declared.iter().filter(|one| is_sidecar(one)).count();
    PodSummary {
        ready,
        containers: spec.containers.len() + sidecars,
        status: reason,
        restarts,
        last_restart,
    }
}

fn init_containers(status: &PodStatus, declared: &[Container]) -> InitProgress {
    let mut inits = InitProgress {
        pending_reason: None,
        ready: 0,
        restarts: 0,
        sidecar_restarts: 0,
        last_restart: None,
        sidecar_last_restart: None,
    };
    for (done, one) in status.init_container_statuses.iter().flatten().enumerate() {
        let sidecar = declared
            .iter()
            .any(|container| container.name == one.name && is_sidecar(container));
        inits.restarts += one.restart_count;
        inits.last_restart = inits.last_restart.max(last_end(one));
        if sidecar {
            inits.sidecar_restarts += one.restart_count;
            inits.sidecar_last_restart = inits.sidecar_last_restart.max(last_end(one));
        }
        let state = one.state.as_ref();
        let ended = state.and_then(|state| state.terminated.as_ref());
        if ended.is_some_and(|ended| ended.exit_code == 0) {
            continue;
        }
        if sidecar && one.started == Some(true) {
            inits.ready += usize::from(one.ready);
            continue;
        }
        let why = state
            .and_then(state_reason)
            .filter(|reason| reason != "PodInitializing");
        inits.pending_reason = Some(match why {
            Some(reason) => format!("Init:{reason}"),
            None => format!("Init:{done}/{}", declared.len()),
        });
        break;
    }
    inits
}

/// When the run before the current one ended.
fn last_end(container: &ContainerStatus) -> Option<Timestamp> {
    let ended = container.last_state.as_ref()?.terminated.as_ref()?;
    ended.finished_at.as_ref().map(|time| time.0)
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn is_running(container: &ContainerStatus) -> bool {
    let running = |state: &ContainerState| state.running.is_some() && state_reason(state).is_none();
    container.ready && container.state.as_ref().is_some_and(running)
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<(&'a str, Option<&'a str>)> {
    let found = status
        .conditions
        .iter()
        .flatten()
        .find(|one| one.type_ == kind)?;
    Some((found.status.as_str(), found.reason.as_deref()))
}

fn is_true(status: &PodStatus, kind: &str) -> bool {
    condition(status, kind).is_some_and(|(value, _)| value == "True")
}

/// Why a container is not running.
fn state_reason(state: &ContainerState) -> Option<String> {
    if let Some(waiting) = &state.waiting
        && let Some(reason) = waiting.reason.clone().filter(|reason| !reason.is_empty())
    {
        return Some(reason);
    }
    let ended = state.terminated.as_ref()?;
    Some(match (&ended.reason, ended.signal) {
        (Some(reason), _) if !reason.is_empty() => reason.clone(),
        (_, Some(signal)) if signal != 0 => format!("Signal:{signal}"),
        _ => format!("ExitCode:{}", ended.exit_code),
    })
}

/// Why a container failed, if it has.
fn failure_reason(state: &ContainerState) -> Option<String> {
    state
        .terminated
        .as_ref()
        .filter(|ended| ended.exit_code != 0)?;
    state_reason(state)
}
