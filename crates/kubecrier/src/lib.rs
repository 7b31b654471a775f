//! kubecrier: a Kubernetes MCP server that tells an agent what just happened in a
//! cluster.
//!
//! This crate holds the settings, the wiring and the commands for people. Everything that
//! names kube is in `kubecrier-k8s`, everything that names rmcp and axum in
//! `kubecrier-server`; [`start`] is the only place where they meet. What the commands
//! `watch`, `demo` and `doctor` show comes over HTTP, through `kubecrier-client`.
//!
//! - [`cli`] declares settings and commands, [`config`] validates them into one
//!   [`config::Config`], [`log`] sends records to stderr.
//! - `sinks` follow incidents without a client, through `kubecrier-sinks`.
//! - [`demo`], [`doctor`], [`watch`], [`install`], [`init`] and [`generate`] (completions, man page,
//!   schema) are the commands; [`clients`] knows the MCP clients that `doctor` and `install` read
//!   and change; [`failure`] decides how the process ends.

pub mod cli;
pub mod clients;
mod cluster_store;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod failure;
pub mod generate;
pub mod init;
pub mod install;
pub mod log;
mod sinks;
pub mod watch;

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Result, bail};
use futures_util::{Stream, StreamExt};
use tokio::time::{Duration, Instant};

use crate::config::Config;
use kubecrier_core::metrics::Metrics;
use kubecrier_history::History;
use kubecrier_k8s::Contexts;
use kubecrier_lifecycle::{InFlight, Lifecycle};
use kubecrier_server::Server;

/// The part of the drain timeout that is kept for streams to close, after running calls.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// A started server.
#[derive(Debug)]
pub struct RunningServer {
    lifecycle: Lifecycle,
    serving: kubecrier_server::Serving,
    drain_timeout: Duration,
}

/// Runs the server until its client disconnects (stdio) or until it is stopped: the first
/// item of `stop` drains it, the second ends it at once.
pub async fn run(config: Config, stop: impl Stream<Item = ()>) -> Result<()> {
    start(config).await?.until(stop).await
}

/// Starts the server.
pub async fn start(config: Config) -> Result<RunningServer> {
    let Config {
        log: _,
        transport,
        work,
        tools,
        tool_filter,
        cluster,
        subscriptions,
        redactor,
        captures,
        incidents,
        sinks,
        project,
        history,
        cluster_store,
        drain_timeout,
    } = config;
    let lifecycle = Lifecycle::default();
    // Before anything else: a folder that cannot be used is a mistake in the settings.
    let history = match history {
        None => None,
        Some(config) => {
            let (history, writer) = History::open(config)?;
            let draining = lifecycle.draining().clone();
            lifecycle.spawn("history", writer.run(draining.cancelled_owned()));
            Some(history)
        }
    };
    let (cluster_store, history) = match cluster_store {
        None => (None, history),
        Some(config) => {
            let (store, history) = cluster_store::join(config, history, &lifecycle).await?;
            (Some(store), Some(history))
        }
    };
    let metrics = Metrics::new();
    let names_context = cluster.context.is_some();
    let contexts = Arc::new(Contexts::new(cluster));
    warn_of_contexts(&contexts, names_context);
    let options = Arc::new(incidents.options.clone());
    let server = Server::new(kubecrier_server::Setup {
        contexts: Arc::clone(&contexts),
        metrics: metrics.clone(),
        lifecycle: lifecycle.clone(),
        limits: tools,
        work,
        tool_filter,
        subscriptions,
        redactor: redactor.clone(),
        captures,
        incidents,
        project,
        history,
    });
    if let Some(store) = &cluster_store {
        server.join_cluster(store);
    }
    lifecycle.spawn(
        "orphans",
        kubecrier_lifecycle::reap_orphans(lifecycle.draining().clone()),
    );
    // Before the first client connects, so that its first lists have the project's items.
    server.follow_project().await;
    let admin = kubecrier_server::admin::Admin {
        lifecycle: lifecycle.clone(),
        metrics: metrics.clone(),
        reachability: kubecrier_k8s::Reachability::new(Arc::clone(&contexts), lifecycle.clone()),
        contexts,
        server: server.clone(),
        started: Instant::now(),
    };
    let serving = kubecrier_server::start(transport, server.clone(), admin, &lifecycle).await?;
    lifecycle.spawn("history-contexts", server.clone().keep_history());
    // Once there is a server: its address may be taken, and then another one is tried.
    sinks::start(
        sinks,
        &options,
        &server,
        metrics.sinks(),
        &redactor,
        &lifecycle,
        cluster_store.as_ref(),
    );
    Ok(RunningServer {
        lifecycle,
        serving,
        drain_timeout,
    })
}

/// Says at once what calls will be refused with. It may be mended while the server runs, so it
/// is no reason not to start.
fn warn_of_contexts(contexts: &Contexts, names_context: bool) {
    let unusable = match contexts.list() {
        Err(error) => Some(error),
        // Without a current context each call names its own.
        Ok(_) => contexts.resolve(None).err().filter(|_| names_context),
    };
    if let Some(error) = unusable {
        let hint = error.hint().unwrap_or_default();
        tracing::warn!(%error, hint, "calls will fail until this is mended");
    }
}

// === impl RunningServer ===

impl RunningServer {
    /// The address it listens on, over HTTP.
    pub fn address(&self) -> Option<SocketAddr> {
        self.serving.address()
    }

    /// Runs until the client disconnects or `stop` has an item, as [`run`] does.
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
            signal = stop.next() => signal,
        };
        if first.is_none() {
            tracing::info!("the client has gone, stopping");
        } else {
            tracing::info!(seconds = drain_timeout.as_secs(), "asked to stop, draining");
        }
        lifecycle.drain();
        let deadline = Instant::now() + drain_timeout;
        let drained = async {
            let calls = tokio::time::timeout_at(deadline - CLOSE_TIMEOUT, lifecycle.idle()).await;
            serving.close();
            let tasks = tokio::time::timeout_at(deadline, lifecycle.join_tasks()).await;
            calls.is_ok() && tasks.is_ok()
        };
        tokio::select! {
            clean = drained => {
                if !clean {
                    tracing::warn!(calls = lifecycle.in_flight(InFlight::ToolCall), "time is up, calls were cut off");
                }
            }
            Some(()) = stop.next() => bail!("asked to stop a second time, not waiting"),
            failure = lifecycle.failure() => bail!(failure),
        }
        tracing::info!("stopped");
        Ok(())
    }
}
