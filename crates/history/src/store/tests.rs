use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::{faulty::FaultyDisk, *};
use crate::{
    history::ResumeFrom,
    query::{Budget, Query},
};

pub(crate) fn event(number: u64) -> Record {
    Record {
        time: i64::try_from(number).unwrap() * 10,
        version: 100 + number,
        id: format!("uid-{number}:1"),
        namespace: format!("ns-{}", number % 7),
        kind: ["Normal", "Warning"][usize::from(number.is_multiple_of(3))].to_owned(),
        reason: ["Pulled", "BackOff", "FailedMount"][usize::try_from(number % 3).unwrap()]
            .to_owned(),
        object_kind: "Pod".to_owned(),
        object_name: format!("web-{}", number % 50),
        value: Bytes::from(format!(
            "{{\"number\":{number},\"message\":\"back-off restarting\"}}"
        )),
        ..Record::default()
    }
}

fn append(store: &Store, from: u64, count: u64) -> Result<Position, LogError> {
    let records: Vec<_> = (from..from + count).map(event).collect();
    store.append("dev", Stream::Events, &records)
}

fn all(store: &Store) -> Vec<Record> {
    let page = store
        .read_from("dev", Stream::Events, Position(0), usize::MAX)
        .unwrap();
    assert_eq!(page.lost, 0);
    page.records.into_iter().map(|(_, record)| record).collect()
}

fn numbers(range: std::ops::Range<u64>) -> Vec<Record> {
    range.map(event).collect()
}

#[test]
fn records_are_read_in_the_order_in_which_they_were_appended() {
    let disk = FaultyDisk::default();
    let store = over_disk(&disk).unwrap();
    for from in 0..200 {
        append(&store, from * 20, 20).unwrap();
    }
    store
        .append("prod", Stream::Events, &numbers(0..3))
        .unwrap();
    store
        .append("dev", Stream::Incidents, &numbers(0..2))
        .unwrap();
    assert_eq!(all(&store), numbers(0..4000));
    let page = store
        .read_from("dev", Stream::Events, Position(3990), 5)
        .unwrap();
    let positions: Vec<_> = page
        .records
        .iter()
        .map(|(position, _)| position.0)
        .collect();
    assert_eq!(positions, [3991, 3992, 3993, 3994, 3995]);
    assert!(page.more && page.lost == 0);
    assert_eq!(store.tail("prod", Stream::Events).unwrap(), Position(3));
    assert_eq!(store.tail("other", Stream::Events).unwrap(), Position(0));
    drop(store);
    let again = over_disk(&disk.after_kill()).unwrap();
    append(&again, 4000, 1).unwrap();
    assert_eq!(all(&again), numbers(0..4001));
}

/// Each block says before it is opened which versions are behind it.
#[test]
fn blocks_are_read_in_the_order_of_versions() {
    let store = over_disk(&FaultyDisk::default()).unwrap();
    // What came late has the lowest versions, and a gap has none.
    for from in [6000, 3000, 0] {
        let mut records = numbers(from..from + 3000);
        records.push(Record::gap(0, 1, None, "away"));
        store.append("dev", Stream::Events, &records).unwrap();
    }
    for order in [VersionOrder::Lowest, VersionOrder::Highest] {
        let from = ResumeFrom {
            version: 2_000,
            ..ResumeFrom::default()
        };
        let mut reader = store.by_version("dev", Stream::Events, from, order);
        let reader = reader.as_mut().unwrap();
        let (mut seen, mut gaps, mut blocks) = (Vec::new(), 0, 0);
        while let Some(edge) = reader.edge() {
            blocks += 1;
            for (_, record) in reader.read_block().unwrap() {
                match order {
                    _ if record.is_gap() => gaps += 1,
                    VersionOrder::Lowest => assert!(record.version >= edge.version),
                    VersionOrder::Highest => assert!(record.version <= edge.version),
                }
                seen.push(record.version);
            }
        }
        seen.retain(|version| *version > 0);
        let first = seen[0];
        seen.sort_unstable();
        assert_eq!(seen, (2_001..9_100).collect::<Vec<_>>(), "{order:?}");
        assert_eq!((gaps, reader.lost()), (3, 0));
        assert!(blocks > 2, "{blocks}");
        match order {
            VersionOrder::Lowest => assert!(first < 4_000, "{first}"),
            VersionOrder::Highest => assert!(first > 6_000, "{first}"),
        }
    }
}

