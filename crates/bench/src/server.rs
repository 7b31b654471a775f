//! The real binary as a process of its own, on a real cluster.

use std::{env, path::PathBuf, process::Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use testbed::{Cluster, Kubeconfig, User};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    task::JoinSet,
    time::{Duration, timeout},
};

use crate::{
    load::http::{Connection, text},
    process::{self, Cpu},
    soak::server::{port, watch},
};

/// Longer than a start takes.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A running server. It ends when it is dropped.
pub(crate) struct Server {
    _child: Child,
    pid: u32,
    port: u16,
    _folder: TempDir,
    _log: JoinSet<()>,
}

// === impl Server ===

impl Server {
    /// Starts it for a cluster, with room for many clients of one caller.
    pub(crate) async fn start(cluster: &Cluster) -> Result<Self> {
        Self::start_with(cluster, &[]).await
    }

    /// The same, with these arguments too.
    pub(crate) async fn start_with(cluster: &Cluster, arguments: &[&str]) -> Result<Self> {
        let binary = binary()?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = Kubeconfig::new()
            .context("dev", cluster, User::Reader)
            .current("dev")
            .write(&folder.path().join("config"))?;
        let mut child = Command::new(&binary)
            .env_clear()
            .env("NO_COLOR", "1")
            .args(["--port", "0", "--max-session-rate", "10000"])
            .args(["--max-sessions-per-caller", "10000"])
            .args(["--max-subscriptions-global", "1000"])
            .args(arguments)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let pid = child.id().context("it has ended at once")?;
        let stderr = child.stderr.take().context("no stderr")?;
        let mut lines = BufReader::new(stderr).lines();
        let port = timeout(TIMEOUT, port(&mut lines)).await??;
        let mut log = JoinSet::new();
        log.spawn(watch(lines));
        Ok(Self {
            _child: child,
            pid,
            port,
            _folder: folder,
            _log: log,
        })
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What it has used so far.
    pub(crate) fn cpu(&self) -> Result<Cpu> {
        process::cpu(self.pid)
    }

    /// Its resident memory.
    pub(crate) fn rss_bytes(&self) -> Result<u64> {
        process::rss_bytes(self.pid)
    }

    /// One of its numbers.
    pub(crate) async fn metric(&self, name: &str) -> Result<u64> {
        let mut connection = Connection::open(self.port, None).await?;
        let answer = connection.get("/metrics").await?;
        let found = text(&answer.body)
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.with_context(|| format!("no {name} in /metrics"))
    }
}

/// Cargo has put it where this program is.
fn binary() -> Result<PathBuf> {
    let binary = env::current_exe()?.with_file_name("kubecrier");
    ensure!(
        binary.exists(),
        "there is no {}: `cargo xtask bench` builds it",
        binary.display()
    );
    Ok(binary)
}
