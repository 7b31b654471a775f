//! Locates or builds etcd and kube-apiserver, and the controllers.
//!
//! In this order: `KUBEBUILDER_ASSETS` (envtest's variable), the cache, a build
//! from the Go module in `control-plane/`. The build happens once per machine. The controllers
//! are in a folder of their own: few tests need them.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::cache;

/// The pinned module that the control plane is built from.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/control-plane");
const GO_MOD: &str = include_str!("../control-plane/go.mod");

/// The number of packages in a build of one program of Kubernetes, for the progress line. A wrong
/// number only makes the percentage wrong.
const PACKAGES_EXPECTED: usize = 1900;

/// The two programs of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// The etcd binary.
    pub etcd: PathBuf,
    /// The kube-apiserver binary.
    pub kube_apiserver: PathBuf,
}

/// The programs that act on objects: Deployments get pods, and pods get nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerBinaries {
    /// The kube-controller-manager binary.
    pub kube_controller_manager: PathBuf,
    /// The kube-scheduler binary.
    pub kube_scheduler: PathBuf,
}

/// A program, and the Go package that it is built from.
type Program = (&'static str, &'static str);

const CONTROL_PLANE: [Program; 2] = [
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
];

const CONTROLLERS: [Program; 2] = [
    ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    (
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
];

/// One line for people: why something is not installed, and how to get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub String);

/// Receives lines about a build that takes minutes.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

// === impl Missing ===

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

// === impl Binaries ===

impl Binaries {
    /// Finds binaries that are already on this machine; builds nothing.
    pub fn locate() -> Result<Self, Missing> {
        if let Some(assets) = env::var_os("KUBEBUILDER_ASSETS").filter(|v| !v.is_empty()) {
            let assets = PathBuf::from(assets);
            return Self::inside(&assets).ok_or_else(|| {
                Missing(format!(
                    "KUBEBUILDER_ASSETS names `{}`, which has no etcd and kube-apiserver; \
                     unset it, or point it at what `setup-envtest use -p path` prints",
                    assets.display()
                ))
            });
        }
        let cached = cache_dir().map_err(|error| Missing(error.to_string()))?;
        Self::inside(&cached).ok_or_else(|| {
            Missing(
                "no kube-apiserver on this machine yet; run `cargo xtask test` or \
                 `cargo xtask cluster` (needs Go 1.26 or newer), or set KUBEBUILDER_ASSETS"
                    .to_owned(),
            )
        })
    }

    /// Finds the binaries, building them if they are not there yet.
    pub fn prepare(progress: Progress<'_>) -> Result<Self> {
        if let Ok(found) = Self::locate() {
            return Ok(found);
        }
        if env::var_os("KUBEBUILDER_ASSETS").is_some_and(|v| !v.is_empty()) {
            return Ok(Self::locate()?);
        }
        require_go()?;
        let target = cache_dir()?;
        build(&target, &CONTROL_PLANE, progress)?;
        Self::inside(&target).context("the build left no binaries")
    }

    fn inside(dir: &Path) -> Option<Self> {
        let found = Self {
            etcd: dir.join("etcd"),
            kube_apiserver: dir.join("kube-apiserver"),
        };
        (found.etcd.is_file() && found.kube_apiserver.is_file()).then_some(found)
    }
}

// === impl ControllerBinaries ===

impl ControllerBinaries {
    /// Finds binaries that are already on this machine; builds nothing.
    pub fn locate() -> Result<Self, Missing> {
        let assets = env::var_os("KUBEBUILDER_ASSETS").filter(|v| !v.is_empty());
        let cached = controllers_dir().map_err(|error| Missing(error.to_string()))?;
        let folders = assets.map(PathBuf::from).into_iter().chain([cached]);
        folders
            .into_iter()
            .find_map(|dir| Self::inside(&dir))
            .ok_or_else(|| {
                Missing(
                    "no kube-controller-manager and kube-scheduler on this machine yet; run \
                 `cargo xtask test` (needs Go 1.26 or newer)"
                        .to_owned(),
                )
            })
    }

    /// Finds the binaries, building them if they are not there yet.
    pub fn prepare(progress: Progress<'_>) -> Result<Self> {
        if let Ok(found) = Self::locate() {
            return Ok(found);
        }
        require_go()?;
        let target = controllers_dir()?;
        build(&target, &CONTROLLERS, progress)?;
        Self::inside(&target).context("the build left no binaries")
    }

    fn inside(dir: &Path) -> Option<Self> {
        let found = Self {
            kube_controller_manager: dir.join("kube-controller-manager"),
            kube_scheduler: dir.join("kube-scheduler"),
        };
        (found.kube_controller_manager.is_file() && found.kube_scheduler.is_file()).then_some(found)
    }
}

fn require_go() -> Result<(), Missing> {
    let go = Command::new("go")
        .arg("version")
        .stdout(Stdio::null())
        .status();
    go.map(drop).map_err(|_absent| {
        Missing(
            "no control plane and no `go` to build one; install Go 1.26 or newer, or set \
             KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver"
                .to_owned(),
        )
    })
}

/// The version of `module` that the control plane pins.
fn pinned(module: &str) -> &'static str {
    GO_MOD
        .lines()
        .map(|line| line.trim_start_matches("require ").trim())
        .find_map(|line| line.strip_prefix(module)?.strip_prefix(' '))
        .and_then(|rest| rest.split(' ').next())
        .expect("control-plane/go.mod pins what it builds")
}

