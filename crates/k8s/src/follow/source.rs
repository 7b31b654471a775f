//! What a follower reads: a pod and its log, behind a trait that tests can script.

use std::{future::Future, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{Api, api::LogParams};

use super::{LogKey, lines::Bytes};
use crate::{
    client::Cluster,
    contexts::Contexts,
    error::{ClusterError, ErrorKind, Operation},
    logs::container_names,
};

/// A log that can be followed.
pub(super) trait LogSource: Send + Sync + 'static {
    /// How the container stands now.
    fn container(&self) -> impl Future<Output = Result<ContainerState, ClusterError>> + Send;

    /// Opens the log; each line begins with its time.
    fn open(&self, part: Part) -> impl Future<Output = Result<Bytes, ClusterError>> + Send;
}

/// What a look at the pod has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ContainerState {
    /// There is no such pod.
    Gone,
    /// It has no such container; these it has.
    NoContainer(Vec<String>),
    /// It is there.
    Present {
        /// Which of its runs.
        run: ContainerRun,
        /// Why it does not run, if it does not.
        not_running: Option<String>,
    },
}

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerRun {
    /// Which pod: a new one may have the same name.
    pub(super) uid: String,
    /// How often the container was started again.
    pub(super) restarts: i32,
}

/// Which part of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The last line alone.
    Last,
    /// What the run before this one wrote since then.
    Previous(Option<Timestamp>),
    /// Everything since then, and whatever comes.
    Follow(Option<Timestamp>),
}

/// A container of a real cluster.
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
        let look = |cluster: Cluster| async move {
            let api = self.api(&cluster);
            let request = api.get(self.key.pod.as_str());
            cluster.request(&self.operation("pods"), request).await
        };
        let pod = match self
            .contexts
            .with_cluster(Some(&self.key.context), look)
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
        let status = status(&pod, container);
        let not_running = not_running(status);
        let run = ContainerRun {
            restarts: status.map_or(0, |status| status.restart_count),
            uid: pod.metadata.uid.unwrap_or_default(),
        };
        Ok(ContainerState::Present { run, not_running })
    }

    async fn open(&self, part: Part) -> Result<Bytes, ClusterError> {
        let mut params = LogParams {
            container: Some(self.key.container.to_string()),
            timestamps: true,
            ..LogParams::default()
        };
        match part {
            Part::Last => params.tail_lines = Some(1),
            Part::Previous(since) => {
                params.previous = true;
                params.since_time = since;
            }
            Part::Follow(since) => {
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
            Ok(Box::pin(stream) as Bytes)
        };
        self.contexts
            .with_cluster(Some(&self.key.context), open)
            .await
    }
}

fn status<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().flatten();
    let all = all.chain(status.init_container_statuses.iter().flatten());
    let mut all = all.chain(status.ephemeral_container_statuses.iter().flatten());
    all.find(|one| one.name == container)
}

/// Why a container does not run; one of which nothing is known may.
fn not_running(status: Option<&ContainerStatus>) -> Option<String> {
    let state = status?.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        return Some(waiting.reason.clone().unwrap_or_default());
    }
    let ended = state.terminated.as_ref()?;
    let reason = ended.reason.clone().unwrap_or_default();
    Some(format!("{reason}, exit code {}", ended.exit_code))
}
