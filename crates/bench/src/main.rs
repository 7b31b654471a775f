//! The server under load. `cargo xtask bench` and `cargo xtask soak` run this
//! program, which starts itself again as each server and as the client.

mod ask;
mod bed;
mod creating;
mod events;
mod fanout;
mod faults;
mod graph;
mod incidents;
mod load;
mod making;
mod message;
mod process;
mod report;
mod serve;
mod server;
mod soak;
mod start;
mod subscribers;
mod verdict;

use std::{io::Write, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use tokio::runtime;

use crate::{
    ask::AskArgs, events::EventsArgs, fanout::FanoutArgs, faults::FaultsArgs, graph::GraphArgs,
    incidents::IncidentsArgs, load::LoadArgs, serve::ServeArgs, soak::SoakArgs, start::StartArgs,
};

/// The allocator of the server's binary, so that all compared servers use the same one. Tools
/// that tell where memory was allocated see only that of the system.
#[cfg(not(feature = "system-allocator"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
#[command(name = "cargo xtask bench", about = "The server under load")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One notification to many streams: ours, stock rmcp and a ceiling, side by side
    Fanout(FanoutArgs),
    /// Events of a real cluster to many subscribers: nothing lost, how late, at what cost
    Events(EventsArgs),
    /// Many pods of a real cluster fail: every fault is told, with its logs
    Faults(FaultsArgs),
    /// The graph of a real cluster with many pods: how soon, how large, what a change costs
    Graph(GraphArgs),
    /// The incidents of a cluster in memory with many pods: how soon, how large, how late
    Incidents(IncidentsArgs),
    /// Tools of a real cluster with many pods and events: how long an answer takes
    Ask(AskArgs),
    /// From the start of the program to its first answer
    Start(StartArgs),
    /// Clients that come, stall, vanish and come back, for minutes
    Soak(SoakArgs),
    /// A server that is measured
    #[command(hide = true)]
    Serve(ServeArgs),
    /// The clients of a server that is measured
    #[command(hide = true)]
    Load(LoadArgs),
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Fanout(args) => one_thread(fanout::run(args)),
        Command::Events(args) => many_threads(events::run(args)),
        Command::Faults(args) => many_threads(faults::run(args)),
        Command::Graph(args) => many_threads(graph::run(args)),
        Command::Incidents(args) => many_threads(incidents::run(args)),
        Command::Ask(args) => many_threads(ask::run(args)),
        Command::Start(args) => many_threads(start::run(args)),
        Command::Soak(args) => one_thread(soak::run(args)),
        Command::Serve(args) => many_threads(serve::run(args)),
        Command::Load(args) => one_thread(load::run(args)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(&format!("bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs on one thread: the load generators must not take the server's CPU time.
fn one_thread(work: impl Future<Output = Result<()>>) -> Result<()> {
    runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

/// Runs on the multi-threaded runtime, like the server's own binary.
fn many_threads(work: impl Future<Output = Result<()>>) -> Result<()> {
    runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

/// Prints progress and results to stderr.
pub(crate) fn print_line(line: &str) {
    // A failed write to stderr cannot be reported anywhere else.
    let _written = writeln!(std::io::stderr(), "{line}");
}
