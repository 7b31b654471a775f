//! Programs that a task needs: built once per machine from crates.io, at a pinned version,
//! into the cache folder that the testbed uses, too.

use std::{env, path::PathBuf};

use anyhow::{Context, Result};

use crate::step::{cargo, run};

/// A program on crates.io.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

// === impl Tool ===

impl Tool {
    /// The program's path. Installs it if it is not there yet.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        let Self { name, version } = self;
        let folder = cache()?.join(format!("{name}-{version}"));
        let program = folder.join("bin").join(name);
        if program.is_file() {
            return Ok(program);
        }
        let mut install = cargo(&["install", "--locked", name, "--version", version]);
        install.arg("--root").arg(&folder);
        // It runs for seconds: one that is built quickly saves more than one that is fast.
        install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        install.env("CARGO_PROFILE_RELEASE_LTO", "false");
        install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        run(
            &format!("{name} {version} (built once per machine, some minutes)"),
            install,
        )?;
        Ok(program)
    }
}

/// The folder outside the checkout that all clones of the repository share.
fn cache() -> Result<PathBuf> {
    let given = |name| env::var_os(name).filter(|folder| !folder.is_empty());
    if let Some(folder) = given("TESTBED_CACHE") {
        return Ok(folder.into());
    }
    let base = match given("XDG_CACHE_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => env::home_dir()
            .context("neither HOME nor TESTBED_CACHE is set")?
            .join(".cache"),
    };
    Ok(base.join("kubecrier"))
}
