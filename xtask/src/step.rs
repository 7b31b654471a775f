//! One step of a task: announced, run, timed.

use std::{env, path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// Prints a line about the progress.
#[expect(clippy::print_stderr, reason = "a tool for people")]
pub(crate) fn say(line: &str) {
    eprintln!("xtask: {line}");
}

/// A cargo command at the root of the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    // What cargo says about xtask itself is not for the cargo below it: ring's build
    // looks at these, and would be done again, with all that needs it, each time a
    // person goes from `cargo xtask` to `cargo test` and back.
    for (name, _) in env::vars_os() {
        let about_us =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(about_us) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command under a name and says how long it took.
#[expect(clippy::disallowed_types, reason = "told to a person, never paused")]
pub(crate) fn run(name: &str, mut command: Command) -> Result<()> {
    say(&format!("{name} ..."));
    let began = std::time::Instant::now();
    let status = command
        .status()
        .with_context(|| format!("cannot start {command:?}"))?;
    let seconds = began.elapsed().as_secs_f64();
    if !status.success() {
        bail!("{name} failed after {seconds:.1} s; run it alone: {command:?}");
    }
    say(&format!("{name}: {seconds:.1} s"));
    Ok(())
}
