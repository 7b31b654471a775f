//! Fetching the evidence of a fault: a pool with limits, once per fault however many
//! ask, and never longer than a deadline.

use std::{collections::HashMap, future::Future, pin::pin, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared, join_all},
};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

use super::{
    dedup::{FaultKey, WINDOW},
    evidence::{CaptureError, Evidence, LogEntry, NOTE, PodContext, fault_id},
    signatures::Signature,
    tail::Tail,
};
use crate::metrics::CaptureMetrics;

/// How long evidence may take; the fault goes out then with what there is.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// How long a capture waits for a place before it says `throttled`: time to work off
/// a burst, and little beside the deadline, of which it is a part.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Captures that wait, for each place of a cluster; more are throttled at once.
const WAITING_PER_PLACE: usize = 20;

/// What all remembered evidence may weigh.
const REMEMBERED_BYTES_MAX: usize = 8 << 20;

/// More unfinished captures than this are looked through for abandoned ones.
const RUNNING_SOFT_MAX: usize = 128;

/// What captures may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureLimits {
    /// Captures at once, and log requests at once, of one cluster.
    pub per_cluster: usize,
    /// The same of all clusters.
    pub in_all: usize,
    /// Bytes of one sample.
    pub log_bytes: usize,
    /// Containers of one fault.
    pub containers: usize,
}

/// What there is to be captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What makes it the same fault.
    pub key: FaultKey,
    /// The pod's uid, if the event says: another pod of the same name is another.
    pub uid: Option<String>,
    /// The container, if the event says.
    pub container: Option<String>,
}

/// A fault's own id and the evidence, which others may share.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Captured {
    /// The same for the same fault, whenever it is told.
    pub fault_id: String,
    /// What is known about it.
    #[serde(flatten)]
    pub evidence: Arc<Evidence>,
}

/// What a capture has to know about a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodFacts {
    /// Which pod it is.
    pub uid: String,
    /// For the reader.
    pub context: PodContext,
    /// Containers in the order in which they matter.
    pub containers: Vec<ContainerFacts>,
}

/// What a capture has to know about a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerFacts {
    /// Its name.
    pub name: String,
    /// Whether it has run before.
    pub restarted: bool,
}

/// One log, as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSample {
    /// Its end, clean.
    pub tail: Tail,
    /// The crash in it.
    pub signature: Option<Signature>,
    /// Why it may lack the newest lines.
    pub incomplete: Option<String>,
}

/// Which log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// Where the pod lives.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// From before the last restart.
    pub previous: bool,
    /// How much of it.
    pub bytes_max: usize,
    /// When the answer must be there, with what was read until then.
    pub deadline: Instant,
}

/// Where evidence comes from: a cluster.
pub trait Source: Clone + Send + Sync + 'static {
    /// The pod that a fault is about.
    fn pod(
        &self,
        fault: &Fault,
    ) -> impl Future<Output = Result<Arc<PodFacts>, CaptureError>> + Send;

    /// One of its logs.
    fn log(
        &self,
        request: LogRequest,
    ) -> impl Future<Output = Result<LogSample, CaptureError>> + Send;
}

/// The captures of all clusters. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Captures {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limits: CaptureLimits,
    metrics: CaptureMetrics,
    pool: Pool,
    // Locks because faults come from many watches; held for lookups only.
    flights: Mutex<Flights>,
}

type Case = (FaultKey, Option<String>);

#[derive(Debug, Default)]
struct Flights {
    // Weak: when nobody waits any more, the capture ends and its place is free.
    running: HashMap<Case, WeakShared<BoxFuture<'static, Arc<Evidence>>>>,
    done: HashMap<Case, (Instant, Arc<Evidence>)>,
    bytes: usize,
}

#[derive(Debug)]
struct Pool {
    captures: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    lanes: Mutex<HashMap<String, Arc<Lane>>>,
}

/// The places of one cluster.
#[derive(Debug)]
struct Lane {
    captures: Arc<Semaphore>,
    waiting: Semaphore,
    calls: Arc<Semaphore>,
}

/// A place in the pool, until it is dropped.
struct Place {
    lane: Arc<Lane>,
    _of_cluster: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

type Flight = Shared<BoxFuture<'static, Arc<Evidence>>>;

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

// === impl Fault ===

impl Fault {
    /// The same for the same fault, whenever it is told.
    pub fn id(&self) -> String {
        // Some reporters leave the uid out; the name will do until the pod is replaced.
        let of_name = format!("{}/{}", self.key.namespace, self.key.pod);
        let uid = self.uid.as_deref().unwrap_or(&of_name);
        let container = self.container.as_deref().unwrap_or_default();
        fault_id(&self.key.cluster, &self.key.reason, uid, container)
    }

