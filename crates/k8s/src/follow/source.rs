//! The source of a follower: a pod and its log, behind a trait that tests implement.

use std::{future::Future, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ContainerStatus;
use kube::{Api, api::LogParams};

use super::{LogKey, lines::LogStream};
use crate::{
    client::Cluster,
    contexts::Contexts,
    error::{ClusterError, ErrorKind, Operation},
    impersonation::Actor,
    logs::container_names,
    pods::read::Pod,
};

/// A log that can be followed.
pub(super) trait LogSource: Send + Sync + 'static {
    /// Reads the current state of the container.
    fn container(&self) -> impl Future<Output = Result<ContainerState, ClusterError>> + Send;

    /// Opens the log; each line begins with its timestamp.
    fn open(
        &self,
        section: LogSection,
    ) -> impl Future<Output = Result<LogStream, ClusterError>> + Send;
}

/// The state of the container in its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ContainerState {
    /// The pod does not exist.
    Gone,
    /// The pod has no such container, but these.
    NoContainer(Vec<String>),
    /// The container exists.
    Present {
        /// The current run.
        run: ContainerRun,
        /// Why the container is not running, if it is not.
        not_running: Option<String>,
    },
}

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerRun {
    /// UID of the pod: a new pod may have the same name.
    pub(super) uid: String,
    /// Restart count of the container.
    pub(super) restarts: i32,
}

/// The section of a log to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogSection {
    /// Only the last line.
    Last,
    /// The log of the previous run, since that time.
    Previous(Option<Timestamp>),
    /// The log since that time, followed.
    Follow(Option<Timestamp>),
}

/// The log of a container in a cluster.
pub(super) struct ContainerLogSource {
    contexts: Arc<Contexts>,
    key: LogKey,
}

// === impl ContainerLogSource ===

impl ContainerLogSource {
    pub(super) fn new(contexts: Arc<Contexts>, key: LogKey) -> Self {
        Self { contexts, key }
    }

    fn operation(&self, resource: &'static str) -> Operation<'_> {
        Operation {
            verb: "get",
            resource,
            name: Some(self.key.pod.as_str()),
            namespace: Some(self.key.namespace.as_str()),
            context: &self.key.context,
        }
    }

    fn api(&self, cluster: &Cluster) -> Api<Pod> {
        Api::namespaced(cluster.client(), self.key.namespace.as_str())
    }
}

impl LogSource for ContainerLogSource {
    async fn container(&self) -> Result<ContainerState, ClusterError> {
        let get_pod = |cluster: Cluster| async move {
            let api = self.api(&cluster);
            let request = api.get(self.key.pod.as_str());
            cluster.request(&self.operation("pods"), request).await
        };
        let pod = match self
            .contexts
            .with_cluster(&Actor::Server, Some(&self.key.context), get_pod)
            .await
        {
            Ok(pod) => pod,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ContainerState::Gone),
            Err(error) => return Err(error),
        };
        let names = container_names(&pod);
        let container = self.key.container.as_str();
        if !names.iter().any(|name| name == container) {
            return Ok(ContainerState::NoContainer(names));
        }
        let status = container_status(&pod, container);
        let not_running = not_running(status);
        let run = ContainerRun {
            restarts: status.map_or(0, |status| status.restart_count),
            uid: pod.metadata.uid.unwrap_or_default(),
        };
        Ok(ContainerState::Present { run, not_running })
    }

    async fn open(&self, section: LogSection) -> Result<LogStream, ClusterError> {
        let mut params = LogParams {
            container: Some(self.key.container.to_string()),
            timestamps: true,
            ..LogParams::default()
        };
        match section {
            LogSection::Last => params.tail_lines = Some(1),
            LogSection::Previous(since) => {
                params.previous = true;
                params.since_time = since;
            }
            LogSection::Follow(since) => {
                params.follow = true;
                params.since_time = since;
            }
        }
        let params = &params;
        let open = |cluster: Cluster| async move {
            let api = self.api(&cluster);
            let request = api.log_stream(self.key.pod.as_str(), params);
            let stream = cluster
                .request(&self.operation("pods/log"), request)
                .await?;
            Ok(Box::pin(stream) as LogStream)
        };
        self.contexts
            .with_cluster(&Actor::Server, Some(&self.key.context), open)
            .await
    }
}

fn container_status<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let pod_status = pod.status.as_ref()?;
    let all = pod_status.container_statuses.iter().flatten();
    let all = all.chain(pod_status.init_container_statuses.iter().flatten());
    let mut all = all.chain(pod_status.ephemeral_container_statuses.iter().flatten());
    all.find(|status| status.name == container)
}

/// Why a container is not running; `None` if its status is not known.
fn not_running(status: Option<&ContainerStatus>) -> Option<String> {
    let state = status?.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        return Some(waiting.reason.clone().unwrap_or_default());
    }
    let ended = state.terminated.as_ref()?;
    let reason = ended.reason.clone().unwrap_or_default();
    Some(format!("{reason}, exit code {}", ended.exit_code))
}
