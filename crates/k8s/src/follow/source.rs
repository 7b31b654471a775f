//! Where a followed log comes from: the seam under the follower.

use std::{future::Future, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{Api, api::LogParams};

use super::{LogKey, lines::Bytes};
use crate::{
    contexts::Contexts,
    error::{ClusterError, ErrorKind, Operation},
    logs::container_names,
    target::Cluster,
};

/// A log that can be followed.
pub(super) trait Source: Send + Sync + 'static {
    /// How the container stands now.
    fn look(&self) -> impl Future<Output = Result<Look, ClusterError>> + Send;

    /// Opens the log; each line begins with its time.
    fn open(&self, part: Part) -> impl Future<Output = Result<Bytes, ClusterError>> + Send;
}

/// What a look at the pod has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// There is no such pod.
    Gone,
    /// It has no such container; these it has.
    NoContainer(Vec<String>),
    /// It is there.
    There {
        /// Which of its runs.
        run: Run,
        /// Why it does not run, if it does not.
        resting: Option<String>,
    },
}

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
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
pub(super) struct ClusterSource {
    contexts: Arc<Contexts>,
    key: LogKey,
}

// === impl ClusterSource ===

impl ClusterSource {
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

impl Source for ClusterSource {
    async fn look(&self) -> Result<Look, ClusterError> {
        let look = |cluster: Cluster| async move {
            let api = self.api(&cluster);
            let request = api.get(self.key.pod.as_str());
            cluster.ask(&self.operation("pods"), request).await
        };
        let pod = match self.contexts.ask(&self.key.context, look).await {
            Ok(pod) => pod,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Look::Gone),
            Err(error) => return Err(error),
        };
        let names = container_names(&pod);
        let container = self.key.container.as_str();
        if !names.iter().any(|name| name == container) {
            return Ok(Look::NoContainer(names));
        }
        let status = status(&pod, container);
        let resting = resting(status);
        let run = Run {
            restarts: status.map_or(0, |status| status.restart_count),
            uid: pod.metadata.uid.unwrap_or_default(),
        };
        Ok(Look::There { run, resting })
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
            let stream = cluster.ask(&self.operation("pods/log"), request).await?;
            Ok(Box::pin(stream) as Bytes)
        };
        self.contexts.ask(&self.key.context, open).await
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
fn resting(status: Option<&ContainerStatus>) -> Option<String> {
    let state = status?.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        return Some(waiting.reason.clone().unwrap_or_default());
    }
    let ended = state.terminated.as_ref()?;
    let reason = ended.reason.clone().unwrap_or_default();
    Some(format!("{reason}, exit code {}", ended.exit_code))
}
