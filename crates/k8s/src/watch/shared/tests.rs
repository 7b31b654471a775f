//! Servers that share their watches, over a cluster in memory and on paused time. Each can be cut
//! off from what is shared.

mod backlog;
mod link;
mod strangers;

use std::sync::atomic::Ordering;

use demo_cluster::DemoCluster;
use kubecrier_history::{MemoryRegistry, MemorySharedLog, SharedLog as _};
use kubecrier_lifecycle::Lifecycle;
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::json;
use tokio::time::{Duration, advance};

use self::link::Link;
use super::*;
use crate::{Contexts, JoinedWatch, WatchRole, Watches, shared_task::TaskLimits};
use kubecrier_core::{
    Event,
    filters::{FilterRequest, Filters},
    metrics::{WatchMetrics, WatchState},
    subscriptions::{LabelUse, Listener, WatchStatus},
};

#[derive(Debug, Default)]
struct Received {
    events: Mutex<Vec<(String, u64)>>,
    statuses: Mutex<Vec<WatchStatus>>,
}

struct TestServer {
    link: Link,
    watches: Watches,
    received: Arc<Received>,
    lifecycle: Lifecycle,
    joined: Option<JoinedWatch>,
}

struct Fixture {
    cluster: DemoCluster,
    log: MemorySharedLog,
    registry: Arc<MemoryRegistry>,
    servers: Vec<TestServer>,
    /// What the servers watch.
    filters: Filters,
    made: u64,
}

impl Listener for Received {
    fn wants(&self, _event: &Event) -> bool {
        true
    }

    fn label_use(&self) -> LabelUse {
        LabelUse::None
    }

    fn on_events(self: Arc<Self>, events: &[&Arc<Event>]) {
        let events = events
            .iter()
            .map(|event| (event.reason.clone(), event.version.unwrap_or_default()));
        self.events.lock().extend(events);
    }

    fn on_status(&self, _watch: u64, status: &WatchStatus) {
        self.statuses.lock().push(status.clone());
    }
}

// === impl Fixture ===

impl Fixture {
    fn new() -> Self {
        Self {
            cluster: DemoCluster::default(),
            log: MemorySharedLog::default(),
            registry: Arc::default(),
            servers: Vec::new(),
            filters: Filters::default(),
            made: 0,
        }
    }

    async fn with_servers(count: usize) -> Self {
        let mut fixture = Self::new();
        for _ in 0..count {
            fixture.start_server().await;
        }
        fixture
    }

    /// Starts a server, which watches everything. Returns its place.
    async fn start_server(&mut self) -> usize {
        let lifecycle = Lifecycle::default();
        let limits = TaskLimits {
            total_max: 100,
            per_caller_max: 100,
        };
        let watches = Watches::new(
            Contexts::of_demo(&self.cluster),
            lifecycle.clone(),
            WatchMetrics::default(),
            Duration::from_secs(20),
            limits,
        );
        let link = Link {
            log: self.log.clone(),
            registry: Arc::clone(&self.registry),
            is_cut: Arc::default(),
            is_deaf: Arc::default(),
        };
        watches.share(SharedWatching {
            log: Arc::new(link.clone()),
            registry: Arc::new(link.clone()),
            server: format!("server-{}", self.servers.len()),
        });
        let received = Arc::new(Received::default());
        let context = watches.context(None).unwrap();
        let joined = watches.join(&context, &self.filters, Arc::clone(&received) as _);
        let joined = joined.await.unwrap();
        assert_eq!(joined.warnings, [""; 0]);
        self.servers.push(TestServer {
            link,
            watches,
            received,
            lifecycle,
            joined: Some(joined),
        });
        self.servers.len() - 1
    }

