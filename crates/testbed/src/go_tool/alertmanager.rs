//! Alertmanager is built from a copy of its module: the pages of its user interface are made by
//! Node when it is released, are not in the module, and are not needed for its API.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::SOURCES;
use crate::{cache::Staging, install};

const MODULE: &str = "github.com/prometheus/alertmanager";

/// The description of its API.
pub(super) const API: &str = "openapi.yaml";

/// A copy of the module, with a page in place of its user interface.
pub(super) fn sources(staging: &Staging) -> Result<PathBuf> {
    let asked = Command::new("go")
        .args(["mod", "download", "-json", MODULE])
        .current_dir(Path::new(SOURCES).join("alertmanager"))
        .output()
        .context("cannot start go")?;
    let answer: serde_json::Value = serde_json::from_slice(&asked.stdout).unwrap_or_default();
    let Some(module) = answer["Dir"].as_str() else {
        let said = String::from_utf8_lossy(&asked.stderr);
        bail!("cannot download {MODULE}: {said}{answer}");
    };
    let copy = copy(staging);
    install::run(Command::new("cp").arg("-r").arg(module).arg(&copy))?;
    // Modules are kept without the right to write.
    install::run(Command::new("chmod").args(["-R", "u+w"]).arg(&copy))?;
    let pages = copy.join("ui/app/dist");
    fs::create_dir_all(&pages)?;
    fs::write(pages.join("index.html"), "<title>Alertmanager</title>")?;
    Ok(copy)
}

/// Keeps the description of the API, and removes the copy.
pub(super) fn finish(staging: &Staging) -> Result<()> {
    let copy = copy(staging);
    fs::copy(copy.join("api/v2").join(API), staging.path().join(API))?;
    fs::remove_dir_all(&copy).context("cannot remove the copy of Alertmanager's module")
}

fn copy(staging: &Staging) -> PathBuf {
    staging.path().join("source")
}
