//! Captures evidence of faults: a pool of permits, one capture per fault however many
//! subscribers wait for it, and a deadline.

use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared, join_all},
};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    WINDOW,
    evidence::{CaptureError, Evidence, LogEntry, NOTE},
    key::{Fault, FaultKey},
    source::{EvidenceSource, LogError, LogRequest},
};
use crate::metrics::CaptureMetrics;

/// A capture ends after this time; the fault is delivered with the evidence read so far.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long a capture waits for a permit before it answers `throttled`: time to work off
/// a burst, and little beside the deadline, of which it is a part.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits before a log is asked for again in place of which the kubelet sent an error
/// message. A kubelet learns within about a second what became of a container, and all of
/// them fit into the deadline of a capture.
pub const KUBELET_RETRY_DELAYS: [Duration; 3] = [
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// Captures that wait, for each permit of a cluster; more are throttled at once.
const WAITING_PER_PERMIT: usize = 20;

/// Size of all evidence that finished captures keep.
const FINISHED_BYTES_MAX: usize = 8 << 20;

/// Limits of captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureLimits {
    /// Concurrent captures, and concurrent log requests, of one cluster.
    pub per_cluster: usize,
    /// The same of all clusters together.
    pub in_all: usize,
    /// Size of one log sample.
    pub log_bytes: usize,
    /// Containers of a pod whose logs are read.
    pub containers: usize,
}

/// Evidence of one fault; the evidence may be shared with other subscribers.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Captured {
    /// Id of the fault.
    pub fault_id: String,
    /// What the cluster showed.
    #[serde(flatten)]
    pub evidence: Arc<Evidence>,
}

/// The captures of all clusters. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CapturePool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limits: CaptureLimits,
    metrics: CaptureMetrics,
    permits: Permits,
    // A lock because faults come from many watches; held for map operations.
    flights: Mutex<Flights>,
}

/// Another pod of the same name is captured for itself.
type CaptureKey = (FaultKey, Option<String>);

/// Captures by key, under way and finished.
#[derive(Debug, Default)]
struct Flights {
    by_key: HashMap<CaptureKey, Flight>,
    /// Size of the finished ones.
    bytes: usize,
}

#[derive(Debug)]
enum Flight {
    /// Weak: when no subscriber waits any more, the capture is dropped with its permit.
    Running(WeakShared<BoxFuture<'static, Arc<Evidence>>>),
    /// Shared until the window is over.
    Finished(Instant, Arc<Evidence>),
}

type RunningCapture = Shared<BoxFuture<'static, Arc<Evidence>>>;

#[derive(Debug)]
struct Permits {
    captures: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    // A lock because captures of many clusters start on many tasks; held for a lookup.
    clusters: Mutex<HashMap<String, Arc<ClusterPermits>>>,
}

#[derive(Debug)]
struct ClusterPermits {
    captures: Arc<Semaphore>,
    waiting: Semaphore,
    requests: Arc<Semaphore>,
}

/// Permission to run one capture, until it is dropped.
struct CapturePermit {
    cluster: Arc<ClusterPermits>,
    _of_cluster: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

// === impl CaptureLimits ===

impl Default for CaptureLimits {
    fn default() -> Self {
        Self {
            per_cluster: 5,
            in_all: 20,
            log_bytes: 10_240,
            containers: 5,
        }
    }
}

// === impl Captured ===

impl Captured {
    /// A fault whose capture could not begin.
    pub(super) fn failed(fault: &Fault, error: CaptureError) -> Self {
        Self {
            fault_id: fault.id(),
            evidence: Arc::new(Evidence::failed("", error)),
        }
    }
}

// === impl CapturePool ===

impl CapturePool {
    /// A pool with these limits.
    pub fn new(limits: CaptureLimits, metrics: CaptureMetrics) -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        Self {
            inner: Arc::new(Inner {
                limits,
                metrics,
                permits: Permits {
                    captures: permits(limits.in_all),
                    requests: permits(limits.in_all),
                    clusters: Mutex::default(),
                },
                flights: Mutex::default(),
            }),
        }
    }

    /// Captures the evidence of a fault, or shares a capture of the same key that runs or
    /// has finished within the window. Answers `throttled` when no permit becomes free in
    /// time. Cancel-safe: the capture goes on while another caller waits for it.
    pub async fn capture(&self, source: &Arc<dyn EvidenceSource>, fault: &Fault) -> Captured {
        let evidence = match self.flight(source, fault) {
            Ok(finished) => finished,
            Err(running) => running.await,
        };
        Captured {
            fault_id: fault.id(),
            evidence,
        }
    }

    /// Whether a capture of that cluster would have to wait for a permit now.
    pub fn is_saturated(&self, cluster: &str) -> bool {
        let permits = &self.inner.permits;
        let full = |one: &Arc<ClusterPermits>| one.captures.available_permits() == 0;
        permits.captures.available_permits() == 0
            || permits.clusters.lock().get(cluster).is_some_and(full)
    }

    /// Drops evidence whose window is over.
    pub fn remove_expired(&self) {
        self.inner.flights.lock().remove_expired();
    }

