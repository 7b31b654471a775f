//! kubecrier: a Kubernetes MCP server that tells an agent what just happened in a
//! cluster.
//!
//! This crate holds the settings, the wiring and the commands for people. Everything
//! that names kube is in `kubecrier-k8s`, everything that names rmcp and axum in
//! `kubecrier-server`; [`start`] is the only place where they meet.

pub mod cli;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod log;
pub mod papers;
pub mod watch;

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Result, bail};
use futures_util::{Stream, StreamExt};
use tokio::time::{Duration, Instant};

use crate::config::Config;
use kubecrier_core::metrics::Metrics;
use kubecrier_k8s::Contexts;
use kubecrier_lifecycle::{Lifecycle, Work};
use kubecrier_server::Server;

/// What is left of the drain when running calls are done, for streams to close.
const CLOSING: Duration = Duration::from_millis(500);

/// A server that has been started.
#[derive(Debug)]
pub struct Running {
    lifecycle: Lifecycle,
    serving: kubecrier_server::Serving,
    drain_timeout: Duration,
}

/// Runs the server until its client goes, or until it is told to stop: the first
/// item of `stop` drains, the second ends at once.
pub async fn run(config: Config, stop: impl Stream<Item = ()>) -> Result<()> {
    start(config).await?.until(stop).await
}

/// Starts the server.
pub async fn start(config: Config) -> Result<Running> {
    let Config {
        log: _,
        transport,
        tools,
        offer,
        cluster,
        subscriptions,
        redactor,
        captures,
        project,
        drain_timeout,
    } = config;
    let lifecycle = Lifecycle::default();
    let metrics = Metrics::new();
    let contexts = Arc::new(Contexts::new(cluster));
    let server = Server::new(kubecrier_server::Setup {
        contexts: Arc::clone(&contexts),
        metrics: metrics.clone(),
        lifecycle: lifecycle.clone(),
        limits: tools,
        offer,
        subscriptions,
        redactor,
        captures,
        project,
    });
    // Before the first client comes: what it is told at the start is what is there.
    server.follow_project().await;
    let admin = kubecrier_server::admin::Admin {
        lifecycle: lifecycle.clone(),
        metrics,
        contexts,
        server: server.clone(),
        started: Instant::now(),
    };
    let serving = kubecrier_server::start(
        transport,
        server,
        kubecrier_server::admin::router(admin),
        &lifecycle,
    )
    .await?;
    Ok(Running {
        lifecycle,
        serving,
        drain_timeout,
    })
}

// === impl Running ===

impl Running {
    /// Where it listens, over HTTP.
    pub fn address(&self) -> Option<SocketAddr> {
        self.serving.address()
    }

    /// Runs as [`run`] does.
    pub async fn until(self, stop: impl Stream<Item = ()>) -> Result<()> {
        let Self {
            lifecycle,
            serving,
            drain_timeout,
        } = self;
        let mut stop = std::pin::pin!(stop);
        let first = tokio::select! {
            biased;
            failure = lifecycle.failure() => bail!(failure),
            () = serving.ended() => None,
            asked = stop.next() => asked,
        };
        if first.is_none() {
            tracing::info!("the client has gone, stopping");
        } else {
            tracing::info!(seconds = drain_timeout.as_secs(), "asked to stop, draining");
        }
        lifecycle.drain();
        let deadline = Instant::now() + drain_timeout;
        let drained = async {
            let calls = tokio::time::timeout_at(deadline - CLOSING, lifecycle.idle()).await;
            serving.close();
            let tasks = tokio::time::timeout_at(deadline, lifecycle.ended()).await;
            calls.is_ok() && tasks.is_ok()
        };
        tokio::select! {
            clean = drained => {
                if !clean {
                    tracing::warn!(calls = lifecycle.count(Work::Call), "time is up, calls were cut off");
                }
            }
            Some(()) = stop.next() => bail!("asked to stop a second time, not waiting"),
            failure = lifecycle.failure() => bail!(failure),
        }
        tracing::info!("stopped");
        Ok(())
    }
}
