//! One of the servers that work together.

use std::{
    ffi::OsString,
    net::TcpListener,
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};
use testbed::Program;
use tokio::{
    net::TcpStream,
    time::{Duration, Instant, sleep},
};

use crate::link::Link;

/// How long a server may take until it takes connections.
const START_WITHIN: Duration = Duration::from_mins(1);

/// Ports that no connection of another process begins at.
const PORTS: std::ops::Range<u16> = 21_000..32_000;

/// A process of the server, which keeps its port when it is started again.
pub(crate) struct Replica {
    program: Program,
    pub(crate) link: Link,
    pub(crate) port: u16,
}

// === impl Replica ===

impl Replica {
    /// Starts a server, and waits until it takes connections.
    pub(crate) async fn start(
        binary: &Path,
        kubeconfig: &Path,
        nats: u16,
        log: PathBuf,
        log_level: &str,
    ) -> Result<Self> {
        let link = Link::start(nats).await?;
        let port = free_port()?;
        let args = [
            "--port".to_owned(),
            port.to_string(),
            "--kubeconfig".to_owned(),
            kubeconfig.display().to_string(),
            "--cluster-store".to_owned(),
            link.url(),
            "--log-level".to_owned(),
            log_level.to_owned(),
            // A stream without events has a ping in every five seconds.
            "--heartbeat-interval=2s".to_owned(),
            // All subscribers are one caller.
            "--max-session-rate=10000".to_owned(),
            "--max-sessions-per-caller=10000".to_owned(),
            "--max-subscriptions-global=1000".to_owned(),
            "--max-subscriptions-per-session=1000".to_owned(),
            "--caller-share=100".to_owned(),
        ];
        let args = args.into_iter().map(OsString::from).collect();
        let mut replica = Self {
            program: Program::new(binary, args, &log),
            link,
            port,
        };
        replica.start_again()?;
        replica.until_ready().await?;
        Ok(replica)
    }

    pub(crate) fn start_again(&mut self) -> Result<()> {
        self.program.start()
    }

    pub(crate) fn kill(&mut self) -> Result<()> {
        self.program.kill()
    }

    pub(crate) fn freeze(&self) -> Result<()> {
        self.program.freeze()
    }

    pub(crate) fn thaw(&self) -> Result<()> {
        self.program.thaw()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.program.is_running()
    }

    pub(crate) fn terminate(&self) -> Result<()> {
        self.program.terminate()
    }

    /// Waits until it takes connections.
    pub(crate) async fn until_ready(&self) -> Result<()> {
        let deadline = Instant::now() + START_WITHIN;
        while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            ensure!(
                self.is_running() && Instant::now() < deadline,
                "a server does not start:\n{}",
                self.program.log_tail()
            );
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// A port that is kept while its server does not run.
fn free_port() -> Result<u16> {
    let from = PORTS.start + u16::try_from(std::process::id() % 8000)?;
    let ports = (from..PORTS.end).step_by(7);
    let mut free = ports.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let port = free.next();
    ensure!(port.is_some(), "no port is free");
    Ok(port.unwrap_or_default())
}