    fn flight(
        &self,
        source: &Arc<dyn EvidenceSource>,
        fault: &Fault,
    ) -> Result<Arc<Evidence>, RunningCapture> {
        let key = fault.capture_key();
        let mut flights = self.inner.flights.lock();
        flights.remove_expired();
        match flights.by_key.get(&key) {
            Some(Flight::Finished(_, evidence)) => return Ok(Arc::clone(evidence)),
            Some(Flight::Running(running)) => {
                if let Some(running) = running.upgrade() {
                    return Err(running);
                }
            }
            None => {}
        }
        let (inner, source, fault) = (Arc::clone(&self.inner), Arc::clone(source), fault.clone());
        let running = async move { inner.run(&*source, &fault).await }
            .boxed()
            .shared();
        if let Some(weak) = running.downgrade() {
            flights.by_key.insert(key, Flight::Running(weak));
        }
        Err(running)
    }
}

// === impl Fault ===

impl Fault {
    fn capture_key(&self) -> CaptureKey {
        (self.key.clone(), self.uid.clone())
    }
}

// === impl Inner ===

impl Inner {
    async fn run(&self, source: &dyn EvidenceSource, fault: &Fault) -> Arc<Evidence> {
        let deadline = Instant::now() + DEADLINE;
        let cluster = self.permits.cluster(&fault.key.cluster, self.limits);
        let Some(permit) = self.permits.acquire(cluster, &self.metrics).await else {
            self.metrics.throttled();
            self.flights.lock().by_key.remove(&fault.capture_key());
            let container = fault.container.as_deref().unwrap_or_default();
            return Arc::new(Evidence::failed(container, CaptureError::Throttled));
        };
        let began = Instant::now();
        let running = self.metrics.begin();
        let evidence = match self.collect(source, fault, &permit, deadline).await {
            Ok((mut evidence, retries)) => {
                let cluster = Arc::clone(&permit.cluster);
                // Other captures need not wait for a log that is not there yet.
                drop(permit);
                self.retry(source, &cluster, &mut evidence, retries).await;
                evidence
            }
            Err(error) => Evidence::failed("", error),
        };
        let evidence = Arc::new(evidence);
        running.done(began.elapsed().as_secs_f64());
        for error in evidence.logs.iter().filter_map(|entry| entry.error) {
            self.metrics.failed(error.as_str());
        }
        self.flights.lock().finish(fault.capture_key(), &evidence);
        evidence
    }

    /// Collects the evidence, and the requests that are worth another attempt, each with
    /// the index of its log.
    async fn collect(
        &self,
        source: &dyn EvidenceSource,
        fault: &Fault,
        permit: &CapturePermit,
        deadline: Instant,
    ) -> Result<(Evidence, Vec<(usize, LogRequest)>), CaptureError> {
        let pod = timeout_at(deadline, source.pod(fault)).await??;
        let other = |uid: &String| !pod.uid.is_empty() && *uid != pod.uid;
        if fault.uid.as_ref().is_some_and(other) {
            // The pod is gone, and another one has its name.
            return Err(CaptureError::NotFound);
        }
        let mut containers: Vec<_> = pod.containers.iter().collect();
        // The container that the event names comes first.
        containers.sort_by_key(|one| fault.container.as_ref() != Some(&one.name));
        let omitted = containers.split_off(containers.len().min(self.limits.containers));
        let requests = containers.iter().flat_map(|one| {
            let previous = one.restarted.then_some(true);
            std::iter::once(false)
                .chain(previous)
                .map(|previous| LogRequest {
                    namespace: fault.key.namespace.clone(),
                    pod: fault.key.pod.clone(),
                    container: one.name.clone(),
                    previous,
                    bytes_max: self.limits.log_bytes,
                    is_retry: false,
                    deadline,
                })
        });
        let requests: Vec<_> = requests.collect();
        let logs = requests
            .iter()
            .map(|request| self.log(source, &permit.cluster, request));
        let logs = join_all(logs).await;
        let mut retries: Vec<_> = requests.into_iter().enumerate().collect();
        retries.retain(|(index, _)| logs[*index].message.is_some());
        for (_, request) in &mut retries {
            request.is_retry = true;
        }
        let evidence = Evidence {
            note: NOTE,
            logs,
            containers_omitted: omitted.iter().map(|one| one.name.clone()).collect(),
            context: Some(pod.context.clone()),
        };
        Ok((evidence, retries))
    }

    /// Asks again for the logs in place of which the kubelet sent an error message.
    async fn retry(
        &self,
        source: &dyn EvidenceSource,
        cluster: &ClusterPermits,
        evidence: &mut Evidence,
        mut requests: Vec<(usize, LogRequest)>,
    ) {
        for delay in KUBELET_RETRY_DELAYS {
            let Some((_, first)) = requests.first() else {
                return;
            };
            if Instant::now() + delay >= first.deadline {
                return;
            }
            sleep(delay).await;
            let logs = requests
                .iter()
                .map(|(_, request)| self.log(source, cluster, request));
            let logs = join_all(logs).await;
            for ((index, _), log) in requests.iter().zip(logs) {
                // The words of the kubelet say more than the end of the time.
                if log.error != Some(CaptureError::Timeout) {
                    evidence.logs[*index] = log;
                }
            }
            requests.retain(|(index, _)| evidence.logs[*index].message.is_some());
        }
    }

