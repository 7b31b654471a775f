use tokio::{sync::oneshot, task::JoinSet, time::Instant};

use super::*;
use crate::{
    Registry as _,
    folder::OpenError,
    history::HistoryConfig,
    retention::Retention,
    store::{faulty::FaultyDisk, over_disk},
};

fn record(history: &History, number: u64) {
    history.record(&Arc::from("dev"), Stream::Events, move || Record {
        id: number.to_string(),
        version: 1,
        value: Bytes::from(vec![b'x'; 500]),
        ..Record::default()
    });
}

fn kept(history: &History) -> Vec<String> {
    let page = history.read_from("dev", Stream::Events, Position(0), usize::MAX);
    let records = page.unwrap().records.into_iter();
    records.map(|(_, record)| record.id).collect()
}

/// A history over a disk that can fail.
fn over(disk: &FaultyDisk) -> (History, Writer) {
    let config = HistoryConfig {
        folder: "/nowhere".into(),
        retention: Retention::default(),
    };
    let same = disk.clone();
    let open = move || {
        over_disk(&same).map_err(|why| OpenError::Damaged {
            folder: "/nowhere".into(),
            why,
        })
    };
    History::with(config, Box::new(open)).unwrap()
}

/// A disk that is full is said, nothing is lost that fits into memory, and what was
/// acknowledged before is still there.
#[tokio::test(start_paused = true)]
async fn a_disk_that_fails_is_said_and_used_again_when_it_has_room() {
    let disk = FaultyDisk::default();
    let (history, writer) = over(&disk);
    let (stop, stopped) = oneshot::channel::<()>();
    let mut running = JoinSet::new();
    running.spawn(writer.run(async {
        let _ended = stopped.await;
    }));
    record(&history, 0);
    assert!(history.flush().await);
    disk.fill_after(0);
    record(&history, 1);
    assert!(!history.flush().await, "it is not on the disk");
    let Health::Failing(error) = history.health() else {
        panic!("it fails");
    };
    assert!(error.contains("cannot be written"), "{error}");
    assert!(
        history
            .read_from("dev", Stream::Events, Position(0), 1)
            .is_err()
    );
    let began = Instant::now();
    for number in 2..50 {
        record(&history, number);
    }
    assert_eq!(began.elapsed(), Duration::ZERO, "nobody waits for a disk");
    sleep(RETRY * 3).await;
    assert!(matches!(history.health(), Health::Failing(_)));
    assert_eq!(
        history.stats().waiting,
        49,
        "what failed waits with the rest"
    );
    assert!(history.stats().failures >= 2);
    disk.empty();
    assert!(history.flush().await);
    assert_eq!(history.health(), Health::Ok);
    let expected: Vec<_> = (0..50).map(|number| number.to_string()).collect();
    assert_eq!(kept(&history), expected);
    let stats = history.stats();
    assert_eq!((stats.dropped, stats.waiting), (0, 0));
    drop(stop);
    running.join_next().await.unwrap().unwrap();
}

/// A store answers nothing any more after an error, whoever met it, so it is opened again though
/// nothing is recorded.
#[tokio::test(start_paused = true)]
async fn a_record_of_the_registry_that_cannot_be_written_has_the_store_opened_again() {
    let disk = FaultyDisk::default();
    let (history, writer) = over(&disk);
    let mut running = JoinSet::new();
    running.spawn(writer.run(std::future::pending()));
    let registry = history.registry();
    let put = |value: &'static [u8]| {
        let (value, hour) = (Bytes::from_static(value), Duration::from_hours(1));
        let registry = registry.clone();
        async move { registry.put("session.a", value, hour).await }
    };
    put(b"before").await.unwrap();
    record(&history, 0);
    assert!(history.flush().await);
    disk.fill_after(0);
    assert!(put(b"lost").await.is_err());
    assert!(matches!(history.health(), Health::Failing(_)));
    assert_eq!(history.stats().failures, 1);
    disk.empty();
    // Before the next look at what is too old, which would notice it.
    sleep(RETRY + Duration::from_secs(1)).await;
    assert_eq!(history.health(), Health::Ok);
    put(b"after").await.unwrap();
    let found = registry.get("session.a").await.unwrap().unwrap();
    assert_eq!(&found.value[..], b"after");
    assert_eq!(kept(&history), ["0"]);
    running.shutdown().await;
}

#[test]
fn ids_are_remembered_for_a_while() {
    let mut known = RecentIds::default();
    known.add([1, 2, 1], 0);
    assert_eq!(known.order.len(), 2);
    known.add([3], DOUBLES_WINDOW);
    assert!(known.ids.contains(&1));
    known.add([4], DOUBLES_WINDOW + 1);
    assert!(!known.ids.contains(&1) && known.ids.contains(&3));
}

/// The same without a disk, for servers that have a store in common and none of their own.
#[tokio::test]
async fn a_history_in_memory_keeps_what_was_recorded() {
    let (history, writer) = History::in_memory(Retention::default()).unwrap();
    let mut running = JoinSet::new();
    running.spawn(writer.run(std::future::pending()));
    for number in 0..10 {
        record(&history, number);
    }
    assert!(history.flush().await);
    assert_eq!(kept(&history).len(), 10);
    assert_eq!(
        (history.health(), history.stats().disk_bytes),
        (Health::Ok, 0)
    );
    running.shutdown().await;
}
