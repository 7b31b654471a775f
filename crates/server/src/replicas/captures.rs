//! The evidence of a fault, captured by one of the servers that are to notify of it.
//!
//! ```text
//!  no record ──compare-and-set──▶ capture ──put──▶ report
//!      └── there is one: wait for the report; capture as well if it does not come
//! ```

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use kubecrier_core::faults::{CaptureError, Fault, Report, SharedReports, WINDOW};
use kubecrier_history::{Registry, RegistryError, SetOutcome};
use sha2::{Digest, Sha256};
use tokio::time::{Duration, Instant, sleep};

/// How long another server may take: as long as a capture does, and a little for the ways.
const PATIENCE: Duration = Duration::from_millis(6500);

/// How often its report is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Captures that servers share through a registry.
pub(crate) struct SharedCaptures {
    registry: Arc<dyn Registry>,
}

/// Who captures a fault.
enum Turn {
    /// This server, for all.
    Ours(String),
    /// This server, for itself.
    Alone,
    /// Another one, and this is its report.
    Theirs(Report),
}

// === impl SharedCaptures ===

impl SharedCaptures {
    pub(crate) fn new(registry: Arc<dyn Registry>) -> Self {
        Self { registry }
    }

    async fn turn(&self, fault: &Fault) -> Turn {
        let key = key(fault);
        // An empty record says that somebody captures.
        let set = (self.registry).compare_and_set(&key, None, Bytes::new(), WINDOW);
        match set.await {
            Ok(SetOutcome::Set(_)) => Turn::Ours(key),
            Ok(SetOutcome::Conflict) => match self.wait(&key).await {
                Ok(Some(report)) => Turn::Theirs(report),
                Ok(None) => Turn::Alone,
                Err(error) => alone(&error),
            },
            Err(error) => alone(&error),
        }
    }

    /// Waits for the report of another server; none if it does not come.
    async fn wait(&self, key: &str) -> Result<Option<Report>, RegistryError> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.registry.get(key).await? {
                // It could not capture.
                None => return Ok(None),
                Some(found) if found.value.is_empty() => sleep(LOOK).await,
                Some(found) => return Ok(Report::restore(&found.value)),
            }
        }
        Ok(None)
    }

    async fn publish(&self, key: &str, report: &Report) {
        // It says nothing about the pod: another server may have a permit left.
        let logs = report.logs();
        let is_throttled = logs
            .iter()
            .any(|log| log.error == Some(CaptureError::Throttled));
        let published = match serde_json::to_vec(report) {
            Ok(bytes) if !is_throttled => {
                let put = self.registry.put(key, bytes.into(), WINDOW).await;
                put.map(drop)
            }
            _ => Err(RegistryError::Rejected {
                key: key.to_owned(),
                why: "there is no evidence in it".to_owned(),
            }),
        };
        if let Err(error) = published {
            tracing::debug!(%error, "other servers capture for themselves");
            let _forgotten = self.registry.delete(key).await;
        }
    }
}

fn alone(error: &RegistryError) -> Turn {
    tracing::debug!(%error, "a capture is not shared");
    Turn::Alone
}

impl SharedReports for SharedCaptures {
    fn once<'a>(
        &'a self,
        fault: &'a Fault,
        capture: BoxFuture<'a, Arc<Report>>,
    ) -> BoxFuture<'a, Arc<Report>> {
        Box::pin(async move {
            match self.turn(fault).await {
                Turn::Theirs(report) => Arc::new(report),
                Turn::Alone => capture.await,
                Turn::Ours(key) => {
                    let report = capture.await;
                    self.publish(&key, &report).await;
                    report
                }
            }
        })
    }
}

/// The key of a fault's record: the same on every server.
fn key(fault: &Fault) -> String {
    let Fault {
        key,
        uid,
        container,
    } = fault;
    let count = key.count.to_string();
    let mut hash = Sha256::new();
    for part in [
        key.cluster.as_str(),
        &key.namespace,
        &key.pod,
        &key.reason,
        &count,
        uid.as_deref().unwrap_or_default(),
        container.as_deref().unwrap_or_default(),
    ] {
        // With its length, so that no two lists of parts are one text.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let hash = hash.finalize();
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("fault.{hash}")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use kubecrier_core::faults::{Captured, Evidence, FaultKey};
    use kubecrier_history::MemoryRegistry;

    fn fault(count: i32) -> Fault {
        Fault {
            key: FaultKey {
                cluster: "dev".to_owned(),
                namespace: "shop".to_owned(),
                pod: "web-0".to_owned(),
                reason: "BackOff".to_owned(),
                count,
            },
            uid: None,
            container: None,
        }
    }

    fn report(error: CaptureError) -> Arc<Report> {
        Arc::new(Report::new(&Captured {
            fault_id: "f-1".to_owned(),
            evidence: Arc::new(Evidence::failed("app", error)),
        }))
    }

    /// A server, and how often it captured.
    struct TestServer {
        captures: SharedCaptures,
        captured: AtomicUsize,
    }

    impl TestServer {
        fn of(registry: &Arc<MemoryRegistry>) -> Self {
            Self {
                captures: SharedCaptures::new(Arc::clone(registry) as _),
                captured: AtomicUsize::new(0),
            }
        }

        async fn report(&self, count: i32, error: CaptureError) -> Arc<Report> {
            let capture = async {
                self.captured.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_secs(2)).await;
                report(error)
            };
            self.captures.once(&fault(count), Box::pin(capture)).await
        }

        fn captured(&self) -> usize {
            self.captured.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_fault_is_captured_by_one_server_for_all() {
        let registry = Arc::new(MemoryRegistry::default());
        let (first, second) = (TestServer::of(&registry), TestServer::of(&registry));
        let reports = tokio::join!(
            first.report(1, CaptureError::NotFound),
            second.report(1, CaptureError::NotFound),
        );
        let text = |report: &Report| serde_json::to_string(report).unwrap();
        assert_eq!(text(&reports.0), text(&reports.1));
        assert_eq!((first.captured(), second.captured()), (1, 0));
        drop(second.report(1, CaptureError::NotFound).await);
        assert_eq!(second.captured(), 0, "it is there already");
        drop(second.report(2, CaptureError::NotFound).await);
        assert_eq!(second.captured(), 1, "another occurrence is another fault");
    }

    #[tokio::test(start_paused = true)]
    async fn a_capture_that_does_not_come_is_made() {
        let registry = Arc::new(MemoryRegistry::default());
        let second = TestServer::of(&registry);
        let key = key(&fault(1));
        let gone = registry.compare_and_set(&key, None, Bytes::new(), WINDOW);
        gone.await.unwrap();
        let began = Instant::now();
        drop(second.report(1, CaptureError::NotFound).await);
        assert_eq!(second.captured(), 1);
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_without_a_permit_stands_for_no_other() {
        let registry = Arc::new(MemoryRegistry::default());
        let (first, second) = (TestServer::of(&registry), TestServer::of(&registry));
        tokio::join!(
            first.report(1, CaptureError::Throttled),
            second.report(1, CaptureError::NotFound),
        );
        assert_eq!((first.captured(), second.captured()), (1, 1));
    }
}
