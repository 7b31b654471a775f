//! The evidence of a fault, captured by one of the servers that are to notify of it.
//!
//! ```text
//!  no record ──compare-and-set──▶ capture ──put──▶ report
//!      └── there is one: wait for the report; if it does not come, one of those that wait
//!          takes the record over
//! ```

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use kubecrier_core::faults::{CaptureError, Fault, Report, SharedReports, WINDOW};
use kubecrier_history::{Registry, RegistryError, Revision, SetOutcome};
use kubecrier_k8s::Contexts;
use sha2::{Digest, Sha256};
use tokio::time::{Duration, Instant, sleep};

/// How long another server may take: as long as a capture does, and a little for the ways.
const PATIENCE: Duration = Duration::from_millis(6500);

/// How often servers are waited for, one after the other.
const TURNS_MAX: usize = 3;

/// How often its report is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Captures that servers share through a registry.
pub(crate) struct SharedCaptures {
    registry: Arc<dyn Registry>,
    contexts: Arc<Contexts>,
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

/// What came of another server's capture.
enum Waited {
    Report(Report),
    /// It could not capture.
    Nothing,
    /// It is silent: this is its record.
    Silent(Revision),
}

// === impl SharedCaptures ===

impl SharedCaptures {
    pub(crate) fn new(registry: Arc<dyn Registry>, contexts: Arc<Contexts>) -> Self {
        Self { registry, contexts }
    }

    async fn turn(&self, fault: &Fault) -> Turn {
        let cluster = match self.contexts.cluster_id(&fault.key.cluster).await {
            Ok(cluster) => cluster,
            Err(error) => return alone(&error),
        };
        let key = key(fault, &cluster);
        let mut expected = None;
        for _ in 0..TURNS_MAX {
            // An empty record says that somebody captures.
            let set = (self.registry).compare_and_set(&key, expected, Bytes::new(), WINDOW);
            match set.await {
                Ok(SetOutcome::Set(_)) => return Turn::Ours(key),
                Ok(SetOutcome::Conflict) => {}
                Err(error) => return alone(&error),
            }
            expected = match self.wait(&key).await {
                Ok(Waited::Report(report)) => return Turn::Theirs(report),
                Ok(Waited::Nothing) => None,
                Ok(Waited::Silent(revision)) => Some(revision),
                Err(error) => return alone(&error),
            };
        }
        Turn::Alone
    }

    /// Waits for the report of another server.
    async fn wait(&self, key: &str) -> Result<Waited, RegistryError> {
        // Whoever takes it over has as long again.
        let (mut revision, mut since) = (None, Instant::now());
        loop {
            let Some(found) = self.registry.get(key).await? else {
                return Ok(Waited::Nothing);
            };
            if !found.value.is_empty() {
                let report = Report::restore(&found.value);
                // One that cannot be read is as good as none.
                return Ok(report.map_or(Waited::Silent(found.revision), Waited::Report));
            }
            if revision != Some(found.revision) {
                (revision, since) = (Some(found.revision), Instant::now());
            }
            if since.elapsed() >= PATIENCE {
                return Ok(Waited::Silent(found.revision));
            }
            sleep(LOOK).await;
        }
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

fn alone(error: &dyn fmt::Display) -> Turn {
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

/// The key of a fault's record in a cluster: the same on every server. Contexts of one name may
/// lead to different clusters.
fn key(fault: &Fault, cluster: &str) -> String {
    let Fault {
        key,
        uid,
        container,
    } = fault;
    let count = key.count.to_string();
    let mut hash = Sha256::new();
    for part in [
        cluster,
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

    use demo_cluster::DemoCluster;
    use kubecrier_core::faults::{Captured, Evidence, FaultKey};
    use kubecrier_history::MemoryRegistry;
    use kubecrier_k8s::{Allowed, ClusterIdentity, Config, Demo, DeniedKinds};
    use kubecrier_redact::Redactor;
    use serde_json::json;

    use super::*;

    /// The contexts of a server, whose one context leads to the cluster with this uid.
    fn contexts(uid: &str) -> Arc<Contexts> {
        let cluster = DemoCluster::default();
        let system = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": uid},
        });
        cluster.put(system).unwrap();
        Arc::new(Contexts::new(Config {
            kubeconfig: None,
            context: None,
            request_timeout: Duration::from_secs(5),
            redactor: Redactor::default(),
            demo: Some(Demo::new(&cluster)),
            denied: DeniedKinds::default(),
            allowed: Allowed::default(),
            identity: ClusterIdentity::default(),
        }))
    }

    fn fault(count: i32) -> Fault {
        Fault {
            key: FaultKey {
                cluster: "demo".to_owned(),
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
        async fn of(registry: &Arc<MemoryRegistry>) -> Self {
            Self::in_cluster(registry, "5f1c").await
        }

        async fn in_cluster(registry: &Arc<MemoryRegistry>, uid: &str) -> Self {
            let contexts = contexts(uid);
            // Its watch has asked for it.
            contexts.cluster_id("demo").await.unwrap();
            Self {
                captures: SharedCaptures::new(Arc::clone(registry) as _, contexts),
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
        let (first, second) = (
            TestServer::of(&registry).await,
            TestServer::of(&registry).await,
        );
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
    async fn a_capture_that_does_not_come_is_made_by_one_of_those_that_wait() {
        let registry = Arc::new(MemoryRegistry::default());
        let servers = [
            TestServer::of(&registry).await,
            TestServer::of(&registry).await,
            TestServer::of(&registry).await,
        ];
        let cluster = contexts("5f1c").cluster_id("demo").await.unwrap();
        let key = key(&fault(1), &cluster);
        let gone = registry.compare_and_set(&key, None, Bytes::new(), WINDOW);
        gone.await.unwrap();
        let began = Instant::now();
        let [one, two, three] = &servers;
        let reports = tokio::join!(
            one.report(1, CaptureError::NotFound),
            two.report(1, CaptureError::NotFound),
            three.report(1, CaptureError::NotFound),
        );
        let text = |report: &Report| serde_json::to_string(report).unwrap();
        assert_eq!(text(&reports.0), text(&reports.1));
        assert_eq!(text(&reports.0), text(&reports.2));
        let captured: usize = servers.iter().map(TestServer::captured).sum();
        assert_eq!(captured, 1);
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test(start_paused = true)]
    async fn clusters_whose_contexts_have_one_name_share_no_report() {
        let registry = Arc::new(MemoryRegistry::default());
        let here = TestServer::in_cluster(&registry, "5f1c").await;
        let there = TestServer::in_cluster(&registry, "77aa").await;
        for server in [&here, &there] {
            drop(server.report(1, CaptureError::NotFound).await);
        }
        assert_eq!((here.captured(), there.captured()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_without_a_permit_stands_for_no_other() {
        let registry = Arc::new(MemoryRegistry::default());
        let (first, second) = (
            TestServer::of(&registry).await,
            TestServer::of(&registry).await,
        );
        tokio::join!(
            first.report(1, CaptureError::Throttled),
            second.report(1, CaptureError::NotFound),
        );
        assert_eq!((first.captured(), second.captured()), (1, 1));
    }
}
