//! The binary: parse, run, map to an exit code.

use std::{env, io::Write, path::Path, process::ExitCode};

use futures_util::stream;
use kubecrier::{
    config::{Config, ConfigError},
    registry,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Bad usage or configuration, as in sysexits.h.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let config = match Config::load(env::args_os(), env::vars_os()) {
        Ok(config) => config,
        Err(ConfigError::Usage(error)) => {
            // Prints --help and --version to stdout, everything else to stderr.
            let printed = error.print();
            return if error.use_stderr() || printed.is_err() {
                ExitCode::from(USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::from(USAGE);
        }
    };
    config.log.install();
    if let Some(dir) = &config.init {
        return init(dir);
    }
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn init(dir: &Path) -> ExitCode {
    match registry::init(dir) {
        Ok(files) => {
            let count = files.len();
            tracing::info!(count, "files written; serve them with --project-root");
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(config: Config) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let signals = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        kubecrier::run(config, stream::unfold(signals, next_signal)).await
    });
    // A blocking read of stdin cannot be ended; the process can.
    runtime.shutdown_background();
    outcome
}

async fn next_signal(mut signals: (Signal, Signal)) -> Option<((), (Signal, Signal))> {
    tokio::select! {
        _asked = signals.0.recv() => {}
        _asked = signals.1.recv() => {}
    }
    Some(((), signals))
}

fn complain(text: &str) {
    // Nothing is left to tell if stderr is gone.
    let _told = writeln!(std::io::stderr(), "error: {text}");
}
