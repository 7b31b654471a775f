//! `cargo xtask soak`: the real binary and clients that come, stall, vanish and come
//! back, in waves. After each wave nothing may be left of it.

mod clients;
pub(crate) mod server;

use std::{path::PathBuf, rc::Rc};

use anyhow::{Result, bail, ensure};
use clap::Args;
use tokio::{
    task::{JoinSet, LocalSet},
    time::{Duration, Instant, sleep},
};

use self::{
    clients::{Counters, SoakClient},
    server::SoakServer,
};
use crate::print_line;

/// How long a wave starts new clients.
const WAVE: Duration = Duration::from_secs(5);

/// Concurrent clients.
const CLIENTS: usize = 64;

/// A session without a stream and without requests ends after this.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// An upper bound for the end of all sessions and tasks of a wave: the idle timeout, the
/// interval of the sweep that enforces it, and the delays of a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// The first waves allocate the memory that later ones reuse.
const WARM_UP: usize = 2;

/// Memory that the allocator may keep between waves, in addition to a tenth.
const SLACK_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Args)]
pub(crate) struct SoakArgs {
    /// How long
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// The server's binary
    #[arg(long)]
    server: PathBuf,
}

/// The sessions, tasks and memory of the server.
#[derive(Clone, Copy)]
struct ServerStats {
    sessions: u64,
    tasks: u64,
    rss: u64,
}

pub(crate) async fn run(args: SoakArgs) -> Result<()> {
    LocalSet::new().run_until(soak(args)).await
}

async fn soak(args: SoakArgs) -> Result<()> {
    let began = Instant::now();
    let mut server = SoakServer::start(&args.server).await?;
    let quiet = server.stats().await?;
    ensure!(quiet.sessions == 0, "a fresh server has sessions");
    print_line(
        "wave | clients | streams | messages | resumed | refused | sessions | tasks | RSS MiB",
    );
    let mut rss_after_waves = Vec::new();
    let length = Duration::from_secs(args.minutes * 60);
    let mut wave = 0;
    while wave <= WARM_UP || began.elapsed() < length {
        wave += 1;
        let counters = one_wave(&server, wave).await?;
        let stats = wait_until_idle(&mut server, quiet).await?;
        print_line(&format!(
            "{wave} | {} | {} | {} | {} | {} | {} | {} | {:.1}",
            counters.clients.get(),
            counters.streams.get(),
            counters.messages.get(),
            counters.resumed.get(),
            counters.refused.get(),
            stats.sessions,
            stats.tasks,
            mib(stats.rss),
        ));
        counters.check_complete()?;
        rss_after_waves.push(stats.rss);
    }
    server.stop().await?;
    check_memory(&rss_after_waves)
}

/// Runs clients of every kind until the wave is over.
async fn one_wave(server: &SoakServer, wave: usize) -> Result<Rc<Counters>> {
    let counters = Rc::new(Counters::default());
    let until = Instant::now() + WAVE;
    let mut clients = JoinSet::new();
    for index in 0..CLIENTS {
        let client = SoakClient {
            port: server.port(),
            counters: Rc::clone(&counters),
            until,
        };
        clients.spawn_local(clients::take_turns(client, index, wave));
    }
    let mut change = 0;
    loop {
        tokio::select! {
            ended = clients.join_next() => match ended {
                None => return Ok(counters),
                Some(done) => done??,
            },
            // A changed kubeconfig makes the server send notifications by itself.
            () = sleep(Duration::from_secs(1)) => {
                change += 1;
                server.change_contexts(change)?;
            }
        }
    }
}

/// Waits until the server has no more sessions and tasks than before the first wave.
async fn wait_until_idle(server: &mut SoakServer, quiet: ServerStats) -> Result<ServerStats> {
    let deadline = Instant::now() + ENDS_WITHIN;
    loop {
        let stats = server.stats().await?;
        if stats.sessions == 0 && stats.tasks <= quiet.tasks {
            return Ok(stats);
        }
        if Instant::now() > deadline {
            bail!(
                "{} s after a wave there are {} sessions and {} tasks, where a quiet server has {}",
                ENDS_WITHIN.as_secs(),
                stats.sessions,
                stats.tasks,
                quiet.tasks
            );
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Fails if memory grew since the warm-up waves.
fn check_memory(rss_after_waves: &[u64]) -> Result<()> {
    let (warm, last) = match rss_after_waves {
        [.., last] if rss_after_waves.len() > WARM_UP => (rss_after_waves[WARM_UP - 1], *last),
        _ => bail!("too few waves to say anything"),
    };
    let bound = warm + warm / 10 + SLACK_BYTES;
    let verdict = format!(
        "RSS {:.1} MiB after {WARM_UP} waves, {:.1} MiB after {}; at most {:.1} would be flat",
        mib(warm),
        mib(last),
        rss_after_waves.len(),
        mib(bound)
    );
    ensure!(last <= bound, "memory grows: {verdict}");
    print_line(&format!(
        "soak: no session and no task is left, memory is flat: {verdict}"
    ));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "only printed")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn memory_that_grows_is_noticed_and_memory_that_rests_is_not() {
        assert!(check_memory(&[40 * MIB, 50 * MIB, 49 * MIB, 52 * MIB]).is_ok());
        assert!(check_memory(&[40 * MIB, 50 * MIB, 55 * MIB, 60 * MIB]).is_err());
        assert!(
            check_memory(&[40 * MIB, 50 * MIB]).is_err(),
            "too few to say"
        );
    }
}