    /// What is looked into once: another pod of the same name is another.
    fn case(&self) -> Case {
        (self.key.clone(), self.uid.clone())
    }
}

// === impl Captures ===

impl Captures {
    /// A pool of its own.
    pub fn new(limits: CaptureLimits, metrics: CaptureMetrics) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self {
            inner: Arc::new(Inner {
                limits,
                metrics,
                pool: Pool {
                    captures: places(limits.in_all),
                    calls: places(limits.in_all),
                    lanes: Mutex::default(),
                },
                flights: Mutex::default(),
            }),
        }
    }

    /// The evidence of a fault. Whoever asks for the same one within a minute gets
    /// the same; when no place becomes free in a second the answer is `throttled`.
    pub async fn capture<S: Source>(&self, source: &S, fault: &Fault) -> Captured {
        let evidence = match self.flight(source, fault) {
            Ok(done) => done,
            Err(running) => running.await,
        };
        Captured {
            fault_id: fault.id(),
            evidence,
        }
    }

    /// Whether a capture of that cluster would be throttled now, for a warning.
    pub fn is_saturated(&self, cluster: &str) -> bool {
        let pool = &self.inner.pool;
        let full = |lane: &Arc<Lane>| lane.captures.available_permits() == 0;
        pool.captures.available_permits() == 0 || pool.lanes.lock().get(cluster).is_some_and(full)
    }

    /// Lets go of evidence that is too old to be given to anybody.
    pub fn forget_old(&self) {
        self.inner.flights.lock().forget_old();
    }

    fn flight<S: Source>(&self, source: &S, fault: &Fault) -> Result<Arc<Evidence>, Flight> {
        let mut flights = self.inner.flights.lock();
        flights.forget_old();
        if let Some((_, evidence)) = flights.done.get(&fault.case()) {
            return Ok(Arc::clone(evidence));
        }
        let running = flights.running.get(&fault.case());
        if let Some(running) = running.and_then(WeakShared::upgrade) {
            return Err(running);
        }
        let (inner, source, fault) = (Arc::clone(&self.inner), source.clone(), fault.clone());
        let key = fault.case();
        let flight = async move { inner.run(source, fault).await }
            .boxed()
            .shared();
        if let Some(weak) = flight.downgrade() {
            flights.running.insert(key, weak);
        }
        Err(flight)
    }
}

// === impl Inner ===

impl Inner {
    async fn run<S: Source>(&self, source: S, fault: Fault) -> Arc<Evidence> {
        let deadline = Instant::now() + DEADLINE;
        let lane = self.pool.lane(&fault.key.cluster, self.limits);
        let Some(place) = self.pool.enter(lane, &self.metrics).await else {
            self.metrics.throttled();
            self.flights.lock().running.remove(&fault.case());
            let container = fault.container.as_deref().unwrap_or_default();
            return Arc::new(failed(container, CaptureError::Throttled));
        };
        let began = Instant::now();
        let running = self.metrics.begin();
        let evidence = Arc::new(self.collect(&source, &fault, &place, deadline).await);
        drop(place);
        running.done(began.elapsed().as_secs_f64());
        for error in evidence.logs.iter().filter_map(|entry| entry.error) {
            self.metrics.failed(error.as_str());
        }
        self.flights.lock().finish(fault.case(), &evidence);
        evidence
    }

