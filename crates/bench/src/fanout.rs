//! `cargo xtask bench fanout`: every server gets the same messages for the same
//! number of streams, in turns, so that a busy machine is busy for all of them.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tokio::time::{Duration, Instant, sleep};

use crate::{
    load::Seen,
    print_line,
    process::ChildProcess,
    report::{Bars, Cost, Measured, Report, Stalled},
    serve::Kind,
};

/// Sessions are told of the lists first; then it is quiet.
const SETTLE: Duration = Duration::from_secs(1);

/// Rounds go on until the server has used this much CPU, which the kernel tells in
/// hundredths, and stop after so much whatever their number.
const CPU_ENOUGH: f64 = 1.0;
const CPU_PLENTY: f64 = 10.0;
const ROUNDS_MIN: usize = 3;
const ROUNDS_MAX: usize = 200;

/// The bars are about this many.
const BARS_AT: usize = 1000;

/// One stalled among these, at this pace.
const STALLED_AMONG: usize = 100;
const STALLED_PER_SECOND: u64 = 100;
const STALLED_SECONDS: u64 = 2;
const STALLED_PAIRS: usize = 7;
/// More than its outbox and all buffers on the way take.
const STALLED_FILL: u64 = 5000;

#[derive(Args)]
pub(crate) struct FanoutArgs {
    /// How many sessions, each with an open stream; the bars are about 1000
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

/// A server, its clients, and what has been measured.
struct Side {
    kind: Kind,
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
    let mut report = Report::default();
    for sessions in &args.sessions {
        report.measured.extend(measure(*sessions, &args).await?);
    }
    if !args.no_stalled {
        report.stalled = Some(stalled().await?);
    }
    report.bars = Bars::of(&report, BARS_AT);
    print_line(&report.table());
    report.bars.conclude(&report, args.json, "fanout.json")
}

async fn measure(sessions: usize, args: &FanoutArgs) -> Result<Vec<Measured>> {
    print_line(&format!("{sessions} sessions: opening ..."));
    let mut sides = Vec::new();
    for kind in Kind::ALL {
        sides.push(Side::open(kind, sessions).await?);
    }
    print_line(&format!("{sessions} sessions: bursts ..."));
    let messages = args.messages * if sessions < 100 { 10 } else { 1 };
    for round in 0..ROUNDS_MAX {
        let mut all_done = true;
        for side in &mut sides {
            let enough = round >= ROUNDS_MIN && side.burst.cpu_seconds >= CPU_ENOUGH;
            if !enough && side.burst.cpu_seconds < CPU_PLENTY {
                all_done = false;
                let cost = side.publish(&format!("burst {messages}")).await?;
                side.burst.add(cost);
            }
        }
        if all_done {
            break;
        }
    }
    print_line(&format!("{sessions} sessions: paced ..."));
    for _round in 0..2 {
        for side in &mut sides {
            let count = args.pace * args.paced_seconds;
            let cost = side.publish(&format!("pace {} {count}", args.pace)).await?;
            side.paced.add(cost);
        }
    }
    Ok(sides
        .into_iter()
        .map(|side| Measured {
            server: side.kind,
            sessions,
            idle_bytes_per_session: side.idle_bytes,
            burst: side.burst,
            paced: side.paced,
        })
        .collect())
}

/// What one reader that does not read costs the others.
async fn stalled() -> Result<Stalled> {
    print_line("one stalled reader ...");
    let mut side = Side::open(Kind::Ours, STALLED_AMONG).await?;
    let count = STALLED_PER_SECOND * STALLED_SECONDS;
    let pace = format!("pace {STALLED_PER_SECOND} {count}");
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut announced = 0;
    for _pair in 0..STALLED_PAIRS {
        without.push(side.publish(&pace).await?.p99_micros);
        side.load.request("stall").await?;
        for _part in 0..STALLED_FILL / 100 {
            let next = side.server.request("burst 100").await?;
            side.load.request(&format!("others {next}")).await?;
        }
        let next = side.server.request(&pace).await?;
        let seen = heard(&side.load.request(&format!("others {next}")).await?)?;
        with.push(seen.p99_micros);
        // It comes back, and is told what it has missed.
        side.load.request("resume").await?;
        let seen = heard(&side.load.request(&format!("all {next}")).await?)?;
        announced += seen.announced;
        ensure!(
            seen.missing == seen.announced && seen.disordered == 0,
            "the stalled one was not told what it missed: {seen:?}"
        );
    }
    ensure!(
        announced > 0,
        "the reader never fell so far behind that it lost anything"
    );
    Ok(Stalled::new(without, with, announced))
}

/// What clients saw, as long as it is right.
fn heard(line: &str) -> Result<Seen> {
    serde_json::from_str(line).with_context(|| format!("the clients say {line}"))
}

// === impl Side ===

impl Side {
    async fn open(kind: Kind, sessions: usize) -> Result<Self> {
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

    /// Has something published and waits until everybody has it: what it cost.
    async fn publish(&mut self, command: &str) -> Result<Cost> {
        let (cpu, began) = (self.server.cpu_seconds()?, Instant::now());
        let name = self.kind.name();
        let next = self.server.request(command).await.context(name)?;
        let seen = self.load.request(&format!("all {next}")).await;
        let seen = heard(&seen.with_context(|| format!("clients of {name}"))?)?;
        let seconds = began.elapsed().as_secs_f64();
        let cpu_seconds = self.server.cpu_seconds()? - cpu;
        ensure!(seen.disordered == 0, "{name}: out of order: {seen:?}");
        ensure!(
            seen.missing == seen.announced,
            "{name}: lost without a word: {seen:?}"
        );
        Ok(Cost {
            deliveries: seen.deliveries,
            missing: seen.missing,
            cpu_seconds,
            seconds,
            p50_micros: seen.p50_micros,
            p99_micros: seen.p99_micros,
        })
    }
}
