//! The servers that are compared. Each listens on loopback, prints its port, and
//! publishes on commands from stdin.

mod ceiling;
mod ours;
mod stock;

use std::{
    future::Future,
    io::Write,
    net::{Ipv4Addr, SocketAddr},
};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    time::{Duration, MissedTickBehavior, interval},
};

#[derive(Args)]
pub(crate) struct ServeArgs {
    kind: ServerKind,
}

/// A server that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ServerKind {
    /// The server of this project.
    Ours,
    /// rmcp with its own session manager.
    Stock,
    /// Writes the same shared bytes to every stream, without further work.
    Ceiling,
}

/// Publishes messages to all streams.
trait Publisher {
    /// Publishes messages with these numbers to all streams, as fast as possible.
    fn publish(&mut self, numbers: std::ops::Range<u64>) -> impl Future<Output = Result<()>>;
}

// === impl ServerKind ===

impl ServerKind {
    pub(crate) const ALL: [Self; 3] = [Self::Ceiling, Self::Ours, Self::Stock];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Stock => "stock",
            Self::Ceiling => "ceiling",
        }
    }

    /// Whether its clients open sessions first.
    pub(crate) fn has_sessions(self) -> bool {
        self != Self::Ceiling
    }
}

pub(crate) async fn run(args: ServeArgs) -> Result<()> {
    match args.kind {
        ServerKind::Ours => {
            let (address, publisher) = ours::start().await?;
            run_commands(address, publisher).await
        }
        ServerKind::Stock => {
            let (address, publisher) = stock::start().await?;
            run_commands(address, publisher).await
        }
        ServerKind::Ceiling => {
            let (address, publisher) = ceiling::start().await?;
            run_commands(address, publisher).await
        }
    }
}

/// Executes commands from stdin until it is closed.
async fn run_commands(address: SocketAddr, mut publisher: impl Publisher) -> Result<()> {
    answer(&address.port().to_string())?;
    let mut published = 0;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["burst", count] => {
                let count: u64 = count.parse()?;
                publisher.publish(published..published + count).await?;
                published += count;
            }
            ["pace", per_second, count] => {
                let (per_second, count): (u32, u64) = (per_second.parse()?, count.parse()?);
                let mut ticks = interval(Duration::from_secs(1) / per_second);
                // A server that cannot keep up is measured at the rate that it reaches.
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                for number in published..published + count {
                    ticks.tick().await;
                    publisher.publish(number..number + 1).await?;
                }
                published += count;
            }
            _ => bail!("what is `{line}`?"),
        }
        answer(&published.to_string())?;
    }
    Ok(())
}

fn answer(line: &str) -> Result<()> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}")?;
    stdout.flush().context("stdout is closed")
}

async fn listen() -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
