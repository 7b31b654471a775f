//! `cargo xtask bench`, `soak`, `chaos`, `eval` and `agents`: the server under load, whether servers
//! that work together lose anything, how well it tells faults, and who is told of them. The benchmark is a
//! program of its own, because it links the server and xtask should build quickly.

use std::{env, ffi::OsString, os::unix::process::CommandExt, path::PathBuf};

use anyhow::{Context, Result};

use crate::step::{cargo, run};

/// Replaces this process by the benchmark.
pub(crate) fn bench(arguments: &[OsString]) -> Result<()> {
    // These benchmarks measure the real binary. Both packages are built together, so that
    // their dependencies have the same features.
    let of_the_binary = ["events", "faults", "graph", "ask", "start"];
    let first = arguments.first().and_then(|what| what.to_str());
    if first.is_some_and(|what| of_the_binary.contains(&what)) {
        let both = ["--package", "bench", "--package", "kubecrier"];
        let mut build = cargo(&["build", "--quiet", "--release"]);
        build.args(both);
        run("the server", build)?;
    }
    let mut command = cargo(&["run", "--quiet", "--release", "--package", "bench", "--"]);
    Err(command.args(arguments).exec().into())
}

/// Scores incidents on recorded cases; with `--live`, what the server says about them when they
/// are rebuilt on a real API server.
pub(crate) fn eval(arguments: &[OsString]) -> Result<()> {
    if let Some(live) = arguments.iter().position(|word| word == "--live") {
        let mut others = arguments.to_vec();
        others.remove(live);
        return eval_live(&others);
    }
    let package = ["--package", "kubecrier-incidents", "--features", "eval"];
    let mut command = cargo(&["run", "--quiet", "--release", "--example", "eval"]);
    command.args(package).arg("--").args(arguments);
    run("eval", command)
}

/// Rebuilds recorded cases on a real API server, and scores the answers of the server.
pub(crate) fn eval_live(arguments: &[OsString]) -> Result<()> {
    let server = server()?;
    let mut command = cargo(&["run", "--quiet", "--package", "eval", "--", "--server"]);
    command.arg(server).args(arguments);
    run("eval on a real API server", command)
}

/// Tries the real agents with a scripted model; installs them into `target/agents`.
pub(crate) fn agents(only: &[OsString]) -> Result<()> {
    let server = server()?;
    let mut command = cargo(&["run", "--quiet", "--package", "testbed", "--", "agents"]);
    command.arg(server).args(only);
    run("real agents", command)
}

/// Runs clients that connect, stall, disconnect and resume, against the real binary.
pub(crate) fn soak(minutes: u64) -> Result<()> {
    let server = server()?;
    let mut soak = cargo(&["run", "--quiet", "--package", "bench", "--", "soak"]);
    soak.arg("--server")
        .arg(server)
        .arg(format!("--minutes={minutes}"));
    run(&format!("soak, {minutes} min"), soak)
}

/// Replaces this process by the run on replicas that are killed, frozen and cut off.
pub(crate) fn chaos(arguments: &[OsString]) -> Result<()> {
    // Together, as for the benchmarks.
    let both = ["--package", "chaos", "--package", "kubecrier"];
    let mut build = cargo(&["build", "--quiet", "--release"]);
    build.args(both);
    run("the server", build)?;
    let mut command = cargo(&["run", "--quiet", "--release", "--package", "chaos", "--"]);
    Err(command.args(arguments).exec().into())
}

/// Builds the server, as quickly as possible, into the folder of this program.
fn server() -> Result<PathBuf> {
    let build = cargo(&["build", "--quiet", "--package", "kubecrier"]);
    run("the server", build)?;
    let own = env::current_exe().context("cannot tell where the server was built")?;
    Ok(own.with_file_name("kubecrier"))
}
