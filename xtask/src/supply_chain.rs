//! What others wrote: licences, sources, duplicates and known vulnerabilities of the
//! dependencies, by cargo-deny and `deny.toml`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Result;

use crate::{
    step::{in_root, print_line, run},
    tool::Tool,
};

const CARGO_DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
};

/// Exceptions in `deny.toml` that nothing needs are errors: they would excuse a later crate.
const NO_IDLE_EXCEPTIONS: [&str; 4] = [
    "unmatched-skip",
    "license-not-encountered",
    "license-exception-not-encountered",
    "advisory-not-detected",
];

/// Checks licences, bans, duplicates and sources always, and vulnerabilities where the database
/// of advisories can be had.
pub(crate) fn check() -> Result<()> {
    let program = CARGO_DENY.path()?;
    run(
        "dependencies: licences, duplicates, sources",
        deny(&program, &["--locked"], &["bans", "licenses", "sources"]),
    )?;
    let fetched = fetch_advisories(&program);
    if !fetched && !has_advisories(&advisories_folder()) {
        print_line(
            "dependencies: advisories NOT checked: https://github.com/RustSec/advisory-db cannot be \
             reached, and there is no copy of it on this machine",
        );
        return Ok(());
    }
    if !fetched {
        print_line(
            "dependencies: https://github.com/RustSec/advisory-db cannot be reached; checking \
             with the copy on this machine",
        );
    }
    // Offline: the copy is as new as it can be.
    run(
        "dependencies: advisories",
        deny(&program, &["--locked", "--offline"], &["advisories"]),
    )
}

fn deny(program: &Path, graph: &[&str], which: &[&str]) -> Command {
    let mut command = in_root(program);
    command.args(graph);
    command.args(["check", "--hide-inclusion-graph"]);
    for lint in NO_IDLE_EXCEPTIONS {
        command.args(["--deny", lint]);
    }
    command.args(which);
    command
}

/// Whether the database could be fetched. Its errors are not shown: a machine without access
/// to it is told so in one line.
fn fetch_advisories(program: &Path) -> bool {
    let mut fetch = in_root(program);
    fetch.args(["fetch", "db"]);
    fetch.stdin(Stdio::null()).stderr(Stdio::null());
    // Git must not ask for a password.
    fetch.env("GIT_TERMINAL_PROMPT", "0");
    fetch.status().is_ok_and(|status| status.success())
}

/// Where cargo-deny keeps databases.
fn advisories_folder() -> PathBuf {
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    cargo_home.unwrap_or_default().join("advisory-dbs")
}

/// Whether a folder of databases has one.
fn has_advisories(folder: &Path) -> bool {
    let databases = fs::read_dir(folder).into_iter().flatten().flatten();
    databases
        .into_iter()
        .any(|database| database.path().join("crates").is_dir())
}
