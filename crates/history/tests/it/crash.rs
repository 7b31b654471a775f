//! `kill -9` under load: what was acknowledged is there, in order, and nothing else.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use bytes::Bytes;
use kubecrier_history::{Log, Position, Record, Store, Stream};

const FOLDER: &str = "HISTORY_CRASH_FOLDER";

fn record(number: u64) -> Record {
    Record {
        time: i64::try_from(number).unwrap(),
        version: number,
        id: format!("uid-{number}:1"),
        namespace: "shop".to_owned(),
        value: Bytes::from(format!(
            "{{\"number\":{number},\"pad\":\"{}\"}}",
            "x".repeat(400)
        )),
        ..Record::default()
    }
}

/// Not a test of its own: the process that is killed. It writes without a pause, and says how
/// far it got after each commit.
#[test]
fn process_that_writes() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let store = Store::open(Path::new(&folder)).unwrap();
    let mut next = store
        .tail("dev", Stream::Events)
        .unwrap()
        .to_string()
        .parse::<u64>()
        .unwrap()
        + 1;
    let mut out = std::io::stderr();
    loop {
        let size = next % 37 + 1;
        let records: Vec<_> = (next..next + size).map(record).collect();
        store.append("dev", Stream::Events, &records).unwrap();
        next += size;
        writeln!(out, "acknowledged {}", next - 1).unwrap();
    }
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let mut acknowledged = 0;
    for round in 0..6 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::process_that_writes", "--nocapture"])
            .env(FOLDER, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // The child says how far it is; the rest of its lines is read after its end.
        let first = lines
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.starts_with("ack"));
        assert!(first.is_some(), "the process did not write");
        std::thread::sleep(Duration::from_millis(150 + 37 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let last = lines.map_while(Result::ok).chain(first);
        let last = last.filter_map(|line| line.strip_prefix("acknowledged ")?.parse::<u64>().ok());
        acknowledged = last.max().unwrap().max(acknowledged);
        let store = Store::open(&path).unwrap();
        let page = store
            .read_from("dev", Stream::Events, Position::default(), usize::MAX)
            .unwrap();
        let kept: Vec<_> = page.records.into_iter().map(|(_, record)| record).collect();
        assert!(
            kept.len() as u64 >= acknowledged,
            "{} of {acknowledged}",
            kept.len()
        );
        let expected: Vec<_> = (1..=kept.len() as u64).map(record).collect();
        assert!(kept == expected, "a record is not what was written");
    }
    assert!(acknowledged > 100, "{acknowledged}");
}