    async fn log(
        &self,
        source: &dyn EvidenceSource,
        cluster: &ClusterPermits,
        request: &LogRequest,
    ) -> LogEntry {
        let read = async {
            // Of the cluster first: a wait there must not block requests to other clusters.
            let of_cluster = cluster.requests.acquire().await;
            let of_all = self.permits.requests.acquire().await;
            let (Ok(_of_cluster), Ok(_of_all)) = (of_cluster, of_all) else {
                return Err(LogError::Failed(CaptureError::Unknown));
            };
            source.log(request).await
        };
        let sample = match timeout_at(request.deadline, read).await {
            Ok(sample) => sample,
            Err(elapsed) => Err(LogError::Failed(elapsed.into())),
        };
        let LogRequest {
            container,
            previous,
            ..
        } = request;
        match sample {
            Ok(sample) => LogEntry {
                container: container.clone(),
                previous: *previous,
                has_panic: sample.signature.is_some(),
                signature: sample.signature,
                truncated: Some(sample.tail.truncated),
                incomplete: sample.incomplete,
                sample: Some(sample.tail.text),
                error: None,
                message: None,
            },
            Err(LogError::Failed(error)) => LogEntry::failed(container, *previous, error),
            Err(LogError::Kubelet(message)) => {
                LogEntry::kubelet_failed(container, *previous, message)
            }
        }
    }
}

// === impl Flights ===

impl Flights {
    /// Removes what is finished and past its window, and what was abandoned.
    fn remove_expired(&mut self) {
        let bytes = &mut self.bytes;
        self.by_key.retain(|_, flight| match flight {
            Flight::Running(running) => running.upgrade().is_some(),
            Flight::Finished(at, evidence) => {
                let fresh = at.elapsed() < WINDOW;
                if !fresh {
                    *bytes -= evidence.bytes();
                }
                fresh
            }
        });
    }

    fn finish(&mut self, key: CaptureKey, evidence: &Arc<Evidence>) {
        self.remove(&key);
        self.bytes += evidence.bytes();
        while self.bytes > FINISHED_BYTES_MAX {
            let finished = self.by_key.iter().filter_map(|(key, flight)| match flight {
                Flight::Finished(at, _) => Some((at, key)),
                Flight::Running(_) => None,
            });
            let Some(oldest) = finished
                .min_by_key(|(at, _)| *at)
                .map(|(_, key)| key.clone())
            else {
                break;
            };
            self.remove(&oldest);
        }
        let flight = Flight::Finished(Instant::now(), Arc::clone(evidence));
        self.by_key.insert(key, flight);
    }

    fn remove(&mut self, key: &CaptureKey) {
        if let Some(Flight::Finished(_, evidence)) = self.by_key.remove(key) {
            self.bytes -= evidence.bytes();
        }
    }
}

// === impl Permits ===

impl Permits {
    fn cluster(&self, cluster: &str, limits: CaptureLimits) -> Arc<ClusterPermits> {
        let mut clusters = self.clusters.lock();
        // Clusters come and go with the kubeconfig; idle permits are as good as new ones.
        clusters.retain(|name, one| name == cluster || Arc::strong_count(one) > 1);
        let permits = clusters.entry(cluster.to_owned()).or_insert_with(|| {
            Arc::new(ClusterPermits {
                captures: Arc::new(Semaphore::new(limits.per_cluster)),
                waiting: Semaphore::new(limits.per_cluster * WAITING_PER_PERMIT),
                requests: Arc::new(Semaphore::new(limits.per_cluster)),
            })
        });
        Arc::clone(permits)
    }

    /// Acquires a permit in order of arrival; none if too many wait or it takes too long.
    async fn acquire(
        &self,
        cluster: Arc<ClusterPermits>,
        metrics: &CaptureMetrics,
    ) -> Option<CapturePermit> {
        let captures = Arc::clone(&cluster.captures);
        let permits = async {
            // Of the cluster first: a wait there must not block captures of other clusters.
            let of_cluster = captures.acquire_owned().await.ok()?;
            let of_all = Arc::clone(&self.captures).acquire_owned().await.ok()?;
            Some((of_cluster, of_all))
        };
        let mut permits = pin!(permits);
        let now = (&mut permits).now_or_never();
        let (of_cluster, of_all) = if let Some(now) = now {
            now?
        } else {
            let _turn = cluster.waiting.try_acquire().ok()?;
            let _waiting = metrics.wait();
            timeout(ACQUIRE_TIMEOUT, permits).await.ok()??
        };
        Some(CapturePermit {
            cluster,
            _of_cluster: of_cluster,
            _of_all: of_all,
        })
    }
}

#[cfg(test)]
mod tests;
