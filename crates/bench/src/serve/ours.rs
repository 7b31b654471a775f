//! The server of this project, as its binary starts it.

use std::{net::SocketAddr, ops::Range, sync::Arc};

use anyhow::{Context, Result};
use kubecrier::config::Config;
use kubecrier_core::metrics::Metrics;
use kubecrier_k8s::Contexts;
use kubecrier_lifecycle::Lifecycle;
use kubecrier_server::{Server, Serving, Setup, admin};
use mcp_notify::{Method, Notification};
use tokio::time::Instant;

use super::Publisher;
use crate::message;

/// The default settings, with caps that a benchmark does not reach.
const ARGUMENTS: [&str; 17] = [
    "kubecrier",
    "--port",
    "0",
    "--kubeconfig",
    "/nonexistent",
    "--max-sessions",
    "100000",
    "--max-sessions-per-caller",
    "100000",
    "--max-session-rate",
    "100000",
    "--max-concurrent-requests",
    "10000",
    "--max-connections",
    "100000",
    "--caller-share",
    "100",
];

pub(super) struct Ours {
    server: Server,
    _serving: Serving,
}

pub(super) async fn start() -> Result<(SocketAddr, Ours)> {
    let config = Config::load(ARGUMENTS.map(Into::into), [])?;
    let lifecycle = Lifecycle::default();
    let metrics = Metrics::new();
    let contexts = Arc::new(Contexts::new(config.cluster));
    let server = Server::new(Setup {
        contexts: Arc::clone(&contexts),
        metrics: metrics.clone(),
        lifecycle: lifecycle.clone(),
        limits: config.tools,
        work: config.work,
        tool_filter: config.tool_filter,
        subscriptions: config.subscriptions,
        redactor: config.redactor,
        captures: config.captures,
        incidents: config.incidents,
        project: None,
        history: None,
    });
    let pages = admin::Admin {
        lifecycle: lifecycle.clone(),
        metrics,
        reachability: kubecrier_k8s::Reachability::new(Arc::clone(&contexts), lifecycle.clone()),
        contexts,
        server: server.clone(),
        started: Instant::now(),
    };
    let serving =
        kubecrier_server::start(config.transport, server.clone(), pages, &lifecycle).await?;
    let address = serving.address().context("HTTP has an address")?;
    let ours = Ours {
        server,
        _serving: serving,
    };
    Ok((address, ours))
}

impl Publisher for Ours {
    async fn publish(&mut self, numbers: Range<u64>) -> Result<()> {
        let method = Method::new("notifications/message")?;
        for number in numbers {
            let notification = Notification::builder(method.clone())
                .params(&message::params(number))
                .build();
            self.server.push_to_every_session(&notification);
        }
        Ok(())
    }
}
