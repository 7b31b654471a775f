//! `cargo xtask chaos` runs this program.

use std::{env, io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result};
use chaos::ChaosConfig;
use clap::Parser;

#[derive(Parser)]
#[command(
    name = "cargo xtask chaos",
    about = "Replicas that are killed, frozen and cut off: does every subscriber get every event?"
)]
struct Args {
    /// How long
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// What is done follows from it; another one each time, if none is given
    #[arg(long)]
    seed: Option<u64>,
    /// Events a second
    #[arg(long, default_value_t = 200)]
    rate: u32,
    /// Subscribers, half of them with a session
    #[arg(long, default_value_t = 100)]
    subscribers: usize,
    /// Servers
    #[arg(long, default_value_t = 3)]
    replicas: usize,
    /// Seconds between two actions
    #[arg(long, default_value_t = 10.0)]
    every: f64,
    /// The log level of the servers
    #[arg(long, default_value = "info")]
    log_level: String,
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // A failed write to stderr cannot be reported anywhere else.
            let _written = writeln!(std::io::stderr(), "chaos: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<bool> {
    let program = env::current_exe()?;
    let folder = program.with_file_name("chaos-run");
    let random = || jiff::Timestamp::now().as_microsecond().unsigned_abs() % 1_000_000;
    let config = ChaosConfig {
        seed: args.seed.unwrap_or_else(random),
        duration: Duration::from_secs_f64(args.minutes * 60.0),
        rate: args.rate,
        subscribers: args.subscribers,
        replicas: args.replicas,
        every: Duration::from_secs_f64(args.every),
        log_level: args.log_level,
        binary: binary(&program),
        folder,
    };
    let clusters = testbed::Binaries::locate().map_err(|missing| anyhow::anyhow!("{missing}"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let options = testbed::Options::default();
        let cluster = testbed::Cluster::start("dev", &clusters, options).await;
        let cluster = cluster.context("the control plane does not start")?;
        let report = chaos::run(&cluster, &config).await?;
        Ok(report.holds())
    })
}

/// The server's binary, which cargo builds into the folder of this program.
fn binary(program: &std::path::Path) -> PathBuf {
    program.with_file_name("kubecrier")
}
