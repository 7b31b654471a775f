//! The binary: parse, run, map to an exit code.

use std::{env, io::Write, path::Path, process::ExitCode};

use futures_util::stream;
use kubecrier::{
    cli::Command,
    config::{Config, ConfigError, Invocation},
    demo, doctor, generate, watch,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// jemalloc returns freed memory to the system: a server that runs for weeks takes the
/// memory that it needs now, not the peak of its last burst.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Bad usage or configuration, as in sysexits.h.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let loaded = Invocation::load(env::args_os(), env::vars_os())
        .and_then(|invocation| Ok((invocation.config()?, invocation)));
    let (config, invocation) = match loaded {
        Ok(loaded) => loaded,
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
            print_error(&error.to_string());
            return ExitCode::from(USAGE);
        }
    };
    config.log.install();
    if let Some(Command::Init(args)) = &invocation.command {
        return init(&args.dir);
    }
    match run(config, invocation) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print_error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn init(dir: &Path) -> ExitCode {
    match kubecrier_project::init(dir) {
        Ok(files) => {
            let count = files.len();
            tracing::info!(count, "files written; serve them with --project-root");
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_error(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Runs the command; `false` if `doctor` found a failure.
fn run(config: Config, invocation: Invocation) -> anyhow::Result<bool> {
    let Invocation { settings, command } = invocation;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let signals = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        let stop = stream::unfold(signals, next_signal);
        let done = match command {
            None | Some(Command::Init(_)) => kubecrier::run(config, stop).await,
            Some(Command::Demo(args)) => demo::run(&args, config, stop).await,
            Some(Command::Watch(args)) => watch::run(&args, config, stop).await,
            Some(Command::Doctor(args)) => return doctor::run(&args, &settings, config).await,
            Some(Command::Completion(args)) => {
                generate::print(&generate::completion(args.shell)).await
            }
            Some(Command::Schema(_)) => generate::print(generate::schema().as_bytes()).await,
            Some(Command::Man(_)) => generate::print(&generate::man()?).await,
        };
        done.map(|()| true)
    });
    // A blocking read of stdin cannot be cancelled; the process can end.
    runtime.shutdown_background();
    outcome
}

async fn next_signal(mut signals: (Signal, Signal)) -> Option<((), (Signal, Signal))> {
    tokio::select! {
        _signal = signals.0.recv() => {}
        _signal = signals.1.recv() => {}
    }
    Some(((), signals))
}

fn print_error(text: &str) {
    // There is no other place to report that stderr is gone.
    let _ignored = writeln!(std::io::stderr(), "error: {text}");
}
