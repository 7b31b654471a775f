//! Where evidence comes from: the seam between the pipeline and a cluster.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::{
    evidence::{CaptureError, PodContext},
    key::Fault,
    signatures::CrashSignature,
    tail::Tail,
};

/// Connects to clusters.
pub trait EvidenceProvider: Send + Sync + 'static {
    /// The cluster of a kubeconfig context.
    fn connect<'a>(
        &'a self,
        cluster: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn EvidenceSource>, CaptureError>>;

    /// Drops cached answers that have expired.
    fn remove_expired(&self);
}

/// Reads evidence from one cluster.
pub trait EvidenceSource: Send + Sync + 'static {
    /// The pod that a fault is about.
    fn pod<'a>(&'a self, fault: &'a Fault) -> BoxFuture<'a, Result<Arc<PodFacts>, CaptureError>>;

    /// The end of a container's log.
    fn log<'a>(&'a self, request: &'a LogRequest) -> BoxFuture<'a, Result<LogSample, LogError>>;
}

/// Why there is no sample of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// The log cannot be had.
    Failed(CaptureError),
    /// The kubelet answered with this error message in place of the log, as it does for a
    /// container that has just ended. The log may be there a moment later.
    Kubelet(String),
}

/// A pod, as far as a capture needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodFacts {
    /// Uid of the pod that was read.
    pub uid: String,
    /// Description for the reader of the report.
    pub context: PodContext,
    /// Most relevant container first.
    pub containers: Vec<ContainerFacts>,
}

/// A container, as far as a capture needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerFacts {
    /// Name of the container.
    pub name: String,
    /// Whether there is a previous run, which may have left a log.
    pub restarted: bool,
}

/// Which part of which log to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
    /// Log of the run before the last restart.
    pub previous: bool,
    /// Size of the sample at most.
    pub bytes_max: usize,
    /// Whether the kubelet has answered this request with an error message before.
    pub is_retry: bool,
    /// The source answers by then, with what it has read so far.
    pub deadline: Instant,
}

/// The end of a log, redacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSample {
    /// The newest lines.
    pub tail: Tail,
    /// The crash that the log shows, if any.
    pub signature: Option<CrashSignature>,
    /// Why the newest lines may be missing.
    pub incomplete: Option<String>,
}

// === impl LogError ===

impl From<CaptureError> for LogError {
    fn from(error: CaptureError) -> Self {
        Self::Failed(error)
    }
}
