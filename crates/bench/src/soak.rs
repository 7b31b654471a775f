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
    server::Server,
};
use crate::print_line;

/// How long clients come in a wave.
const WAVE: Duration = Duration::from_secs(5);

/// Clients at once.
const CLIENTS: usize = 64;

/// A session without a stream and without requests ends after this.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// After a wave, everything of it has ended within this: the idle timeout, the sweep
/// that looks for it, and a machine that is busy.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// The first waves make the memory that the later ones use again.
const WARM_UP: usize = 2;

/// What the allocator may keep between waves: a tenth, and this much.
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

/// What is left of a wave.
#[derive(Clone, Copy)]
struct Left {
    sessions: u64,
    tasks: u64,
    rss: u64,
}

pub(crate) async fn run(args: SoakArgs) -> Result<()> {
    LocalSet::new().run_until(soak(args)).await
}

async fn soak(args: SoakArgs) -> Result<()> {
    let began = Instant::now();
    let mut server = Server::start(&args.server).await?;
    let quiet = server.left().await?;
    ensure!(quiet.sessions == 0, "a fresh server has sessions");
    print_line(
        "wave | clients | streams | messages | resumed | refused | sessions | tasks | RSS MiB",
    );
    let mut rests = Vec::new();
    let length = Duration::from_secs(args.minutes * 60);
    let mut wave = 0;
    while wave <= WARM_UP || began.elapsed() < length {
        wave += 1;
        let counters = one_wave(&server, wave).await?;
        let left = calm(&mut server, quiet).await?;
        print_line(&format!(
            "{wave} | {} | {} | {} | {} | {} | {} | {} | {:.1}",
            counters.clients.get(),
            counters.streams.get(),
            counters.messages.get(),
            counters.resumed.get(),
            counters.refused.get(),
            left.sessions,
            left.tasks,
            mib(left.rss),
        ));
        counters.is_everything()?;
        rests.push(left.rss);
    }
    server.stop().await?;
    judge(&rests)
}

/// Clients of every kind, until the wave is over.
async fn one_wave(server: &Server, wave: usize) -> Result<Rc<Counters>> {
    let counters = Rc::new(Counters::default());
    let until = Instant::now() + WAVE;
    let mut clients = JoinSet::new();
    for seat in 0..CLIENTS {
        let client = SoakClient {
            port: server.port(),
            counters: Rc::clone(&counters),
            until,
        };
        clients.spawn_local(clients::take_turns(client, seat, wave));
    }
    let mut change = 0;
    loop {
        tokio::select! {
            ended = clients.join_next() => match ended {
                None => return Ok(counters),
                Some(done) => done??,
            },
            // What the server has to say by itself: its contexts come and go.
            () = sleep(Duration::from_secs(1)) => {
                change += 1;
                server.change_contexts(change)?;
            }
        }
    }
}

/// Waits until nothing is left but what a quiet server has.
async fn calm(server: &mut Server, quiet: Left) -> Result<Left> {
    let deadline = Instant::now() + ENDS_WITHIN;
    loop {
        let left = server.left().await?;
        if left.sessions == 0 && left.tasks <= quiet.tasks {
            return Ok(left);
        }
        if Instant::now() > deadline {
            bail!(
                "{} s after a wave there are {} sessions and {} tasks, where a quiet server has {}",
                ENDS_WITHIN.as_secs(),
                left.sessions,
                left.tasks,
                quiet.tasks
            );
        }
        sleep(Duration::from_millis(100)).await;
    }
}

fn judge(rests: &[u64]) -> Result<()> {
    let (warm, last) = match rests {
        [.., last] if rests.len() > WARM_UP => (rests[WARM_UP - 1], *last),
        _ => bail!("too few waves to say anything"),
    };
    let bound = warm + warm / 10 + SLACK_BYTES;
    let verdict = format!(
        "RSS {:.1} MiB after {WARM_UP} waves, {:.1} MiB after {}; at most {:.1} would be flat",
        mib(warm),
        mib(last),
        rests.len(),
        mib(bound)
    );
    ensure!(last <= bound, "memory grows: {verdict}");
    print_line(&format!(
        "soak: no session and no task is left, memory is flat: {verdict}"
    ));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "told to people")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn memory_that_grows_is_noticed_and_memory_that_rests_is_not() {
        assert!(judge(&[40 * MIB, 50 * MIB, 49 * MIB, 52 * MIB]).is_ok());
        assert!(judge(&[40 * MIB, 50 * MIB, 55 * MIB, 60 * MIB]).is_err());
        assert!(judge(&[40 * MIB, 50 * MIB]).is_err(), "too few to say");
    }
}