    async fn collect<S: Source>(
        &self,
        source: &S,
        fault: &Fault,
        place: &Place,
        deadline: Instant,
    ) -> Evidence {
        let pod = match timeout_at(deadline, source.pod(fault)).await {
            Ok(Ok(pod)) => pod,
            Ok(Err(error)) => return failed("", error),
            Err(_elapsed) => return failed("", CaptureError::Timeout),
        };
        let other = |uid: &String| !pod.uid.is_empty() && *uid != pod.uid;
        if fault.uid.as_ref().is_some_and(other) {
            // The pod is gone, and another one has its name.
            return failed("", CaptureError::NotFound);
        }
        let mut containers: Vec<_> = pod.containers.iter().collect();
        // What the event is about comes first.
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
                    deadline,
                })
        });
        let logs = join_all(requests.map(|request| self.log(source, place, request))).await;
        Evidence {
            note: NOTE,
            logs,
            containers_omitted: omitted.iter().map(|one| one.name.clone()).collect(),
            context: Some(pod.context.clone()),
        }
    }

    async fn log<S: Source>(&self, source: &S, place: &Place, request: LogRequest) -> LogEntry {
        let (container, previous) = (request.container.clone(), request.previous);
        let deadline = request.deadline;
        let read = async {
            // Of the cluster first: who waits there must not keep others from theirs.
            let of_cluster = place.lane.calls.acquire().await;
            let of_all = self.pool.calls.acquire().await;
            let (Ok(_of_cluster), Ok(_of_all)) = (of_cluster, of_all) else {
                return Err(CaptureError::Unknown);
            };
            source.log(request).await
        };
        match timeout_at(deadline, read).await {
            Ok(Ok(sample)) => LogEntry {
                container,
                previous,
                has_panic: sample.signature.is_some(),
                signature: sample.signature,
                truncated: Some(sample.tail.truncated),
                incomplete: sample.incomplete,
                sample: Some(sample.tail.text),
                error: None,
            },
            Ok(Err(error)) => LogEntry::failed(&container, previous, error),
            Err(_elapsed) => LogEntry::failed(&container, previous, CaptureError::Timeout),
        }
    }
}

fn failed(container: &str, error: CaptureError) -> Evidence {
    Evidence {
        note: NOTE,
        logs: vec![LogEntry::failed(container, false, error)],
        containers_omitted: Vec::new(),
        context: None,
    }
}

// === impl Flights ===

impl Flights {
    fn forget_old(&mut self) {
        let bytes = &mut self.bytes;
        self.done.retain(|_, (since, evidence)| {
            let young = since.elapsed() < WINDOW;
            if !young {
                *bytes -= evidence.bytes();
            }
            young
        });
        if self.running.len() > RUNNING_SOFT_MAX {
            self.running.retain(|_, one| one.upgrade().is_some());
        }
    }

    fn finish(&mut self, key: Case, evidence: &Arc<Evidence>) {
        self.running.remove(&key);
        self.bytes += evidence.bytes();
        while self.bytes > REMEMBERED_BYTES_MAX {
            let oldest = self.done.iter().min_by_key(|(_, (since, _))| *since);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            if let Some((_, gone)) = self.done.remove(&oldest) {
                self.bytes -= gone.bytes();
            }
        }
        let entry = (Instant::now(), Arc::clone(evidence));
        if let Some((_, before)) = self.done.insert(key, entry) {
            self.bytes -= before.bytes();
        }
    }
}

// === impl Pool ===

impl Pool {
    fn lane(&self, cluster: &str, limits: CaptureLimits) -> Arc<Lane> {
        let mut lanes = self.lanes.lock();
        // Clusters come and go with the kubeconfig; an idle lane is as good as new.
        lanes.retain(|name, lane| name == cluster || Arc::strong_count(lane) > 1);
        let lane = lanes.entry(cluster.to_owned()).or_insert_with(|| {
            Arc::new(Lane {
                captures: Arc::new(Semaphore::new(limits.per_cluster)),
                waiting: Semaphore::new(limits.per_cluster * WAITING_PER_PLACE),
                calls: Arc::new(Semaphore::new(limits.per_cluster)),
            })
        });
        Arc::clone(lane)
    }

    /// A place, now or soon; first come, first served.
    async fn enter(&self, lane: Arc<Lane>, metrics: &CaptureMetrics) -> Option<Place> {
        let of_lane = Arc::clone(&lane.captures);
        let places = async {
            // Of the cluster first: who waits there must not keep others from theirs.
            let of_cluster = of_lane.acquire_owned().await.ok()?;
            let of_all = Arc::clone(&self.captures).acquire_owned().await.ok()?;
            Some((of_cluster, of_all))
        };
        let mut places = pin!(places);
        let now = (&mut places).now_or_never();
        let (of_cluster, of_all) = if let Some(now) = now {
            now?
        } else {
            let _turn = lane.waiting.try_acquire().ok()?;
            let _waiting = metrics.wait();
            timeout(PATIENCE, places).await.ok()??
        };
        Some(Place {
            lane,
            _of_cluster: of_cluster,
            _of_all: of_all,
        })
    }
}

#[cfg(test)]
mod tests;
