//! `cargo xtask package`: every crate that is published is packed, and built from its package
//! alone, with the other packages in place of the folders beside it.

use anyhow::{Context, Result};

use crate::step::{cargo, run};

/// Packs and builds; only the crates that are named, if any are.
pub(crate) fn check(only: &[String]) -> Result<()> {
    let published = published()?;
    let chosen = if only.is_empty() { &published } else { only };
    let mut package = cargo(&["package", "--locked", "--allow-dirty"]);
    for name in chosen {
        package.args(["--package", name]);
    }
    run(&format!("packages of {}", chosen.join(", ")), package)
}

/// The crates that have no `publish = false`.
fn published() -> Result<Vec<String>> {
    let mut metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let done = metadata.output().context("cannot start cargo")?;
    let all: serde_json::Value = serde_json::from_slice(&done.stdout)
        .with_context(|| String::from_utf8_lossy(&done.stderr).into_owned())?;
    let packages = all["packages"].as_array().into_iter().flatten();
    let published = packages.filter(|package| package["publish"].is_null());
    Ok(published
        .filter_map(|package| package["name"].as_str())
        .map(str::to_owned)
        .collect())
}
