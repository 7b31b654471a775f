//! Programs from Go modules that tests run beside the server, built once per machine.

mod alertmanager;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{Missing, Progress, cache, install};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools");

/// A program from a Go module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoTool {
    /// Renders, checks and packs charts.
    Helm,
    /// Checks rules and expressions of Prometheus.
    Promtool,
    /// A registry of container images, and its client.
    Crane,
    /// Takes, groups and resolves alerts.
    Alertmanager,
    /// The store that servers share.
    NatsServer,
}

// === impl GoTool ===

impl GoTool {
    /// All programs.
    pub const ALL: [Self; 5] = [
        Self::Helm,
        Self::Promtool,
        Self::Crane,
        Self::Alertmanager,
        Self::NatsServer,
    ];

    /// Builds the program if it is not there yet.
    pub fn prepare(self, progress: Progress<'_>) -> Result<()> {
        let target = self.folder()?;
        if target.join(self.name()).is_file() {
            return Ok(());
        }
        if !go_is_there() {
            return Err(self.missing().into());
        }
        progress(&format!(
            "building {} (once per machine, some minutes)",
            self.name()
        ));
        cache::fill(&target, |staging| {
            // Go's own cache would keep gigabytes for a single build.
            let go_cache = staging.path().join("go-cache");
            let sources = match self {
                Self::Helm | Self::Promtool | Self::Crane | Self::NatsServer => {
                    Path::new(SOURCES).join(self.name())
                }
                Self::Alertmanager => alertmanager::sources(staging)?,
            };
            install::run(
                Command::new("go")
                    .args(["build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"])
                    // Without the clients of all clouds, which take longer to build than the rest.
                    .args(["-tags=remove_all_sd", "-o"])
                    .arg(staging.path().join(self.name()))
                    .arg(self.package())
                    .current_dir(&sources)
                    .env("CGO_ENABLED", "0")
                    .env("GOCACHE", &go_cache)
                    .env("GOFLAGS", "-mod=readonly"),
            )?;
            if self == Self::Alertmanager {
                alertmanager::finish(staging)?;
            }
            fs::remove_dir_all(&go_cache).context("cannot clear the build's Go cache")
        })
    }

    /// The program, to which arguments can be added.
    pub fn command(self) -> Result<Command, Missing> {
        self.program().map(Command::new)
    }

    /// Where the program is.
    pub(crate) fn program(self) -> Result<PathBuf, Missing> {
        let program = self.folder().map(|folder| folder.join(self.name()));
        match program {
            Ok(program) if program.is_file() => Ok(program),
            _ => Err(self.missing()),
        }
    }

    /// The description of Alertmanager's API, beside the program.
    pub fn alertmanager_api() -> Result<PathBuf, Missing> {
        let tool = Self::Alertmanager;
        let file = tool.folder().map(|folder| folder.join(alertmanager::API));
        match file {
            Ok(file) if file.is_file() => Ok(file),
            _ => Err(tool.missing()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Helm => "helm",
            Self::Promtool => "promtool",
            Self::Crane => "crane",
            Self::Alertmanager => "alertmanager",
            Self::NatsServer => "nats-server",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Helm => "helm.sh/helm/v4/cmd/helm",
            Self::Promtool => "github.com/prometheus/prometheus/cmd/promtool",
            Self::Crane => "github.com/google/go-containerregistry/cmd/crane",
            Self::Alertmanager => "./cmd/alertmanager",
            Self::NatsServer => "github.com/nats-io/nats-server/v2",
        }
    }

    fn missing(self) -> Missing {
        Missing(format!(
            "{} is not built; install Go 1.26 or newer, then run `cargo xtask test`",
            self.name()
        ))
    }

    /// The cache folder, keyed by all versions.
    fn folder(self) -> Result<PathBuf> {
        let sums = Path::new(SOURCES).join(self.name()).join("go.sum");
        install::folder(&format!("tool-{}", self.name()), &sums)
    }
}

/// Whether there is a `go` to build with.
pub(crate) fn go_is_there() -> bool {
    let version = Command::new("go").arg("version").output();
    version.is_ok_and(|done| done.status.success())
}
