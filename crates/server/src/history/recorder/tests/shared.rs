//! A server that starts reads what others have seen, over a cluster in memory and on paused time.

use demo_cluster::DemoCluster;
use kubecrier_core::{access::Viewer, faults::CaptureLimits, metrics::Metrics};
use kubecrier_history::{
    Appended, MemoryRegistry, MemorySharedLog, Registry as _, Retention, SharedLog as _,
};
use kubecrier_k8s::{
    Allowed, AllowedNames, ClusterEvidence, ClusterIdentity, Config, Demo, DeniedKinds, Page,
    Remaining, SharedWatching, TaskLimits,
};
use kubecrier_redact::Redactor;
use serde_json::{Value, json};

use super::*;
use crate::history::search::with_stored;

const MINUTE: i64 = 60 * 1000;

/// Servers that share what they see.
struct Fixture {
    cluster: DemoCluster,
    log: MemorySharedLog,
    registry: Arc<MemoryRegistry>,
    allowed: Allowed,
}

impl Fixture {
    fn new(allowed: &[&str]) -> Self {
        let cluster = DemoCluster::default();
        for space in ["shop", "bank"] {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}});
            cluster.put(namespace).unwrap();
        }
        let allowed: Vec<_> = allowed.iter().map(|&name| name.to_owned()).collect();
        let namespaces = AllowedNames::namespaces(&allowed).unwrap_or_default();
        Self {
            cluster,
            log: MemorySharedLog::default(),
            registry: Arc::default(),
            allowed: Allowed {
                namespaces,
                ..Allowed::default()
            },
        }
    }

    /// A server with a history of its own.
    fn server(&self, name: &str, history: &History) -> Recorder {
        let contexts = Arc::new(Contexts::new(Config {
            kubeconfig: None,
            context: None,
            request_timeout: Duration::from_secs(5),
            redactor: Redactor::default(),
            demo: Some(Demo::new(&self.cluster)),
            denied: DeniedKinds::default(),
            allowed: self.allowed.clone(),
            identity: ClusterIdentity::default(),
        }));
        let lifecycle = Lifecycle::default();
        let limits = TaskLimits {
            total_max: 10,
            per_caller_max: 10,
        };
        let watches = Watches::new(
            Arc::clone(&contexts),
            lifecycle.clone(),
            Metrics::new().watch().clone(),
            Duration::from_secs(20),
            limits,
        );
        watches.share(SharedWatching {
            log: Arc::new(self.log.clone()),
            registry: Arc::clone(&self.registry) as _,
            server: name.to_owned(),
        });
        let faults = FaultQueue::new(
            Arc::new(ClusterEvidence::new(Arc::clone(&contexts))),
            CaptureLimits::default(),
            Metrics::new().captures(),
            lifecycle.clone(),
        );
        Recorder {
            contexts,
            watches,
            incidents: None,
            faults,
            history: history.clone(),
            lifecycle,
            caught_up: Arc::default(),
        }
    }

    async fn topics(&self) -> Vec<String> {
        let leases = self.registry.list("lease.").await.unwrap();
        let topics = leases.into_iter().filter_map(|(key, _)| {
            let topic = key.strip_prefix("lease.")?;
            Some(topic.to_owned())
        });
        topics.collect()
    }

    /// Has the log begin so many minutes ago, instead of now.
    async fn begin_ago(&self, minutes: i64) {
        for topic in self.topics().await {
            let last = self.log.last(&topic).await.unwrap().unwrap();
            self.log.remove_oldest(&topic, usize::MAX);
            let mut first: Value = serde_json::from_slice(&last.bytes).unwrap();
            first["at"] = json!(Timestamp::now().as_millisecond() - minutes * MINUTE);
            first["after"] = first["until"].clone();
            let first = serde_json::to_vec(&first).unwrap();
            let appended = self.log.append(&topic, 0, first.into()).await;
            assert!(matches!(appended, Ok(Appended::At(_))));
        }
    }
}

/// What `events_list` with `since` says of what is not there, after a server was away for 40
/// minutes: what others saw of the first and of the last minutes.
async fn caveat(allowed: &[&str], log_begins_ago: i64) -> String {
    let fixture = Fixture::new(allowed);
    let (others, writer) = History::in_memory(Retention::default()).unwrap();
    let mut running = JoinSet::new();
    running.spawn(writer.run(std::future::pending()));
    let first = fixture.server("first", &others);
    let context: Arc<str> = first.contexts.resolve(None).unwrap().into();
    running.spawn(first.clone().record(Arc::clone(&context), None));
    first.caught_up.wait(&context).await;
    sleep(Duration::from_secs(3)).await;
    first.lifecycle.drain();
    sleep(Duration::from_secs(3)).await;
    fixture.begin_ago(log_begins_ago).await;
    let (history, writer) = History::in_memory(Retention::default()).unwrap();
    running.spawn(writer.run(std::future::pending()));
    let now = Timestamp::now().as_millisecond();
    history.record(&context, Stream::Events, move || Record {
        time: now - 45 * MINUTE,
        id: "uid:1".to_owned(),
        version: 1,
        ..Record::default()
    });
    assert!(history.flush().await);
    let second = fixture.server("second", &history);
    let kept_until = Some(now - 40 * MINUTE);
    running.spawn(second.clone().record(Arc::clone(&context), kept_until));
    second.caught_up.wait(&context).await;
    let query = EventQuery {
        since: Some(Duration::from_mins(43)),
        limit: 10,
        ..EventQuery::default()
    };
    let listed = Ok(Page::new(Vec::new(), Remaining::Exactly(0)));
    let eyes = (&history, &Viewer::Everything);
    let page = with_stored(eyes, &second.contexts, &context, &query, listed).await;
    second.lifecycle.drain();
    running.shutdown().await;
    page.unwrap().caveat.unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn what_others_have_seen_while_a_server_was_away_is_no_gap() {
    for allowed in [&[][..], &["shop"], &["shop", "bank"]] {
        let said = caveat(allowed, 50).await;
        assert_eq!(said, "", "{allowed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_before_the_log_of_others_is_one_gap() {
    for allowed in [&[][..], &["shop"], &["shop", "bank"]] {
        let said = caveat(allowed, 10).await;
        let count = said.matches("the shared log begins later").count();
        assert_eq!(count, 1, "{allowed:?}: {said}");
        assert!(!said.contains("no server"), "{said}");
    }
}

/// A folder that has kept other contexts knows nothing of this one.
#[tokio::test]
async fn a_context_that_was_never_kept_has_no_time_until_which_it_was() {
    let held = tempfile::tempdir().unwrap();
    let config = || kubecrier_history::HistoryConfig {
        folder: held.path().to_owned(),
        retention: Retention::default(),
    };
    let (history, writer) = History::open(config()).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut running = JoinSet::new();
    running.spawn(writer.run(async { drop(stopped.await) }));
    history.record(&"kept".into(), Stream::Events, || Record {
        time: 1,
        id: "uid:1".to_owned(),
        version: 1,
        ..Record::default()
    });
    assert!(history.flush().await);
    drop((stop, history));
    running.join_all().await;
    let (history, _writer) = History::open(config()).unwrap();
    let recorder = Fixture::new(&[]).server("only", &history);
    assert!(history.alive_until().is_some());
    assert_eq!(recorder.kept_before("kept"), history.alive_until());
    assert_eq!(recorder.kept_before("new"), None);
}
