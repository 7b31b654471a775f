//! The project's own commands: `cargo xtask --help`.

mod conformance;
mod dist;
mod fuzz;
mod interop;
mod load;
mod package;
mod record;
mod step;
mod supply_chain;
mod test;
mod tool;

use std::{
    ffi::OsString,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode},
};

use clap::{Parser, Subcommand};

use crate::step::cargo;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own commands")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything that must hold: format, lints, docs, and all tests on a real Kubernetes
    Test,
    /// Run two real clusters on loopback until ctrl-c, and print their kubeconfig
    Cluster,
    /// Run the official conformance suite against the server, for both revisions
    Conformance,
    /// Try the real coding agents from npm with a scripted model: does an idle session get its
    /// turn when an incident is opened?
    Agents {
        /// Only these: claude, codex, opencode, copilot, gemini
        only: Vec<OsString>,
    },
    /// Try the server with other people's software, which is downloaded: keycloak
    Interop {
        /// With what
        with: interop::Party,
    },
    /// Measure the server: `cargo xtask bench fanout`, `events`, `faults`, `graph`, `incidents` or `ask`
    #[command(disable_help_flag = true)]
    Bench {
        /// What to measure, and how; `--help` tells
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Score what is said about recorded faults, and about healthy clusters; `-v` shows misses,
    /// `--live` asks the server about them on a real API server
    Eval {
        /// `-v`, and a folder of cases; after `--live` also `--sample N`, `--only TEXT`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Clients that come, stall, vanish and come back; nothing may be left of them
    Soak {
        /// How long
        #[arg(long, default_value_t = 10)]
        minutes: u64,
    },
    /// Servers that work together are killed, frozen and cut off: does every subscriber get every event?
    #[command(disable_help_flag = true)]
    Chaos {
        /// How long, and how much; `--help` tells
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Make what is given to users, into `dist/`: archive, npm and PyPI packages, MCPB bundle, image,
    /// chart, SBOM, checksums
    Dist {
        /// A kubecrier for this machine that is there, instead of building one for release
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
        /// A static kubecrier for the image, instead of building one for release
        #[arg(long, value_name = "FILE")]
        static_binary: Option<PathBuf>,
        /// Make nothing: join the folders that this has made on several platforms into the files of
        /// a release, the packages, and one image; what is for all platforms is that of the first
        #[arg(long, value_name = "FOLDER", num_args = 1.., conflicts_with_all = ["binary", "static_binary"])]
        merge: Vec<PathBuf>,
        /// Where to put it all; what is there already is removed
        #[arg(long, value_name = "FOLDER", default_value = "dist")]
        out: PathBuf,
    },
    /// Pack every crate that is published, and build each from its package alone
    Package {
        /// Only these
        only: Vec<String>,
    },
    /// Draw what the demo shows, into docs/demo.svg, and write its first fault into the README
    Record {
        /// A kubecrier that is there, instead of building one for release
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
    },
    /// Check the dependencies: licences, duplicates, sources and known vulnerabilities
    Deny,
    /// Throw anything at whatever parses input, for longer than the tests do
    Fuzz {
        /// Only this target, without the `fuzz_` tests
        target: Option<String>,
        /// How long each target runs
        #[arg(long, default_value_t = 5)]
        minutes: u64,
        /// How many inputs each `fuzz_` test gets
        #[arg(long, default_value_t = 50_000)]
        cases: u32,
    },
}

fn main() -> ExitCode {
    let done = match Args::parse().task {
        Task::Test => test::run_everything(),
        Task::Cluster => cluster(),
        Task::Conformance => conformance::run_suite(),
        Task::Agents { only } => load::agents(&only),
        Task::Interop { with } => interop::run_with(with),
        Task::Bench { arguments } => load::bench(&arguments),
        Task::Eval { arguments } => load::eval(&arguments),
        Task::Soak { minutes } => load::soak(minutes),
        Task::Chaos { arguments } => load::chaos(&arguments),
        Task::Dist { merge, out, .. } if !merge.is_empty() => dist::merge(&merge, &out),
        Task::Dist {
            binary,
            static_binary,
            merge: _,
            out,
        } => dist::make(&dist::Options {
            binary: binary.as_deref(),
            static_binary: static_binary.as_deref(),
            out: &out,
        }),
        Task::Package { only } => package::check(&only),
        Task::Record { binary } => record::record(binary.as_deref()),
        Task::Deny => supply_chain::check(),
        Task::Fuzz {
            target,
            minutes,
            cases,
        } => fuzz::fuzz(target.as_deref(), minutes, cases),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            step::print_line(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Replaces this process by the testbed, so that ctrl-c reaches it.
fn cluster() -> anyhow::Result<()> {
    let mut command: Command = cargo(&["run", "--quiet", "--package", "testbed", "--", "up"]);
    Err(command.exec().into())
}
