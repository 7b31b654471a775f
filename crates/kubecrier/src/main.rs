//! The binary: parse, run, map to an exit code.

use std::{
    env,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use futures_util::stream;
use kubecrier::{
    cli::Command,
    config::{Config, ConfigError, Invocation},
    demo, doctor,
    failure::{self, USAGE},
    generate, init, install, watch,
};
use kubecrier_server::Transport;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// jemalloc returns freed memory to the system: a server that runs for weeks takes the
/// memory that it needs now, not the peak of its last burst.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let loaded = Invocation::load(env::args_os(), env::vars_os())
        .and_then(|invocation| Ok((invocation.config()?, invocation)));
    let (config, invocation) = match loaded {
        Ok(loaded) => loaded,
        Err(ConfigError::Usage(error)) => {
            // Prints --help and --version to stdout, everything else to stderr.
            return match error.print() {
                _ if error.use_stderr() => ExitCode::from(USAGE),
                // `| head` closes the pipe when it has read enough.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
                _ => ExitCode::SUCCESS,
            };
        }
        Err(error) => {
            print_error(&error.to_string());
            return ExitCode::from(USAGE);
        }
    };
    let is_stdio = matches!(config.transport, Transport::Stdio) && invocation.command.is_none();
    if is_stdio && io::stdin().is_terminal() && io::stdout().is_terminal() {
        print_error(failure::IN_A_TERMINAL);
        return ExitCode::from(USAGE);
    }
    config.log.install();
    match run(config, invocation) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print_error(&failure::describe(&error));
            ExitCode::from(failure::exit_code(&error))
        }
    }
}

/// Runs the command; `false` if `doctor` found a failure, or the answer to `install` was no.
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
            // The parser has printed the help.
            None | Some(Command::Help(_)) => kubecrier::run(config, stop).await,
            Some(Command::Init(args)) => init::run(&args).await,
            Some(Command::Demo(args)) => Box::pin(demo::run(&args, config, stop)).await,
            Some(Command::Watch(args)) => watch::run(&args, config, stop).await,
            Some(Command::Install(args)) => {
                return install::run(&args, &config.redactor, Box::pin(stop)).await;
            }
            Some(Command::Doctor(args)) => return doctor::run(&args, &settings, config).await,
            Some(Command::Completion(args)) => {
                generate::print(&generate::completion(args.shell)).await
            }
            Some(Command::Schema(_)) => generate::print(generate::schema().as_bytes()).await,
            Some(Command::Man(_)) => generate::print(&generate::man()?).await,
            Some(Command::Version(_)) => generate::print(&generate::version()).await,
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
    let _ignored = writeln!(io::stderr(), "error: {text}");
}
