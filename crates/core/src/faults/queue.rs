//! The queue of faults that wait for evidence: in order per pod, and never on the task of
//! a watch.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, OnceLock},
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::{
    capture::{CaptureLimits, CapturePool, Captured},
    evidence::{CaptureError, Evidence},
    key::{Fault, FaultKey},
    report::Report,
    source::EvidenceProvider,
    store::FaultStore,
};
use crate::{Event, metrics::CaptureMetrics};
use kubecrier_lifecycle::Lifecycle;

/// Faults that wait; more are reported at once without evidence, as `throttled`.
const WAITING_MAX: usize = 2000;

/// Called with the report of a fault.
pub type OnReport = Box<dyn FnOnce(&Arc<Event>, &Arc<Report>) + Send>;

/// Keeps reports for longer than memory does. Must not block.
pub trait ReportArchive: Send + Sync {
    /// The fault that an event reports was captured.
    fn keep(&self, cluster: &str, event: &Arc<Event>, report: &Arc<Report>);
}

/// Has the evidence of a fault captured once by several servers.
pub trait SharedReports: Send + Sync {
    /// The report of a fault: that of another server, or the one that `capture` makes, which the
    /// others get.
    fn once<'a>(
        &'a self,
        fault: &'a Fault,
        capture: BoxFuture<'a, Arc<Report>>,
    ) -> BoxFuture<'a, Arc<Report>>;
}

/// The queue of faults, from a warning to its report. Cheap to clone.
#[derive(Clone)]
pub struct FaultQueue {
    inner: Arc<Inner>,
}

struct Inner {
    evidence: Arc<dyn EvidenceProvider>,
    captures: CapturePool,
    store: FaultStore,
    archive: OnceLock<Arc<dyn ReportArchive>>,
    shared: OnceLock<Arc<dyn SharedReports>>,
    lifecycle: Lifecycle,
    // A lock because faults come from many watches; held for queue operations.
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    pods: HashMap<PodKey, VecDeque<Pending>>,
    count: usize,
}

/// Cluster, namespace and name.
type PodKey = (String, String, String);

/// A fault that waits, and the subscribers that wait for it.
struct Pending {
    key: FaultKey,
    event: Arc<Event>,
    on_report: Vec<OnReport>,
}

// === impl FaultQueue ===

impl FaultQueue {
    /// An empty queue whose evidence comes from there.
    pub fn new(
        evidence: Arc<dyn EvidenceProvider>,
        limits: CaptureLimits,
        metrics: CaptureMetrics,
        lifecycle: Lifecycle,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                evidence,
                captures: CapturePool::new(limits, metrics),
                store: FaultStore::default(),
                archive: OnceLock::new(),
                shared: OnceLock::new(),
                lifecycle,
                waiting: Mutex::default(),
            }),
        }
    }

    /// Keeps every report from now on. The first archive stays.
    pub fn archive_to(&self, archive: Arc<dyn ReportArchive>) {
        let _has_one = self.inner.archive.set(archive);
    }

    /// Shares captures with other servers from now on.
    pub fn share_with(&self, shared: Arc<dyn SharedReports>) {
        let _has_one = self.inner.shared.set(shared);
    }

    /// The faults that were reported so far.
    pub fn store(&self) -> &FaultStore {
        &self.inner.store
    }

    /// Whether a capture of that cluster would have to wait for a permit now.
    pub fn is_saturated(&self, cluster: &str) -> bool {
        self.inner.captures.is_saturated(cluster)
    }

    /// Drops expired evidence. Without this the evidence of the last burst would stay in
    /// memory until the next one.
    pub fn remove_expired(&self) {
        self.inner.captures.remove_expired();
        self.inner.evidence.remove_expired();
    }

    /// Captures and records a report now, ahead of the queue.
    pub async fn report(&self, cluster: &str, event: &Arc<Event>) -> Arc<Report> {
        let fault = Fault::of_event(cluster, event);
        self.inner.report(&fault, event).await
    }

    /// Captures the evidence of a pod that no event is about. Nothing is recorded.
    pub async fn evidence(&self, fault: &Fault) -> Arc<Evidence> {
        self.inner.capture(fault).await.evidence
    }

    /// Enqueues a fault; `on_report` is called when its report is ready. Never waits.
    ///
    /// Subscribers that enqueue the same event one after the other share its place in the
    /// queue.
    pub fn enqueue(&self, key: FaultKey, event: &Arc<Event>, on_report: OnReport) {
        let pod = (key.cluster.clone(), key.namespace.clone(), key.pod.clone());
        let mut waiting = self.inner.waiting.lock();
        let full = waiting.count >= WAITING_MAX;
        let queue = waiting.pods.get_mut(&pod);
        if let Some(last) = queue.and_then(|queue| queue.back_mut())
            && Arc::ptr_eq(&last.event, event)
        {
            last.on_report.push(on_report);
            return;
        }
        if full {
            drop(waiting);
            let fault = Fault::new(key, event);
            let captured = Captured::failed(&fault, CaptureError::Throttled);
            on_report(event, &Arc::new(Report::new(&captured)));
            return;
        }
        waiting.count += 1;
        let pending = Pending {
            key,
            event: Arc::clone(event),
            on_report: vec![on_report],
        };
        let begins = !waiting.pods.contains_key(&pod);
        let queue = waiting.pods.entry(pod.clone()).or_default();
        queue.push_back(pending);
        drop(waiting);
        if begins {
            let inner = Arc::clone(&self.inner);
            let draining = self.inner.lifecycle.draining().clone();
            self.inner.lifecycle.spawn("faults", async move {
                tokio::select! {
                    () = inner.drain(pod) => {}
                    () = draining.cancelled() => {}
                }
            });
        }
    }
}

// === impl Inner ===

impl Inner {
    /// Reports the faults of one pod in order, until none waits.
    async fn drain(&self, pod: PodKey) {
        loop {
            let pending = {
                let mut waiting = self.waiting.lock();
                let Some(pending) = waiting.pods.get_mut(&pod).and_then(VecDeque::pop_front) else {
                    waiting.pods.remove(&pod);
                    return;
                };
                waiting.count -= 1;
                pending
            };
            let fault = Fault::new(pending.key, &pending.event);
            let report = self.report(&fault, &pending.event).await;
            for on_report in pending.on_report {
                on_report(&pending.event, &report);
            }
        }
    }

    async fn capture(&self, fault: &Fault) -> Captured {
        match self.evidence.connect(&fault.key.cluster).await {
            Ok(source) => self.captures.capture(&source, fault).await,
            Err(error) => Captured::failed(fault, error),
        }
    }

    /// Captures the evidence of a fault, makes the report of it and records it.
    async fn report(&self, fault: &Fault, event: &Arc<Event>) -> Arc<Report> {
        let capture = async { Arc::new(Report::new(&self.capture(fault).await)) };
        let report = match self.shared.get() {
            Some(shared) => shared.once(fault, Box::pin(capture)).await,
            None => capture.await,
        };
        self.store.record(&fault.key.cluster, event, &report);
        if let Some(archive) = self.archive.get() {
            archive.keep(&fault.key.cluster, event, &report);
        }
        report
    }
}

impl std::fmt::Debug for FaultQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultQueue")
            .field("waiting", &self.inner.waiting.lock().count)
            .field("stored", &self.inner.store.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
