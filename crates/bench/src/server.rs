//! The real binary as a separate process, connected to a real cluster.

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
    soak::server::{print_errors, read_port},
};

/// An upper bound for the start of the server.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A running server; killed on drop.
pub(crate) struct ServerProcess {
    _child: Child,
    pid: u32,
    port: u16,
    _folder: TempDir,
    _log: JoinSet<()>,
}

// === impl ServerProcess ===

impl ServerProcess {
    /// Starts the server for a cluster, with limits that allow many clients of one caller.
    pub(crate) async fn start(cluster: &Cluster) -> Result<Self> {
        Self::start_with(cluster, &[]).await
    }

    /// Starts the server with additional arguments.
    pub(crate) async fn start_with(cluster: &Cluster, arguments: &[&str]) -> Result<Self> {
        Self::start_as(cluster, User::Reader, arguments).await
    }

    /// Starts the server as a user of the cluster.
    pub(crate) async fn start_as(
        cluster: &Cluster,
        user: User,
        arguments: &[&str],
    ) -> Result<Self> {
        let binary = binary()?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = Kubeconfig::new()
            .context("dev", cluster, user)
            .current("dev")
            .write(&folder.path().join("config"))?;
        let mut child = Command::new(&binary)
            .env_clear()
            .env("NO_COLOR", "1")
            .args(["--port", "0", "--max-session-rate", "10000"])
            .args(["--max-sessions-per-caller", "10000"])
            .args(["--max-subscriptions-global", "1000"])
            .args(["--caller-share", "100"])
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
        let port = timeout(TIMEOUT, read_port(&mut lines)).await??;
        let mut log = JoinSet::new();
        log.spawn(print_errors(lines));
        Ok(Self {
            _child: child,
            pid,
            port,
            _folder: folder,
            _log: log,
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// CPU time of the process so far.
    pub(crate) fn cpu(&self) -> Result<Cpu> {
        process::cpu(self.pid)
    }

    pub(crate) fn rss_bytes(&self) -> Result<u64> {
        process::rss_bytes(self.pid)
    }

    pub(crate) fn allocated_bytes(&self) -> Result<u64> {
        process::allocated_bytes(self.pid)
    }

    /// Reads one value from `/metrics`.
    pub(crate) async fn metric(&self, name: &str) -> Result<u64> {
        self.metric_as(None, name).await
    }

    /// The same as the caller with a token.
    pub(crate) async fn metric_as(&self, token: Option<&str>, name: &str) -> Result<u64> {
        let mut connection = Connection::open(self.port, None).await?.of_caller(token);
        let answer = connection.get("/metrics").await?;
        let found = text(&answer.body)
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.with_context(|| format!("no {name} in /metrics"))
    }
}

/// The server's binary, which cargo builds into the folder of this program.
pub(crate) fn binary() -> Result<PathBuf> {
    let binary = env::current_exe()?.with_file_name("kubecrier");
    ensure!(
        binary.exists(),
        "there is no {}: `cargo xtask bench` builds it",
        binary.display()
    );
    Ok(binary)
}
