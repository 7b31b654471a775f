//! Subscriptions that go on after a cursor, over a cluster and a history in memory.

use demo_cluster::DemoCluster;
use kubecrier_history::{History, Retention};
use kubecrier_k8s::{Allowed, ClusterIdentity, Config, Contexts, Demo, DeniedKinds};
use kubecrier_redact::Redactor;
use serde_json::json;
use tokio::task::{JoinSet, yield_now};

use super::*;
use crate::{
    caller::Caller,
    resources::{ProtocolEra, Requester},
    server::{Server, Setup, tests::setup},
    subscriptions::{Polled, owner},
};
use kubecrier_core::{filters::Filters, subscriptions::Cursor};

/// More than any poll asks for here.
const LIMIT: usize = 400;

struct Fixture {
    cluster: DemoCluster,
    server: Server,
    requester: Requester,
    made: u32,
    _running: JoinSet<()>,
}

impl Fixture {
    async fn start() -> Self {
        let cluster = DemoCluster::default();
        let contexts = Contexts::new(Config {
            kubeconfig: None,
            context: None,
            request_timeout: Duration::from_secs(5),
            redactor: Redactor::default(),
            demo: Some(Demo::new(&cluster)),
            denied: DeniedKinds::default(),
            allowed: Allowed::default(),
            identity: ClusterIdentity::default(),
        });
        let (history, writer) = History::in_memory(Retention::default()).unwrap();
        let server = Server::new(Setup {
            contexts: Arc::new(contexts),
            history: Some(history),
            ..setup()
        });
        let mut running = JoinSet::new();
        running.spawn(writer.run(std::future::pending()));
        running.spawn(server.clone().keep_history());
        let fixture = Self {
            cluster,
            server,
            requester: Requester {
                session: None,
                caller: Caller::ANONYMOUS,
                peer: None,
                era: ProtocolEra::Modern,
            },
            made: 0,
            _running: running,
        };
        let sources = &fixture.subscriptions().inner.sources;
        let context = sources.watches.context(None).unwrap();
        sources.caught_up.wait(&context).await;
        fixture
    }

    fn subscriptions(&self) -> &Subscriptions {
        self.server.subscriptions()
    }

    /// An event of which each occurrence has a reason of its own.
    fn happen(&mut self, name: &str, count: u32) -> String {
        self.made += 1;
        let reason = format!("E{}", self.made);
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": reason, "count": count,
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "shop"},
            "message": "it went wrong",
        });
        self.cluster.put(event).unwrap();
        reason
    }

    async fn poll(&self, cursor: Option<Cursor>) -> Arc<Subscription> {
        let polling = self.subscriptions().find_or_create_polled(
            &self.requester,
            None,
            Filters::default(),
            cursor,
            LIMIT,
        );
        match polling.await.unwrap() {
            Polled::Live(created) => created.subscription,
            Polled::Behind(behind) => panic!("{behind:?}"),
        }
    }

    /// What a client reads that has nothing of a feed, until there is as much as that.
    async fn read(one: &Subscription, count: usize) -> Vec<String> {
        while one.feed().last() < count as u64 {
            one.feed().wait_past(one.feed().last()).await;
        }
        let entries = one.feed().after(0, LIMIT).entries.into_iter();
        let reason = |item: FeedItem| match item {
            FeedItem::Event(event) => event.reason.clone(),
            other => format!("{other:?}"),
        };
        entries.map(|entry| reason(entry.item)).collect()
    }

    /// The cursor after one event, of a subscription that has ended.
    async fn cursor_after_one(&mut self) -> Cursor {
        let one = self.poll(None).await;
        let read = self.happen("first", 1);
        assert_eq!(Self::read(&one, 1).await, [read]);
        let cursor = one.feed().cursor(one.id(), 1);
        self.end(&one);
        cursor
    }

    fn end(&self, one: &Subscription) {
        let owner = owner(&self.requester);
        let ledger = &self.subscriptions().inner.ledger;
        ledger.end(&owner, one.id().as_str());
    }
}

/// Every occurrence of an event that was repeated, in order, and then what happens; the cluster,
/// which has the newest occurrence alone, is not asked.
#[tokio::test]
async fn what_happened_after_a_cursor_comes_from_the_history_and_its_watch() {
    let mut fixture = Fixture::start().await;
    let cursor = fixture.cursor_after_one().await;
    let listed = fixture.cluster.requests("list", "events");
    let mut expected = Vec::new();
    for count in 1..=5 {
        expected.push(fixture.happen("repeated", count));
        expected.push(fixture.happen(&format!("other-{count}"), 1));
    }
    let next = fixture.poll(Some(cursor)).await;
    for count in 6..=9 {
        expected.push(fixture.happen("repeated", count));
    }
    let read = Fixture::read(&next, expected.len()).await;
    assert_eq!(read, expected);
    assert_eq!(fixture.cluster.requests("list", "events"), listed);
}

/// Wherever it is cut off: its cursor leads to all that happened after it.
#[tokio::test]
async fn who_goes_away_while_it_is_read_for_loses_nothing() {
    let mut fixture = Fixture::start().await;
    let cursor = fixture.cursor_after_one().await;
    let mut expected = Vec::new();
    for patience in (0..400).step_by(5) {
        expected.push(fixture.happen(&format!("later-{patience}"), 1));
        let impatient = async {
            for _ in 0..patience {
                yield_now().await;
            }
        };
        tokio::select! {
            biased;
            one = fixture.poll(Some(cursor.clone())) => fixture.end(&one),
            () = impatient => {}
        }
        let one = fixture.poll(Some(cursor.clone())).await;
        let read = Fixture::read(&one, expected.len()).await;
        assert_eq!(read, expected, "after {patience} turns");
        fixture.end(&one);
    }
}
