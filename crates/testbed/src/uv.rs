//! uv, which people start programs from PyPI with, installed once per machine into the cache.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{Missing, Progress, cache, install};

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/uv/requirements.txt");

/// The package manager uv.
#[derive(Clone, Copy, Debug)]
pub struct Uv;

// === impl Uv ===

impl Uv {
    /// Installs it if it is not there yet.
    pub fn prepare(progress: Progress<'_>) -> Result<()> {
        let target = Self::folder()?;
        if target.is_dir() {
            return Ok(());
        }
        if !install::is_there("python3") {
            return Err(Self::missing().into());
        }
        progress("installing uv (once per machine)");
        cache::fill(&target, |staging| {
            install::from_pypi(Path::new(LIST), staging)
        })
    }

    /// `uvx`, to which arguments can be added.
    pub fn uvx() -> Result<Command, Missing> {
        let program = Self::folder().map(|folder| folder.join("bin/uvx"));
        match program {
            Ok(program) if program.is_file() => Ok(Command::new(program)),
            _ => Err(Self::missing()),
        }
    }

    fn missing() -> Missing {
        Missing(
            "uv is not installed; install Python 3.10 or newer with venv, then run `cargo xtask test`"
                .to_owned(),
        )
    }

    fn folder() -> Result<PathBuf> {
        install::folder("tool-uv", Path::new(LIST))
    }
}
