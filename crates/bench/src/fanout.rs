//! `cargo xtask bench fanout`: every server gets the same messages for the same
//! number of streams, in turns, so that a busy machine is busy for all of them.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tokio::time::{Duration, Instant, sleep};

use crate::{
    load::Received,
    print_line,
    process::ChildProcess,
    report::{Bars, Cost, FanoutMeasurement, FanoutReport, Stalled},
    serve::ServerKind,
};

/// New sessions first receive `list_changed` notifications; this waits until they are
/// delivered.
const SETTLE: Duration = Duration::from_secs(1);

/// Rounds go on until the server has used `CPU_ENOUGH` seconds, because the kernel reports CPU
/// time in hundredths of a second. They stop at `CPU_PLENTY`, whatever their number.
const CPU_ENOUGH: f64 = 1.0;
const CPU_PLENTY: f64 = 10.0;
const ROUNDS_MIN: usize = 3;
const ROUNDS_MAX: usize = 200;

/// The numbers of sessions that the bars apply to.
const BARS_AT_FEW: usize = 100;
const BARS_AT_MANY: usize = 1000;

/// The number of sessions of which one stalls, and the pace of messages.
const STALLED_AMONG: usize = 100;
const STALLED_PER_SECOND: u64 = 100;
const STALLED_SECONDS: u64 = 2;
const STALLED_PAIRS: usize = 7;
/// More messages than the session's outbox and all socket buffers hold.
const STALLED_FILL: u64 = 5000;

#[derive(Args)]
pub(crate) struct FanoutArgs {
    /// How many sessions, each with an open stream; the bars are about 100 and 1000
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100, 1000])]
    sessions: Vec<usize>,
    /// Messages of a burst; with fewer than 100 sessions ten times as many
    #[arg(long, default_value_t = 100)]
    messages: u64,
    /// How long each paced part takes
    #[arg(long, default_value_t = 5)]
    paced_seconds: u64,
    /// Messages a second and session in the paced part
    #[arg(long, default_value_t = 20)]
    pace: u64,
    /// Do not measure what a stalled reader costs the others
    #[arg(long)]
    no_stalled: bool,
    /// Where the numbers go for a program; beside this program by default
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A server, its clients, and the measurements so far.
struct FanoutRun {
    kind: ServerKind,
    server: ChildProcess,
    load: ChildProcess,
    idle_bytes: f64,
    burst: Cost,
    paced: Cost,
}

pub(crate) async fn run(args: FanoutArgs) -> Result<()> {
    ensure!(
        !cfg!(debug_assertions),
        "numbers of a debug build mean nothing: use --release"
    );
    let mut report = FanoutReport::default();
    for sessions in &args.sessions {
        report.measured.extend(measure(*sessions, &args).await?);
    }
    if !args.no_stalled {
        report.stalled = Some(stalled().await?);
    }
    report.bars = Bars::of(&report, BARS_AT_FEW, BARS_AT_MANY);
    print_line(&report.table());
    report.bars.conclude(&report, args.json, "fanout.json")
}

async fn measure(sessions: usize, args: &FanoutArgs) -> Result<Vec<FanoutMeasurement>> {
    print_line(&format!("{sessions} sessions: opening ..."));
    let mut runs = Vec::new();
    for kind in ServerKind::ALL {
        runs.push(FanoutRun::open(kind, sessions).await?);
    }
    print_line(&format!("{sessions} sessions: bursts ..."));
    let messages = args.messages * if sessions < 100 { 10 } else { 1 };
    for round in 0..ROUNDS_MAX {
        let mut all_done = true;
        for run in &mut runs {
            let enough = round >= ROUNDS_MIN && run.burst.cpu_seconds >= CPU_ENOUGH;
            if !enough && run.burst.cpu_seconds < CPU_PLENTY {
                all_done = false;
                let cost = run.publish(&format!("burst {messages}")).await?;
                run.burst.add(cost);
            }
        }
        if all_done {
            break;
        }
    }
    print_line(&format!("{sessions} sessions: paced ..."));
    for _round in 0..2 {
        for run in &mut runs {
            let count = args.pace * args.paced_seconds;
            let cost = run.publish(&format!("pace {} {count}", args.pace)).await?;
            run.paced.add(cost);
        }
    }
    Ok(runs
        .into_iter()
        .map(|run| FanoutMeasurement {
            server: run.kind,
            sessions,
            idle_bytes_per_session: run.idle_bytes,
            burst: run.burst,
            paced: run.paced,
        })
        .collect())
}

