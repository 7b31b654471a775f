//! The official tool for MCPB bundles, installed once per machine into the cache.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{Missing, Progress, cache, install};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/mcpb");

/// The tool that packs and validates MCPB bundles.
#[derive(Clone, Copy, Debug)]
pub struct Mcpb;

// === impl Mcpb ===

impl Mcpb {
    /// Installs it if it is not there yet.
    pub fn prepare(progress: Progress<'_>) -> Result<()> {
        let target = Self::folder()?;
        if target.is_dir() {
            return Ok(());
        }
        if !install::is_there("npm") {
            return Err(Self::missing().into());
        }
        progress("installing the tool for MCPB bundles (once per machine)");
        cache::fill(&target, |staging| {
            install::from_npm(Path::new(SOURCES), staging)
        })
    }

    /// `mcpb`, to which arguments can be added.
    pub fn command() -> Result<Command, Missing> {
        let program = Self::folder().map(|folder| folder.join("node_modules/.bin/mcpb"));
        match program {
            Ok(program) if program.exists() => Ok(Command::new(program)),
            _ => Err(Self::missing()),
        }
    }

    fn missing() -> Missing {
        Missing(
            "mcpb is not installed; install Node 20 or newer, then run `cargo xtask test`"
                .to_owned(),
        )
    }

    fn folder() -> Result<PathBuf> {
        install::folder("tool-mcpb", &Path::new(SOURCES).join("package-lock.json"))
    }
}