/// A position comes from a client: after the last one there is nothing, and nothing is lost.
#[test]
fn no_position_is_too_high() {
    let store = over_disk(&FaultyDisk::default()).unwrap();
    append(&store, 0, 3).unwrap();
    for after in [3, 4, u64::MAX - 1, u64::MAX] {
        let page = store.read_from("dev", Stream::Events, Position(after), 5);
        let page = page.unwrap();
        assert_eq!((page.lost, page.records.len()), (0, 0), "{after}");
    }
}

#[test]
fn a_search_finds_what_a_look_at_every_record_finds() {
    let store = over_disk(&FaultyDisk::default()).unwrap();
    for from in 0..60 {
        append(&store, from * 100, 100).unwrap();
    }
    let everything = all(&store);
    let queries = [
        Query::default(),
        Query {
            namespaces: vec!["ns-3".to_owned()],
            ..Query::default()
        },
        Query {
            object_name: Some("web-7".to_owned()),
            since: Some(30_000),
            ..Query::default()
        },
        Query {
            reason_prefix: Some("Failed".to_owned()),
            kinds: vec!["Warning".to_owned()],
            ..Query::default()
        },
        Query {
            reason_prefix: Some("BackOff".to_owned()),
            after_version: Some(5_000),
            ..Query::default()
        },
        Query {
            object_kind: Some("Node".to_owned()),
            ..Query::default()
        },
        Query {
            namespaces: vec!["ns-1".to_owned(), "ns-2".to_owned()],
            object_name: Some("web-2".to_owned()),
            ..Query::default()
        },
    ];
    for query in queries {
        let plain = |record: &&Record| {
            (query.namespaces.is_empty() || query.namespaces.contains(&record.namespace))
                && (query.kinds.is_empty() || query.kinds.contains(&record.kind))
                && query
                    .object_name
                    .as_ref()
                    .is_none_or(|name| *name == record.object_name)
                && query
                    .object_kind
                    .as_ref()
                    .is_none_or(|kind| *kind == record.object_kind)
                && query
                    .reason_prefix
                    .as_ref()
                    .is_none_or(|one| record.reason.starts_with(one))
                && query.since.is_none_or(|since| record.time >= since)
                && query
                    .after_version
                    .is_none_or(|version| record.version > version)
        };
        let expected: Vec<_> = everything.iter().rev().filter(plain).cloned().collect();
        let mut found = Vec::new();
        let report = store
            .search(
                "dev",
                Stream::Events,
                &query,
                Budget::default(),
                |_, record| {
                    found.push(record);
                    Wanted::All
                },
            )
            .unwrap();
        assert_eq!(found, expected, "{query:?}");
        assert_eq!((report.stopped_at, report.unreadable), (None, 0));
    }
}

#[test]
fn a_search_stops_at_its_budget_and_says_where() {
    let store = over_disk(&FaultyDisk::default()).unwrap();
    for from in 0..60 {
        append(&store, from * 100, 100).unwrap();
    }
    let mut found = 0;
    let budget = Budget { records_max: 500 };
    let report = store
        .search("dev", Stream::Events, &Query::default(), budget, |_, _| {
            found += 1;
            Wanted::All
        })
        .unwrap();
    assert!(report.stopped_at.is_some() && found < 6000, "{report:?}");
    assert_eq!(report.oldest, Some(0));
}

