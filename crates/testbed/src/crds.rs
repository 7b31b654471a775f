//! Definitions of custom resources, as their projects publish them in Go modules.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{Missing, Progress, cache, go_tool, install};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/crds");

/// Modules, and the files that are taken from them.
const FILES: [(&str, &str); 3] = [
    (
        "github.com/prometheus-operator/prometheus-operator",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
    (
        "github.com/prometheus-operator/prometheus-operator",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
    (
        "sigs.k8s.io/gateway-api",
        "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
    ),
];

/// The definitions of ServiceMonitor, PrometheusRule and HTTPRoute.
#[derive(Clone, Copy, Debug)]
pub struct Crds;

// === impl Crds ===

impl Crds {
    /// Fetches them if they are not there yet.
    pub fn prepare(progress: Progress<'_>) -> Result<()> {
        let target = Self::folder()?;
        if target.is_dir() {
            return Ok(());
        }
        if !go_tool::go_is_there() {
            return Err(Self::missing().into());
        }
        progress("fetching the definitions of custom resources (once per machine)");
        cache::fill(&target, |staging| {
            for (module, file) in FILES {
                let name = Path::new(file).file_name().unwrap_or_default();
                fs::copy(download(module)?.join(file), staging.path().join(name))
                    .with_context(|| format!("{module} has no {file}"))?;
            }
            Ok(())
        })
    }

    /// Their files, in YAML.
    pub fn files() -> Result<Vec<PathBuf>, Missing> {
        let folder = Self::folder().map_err(|error| Missing(error.to_string()))?;
        if !folder.is_dir() {
            return Err(Self::missing());
        }
        let name = |file: &str| Path::new(file).file_name().map(|name| folder.join(name));
        Ok(FILES.iter().filter_map(|(_, file)| name(file)).collect())
    }

    fn missing() -> Missing {
        Missing(
            "the definitions of custom resources are not there; install Go 1.26 or newer, then \
             run `cargo xtask test`"
                .to_owned(),
        )
    }

    fn folder() -> Result<PathBuf> {
        install::folder("crds", &Path::new(SOURCES).join("go.sum"))
    }
}

/// Fetches a module at its pinned version; returns its folder.
fn download(module: &str) -> Result<PathBuf> {
    let done = Command::new("go")
        .args(["mod", "download", "-json", module])
        .env("GOFLAGS", "-mod=readonly")
        .current_dir(SOURCES)
        .output()
        .context("cannot start `go mod download`")?;
    let answer: Value = serde_json::from_slice(&done.stdout)?;
    match answer["Dir"].as_str() {
        Some(dir) => Ok(dir.into()),
        None => bail!("cannot fetch {module}: {}", answer["Error"]),
    }
}