/// The cache folder, keyed by the versions of its content.
fn cache_dir() -> Result<PathBuf> {
    Ok(cache::root()?.join(format!(
        "kubernetes-{}-etcd-{}-{}-{}",
        pinned("k8s.io/kubernetes"),
        pinned("go.etcd.io/etcd/server/v3"),
        env::consts::OS,
        env::consts::ARCH,
    )))
}

/// The same for the controllers.
fn controllers_dir() -> Result<PathBuf> {
    Ok(cache::root()?.join(format!(
        "kubernetes-controllers-{}-{}-{}",
        pinned("k8s.io/kubernetes"),
        env::consts::OS,
        env::consts::ARCH,
    )))
}

fn build(target: &Path, programs: &[Program], progress: Progress<'_>) -> Result<()> {
    cache::fill(target, |staging| {
        // Go's own cache would keep gigabytes for a single build.
        let go_cache = staging.path().join("go-cache");
        let version = pinned("k8s.io/kubernetes");
        let minor = version.split('.').nth(1).unwrap_or_default();
        let stamp = "k8s.io/component-base/version";
        let flags = format!(
            "-s -w -X {stamp}.gitVersion={version} -X {stamp}.gitMajor=1 \
             -X {stamp}.gitMinor={minor} -X {stamp}.gitTreeState=clean"
        );
        for (name, package) in programs {
            go_build(staging.path(), &go_cache, name, package, &flags, progress)?;
        }
        fs::remove_dir_all(&go_cache).context("cannot clear the build's Go cache")
    })
}

fn go_build(
    into: &Path,
    go_cache: &Path,
    name: &str,
    package: &str,
    ldflags: &str,
    progress: Progress<'_>,
) -> Result<()> {
    progress(&format!(
        "building {name} from {package} (once per machine, some minutes)"
    ));
    let mut child = Command::new("go")
        .args([
            "build",
            "-v",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
            ldflags,
            "-o",
        ])
        .arg(into.join(name))
        .arg(package)
        .current_dir(MODULE)
        .env("CGO_ENABLED", "0")
        .env("GOCACHE", go_cache)
        .env("GOFLAGS", "-mod=readonly")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start `go build`")?;
    let stderr = child.stderr.take().expect("stderr is piped");
    let mut compiled = 0;
    let mut tail = Vec::new();
    for line in BufReader::new(stderr).lines() {
        let line = line?;
        // `go build -v` prints one import path a package.
        if line.contains(' ') {
            tail.push(line);
            continue;
        }
        compiled += 1;
        if compiled % 200 == 0 {
            let percent = (compiled * 100 / PACKAGES_EXPECTED).min(99);
            progress(&format!(
                "{name}: {compiled} packages compiled, about {percent} %"
            ));
        }
    }
    if !child.wait()?.success() {
        let shown = tail.len().saturating_sub(20);
        bail!("`go build {package}` failed:\n{}", tail[shown..].join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_keyed_by_both_versions() {
        let dir = cache_dir().unwrap();
        let name = dir.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("kubernetes-v1."), "{name}");
        assert!(name.contains("-etcd-v3."), "{name}");
    }

    #[test]
    fn a_folder_with_half_a_control_plane_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("etcd"), "").unwrap();
        assert_eq!(Binaries::inside(dir.path()), None);
        fs::write(dir.path().join("kube-apiserver"), "").unwrap();
        assert!(Binaries::inside(dir.path()).is_some());
        assert_eq!(ControllerBinaries::inside(dir.path()), None);
    }
}
