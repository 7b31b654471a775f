//! A day of a busy cluster in a folder: what it takes to append it, how large it is, and how long
//! searches of it take.
//!
//! `cargo run --release -p kubecrier-history --example day -- FOLDER [PER_SECOND] [HOURS] [PER_COMMIT]`
//!
//! The writer commits about 40 events at once at 200 events a second; with more of them a day is
//! there sooner.

#![expect(clippy::print_stdout, reason = "it is for people")]
#![expect(clippy::unwrap_used, reason = "it is for people")]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use kubecrier_history::{
    Budget, History, HistoryConfig, Log, Query, Record, Retention, Store, Stream, Wanted,
};
use tokio::time::Instant;

/// An event of a cluster with 200 namespaces and 20,000 pods.
fn event(number: u64, time: i64) -> Record {
    // A number without a pattern in its low digits.
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let reasons = [
        "Pulled",
        "Created",
        "Started",
        "Killing",
        "BackOff",
        "Unhealthy",
        "Scheduled",
    ];
    let reason = match number % 1_000_000 {
        17 => "FailedMount",
        _ => reasons[usize::try_from(mixed % 7).unwrap()],
    };
    let (space, pod) = (mixed % 200, mixed % 20_000);
    let name = format!("web-{pod}-7d4b9c6f5-x{:04x}", pod * 7 % 65_536);
    let id = format!("{mixed:08x}-1f2e-4d3c-9b8a-{number:012x}:1");
    let message = format!(
        "Back-off restarting failed container app in pod {name}_team-{space}({mixed:08x}-aaaa-bbbb)"
    );
    let value = format!(
        r#"{{"eventId":"{id}","event":{{"namespace":"team-{space}","timestamp":"{time}","type":"Warning","reason":"{reason}","message":"{message}","labels":{{"app":"web-{pod}","pod-template-hash":"7d4b9c6f5"}},"involvedObject":{{"apiVersion":"v1","kind":"Pod","name":"{name}","namespace":"team-{space}","uid":"{mixed:08x}-aaaa-bbbb-cccc-dddddddddddd"}},"count":1,"lastTimestamp":"{time}","source":"kubelet"}}}}"#
    );
    Record {
        time,
        version: 1_000_000 + number,
        id,
        namespace: format!("team-{space}"),
        kind: "Warning".to_owned(),
        reason: reason.to_owned(),
        object_kind: "Pod".to_owned(),
        object_name: name,
        value: Bytes::from(value),
        ..Record::default()
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder"));
    let mut number = |default: u64| {
        arguments
            .next()
            .map_or(default, |text| text.parse().unwrap())
    };
    let (rate, hours, batch) = (number(200), number(24), number(40));
    let events = rate * hours * 3600;
    let begin = jiff::Timestamp::now().as_millisecond() - i64::try_from(hours).unwrap() * 3_600_000;
    let time = |number: u64| begin + i64::try_from(number * 1000 / rate).unwrap();
    append(&folder, events, batch, time);
    search(folder, events, time);
}

fn append(folder: &Path, events: u64, size: u64, time: impl Fn(u64) -> i64) {
    let store = Store::open(folder).unwrap();
    let began = Instant::now();
    let mut commits = 0;
    for from in (0..events).step_by(usize::try_from(size).unwrap()) {
        let batch: Vec<_> = (from..events.min(from + size))
            .map(|n| event(n, time(n)))
            .collect();
        store.append("prod", Stream::Events, &batch).unwrap();
        commits += 1;
    }
    let took = began.elapsed();
    println!(
        "{events} events in {commits} commits, each on the disk: {:.0} s, {:.2} ms a commit, {} MiB",
        took.as_secs_f64(),
        took.as_secs_f64() * 1e3 / f64::from(commits),
        store.disk_bytes() >> 20
    );
}

fn search(folder: PathBuf, events: u64, time: impl Fn(u64) -> i64) {
    let config = HistoryConfig {
        folder,
        retention: Retention::default(),
    };
    let (history, _writer) = History::open(config).unwrap();
    let one = event(events / 3, 0);
    let text = |text: &str| Some(text.to_owned());
    let queries = [
        ("the newest 50", Query::default()),
        (
            "an object",
            Query {
                object_name: Some(one.object_name.clone()),
                object_kind: text("Pod"),
                ..Query::default()
            },
        ),
        (
            "an object in its namespace",
            Query {
                object_name: Some(one.object_name),
                namespaces: vec![one.namespace.clone()],
                ..Query::default()
            },
        ),
        (
            "an object that there is not",
            Query {
                object_name: text("no-such-pod"),
                ..Query::default()
            },
        ),
        (
            "a namespace",
            Query {
                namespaces: vec![one.namespace],
                ..Query::default()
            },
        ),
        (
            "a rare reason",
            Query {
                reason_prefix: text("FailedM"),
                ..Query::default()
            },
        ),
        (
            "a reason that there is not",
            Query {
                reason_prefix: text("Evicted"),
                ..Query::default()
            },
        ),
        (
            "a namespace that there is not",
            Query {
                namespaces: vec!["no-such".to_owned()],
                ..Query::default()
            },
        ),
        (
            "the last hour, a rare reason",
            Query {
                reason_prefix: text("FailedM"),
                since: Some(time(events) - 3_600_000),
                ..Query::default()
            },
        ),
    ];
    for (what, query) in queries {
        let mut times = Vec::new();
        let mut last = (0, 0);
        for _ in 0..5 {
            let began = Instant::now();
            let mut newest = Vec::new();
            let found = history.search(
                "prod",
                Stream::Events,
                &query,
                Budget::default(),
                |_, record| {
                    newest.push(record.time);
                    newest.sort_unstable();
                    if newest.len() > 50 {
                        newest.remove(0);
                    }
                    match newest.first() {
                        Some(oldest) if newest.len() == 50 => Wanted::NotBefore(*oldest),
                        _ => Wanted::All,
                    }
                },
            );
            times.push(began.elapsed().as_secs_f64() * 1e3);
            last = (newest.len(), found.unwrap().looked_at);
        }
        let first = times[0];
        times.sort_by(f64::total_cmp);
        println!(
            "{what}: {:.1} ms, at first {first:.1} ms ({} found, {} looked at)",
            times[2], last.0, last.1
        );
    }
}
