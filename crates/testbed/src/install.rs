//! Packages from npm and PyPI, installed once per machine into the cache.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::cache::{self, Staging};

/// A folder of the cache, keyed by the list of its packages.
pub(crate) fn folder(name: &str, list: &Path) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    fs::read(list)
        .with_context(|| format!("cannot read `{}`", list.display()))?
        .hash(&mut hasher);
    Ok(cache::root()?.join(format!("{name}-{:016x}", hasher.finish())))
}

/// Whether the program is on this machine and runs.
pub(crate) fn is_there(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|done| done.status.success())
}

/// Installs exactly the packages of the lock file in `sources`, without install scripts.
pub(crate) fn from_npm(sources: &Path, staging: &Staging) -> Result<()> {
    for file in ["package.json", "package-lock.json"] {
        fs::copy(sources.join(file), staging.path().join(file))?;
    }
    run(Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
        .current_dir(staging.path()))
}

/// Installs exactly the packages of the list into a virtual environment.
pub(crate) fn from_pypi(list: &Path, staging: &Staging) -> Result<()> {
    // A venv contains its own path, so it is created at the target.
    run(Command::new("python3")
        .args(["-m", "venv"])
        .arg(staging.target()))?;
    let quiet = ["--quiet", "--disable-pip-version-check"];
    run(Command::new(staging.target().join("bin/python"))
        .args(["-m", "pip", "install"])
        .args(quiet)
        .arg("--requirement")
        .arg(list))
}

/// Runs a command to its end; the error contains its output.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if !status.success() {
        bail!(
            "{command:?} failed:\n{}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        );
    }
    Ok(())
}
