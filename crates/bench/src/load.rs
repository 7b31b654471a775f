//! The clients of a server that is measured: raw sockets and byte searches on one
//! thread, so that what is measured is the server.

pub(crate) mod http;
pub(crate) mod scan;

use std::{cell::RefCell, io::Write, rc::Rc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    sync::{Notify, watch},
    task::{JoinSet, LocalSet},
    time::timeout,
};

use self::{http::Connection, scan::Scanner};
use crate::message;

/// How many sessions are opened at once.
const OPENING: usize = 32;

/// An upper bound for the arrival of everything that was published.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The first client can be stalled. Its receive buffer is small, so that the server notices
/// soon, and yet larger than one segment on loopback: otherwise the kernel could never send
/// one.
const STALLING_RECEIVE_BUFFER: u32 = 96 * 1024;

#[derive(Args)]
pub(crate) struct LoadArgs {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    sessions: usize,
    /// Open an MCP session before the stream
    #[arg(long)]
    mcp: bool,
}

/// What the clients received since the last request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Received {
    /// Messages that arrived.
    pub(crate) deliveries: u64,
    /// Messages that came after a later one, or twice.
    pub(crate) disordered: u64,
    /// Messages that did not come.
    pub(crate) missing: u64,
    /// Missing messages that the server announced.
    pub(crate) announced: u64,
    /// From publishing to arrival, in microseconds.
    pub(crate) p50_micros: u64,
    pub(crate) p99_micros: u64,
}

/// The state that all clients share.
#[derive(Default)]
struct LoadState {
    received: RefCell<Received>,
    latencies: RefCell<Vec<u32>>,
    /// The next number that each client expects.
    next: RefCell<Vec<u64>>,
    progressed: Notify,
}

pub(crate) async fn run(args: LoadArgs) -> Result<()> {
    LocalSet::new().run_until(run_commands(args)).await
}

async fn run_commands(args: LoadArgs) -> Result<()> {
    let shared = Rc::new(LoadState::default());
    let (stall, stalled) = watch::channel(false);
    let mut reading = JoinSet::new();
    open_all(&args, &shared, &stalled, &mut reading).await?;
    answer("open")?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line?,
            Some(ended) = reading.join_next() => bail!("a stream ended: {:?}", ended?),
        };
        let Some(line) = line else { return Ok(()) };
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            // Wait until all clients have every message below this number.
            ["all", next] => shared.wait(0, next.parse()?, &mut reading).await?,
            // The same for all clients but the first.
            ["others", next] => shared.wait(1, next.parse()?, &mut reading).await?,
            ["stall"] => drop(stall.send(true)),
            ["resume"] => drop(stall.send(false)),
            _ => bail!("what is `{line}`?"),
        }
        answer(&serde_json::to_string(&shared.take())?)?;
    }
}

async fn open_all(
    args: &LoadArgs,
    shared: &Rc<LoadState>,
    stalled: &watch::Receiver<bool>,
    reading: &mut JoinSet<Result<()>>,
) -> Result<()> {
    shared.next.borrow_mut().resize(args.sessions, 0);
    let mut opening = JoinSet::new();
    for index in 0..args.sessions {
        let (port, mcp) = (args.port, args.mcp);
        opening.spawn_local(async move {
            let receive_buffer = (index == 0).then_some(STALLING_RECEIVE_BUFFER);
            let mut connection = Connection::open(port, receive_buffer).await?;
            let session = if mcp {
                Some(connection.begin_session().await?)
            } else {
                None
            };
            connection.open_stream(session.as_deref(), None).await?;
            anyhow::Ok((index, connection))
        });
        if opening.len() >= OPENING || index + 1 == args.sessions {
            let all = index + 1 == args.sessions;
            while let Some(opened) = opening.join_next().await {
                let (index, connection) = opened?.context("cannot open a session")?;
                let stalled = (index == 0).then(|| stalled.clone());
                reading.spawn_local(read(index, connection, Rc::clone(shared), stalled));
                if !all {
                    break;
                }
            }
        }
    }
    Ok(())
}

async fn read(
    index: usize,
    mut connection: Connection,
    shared: Rc<LoadState>,
    mut stalled: Option<watch::Receiver<bool>>,
) -> Result<()> {
    let mut scanner = Scanner::default();
    loop {
        if let Some(stalled) = &mut stalled {
            stalled.wait_for(|stalled| !stalled).await?;
        }
        tokio::select! {
            more = connection.read() => ensure!(more?, "the server closed stream {index}"),
            // Check again whether to stall.
            () = changed(&mut stalled) => continue,
        }
        let now = message::now_micros();
        let mut events = 0;
        let mut body = connection.body();
        while let Some(data) = body.next()? {
            scanner.feed(data, |event| {
                events += 1;
                shared.record(index, event, now);
            });
        }
        if events > 0 {
            shared.progressed.notify_one();
        }
    }
}

async fn changed(stalled: &mut Option<watch::Receiver<bool>>) {
    match stalled {
        Some(stalled) => drop(stalled.changed().await),
        None => std::future::pending().await,
    }
}

// === impl LoadState ===

impl LoadState {
    fn record(&self, index: usize, event: &[u8], now: u64) {
        let mut received = self.received.borrow_mut();
        let Some(number) = scan::number_after(event, message::NUMBER) else {
            if let Some(missing) = scan::number_after(event, message::MISSING) {
                received.announced += missing;
            }
            return;
        };
        received.deliveries += 1;
        let mut all = self.next.borrow_mut();
        let next = &mut all[index];
        if number < *next {
            received.disordered += 1;
        } else {
            received.missing += number - *next;
            *next = number + 1;
        }
        if let Some(published) = scan::number_after(event, message::PUBLISHED) {
            let latency = u32::try_from(now.saturating_sub(published)).unwrap_or(u32::MAX);
            self.latencies.borrow_mut().push(latency);
        }
    }

    async fn wait(&self, from: usize, next: u64, reading: &mut JoinSet<Result<()>>) -> Result<()> {
        let there = || self.next.borrow()[from..].iter().all(|have| *have >= next);
        let arrived = async {
            while !there() {
                self.progressed.notified().await;
            }
        };
        tokio::select! {
            done = timeout(TIMEOUT, arrived) => done.with_context(|| {
                let late = self.next.borrow()[from..].iter().filter(|have| **have < next).count();
                format!("{late} streams have not got everything below {next}")
            }),
            Some(ended) = reading.join_next() => bail!("a stream ended: {:?}", ended?),
        }
    }

    /// Takes what the clients received since the last call.
    fn take(&self) -> Received {
        let mut received = self.received.take();
        let mut latencies = self.latencies.take();
        latencies.sort_unstable();
        let at = |per_mille: usize| {
            let at = (latencies.len() * per_mille / 1000).min(latencies.len().saturating_sub(1));
            latencies.get(at).copied().map_or(0, u64::from)
        };
        (received.p50_micros, received.p99_micros) = (at(500), at(990));
        received
    }
}

fn answer(line: &str) -> Result<()> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}")?;
    stdout.flush().context("stdout is closed")
}
