//! One step of a task: announced, run, timed.

use std::{env, ffi::OsStr, path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// Prints a line about the progress.
#[expect(clippy::print_stderr, reason = "a tool for people")]
pub(crate) fn print_line(line: &str) {
    eprintln!("xtask: {line}");
}

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

/// A cargo command at the root of the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = in_root(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// A command at the root of the workspace.
pub(crate) fn in_root(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    // Cargo's variables about xtask itself are not passed on: ring's build script depends
    // on them, so ring and its dependents would be rebuilt on each change between
    // `cargo xtask` and `cargo test`.
    for (name, _) in env::vars_os() {
        let about_us =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(about_us) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command under a name and prints how long it took.
#[expect(clippy::disallowed_types, reason = "only printed, never paused")]
pub(crate) fn run(name: &str, mut command: Command) -> Result<()> {
    print_line(&format!("{name} ..."));
    let began = std::time::Instant::now();
    let status = command
        .status()
        .with_context(|| format!("cannot start {command:?}"))?;
    let seconds = began.elapsed().as_secs_f64();
    if !status.success() {
        bail!("{name} failed after {seconds:.1} s; run it alone: {command:?}");
    }
    print_line(&format!("{name}: {seconds:.1} s"));
    Ok(())
}
