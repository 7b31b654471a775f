//! `cargo xtask bench`, `soak` and `eval`: the server under load, and how well it tells faults. The benchmark is a
//! program of its own, because it links the server and xtask should build quickly.

use std::{env, ffi::OsString, os::unix::process::CommandExt};

use anyhow::{Context, Result};

use crate::step::{cargo, run};

/// Replaces this process by the benchmark.
pub(crate) fn bench(arguments: &[OsString]) -> Result<()> {
    // These benchmarks measure the real binary. Both packages are built together, so that
    // their dependencies have the same features.
    let of_the_binary = ["events", "faults", "graph"];
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

/// Scores incidents on recorded cases.
pub(crate) fn eval(arguments: &[OsString]) -> Result<()> {
    let package = ["--package", "kubecrier-incidents", "--features", "eval"];
    let mut command = cargo(&["run", "--quiet", "--release", "--example", "eval"]);
    command.args(package).arg("--").args(arguments);
    run("eval", command)
}

/// Runs clients that connect, stall, disconnect and resume, against the real binary.
pub(crate) fn soak(minutes: u64) -> Result<()> {
    run(
        "the server",
        cargo(&["build", "--quiet", "--package", "kubecrier"]),
    )?;
    // Cargo builds both binaries into the folder of this program.
    let server = env::current_exe()
        .context("cannot tell where the server was built")?
        .with_file_name("kubecrier");
    let mut soak = cargo(&["run", "--quiet", "--package", "bench", "--", "soak"]);
    soak.arg("--server")
        .arg(server)
        .arg(format!("--minutes={minutes}"));
    run(&format!("soak, {minutes} min"), soak)
}
