//! What a server that starts reads of the time before, and what it knows to be missing.

use jiff::Timestamp;

use super::{
    super::message::{Seen, WatchMessage},
    *,
};
use crate::BacklogGap;

/// The reasons of the events that a server reads, and why others may be missing.
async fn read(fixture: &Fixture, server: usize, since: Timestamp) -> (Vec<String>, Vec<String>) {
    let mut backlog = open(fixture, server, since, None).await;
    let mut seen = Vec::new();
    while let Ok(Some(events)) = backlog.next().await {
        seen.extend(events.iter().map(|event| event.reason.clone()));
    }
    let why = |gap: BacklogGap| {
        assert!(gap.since <= gap.until, "{gap:?}");
        gap.why
    };
    (seen, backlog.take_gaps().into_iter().map(why).collect())
}

async fn open(
    fixture: &Fixture,
    server: usize,
    since: Timestamp,
    until: Option<u64>,
) -> SharedBacklog {
    let topic = topic_of(fixture).await;
    let shared = &fixture.servers[server].watches.shared;
    let sharing = shared.sharing.get().unwrap();
    let backlog = SharedBacklog::open(sharing, &topic, since, until, &shared.contexts);
    backlog.await.unwrap()
}

async fn topic_of(fixture: &Fixture) -> String {
    let cluster = fixture.servers[0].watches.shared_cluster("demo").await;
    let scope = crate::watch::scope::Scope::whole("demo", &Filters::default());
    topic(&scope, &cluster.unwrap().unwrap())
}

fn now() -> Timestamp {
    Timestamp::now() - jiff::SignedDuration::from_secs(5)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_reads_what_was_seen_before() {
    let mut fixture = Fixture::with_servers(1).await;
    for _ in 0..5 {
        fixture.happen();
        fixture.pass(SECOND).await;
    }
    let late = fixture.start_server().await;
    let (seen, missing) = read(&fixture, late, now()).await;
    assert_eq!(seen, ["E1", "E2", "E3", "E4", "E5"]);
    assert_eq!(missing, [""; 0]);
    fixture.happen();
    fixture.pass(SECOND).await;
    fixture.check(late, 6);
}

#[tokio::test(start_paused = true)]
async fn what_was_before_the_log_is_missing() {
    let mut fixture = Fixture::with_servers(1).await;
    fixture.happen();
    fixture.pass(SECOND).await;
    let (seen, missing) = read(&fixture, 0, Timestamp::UNIX_EPOCH).await;
    assert_eq!(seen, ["E1"]);
    assert_eq!(missing, ["the shared log begins later"]);
}

#[tokio::test(start_paused = true)]
async fn where_nobody_has_written_everything_may_be_missing() {
    let mut fixture = Fixture::with_servers(1).await;
    fixture.pass(3 * SECOND).await;
    let topic = topic_of(&fixture).await;
    fixture.servers[0].joined = None;
    fixture.servers[0].lifecycle.drain();
    fixture.pass(SECOND).await;
    fixture.log.remove_oldest(&topic, 1000);
    let (seen, missing) = read(&fixture, 0, now()).await;
    assert_eq!(seen, [""; 0]);
    assert_eq!(missing, ["no server has watched"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_instead_of_the_history_of_the_api_server_is_a_gap() {
    let mut fixture = Fixture::with_servers(1).await;
    fixture.happen();
    fixture.pass(3 * SECOND).await;
    fixture.cluster.refuse();
    fixture.cluster.cut_connections();
    fixture.pass(SECOND).await;
    fixture.happen();
    fixture.cluster.compact();
    fixture.cluster.accept();
    fixture.pass(60 * SECOND).await;
    fixture.happen();
    fixture.pass(SECOND).await;
    let (seen, missing) = read(&fixture, 0, now()).await;
    assert_eq!(seen, ["E1", "E3"]);
    assert_eq!(missing, ["the API server had no history of it any more"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_missing_is_a_gap() {
    let mut fixture = Fixture::with_servers(1).await;
    fixture.happen();
    fixture.pass(3 * SECOND).await;
    let topic = topic_of(&fixture).await;
    let last = fixture.log.last(&topic).await.unwrap().unwrap();
    let events = Seen::Events(Vec::new());
    let later = WatchMessage::new("x".to_owned(), "900000000", "900000001", events);
    let appended = fixture.log.append(&topic, last.number, later.to_bytes());
    appended.await.unwrap();
    let (seen, missing) = read(&fixture, 0, now()).await;
    assert_eq!(seen, ["E1"]);
    assert_eq!(missing, ["messages of the shared log are missing"]);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_breaks_off_is_a_gap() {
    let mut fixture = Fixture::with_servers(1).await;
    fixture.happen();
    fixture.pass(3 * SECOND).await;
    // It is watched from a version on that nobody has written up to.
    let mut backlog = open(&fixture, 0, now(), Some(u64::MAX)).await;
    assert_eq!(backlog.next().await.unwrap().unwrap().len(), 1);
    fixture.log.set_down(true);
    while let Ok(Some(_)) = backlog.next().await {}
    let [gap] = &backlog.take_gaps()[..] else {
        panic!("there is one gap");
    };
    assert!(gap.why.contains("down"), "{gap:?}");
}

/// As with `--allowed-namespaces`: each namespace has a watch, and a log, of its own.
#[tokio::test(start_paused = true)]
async fn each_watch_has_a_backlog_of_its_own() {
    let mut fixture = Fixture::new();
    let namespaces = vec!["shop".to_owned(), "bank".to_owned()];
    for name in &namespaces {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        fixture.cluster.put(namespace).unwrap();
    }
    let spaces = FilterRequest {
        namespaces,
        ..FilterRequest::default()
    };
    fixture.filters = Filters::try_from(spaces).unwrap();
    fixture.start_server().await;
    for _ in 0..3 {
        fixture.happen();
        fixture.pass(SECOND).await;
    }
    let late = fixture.start_server().await;
    fixture.pass(3 * SECOND).await;
    let TestServer {
        watches, joined, ..
    } = &fixture.servers[late];
    let lease = &joined.as_ref().unwrap().lease;
    let (mut seen, mut missing) = (Vec::new(), Vec::new());
    let backlogs = watches.shared_backlogs(lease, now()).await;
    assert_eq!(backlogs.len(), 2);
    for backlog in backlogs {
        let mut backlog = backlog.unwrap();
        while let Ok(Some(events)) = backlog.next().await {
            seen.extend(events.iter().map(|event| event.reason.clone()));
        }
        missing.extend(backlog.take_gaps());
    }
    assert_eq!(seen, ["E1", "E2", "E3"]);
    assert_eq!(missing, []);
}
