//! The queue and its writer, over a real folder.

use std::sync::Arc;

use bytes::Bytes;
use kubecrier_history::{
    Budget, History, HistoryConfig, Position, Query, Record, Retention, Stream, Wanted,
};
use tokio::sync::oneshot;

struct Running {
    history: History,
    stop: oneshot::Sender<()>,
    writer: tokio::task::JoinHandle<()>,
}

fn start(folder: &std::path::Path) -> Running {
    let config = HistoryConfig {
        folder: folder.to_owned(),
        retention: Retention::default(),
    };
    let (history, writer) = History::open(config).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let writer = tokio::spawn(writer.run(async {
        let _ended = stopped.await;
    }));
    Running {
        history,
        stop,
        writer,
    }
}

impl Running {
    async fn end(self) {
        drop(self.stop);
        self.writer.await.unwrap();
    }

    fn record(&self, id: &str) {
        let id = id.to_owned();
        let now = jiff::Timestamp::now().as_millisecond();
        self.history
            .record(&Arc::from("dev"), Stream::Events, move || Record {
                time: now,
                version: 1,
                id,
                value: Bytes::from_static(b"{}"),
                ..Record::default()
            });
    }

    fn ids(&self) -> Vec<String> {
        let page = self
            .history
            .read_from("dev", Stream::Events, Position::default(), usize::MAX);
        page.unwrap()
            .records
            .into_iter()
            .map(|(_, record)| record.id)
            .collect()
    }
}

#[tokio::test]
async fn a_record_is_kept_once_also_after_a_restart() {
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("history");
    let first = start(&folder);
    for id in ["a", "b", "a"] {
        first.record(id);
    }
    assert!(first.history.flush().await);
    first.record("b");
    first.record("c");
    assert!(first.history.flush().await);
    assert_eq!(first.ids(), ["a", "b", "c"]);
    assert_eq!(first.history.stats().doubles, 2);
    assert_eq!(first.history.stats().waiting, 0);
    let secret = *first.history.secret();
    // What waits when it ends is kept.
    first.record("d");
    first.end().await;
    let second = start(&folder);
    assert!(second.history.alive_until().is_some());
    assert_eq!(*second.history.secret(), secret);
    for id in ["c", "d", "e"] {
        second.record(id);
    }
    assert!(second.history.flush().await);
    assert_eq!(second.ids(), ["a", "b", "c", "d", "e"]);
    second.end().await;
}

#[tokio::test]
async fn what_does_not_fit_is_counted_and_kept_as_a_gap() {
    let held = tempfile::tempdir().unwrap();
    let config = HistoryConfig {
        folder: held.path().join("history"),
        retention: Retention::default(),
    };
    let (history, writer) = History::open(config).unwrap();
    let cluster: Arc<str> = "dev".into();
    for number in 0..10_250 {
        history.record(&cluster, Stream::Events, move || Record {
            id: number.to_string(),
            version: 1,
            ..Record::default()
        });
    }
    assert_eq!(history.stats().dropped, 250);
    // A gap is one of the log that lacks something.
    history.record(&cluster, Stream::Incidents, Record::default);
    assert_eq!(history.stats().dropped, 251);
    let (stop, stopped) = oneshot::channel::<()>();
    let writer = tokio::spawn(writer.run(async {
        let _ended = stopped.await;
    }));
    assert!(history.flush().await);
    let page = history
        .read_from("dev", Stream::Events, Position::default(), usize::MAX)
        .unwrap();
    let (gaps, events): (Vec<_>, Vec<_>) = page.records.iter().partition(|(_, one)| one.is_gap());
    assert_eq!((gaps.len(), events.len()), (1, 10_000));
    let gap: &str = std::str::from_utf8(&gaps[0].1.value).unwrap();
    assert!(gap.contains("\"count\":250"), "{gap}");
    let mut found = 0;
    let count = |_, _| {
        found += 1;
        Wanted::All
    };
    history
        .search(
            "dev",
            Stream::Events,
            &Query::default(),
            Budget::default(),
            count,
        )
        .unwrap();
    assert_eq!(found, 10_000, "a gap is no event");
    let mut told = Vec::new();
    let with_gaps = Query {
        with_gaps: true,
        object_name: Some("none".to_owned()),
        ..Query::default()
    };
    let tell = |_, record: Record| {
        told.push(String::from_utf8(record.value.to_vec()).unwrap());
        Wanted::All
    };
    let of = Stream::Incidents;
    history
        .search("dev", of, &with_gaps, Budget::default(), tell)
        .unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("\"count\":1,"), "{told:?}");
    // The gaps are records, too.
    assert_eq!(history.stats().kept_by_stream, [10_001, 1, 0]);
    drop(stop);
    writer.await.unwrap();
}

/// Who waits for a commit does not wait for others to gather.
#[tokio::test]
async fn a_flush_ends_the_pause_between_two_commits() {
    let held = tempfile::tempdir().unwrap();
    let running = start(&held.path().join("history"));
    running.record("a");
    assert!(running.history.flush().await);
    let began = tokio::time::Instant::now();
    for number in 0..20 {
        running.record(&number.to_string());
        assert!(running.history.flush().await);
    }
    // Twenty pauses would be ten seconds.
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
    running.end().await;
}
