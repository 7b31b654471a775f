//! The real binary as a separate process, with the statistics that it reports.

use std::{fs, path::Path, process::Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
    task::JoinHandle,
    time::{Duration, timeout},
};

use super::{IDLE_TIMEOUT, ServerStats};
use crate::{load::http::Connection, print_line, process};

/// An upper bound for the start and for the shutdown of the server.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A running server with a kubeconfig of its own.
pub(super) struct SoakServer {
    child: Child,
    pid: u32,
    port: u16,
    folder: tempfile::TempDir,
    log: JoinHandle<()>,
}

// === impl SoakServer ===

impl SoakServer {
    pub(super) async fn start(binary: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("config");
        write_contexts(&kubeconfig, 0)?;
        let mut child = Command::new(binary)
            .env_clear()
            .env("NO_COLOR", "1")
            .args(["--port", "0", "--max-session-rate", "10000"])
            .args(["--max-sessions-per-caller", "10000"])
            .args(["--caller-share", "100"])
            .arg(format!(
                "--session-idle-timeout={}s",
                IDLE_TIMEOUT.as_secs()
            ))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let pid = child.id().context("it has ended at once")?;
        let stderr = child.stderr.take().context("no stderr")?;
        let mut lines = BufReader::new(stderr).lines();
        let port = timeout(TIMEOUT, read_port(&mut lines)).await??;
        let log = tokio::task::spawn_local(print_errors(lines));
        Ok(Self {
            child,
            pid,
            port,
            folder,
            log,
        })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Reads the current sessions, tasks and memory of the server.
    pub(super) async fn stats(&mut self) -> Result<ServerStats> {
        if let Some(status) = self.child.try_wait()? {
            anyhow::bail!("the server ended: {status}");
        }
        // A new connection for each read: all readings count it the same way.
        let mut connection = Connection::open(self.port, None).await?;
        let stats: Value = serde_json::from_slice(&connection.get("/stats").await?.body)?;
        let number = |key: &str| stats[key].as_u64().with_context(|| format!("no {key}"));
        Ok(ServerStats {
            sessions: number("sessions")?,
            tasks: number("tasks")?,
            rss: process::rss_bytes(self.pid)?,
        })
    }

    /// Changes the contexts of the kubeconfig, so that the server notifies all sessions: the
    /// tool definitions list the contexts.
    pub(super) fn change_contexts(&self, change: usize) -> Result<()> {
        write_contexts(&self.folder.path().join("config"), change)
    }

    /// Stops the server with SIGTERM, as an operator would.
    pub(super) async fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        kill_process(pid.context("no pid")?, Signal::TERM)?;
        let status = timeout(TIMEOUT, self.child.wait())
            .await
            .context("the server does not stop")??;
        ensure!(status.success(), "the server stopped with {status}");
        self.log.await?;
        Ok(())
    }
}

/// Reads log lines until one names the port that the server listens on.
pub(crate) async fn read_port(lines: &mut Lines<BufReader<ChildStderr>>) -> Result<u16> {
    while let Some(line) = lines.next_line().await? {
        let rest = line.split("url=http://127.0.0.1:").nth(1);
        if let Some(port) = rest.and_then(|rest| rest.split('/').next()) {
            return Ok(port.parse()?);
        }
    }
    anyhow::bail!("the server ended before it served")
}

/// Prints the errors that the server logs.
pub(crate) async fn print_errors(mut lines: Lines<BufReader<ChildStderr>>) {
    while let Ok(Some(line)) = lines.next_line().await {
        if line.contains("ERROR") {
            print_line(&line);
        }
    }
}

fn write_contexts(path: &Path, change: usize) -> Result<()> {
    let mut text = String::from(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nusers: [{name: u, user: {}}]\n\
         clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts:\n",
    );
    for name in ["a".to_owned(), format!("b{change}")] {
        text += &format!("- {{name: {name}, context: {{cluster: c, user: u}}}}\n");
    }
    // The rename is atomic: the server never reads a partial file.
    let next = path.with_extension("next");
    fs::write(&next, text)?;
    fs::rename(&next, path)?;
    Ok(())
}
