//! The project's own commands: `cargo xtask --help`.

mod conformance;
mod step;
mod test;

use std::process::{Command, ExitCode};

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
}

fn main() -> ExitCode {
    let done = match Args::parse().task {
        Task::Test => test::run_everything(),
        Task::Cluster => cluster(),
        Task::Conformance => conformance::run_suite(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            step::say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Becomes the testbed, so that ctrl-c reaches it.
fn cluster() -> anyhow::Result<()> {
    use std::os::unix::process::CommandExt;
    let mut command: Command = cargo(&["run", "--quiet", "--package", "testbed", "--", "up"]);
    Err(command.exec().into())
}
