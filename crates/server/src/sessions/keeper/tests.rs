use std::{
    future::ready,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use kubecrier_core::metrics::AnswerMetrics;
use kubecrier_history::{MemoryRegistry, Registry, RegistryEntry, RegistryFuture, Revision};
use rmcp::model::{ClientCapabilities, Implementation, InitializeRequestParams};
use tokio::{task::JoinSet, time::advance};

use super::*;
use crate::sessions::{SessionLimits, store::Found};

/// One server's way to the store.
#[derive(Debug, Default)]
struct Link {
    records: Arc<MemoryRegistry>,
    is_away: AtomicBool,
    is_full: AtomicBool,
    reconnects: AtomicU64,
}

impl Link {
    fn or<'a, T: Send + 'a>(
        &self,
        answer: impl FnOnce() -> RegistryFuture<'a, T>,
    ) -> RegistryFuture<'a, T> {
        if !self.is_away.load(Ordering::Relaxed) {
            return answer();
        }
        Box::pin(async {
            // As long as a call over a connection that is cut.
            sleep(Duration::from_secs(2)).await;
            Err(RegistryError::Unavailable {
                doing: "read",
                why: "it is away".to_owned(),
            })
        })
    }
}

impl Registry for Link {
    fn get<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, Option<RegistryEntry>> {
        self.or(|| self.records.get(key))
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, Revision> {
        self.or(|| self.records.put(key, value, time_to_live))
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, SetOutcome> {
        if self.is_full.load(Ordering::Relaxed) {
            return Box::pin(ready(Err(RegistryError::Unavailable {
                doing: "written",
                why: "it is full".to_owned(),
            })));
        }
        self.or(|| {
            self.records
                .compare_and_set(key, expected, value, time_to_live)
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, ()> {
        self.or(|| self.records.delete(key))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> RegistryFuture<'a, Vec<(String, RegistryEntry)>> {
        self.or(|| self.records.list(prefix))
    }

    fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }
}

struct TestServer {
    home: &'static str,
    link: Arc<Link>,
    store: Arc<SessionStore>,
    sessions: Arc<Sessions>,
    _running: JoinSet<()>,
}

impl TestServer {
    fn start(home: &'static str, records: &Arc<MemoryRegistry>) -> Self {
        let link = Arc::new(Link {
            records: Arc::clone(records),
            ..Link::default()
        });
        let store = Arc::new(SessionStore::new(Arc::clone(&link) as _).shared_as(home));
        let sessions = Sessions::new(
            SessionLimits::default(),
            mcp_notify::Metrics::default(),
            AnswerMetrics::default(),
        );
        let sessions = Arc::new(sessions.kept(Some(Arc::clone(&store))));
        let mut running = JoinSet::new();
        let describe = |_: &HttpSession, record| record;
        let keeping = Arc::clone(&sessions).keep_records(describe, CancellationToken::new());
        running.spawn(keeping);
        Self {
            home,
            link,
            store,
            sessions,
            _running: running,
        }
    }

    async fn begin(&self) -> Arc<HttpSession> {
        let entry = self.sessions.create().unwrap();
        entry.set_client(InitializeRequestParams::new(
            ClientCapabilities::default(),
            Implementation::new("client", "1"),
        ));
        self.sessions.settle(entry.session.id()).await;
        entry
    }

    /// Takes a session, as for a request whose server is gone.
    async fn take(&self, of: &HttpSession) -> Arc<HttpSession> {
        let id = of.session.id();
        let Ok(Found::Session(mut record, revision)) = self.store.find(id).await else {
            panic!("there is a record")
        };
        let entry = self.sessions.restore(id, &record).unwrap();
        record.home = Some(self.home.to_owned());
        let claimed = self.store.claim(id, &record, revision).await.unwrap();
        entry.kept.lock().revision = Some(claimed.expect("nobody else takes it"));
        self.sessions.insert(entry).unwrap()
    }

    async fn is_home_of(&self, one: &HttpSession) -> bool {
        let found = self.link.records.get(&key(one.session.id())).await.unwrap();
        Kept::of(found).is_at(Some(self.home))
    }

    fn has(&self, one: &HttpSession) -> bool {
        self.sessions.get(one.session.id()).is_some()
    }

    fn cut(&self) {
        self.link.is_away.store(true, Ordering::Relaxed);
    }

    fn heal(&self) {
        self.link.is_away.store(false, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_cut_off_leaves_what_another_one_has_and_ends_nothing_of_it() {
    let records = Arc::default();
    let (first, second) = (
        TestServer::start("first", &records),
        TestServer::start("second", &records),
    );
    let (moved, gone, own) = (
        first.begin().await,
        first.begin().await,
        first.begin().await,
    );
    first.cut();
    sleep(Duration::from_secs(10)).await;
    second.take(&moved).await;
    second.take(&gone).await;
    // Its client answers the pings of the other server.
    first.sessions.give_up(gone.session.id(), "nobody is heard");
    sleep(Duration::from_mins(1)).await;
    assert!(first.has(&moved), "nothing can be known yet");
    first.heal();
    sleep(Duration::from_secs(5)).await;
    assert!(!first.has(&moved) && moved.session.is_closed());
    for one in [&moved, &gone] {
        assert!(second.has(one) && second.is_home_of(one).await);
    }
    assert!(first.has(&own) && first.is_home_of(&own).await);
    // It comes back to the first one, which has given it up.
    first.take(&gone).await;
    sleep(COMPARE).await;
    assert!(first.has(&gone) && first.is_home_of(&gone).await);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_frozen_leaves_what_another_one_has() {
    let records = Arc::default();
    let (first, second) = (
        TestServer::start("first", &records),
        TestServer::start("second", &records),
    );
    let mut all = Vec::new();
    for _ in 0..20 {
        all.push(first.begin().await);
    }
    sleep(Duration::from_secs(10)).await;
    let (moved, stay) = all.split_at(10);
    // Nothing of the first one runs until time goes on.
    for one in moved {
        second.take(one).await;
    }
    advance(Duration::from_secs(7)).await;
    sleep(Duration::from_secs(1)).await;
    for one in moved {
        assert!(!first.has(one) && second.has(one));
        assert!(second.is_home_of(one).await);
    }
    for one in stay {
        assert!(first.has(one) && first.is_home_of(one).await);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_store_loses_is_written_again() {
    let records = Arc::default();
    let (first, second) = (
        TestServer::start("first", &records),
        TestServer::start("second", &records),
    );
    let all = [
        first.begin().await,
        first.begin().await,
        first.begin().await,
    ];
    sleep(Duration::from_secs(10)).await;
    // It comes back at once, and empty.
    for one in &all {
        records.delete(&key(one.session.id())).await.unwrap();
    }
    for server in [&first, &second] {
        server.link.reconnects.store(1, Ordering::Relaxed);
    }
    assert!(!second.store.is_settled(), "nothing is said to be gone yet");
    sleep(Duration::from_millis(1100)).await;
    for one in &all {
        assert!(first.has(one) && first.is_home_of(one).await);
    }
    sleep(Duration::from_secs(5)).await;
    assert!(second.store.is_settled());
    // It is away for longer than a record is kept.
    first.cut();
    sleep(TIME_TO_LIVE * 2).await;
    assert!(!first.is_home_of(&all[0]).await);
    first.heal();
    sleep(Duration::from_secs(5)).await;
    for one in &all {
        assert!(first.has(one) && first.is_home_of(one).await);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_ended_on_purpose_stays_ended_and_what_was_given_up_goes_on_where_its_client_is() {
    let records = Arc::default();
    let (first, second) = (
        TestServer::start("first", &records),
        TestServer::start("second", &records),
    );
    let (ended, given_up) = (first.begin().await, first.begin().await);
    first.cut();
    sleep(Duration::from_secs(10)).await;
    for one in [&ended, &given_up] {
        second.take(one).await;
    }
    second.sessions.end(ended.session.id(), "the client asked");
    second
        .sessions
        .give_up(given_up.session.id(), "nobody is heard");
    sleep(Duration::from_secs(30)).await;
    first.heal();
    sleep(Duration::from_secs(5)).await;
    assert!(!first.has(&ended) && first.has(&given_up));
    assert!(first.is_home_of(&given_up).await);
    for server in [&first, &second] {
        let found = server.store.find(ended.session.id()).await.unwrap();
        assert!(matches!(found, Found::Ended));
    }
    // From a copy that nobody knows to be one.
    let stale = first.begin().await;
    let taken = second.take(&stale).await;
    first.sessions.end(stale.session.id(), "the client asked");
    sleep(COMPARE).await;
    assert!(!second.has(&taken), "it has ended everywhere");
}

#[tokio::test(start_paused = true)]
async fn what_has_ended_makes_room_in_a_full_store() {
    let records = Arc::default();
    let (first, second) = (
        TestServer::start("first", &records),
        TestServer::start("second", &records),
    );
    let (ended, moved) = (first.begin().await, first.begin().await);
    second.take(&moved).await;
    first.link.is_full.store(true, Ordering::Relaxed);
    first.sessions.end(ended.session.id(), "the client asked");
    first
        .sessions
        .give_up(moved.session.id(), "nobody is heard");
    sleep(RETRY).await;
    let left = records.get(&key(ended.session.id())).await.unwrap();
    assert_eq!(left, None);
    assert!(second.is_home_of(&moved).await, "it is not its own");
}
