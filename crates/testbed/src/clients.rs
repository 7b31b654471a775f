//! The official MCP clients, the libraries that check webhooks and lists of components, and an identity provider,
//! installed once per machine into the cache.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{Missing, Progress, cache, install};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients");

/// A language with an official client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// From npm, run by Node.
    TypeScript,
    /// From PyPI.
    Python,
    /// The Inspector's command line, from npm with a Node of its own.
    Inspector,
    /// What receivers check webhooks with, from npm: Standard Webhooks and CloudEvents.
    Webhooks,
    /// An identity provider that callers log in with, from npm: oidc-provider.
    Oidc,
    /// What validates the list of what is in a program, from PyPI: the library of CycloneDX.
    CycloneDx,
}

// === impl Client ===

impl Client {
    /// All clients.
    pub const ALL: [Self; 6] = [
        Self::TypeScript,
        Self::Python,
        Self::Inspector,
        Self::Webhooks,
        Self::Oidc,
        Self::CycloneDx,
    ];

    /// Installs the client if it is not there yet.
    pub fn prepare(self, progress: Progress<'_>) -> Result<()> {
        let target = self.folder()?;
        if target.is_dir() {
            return Ok(());
        }
        if !self.runtime_is_there() {
            return Err(self.missing().into());
        }
        progress(&format!(
            "installing the {} client (once per machine)",
            self.name()
        ));
        let list = Path::new(SOURCES).join(self.list());
        cache::fill(&target, |staging| {
            if self.is_from_pypi() {
                return install::from_pypi(&list, staging);
            }
            install::from_npm(list.parent().unwrap_or(&list), staging)
        })
    }

    /// The Inspector's command line, to which arguments can be added.
    pub fn inspector() -> Result<Command, Missing> {
        let client = Self::Inspector;
        let modules = client
            .folder()
            .map_err(|error| Missing(error.to_string()))?;
        let modules = modules.join("node_modules");
        let node = modules.join(".bin/node");
        if !node.exists() {
            return Err(client.missing());
        }
        let mut command = Command::new(node);
        command.arg(modules.join(".bin/mcp-inspector")).arg("--cli");
        Ok(command)
    }

    /// A command that runs a script with the client's packages; a copy of the script is put
    /// into `workdir`, beside a link to the installed packages.
    pub fn command(self, script: &Path, workdir: &Path) -> Result<Command, Missing> {
        let installed = self.folder().map_err(|error| Missing(error.to_string()))?;
        if !installed.is_dir() {
            return Err(self.missing());
        }
        let build = || -> io::Result<Command> {
            if self.is_from_pypi() {
                let mut command = Command::new(installed.join("bin/python"));
                command.arg(script);
                return Ok(command);
            }
            // Node resolves packages only beside the script.
            let copy = workdir.join(script.file_name().unwrap_or_default());
            fs::copy(script, &copy)?;
            let modules = workdir.join("node_modules");
            if !modules.exists() {
                std::os::unix::fs::symlink(installed.join("node_modules"), &modules)?;
            }
            let mut command = Command::new("node");
            command.arg(copy);
            Ok(command)
        };
        build().map_err(|error| Missing(format!("cannot set up the client: {error}")))
    }

    fn name(self) -> &'static str {
        match self {
            Self::TypeScript => "TypeScript",
            Self::Python => "Python",
            Self::Inspector => "Inspector",
            Self::Webhooks => "Webhooks",
            Self::Oidc => "OIDC",
            Self::CycloneDx => "CycloneDX",
        }
    }

    fn missing(self) -> Missing {
        let wanted = if self.is_from_pypi() {
            "Python 3.10 or newer with venv"
        } else {
            "Node 20 or newer with npm"
        };
        Missing(format!(
            "the official {} client is not installed; install {wanted}, then run `cargo xtask test`",
            self.name()
        ))
    }

    fn runtime_is_there(self) -> bool {
        install::is_there(if self.is_from_pypi() {
            "python3"
        } else {
            "npm"
        })
    }

    /// Whether it is run by Python; the others are by Node.
    fn is_from_pypi(self) -> bool {
        matches!(self, Self::Python | Self::CycloneDx)
    }

    /// The cache folder, keyed by the list of packages.
    fn folder(self) -> Result<PathBuf> {
        let name = format!("client-{}", self.name().to_lowercase());
        install::folder(&name, &Path::new(SOURCES).join(self.list()))
    }

    /// The list of packages, each with its version.
    fn list(self) -> &'static str {
        match self {
            Self::TypeScript => "typescript/package-lock.json",
            Self::Inspector => "inspector/package-lock.json",
            Self::Webhooks => "webhooks/package-lock.json",
            Self::Oidc => "oidc/package-lock.json",
            Self::Python => "python/requirements.txt",
            Self::CycloneDx => "cyclonedx/requirements.txt",
        }
    }
}