    /// Makes an event, whose reason is its number.
    fn happen(&mut self) {
        self.made += 1;
        let number = self.made;
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": format!("E{number}"),
            "metadata": {"name": format!("web.{number}"), "namespace": "shop"},
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "shop"},
            "message": "it went wrong",
        });
        self.cluster.put(event).unwrap();
    }

    async fn pass(&self, time: Duration) {
        let step = Duration::from_millis(50);
        let steps = time.as_millis() / step.as_millis();
        for _ in 0..steps {
            advance(step).await;
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
    }

    fn roles(&self) -> Vec<WatchRole> {
        let servers = self.servers.iter().filter(|server| server.joined.is_some());
        let roles = servers.flat_map(|server| server.watches.list());
        roles.filter_map(|watch| watch.role).collect()
    }

    fn holder(&self) -> Option<usize> {
        let is_holder = |server: &TestServer| {
            let mut watches = server.watches.list().into_iter();
            watches.any(|watch| watch.role == Some(WatchRole::Holder))
        };
        self.servers.iter().position(is_holder)
    }

    /// Every server has every event from its first one on, once, in order, and was told nothing
    /// else.
    fn check(&self, server: usize, first: u64) {
        let received = &self.servers[server].received;
        let events = received.events.lock();
        let reasons: Vec<_> = events.iter().map(|(reason, _)| reason.as_str()).collect();
        let expected: Vec<_> = (first..=self.made)
            .map(|number| format!("E{number}"))
            .collect();
        assert_eq!(reasons, expected, "server {server}");
        assert!(events.windows(2).all(|pair| pair[0].1 < pair[1].1));
        assert_eq!(*received.statuses.lock(), [], "server {server}");
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn servers_have_one_watch_and_each_has_every_event() {
    let mut fixture = Fixture::with_servers(3).await;
    for _ in 0..50 {
        fixture.happen();
        fixture.pass(SECOND).await;
        assert_eq!(fixture.cluster.open_watches(), 1);
    }
    let roles = fixture.roles();
    let holders = roles.iter().filter(|role| **role == WatchRole::Holder);
    assert_eq!((holders.count(), roles.len()), (1, 3));
    for server in 0..3 {
        fixture.check(server, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_watch_of_a_server_that_stops_goes_on_at_once_elsewhere() {
    let mut fixture = Fixture::with_servers(2).await;
    fixture.happen();
    fixture.pass(SECOND).await;
    assert_eq!(fixture.holder(), Some(0));
    fixture.servers[0].joined = None;
    fixture.servers[0].lifecycle.drain();
    fixture.happen();
    fixture.pass(3 * SECOND).await;
    fixture.happen();
    fixture.pass(SECOND).await;
    assert_eq!(fixture.holder(), Some(1));
    assert_eq!(fixture.cluster.open_watches(), 1);
    fixture.check(1, 1);
}

/// A holder that nothing is heard of any more, such as one that was killed.
#[tokio::test(start_paused = true)]
async fn a_holder_that_vanishes_is_replaced_within_ten_seconds() {
    let mut fixture = Fixture::with_servers(3).await;
    fixture.pass(3 * SECOND).await;
    assert_eq!(fixture.holder(), Some(0));
    fixture.servers[0]
        .link
        .is_cut
        .store(true, Ordering::Relaxed);
    fixture.happen();
    fixture.pass(10 * SECOND).await;
    for server in [1, 2] {
        fixture.check(server, 1);
    }
    // It goes on alone, and comes back when it can.
    fixture.pass(10 * SECOND).await;
    fixture.check(0, 1);
    assert!(fixture.roles().contains(&WatchRole::Alone));
    fixture.servers[0]
        .link
        .is_cut
        .store(false, Ordering::Relaxed);
    fixture.happen();
    fixture.pass(30 * SECOND).await;
    fixture.happen();
    fixture.pass(SECOND).await;
    assert!(!fixture.roles().contains(&WatchRole::Alone));
    assert_eq!(fixture.cluster.open_watches(), 1);
    for server in 0..3 {
        fixture.check(server, 1);
    }
}

/// The connection of its watch stays, and nothing comes.
#[tokio::test(start_paused = true)]
async fn a_holder_that_the_api_server_does_not_answer_lets_another_one_try() {
    let mut fixture = Fixture::with_servers(2).await;
    // A cluster in which nothing happens is no reason.
    fixture.pass(60 * SECOND).await;
    assert_eq!(fixture.holder(), Some(0));
    fixture.cluster.freeze();
    fixture.pass(9 * SECOND).await;
    assert_eq!(fixture.holder(), Some(1));
    fixture.cluster.thaw();
    fixture.pass(30 * SECOND).await;
    fixture.happen();
    fixture.pass(5 * SECOND).await;
    fixture.check(0, 1);
    fixture.check(1, 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_store_each_server_watches_for_itself() {
    let mut fixture = Fixture::with_servers(2).await;
    fixture.pass(3 * SECOND).await;
    for server in &fixture.servers {
        server.link.is_cut.store(true, Ordering::Relaxed);
    }
    fixture.log.set_down(true);
    for _ in 0..30 {
        fixture.happen();
        fixture.pass(SECOND).await;
    }
    let alone = fixture.roles();
    assert_eq!(alone, [WatchRole::Alone; 2]);
    fixture.log.set_down(false);
    for server in &fixture.servers {
        server.link.is_cut.store(false, Ordering::Relaxed);
    }
    for _ in 0..40 {
        fixture.happen();
        fixture.pass(SECOND).await;
    }
    assert_eq!(fixture.cluster.open_watches(), 1);
    for server in 0..2 {
        fixture.check(server, 1);
    }
}

/// The log as it is after its store was made anew, or has removed what it had.
#[tokio::test(start_paused = true)]
async fn a_log_with_a_hole_is_gone_around() {
    let mut fixture = Fixture::with_servers(2).await;
    fixture.pass(3 * SECOND).await;
    let is_follower = |fixture: &Fixture| 1 - fixture.holder().unwrap();
    let follower = is_follower(&fixture);
    fixture.servers[follower]
        .link
        .is_cut
        .store(true, Ordering::Relaxed);
    for _ in 0..5 {
        fixture.happen();
        fixture.pass(SECOND).await;
    }
    let scope = crate::watch::scope::Scope::whole("demo", &Filters::default());
    let context = fixture.servers[0].watches.context(None).unwrap();
    let scope = crate::watch::scope::Scope { context, ..scope };
    let cluster = fixture.servers[0].watches.shared_cluster("demo").await;
    let topic = topic(&scope, &cluster.unwrap().unwrap());
    fixture.log.remove_oldest(&topic, 1000);
    fixture.servers[follower]
        .link
        .is_cut
        .store(false, Ordering::Relaxed);
    for _ in 0..40 {
        fixture.happen();
        fixture.pass(SECOND).await;
    }
    assert_eq!(fixture.cluster.open_watches(), 1);
    for server in 0..2 {
        fixture.check(server, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_history_is_told_by_each_server_as_if_it_were_alone() {
    let mut fixture = Fixture::with_servers(2).await;
    fixture.happen();
    fixture.pass(3 * SECOND).await;
    fixture.cluster.refuse();
    fixture.cluster.cut_connections();
    fixture.pass(SECOND).await;
    for _ in 0..3 {
        fixture.happen();
    }
    fixture.cluster.compact();
    fixture.cluster.accept();
    fixture.pass(60 * SECOND).await;
    fixture.happen();
    fixture.pass(SECOND).await;
    for server in &fixture.servers {
        let reasons: Vec<_> = (server.received.events.lock().iter())
            .map(|(reason, _)| reason.clone())
            .collect();
        assert_eq!(reasons, ["E1", "E2", "E3", "E4", "E5"]);
        let statuses = server.received.statuses.lock();
        assert!(
            matches!(statuses[..], [WatchStatus::Gap { .. }]),
            "{statuses:?}"
        );
    }
    fixture.pass(30 * SECOND).await;
    assert_eq!(fixture.cluster.open_watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_is_told_by_each_server_once() {
    let mut fixture = Fixture::with_servers(2).await;
    fixture.happen();
    fixture.pass(3 * SECOND).await;
    fixture.cluster.refuse();
    fixture.cluster.cut_connections();
    fixture.pass(90 * SECOND).await;
    for server in &fixture.servers {
        assert_eq!(server.watches.list()[0].state, WatchState::Degraded);
    }
    fixture.cluster.accept();
    fixture.pass(60 * SECOND).await;
    fixture.happen();
    fixture.pass(2 * SECOND).await;
    for server in &fixture.servers {
        let statuses = server.received.statuses.lock();
        let is_one_outage = matches!(
            statuses[..],
            [WatchStatus::Degraded { .. }, WatchStatus::Recovered]
        );
        assert!(is_one_outage, "{statuses:?}");
        assert_eq!(server.received.events.lock().len(), 2);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Happen,
    Pass(u64),
    Cut(usize, bool),
    Deaf(usize),
    Store(bool),
    CloseWatches,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Happen),
        6 => (1..5000_u64).prop_map(Step::Pass),
        2 => (0..3_usize, any::<bool>()).prop_map(|(server, cut)| Step::Cut(server, cut)),
        1 => (0..3_usize).prop_map(Step::Deaf),
        1 => any::<bool>().prop_map(Step::Store),
        1 => Just(Step::CloseWatches),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever is cut off when: nobody lacks an event, has one twice, or is told of a trouble
    /// that is none of the cluster's.
    #[test]
    fn every_server_has_every_event_once_and_in_order(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut fixture = Fixture::with_servers(3).await;
            for step in steps {
                match step {
                    Step::Happen => fixture.happen(),
                    Step::Pass(millis) => fixture.pass(Duration::from_millis(millis)).await,
                    Step::Cut(server, is_cut) => {
                        fixture.servers[server].link.is_cut.store(is_cut, Ordering::Relaxed);
                    }
                    Step::Deaf(server) => {
                        fixture.servers[server].link.is_deaf.store(true, Ordering::Relaxed);
                    }
                    Step::Store(is_up) => fixture.log.set_down(!is_up),
                    Step::CloseWatches => fixture.cluster.close_watches(),
                }
            }
            fixture.log.set_down(false);
            for server in &fixture.servers {
                server.link.is_cut.store(false, Ordering::Relaxed);
            }
            fixture.pass(60 * SECOND).await;
            fixture.happen();
            fixture.pass(2 * SECOND).await;
            assert_eq!(fixture.cluster.open_watches(), 1);
            for server in 0..3 {
                fixture.check(server, 1);
            }
        });
    }
}
