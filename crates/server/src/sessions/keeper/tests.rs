use std::{
    future::ready,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::{Context, Poll, Waker},
};

use kubecrier_core::metrics::AnswerMetrics;
use kubecrier_history::{MemoryRegistry, Registry, RegistryEntry, RegistryFuture, Revision};
use mcp_notify::ProtocolVersion;
use rmcp::model::{ClientCapabilities, Implementation, InitializeRequestParams, RequestId};
use serde_json::json;
use tokio::{task::JoinSet, time::advance};

use super::*;
use crate::sessions::{
    SessionLimits,
    answers::{NotResumed, Read},
    store::Found,
};

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
        let _written = self.sessions.settle(entry.session.id()).await;
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

#[tokio::test(start_paused = true)]
async fn what_runs_when_a_session_moves_is_answered_where_it_was_asked() {
    let records = Arc::default();
    let (first, second) = (
        TestServer::start("first", &records),
        TestServer::start("second", &records),
    );
    let ask = |entry: &Arc<HttpSession>, running: &CancellationToken| {
        let version = ProtocolVersion::new("2025-11-25".to_owned());
        entry.session.set_protocol_version(version);
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let message = serde_json::from_value(message).unwrap();
        let guard = running.clone().drop_guard();
        (entry.running).begin(Some(RequestId::Number(1)), |_number| guard);
        entry.register_request(&message).unwrap()
    };
    let (moved, ended) = (first.begin().await, first.begin().await);
    let (goes_on, is_over) = (CancellationToken::new(), CancellationToken::new());
    let (mut read, over) = (ask(&moved, &goes_on), ask(&ended, &is_over));
    let here = second.take(&moved).await;
    first.sessions.leave(moved.session.id());
    first.sessions.end(ended.session.id(), "the client asked");
    assert!(moved.session.is_closed() && !first.has(&moved));
    assert!(is_over.is_cancelled() && !goes_on.is_cancelled());
    let result = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}});
    drop(moved.route(serde_json::from_value(result).unwrap()));
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Some(Read::Event(id, _))) = read.poll_read(&mut cx) else {
        panic!("it is answered")
    };
    assert!(matches!(read.poll_read(&mut cx), Poll::Ready(None)));
    // Its id is no answer of the other server, which has one by now.
    let _running = ask(&here, &CancellationToken::new());
    let resumed = here.resume(id);
    assert!(matches!(resumed, Err(NotResumed::Forgotten)), "{resumed:?}");
    drop((read, over));
    // A request that nobody reads any more ends.
    let (left, token) = (first.begin().await, CancellationToken::new());
    let read = ask(&left, &token);
    first.sessions.leave(left.session.id());
    assert!(!token.is_cancelled());
    drop(read);
    assert!(token.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_is_not_said_to_be_kept() {
    let records = Arc::default();
    let (first, second) = (
        TestServer::start("first", &records),
        TestServer::start("second", &records),
    );
    let fails = |kept| matches!(kept, Err(NotKept::Failed(_)));
    let settle = async |entry: &HttpSession| {
        let settled = first.sessions.settle(entry.session.id()).await;
        settled.map(drop)
    };
    let new = |server: &TestServer, name: String| {
        let entry = server.sessions.create().unwrap();
        let client = Implementation::new(name, "1");
        let params = InitializeRequestParams::new(ClientCapabilities::default(), client);
        entry.set_client(params);
        entry
    };
    let settle_new = async |entry: &HttpSession| {
        let id = entry.session.id();
        first.sessions.settle_new(id).await
    };
    let one = first.begin().await;
    assert_eq!(settle(&one).await, Ok(()));
    // Others can read, and would find nothing.
    first.link.is_full.store(true, Ordering::Relaxed);
    one.set_initialized();
    assert!(fails(settle(&one).await) && first.store.is_failing());
    assert!(first.has(&one), "it goes on");
    let refused = new(&first, "client".to_owned());
    assert!(fails(settle_new(&refused).await) && !first.has(&refused));
    // Nobody can read, and so nobody says that there is no such session.
    first.cut();
    let alone = new(&first, "client".to_owned());
    assert_eq!(settle_new(&alone).await, Ok(()));
    assert!(
        fails(settle(&alone).await),
        "but what it asks for is not kept"
    );
    first.heal();
    first.link.is_full.store(false, Ordering::Relaxed);
    sleep(2 * RETRY).await;
    assert!(first.is_home_of(&alone).await && !first.store.is_failing());
    assert_eq!(settle(&alone).await, Ok(()));
    // One that is too large is refused again without being tried again.
    let large = new(&first, "x".repeat(300_000));
    assert!(matches!(
        settle_new(&large).await,
        Err(NotKept::Rejected(_))
    ));
    assert!(!first.has(&large));
    // What another server has is written there.
    second.take(&one).await;
    one.kept.lock().is_doubted = true;
    assert_eq!(settle(&one).await, Err(NotKept::Moved));
    assert_eq!(settle(&one).await, Err(NotKept::Moved), "it has left");
    assert!(second.is_home_of(&one).await);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_never_written_leaves_no_trail_while_the_store_fails() {
    let first = TestServer::start("first", &Arc::default());
    let (written, new) = (first.begin().await, first.sessions.create().unwrap());
    first.cut();
    for entry in [&written, &new] {
        first.sessions.end(entry.session.id(), "the client asked");
    }
    assert!(first.store.ended(written.session.id()).is_some());
    assert!(first.store.ended(new.session.id()).is_none());
    // Neither do those who no longer wait for a record.
    let waits = first.begin().await;
    for _ in 0..5 {
        assert!(first.sessions.settle(waits.session.id()).await.is_err());
    }
    let changed = first.store.take_changed();
    assert!(changed[waits.session.id()].len() <= 1);
    assert!(changed.len() <= 2, "{}", changed.len());
}
