//! What `--history` costs: the same events at the same rate, by turns without and with it. Each
//! turn has a server of its own, so that a busy machine is busy for both.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde::Serialize;
use testbed::Cluster;
use tokio::time::{Duration, Instant, sleep};

use super::{EventsArgs, EventsMeasurement, EventsRun, prepare};
use crate::{
    bed, print_line,
    report::{Bar, Bars},
    server::ServerProcess,
};

/// Events a second that the bar is about.
const RATE: u32 = 500;

/// Turns without and with a history; the median of each counts.
const TURNS: usize = 3;

/// CPU with a history, in times of that without.
const CPU_TIMES: f64 = 1.10;

/// A server that takes less of a core than this has listed what was there before.
const IDLE: f64 = 0.02;
const IDLE_WITHIN: Duration = Duration::from_mins(2);

/// How long the last events may take to be on the disk.
const KEPT_WITHIN: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct HistoryReport {
    compared: Vec<Compared>,
    bars: Bars,
}

/// One number of subscribers.
#[derive(Serialize)]
struct Compared {
    subscribers: usize,
    /// µs of CPU per event, the median of the turns.
    without: f64,
    with: f64,
    /// Events that the histories lack.
    lacking: u64,
    measured: Vec<EventsMeasurement>,
}

pub(super) async fn run(args: EventsArgs) -> Result<()> {
    let cluster = bed::start()?;
    let admin = prepare(&cluster).await?;
    let mut compared = Vec::new();
    for count in &args.subscribers {
        compared.push(compare(&cluster, &admin, *count, args.seconds).await?);
    }
    conclude(compared, args.json)
}

async fn compare(
    cluster: &Cluster,
    admin: &kube::Client,
    subscribers: usize,
    seconds: u32,
) -> Result<Compared> {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let (mut lacking, mut measured) = (0, Vec::new());
    for turn in 1..=TURNS {
        print_line(&format!(
            "turn {turn} of {TURNS}, {subscribers} subscribers, without a history"
        ));
        let server = ServerProcess::start(cluster).await?;
        let mut run = open(server, admin, subscribers).await?;
        let plain = run.measure(RATE, seconds).await?;
        run.subscribers.close().await?;
        without.push(plain.cpu());
        measured.push(plain);

        print_line("the same with a history");
        let folder = tempfile::tempdir()?;
        let history = folder.path().join("history").display().to_string();
        let server = ServerProcess::start_with(cluster, &["--history", &history]).await?;
        let mut run = open(server, admin, subscribers).await?;
        let before = kept(run.server()?).await?;
        let kept_all = run.measure(RATE, seconds).await?;
        lacking += lacks(run.server()?, before, kept_all.events as u64).await?;
        run.subscribers.close().await?;
        with.push(kept_all.cpu());
        measured.push(kept_all);
    }
    Ok(Compared {
        subscribers,
        without: median(&mut without),
        with: median(&mut with),
        lacking,
        measured,
    })
}

/// Opens the subscribers and waits until the server has listed what was there before.
async fn open(server: ServerProcess, admin: &kube::Client, count: usize) -> Result<EventsRun> {
    let run = EventsRun::open_as(server, admin, vec![None; count]).await?;
    let deadline = Instant::now() + IDLE_WITHIN;
    loop {
        let (before, began) = (run.server()?.cpu()?, Instant::now());
        sleep(Duration::from_secs(2)).await;
        let now = run.server()?.cpu()?;
        let used = now.user + now.system - before.user - before.system;
        if used / began.elapsed().as_secs_f64() < IDLE {
            return Ok(run);
        }
        ensure!(
            Instant::now() < deadline,
            "the server did not become idle: {used:.2} s of CPU in 2 s"
        );
    }
}

async fn kept(server: &ServerProcess) -> Result<u64> {
    server
        .metric("kubecrier_history_records_total{outcome=\"kept\"}")
        .await
}

/// How many of these events are not in the history.
async fn lacks(server: &ServerProcess, before: u64, events: u64) -> Result<u64> {
    let deadline = Instant::now() + KEPT_WITHIN;
    loop {
        let lacking = events.saturating_sub(kept(server).await? - before);
        if lacking == 0 || Instant::now() >= deadline {
            return Ok(lacking);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn conclude(compared: Vec<Compared>, json: Option<PathBuf>) -> Result<()> {
    let mut bars = Vec::new();
    for one in &compared {
        let what = format!("{RATE} a second, {} subscribers", one.subscribers);
        bars.push(Bar::at_most(
            &format!("{what}: CPU per event with a history, in times of that without"),
            one.with / one.without,
            CPU_TIMES,
        ));
        #[expect(clippy::cast_precision_loss, reason = "of few")]
        let lacking = one.lacking as f64;
        bars.push(Bar::at_most(
            &format!("{what}: events that the history lacks"),
            lacking,
            0.0,
        ));
        #[expect(clippy::cast_precision_loss, reason = "of few")]
        let wrong = one
            .measured
            .iter()
            .map(|one| one.verdict.wrong(true))
            .sum::<usize>() as f64;
        bars.push(Bar::at_most(
            &format!("{what}: lost, doubled or out of order"),
            wrong,
            0.0,
        ));
        print_line(&format!(
            "{what}: {:.0} µs of CPU per event without a history, {:.0} with",
            one.without, one.with
        ));
        print_line(&super::table(&one.measured));
    }
    let report = HistoryReport {
        compared,
        bars: Bars(bars),
    };
    print_line(&report.bars.table());
    report.bars.conclude(&report, json, "history.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert!((median(&mut [9.0, 1.0, 5.0]) - 5.0).abs() < f64::EPSILON);
    }
}