/// Measures how much a stalled reader delays the others.
async fn stalled() -> Result<Stalled> {
    print_line("one stalled reader ...");
    let mut run = FanoutRun::open(ServerKind::Ours, STALLED_AMONG).await?;
    let count = STALLED_PER_SECOND * STALLED_SECONDS;
    let pace = format!("pace {STALLED_PER_SECOND} {count}");
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut announced = 0;
    for _pair in 0..STALLED_PAIRS {
        without.push(run.publish(&pace).await?.p99_micros);
        run.load.request("stall").await?;
        for _part in 0..STALLED_FILL / 100 {
            let next = run.server.request("burst 100").await?;
            run.load.request(&format!("others {next}")).await?;
        }
        let next = run.server.request(&pace).await?;
        let received = parse_received(&run.load.request(&format!("others {next}")).await?)?;
        with.push(received.p99_micros);
        // The stalled client reads again and receives the announcement of the gap.
        run.load.request("resume").await?;
        let received = parse_received(&run.load.request(&format!("all {next}")).await?)?;
        announced += received.announced;
        ensure!(
            received.missing == received.announced && received.disordered == 0,
            "the stalled one was not told what it missed: {received:?}"
        );
    }
    ensure!(
        announced > 0,
        "the reader never fell so far behind that it lost anything"
    );
    Ok(Stalled::new(without, with, announced))
}

/// Parses the answer of the clients' process.
fn parse_received(line: &str) -> Result<Received> {
    serde_json::from_str(line).with_context(|| format!("the clients say {line}"))
}

// === impl FanoutRun ===

impl FanoutRun {
    async fn open(kind: ServerKind, sessions: usize) -> Result<Self> {
        let mut server = ChildProcess::start(&["serve".to_owned(), kind.name().to_owned()])?;
        let port = server.receive().await?;
        sleep(SETTLE).await;
        let before = server.rss_bytes()?;
        let mut arguments = vec![
            "load".to_owned(),
            format!("--port={port}"),
            format!("--sessions={sessions}"),
        ];
        if kind.has_sessions() {
            arguments.push("--mcp".to_owned());
        }
        let mut load = ChildProcess::start(&arguments)?;
        load.receive().await?;
        sleep(SETTLE).await;
        let grown = server.rss_bytes()?.saturating_sub(before);
        #[expect(clippy::cast_precision_loss, reason = "of memory that exists")]
        let idle_bytes = grown as f64 / sessions as f64;
        Ok(Self {
            kind,
            server,
            load,
            idle_bytes,
            burst: Cost::default(),
            paced: Cost::default(),
        })
    }

    /// Publishes, waits until all clients have received everything, and returns the cost.
    async fn publish(&mut self, command: &str) -> Result<Cost> {
        let (cpu, began) = (self.server.cpu_seconds()?, Instant::now());
        let name = self.kind.name();
        let next = self.server.request(command).await.context(name)?;
        let received = self.load.request(&format!("all {next}")).await;
        let received = parse_received(&received.with_context(|| format!("clients of {name}"))?)?;
        let seconds = began.elapsed().as_secs_f64();
        let cpu_seconds = self.server.cpu_seconds()? - cpu;
        ensure!(
            received.disordered == 0,
            "{name}: out of order: {received:?}"
        );
        ensure!(
            received.missing == received.announced,
            "{name}: lost without a word: {received:?}"
        );
        Ok(Cost {
            deliveries: received.deliveries,
            missing: received.missing,
            cpu_seconds,
            seconds,
            p50_micros: received.p50_micros,
            p99_micros: received.p99_micros,
        })
    }
}