#[test]
fn what_is_too_old_or_too_much_goes_and_positions_are_never_used_again() {
    let store = over_disk(&FaultyDisk::default()).unwrap();
    let hour: i64 = 3_600_000;
    for number in 0..10 {
        let records = numbers(number * 5000..(number + 1) * 5000);
        let batch = Batch {
            cluster: "dev",
            stream: Stream::Events,
            records: &records,
        };
        store
            .append_all(&[batch], i64::try_from(number).unwrap() * hour)
            .unwrap();
    }
    let keep = |age_max: Duration, bytes_max| Retention { age_max, bytes_max };
    let day = Duration::from_hours(24);
    let none = store.trim(&keep(day, u64::MAX), 10 * hour).unwrap();
    assert_eq!(none.records, 0);
    let aged = store
        .trim(&keep(Duration::from_hours(5), u64::MAX), 9 * hour)
        .unwrap();
    // A block that has a younger record is kept whole.
    assert!((15_000..=20_000).contains(&aged.records), "{aged:?}");
    assert!(aged.bytes < none.bytes);
    let page = store
        .read_from("dev", Stream::Events, Position(0), 10)
        .unwrap();
    assert_eq!(page.lost, aged.records, "what is gone is counted");
    assert_eq!(page.records[0].1, event(aged.records));
    let sized = store.trim(&keep(day, aged.bytes / 2), 9 * hour).unwrap();
    assert!(
        sized.records > 0 && sized.bytes <= aged.bytes / 2,
        "{sized:?}"
    );
    let rest = store
        .trim(&keep(Duration::ZERO, u64::MAX), 1000 * hour)
        .unwrap();
    assert_eq!(rest.bytes, 0);
    assert_eq!(store.tail("dev", Stream::Events).unwrap(), Position(50_000));
    let none = store.read_from("dev", Stream::Events, Position(10), 10);
    assert_eq!(none.unwrap().lost, 49_990, "all of it");
    assert_eq!(append(&store, 0, 1).unwrap(), Position(50_001));
    let page = store
        .read_from("dev", Stream::Events, Position(10), 10)
        .unwrap();
    assert_eq!((page.lost, page.records.len()), (49_990, 1));
}

/// What was acknowledged is there after an error of the disk; the store is opened again.
#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    for room in (0..400_000).step_by(9_973) {
        let disk = FaultyDisk::default();
        let store = over_disk(&disk).unwrap();
        append(&store, 0, 50).unwrap();
        disk.fill_after(room);
        let mut acknowledged = 50;
        let error = loop {
            match append(&store, acknowledged, 50) {
                Ok(_) => acknowledged += 50,
                Err(error) => break error,
            }
            assert!(acknowledged <= 20_000, "the disk was never full");
        };
        assert!(error.to_string().contains("cannot be written"), "{error}");
        drop(store);
        disk.empty();
        let store = over_disk(&disk.after_kill()).unwrap();
        let kept = all(&store);
        assert!(
            kept.len() as u64 >= acknowledged,
            "{} of {acknowledged}",
            kept.len()
        );
        assert_eq!(kept, numbers(0..kept.len() as u64));
        append(&store, kept.len() as u64, 50).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The power is lost in the middle of any write, and any of the writes since the last sync
    /// may be on the disk: what was acknowledged is there, the rest is cut, nothing is misread.
    #[test]
    fn a_loss_of_power_at_any_byte_loses_nothing_that_was_acknowledged(
        power in 0..600_000_usize, survivors: u64, size in 1..120_u64,
    ) {
        let disk = FaultyDisk::default();
        let store = over_disk(&disk).unwrap();
        append(&store, 0, size).unwrap();
        disk.cut_after(power);
        let mut acknowledged = size;
        while append(&store, acknowledged, size).is_ok() && acknowledged < 6_000 {
            acknowledged += size;
        }
        let after = disk.after_loss(survivors);
        let killed = disk.after_kill();
        drop(store);
        for disk in [after, killed] {
            let store = over_disk(&disk).map_err(TestCaseError::fail)?;
            let kept = all(&store);
            prop_assert!(kept.len() as u64 >= acknowledged, "{} of {acknowledged}", kept.len());
            prop_assert_eq!(&kept, &numbers(0..kept.len() as u64));
            append(&store, kept.len() as u64, 3).unwrap();
            prop_assert_eq!(all(&store).len(), kept.len() + 3);
        }
    }
}
