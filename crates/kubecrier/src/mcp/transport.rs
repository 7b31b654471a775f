//! How clients come in: stdio, or Streamable HTTP at `/mcp`.

use std::{io, net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use axum::{Router, middleware, serve::ListenerExt};
use rmcp::{
    ServiceExt,
    transport::{
        io::stdio_pipes,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{exchange, server::Server};
use crate::lifecycle::Lifecycle;

/// Where clients come from.
#[derive(Clone, Debug)]
pub enum Transport {
    /// The process that started us.
    Stdio,
    /// Anyone who may connect.
    Http(HttpConfig),
}

/// Settings of the HTTP transport.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The address and port; port 0 is any free one.
    pub listen: SocketAddr,
    /// Host names besides loopback that a request may name.
    pub allowed_hosts: Vec<String>,
    /// Origins besides loopback that a browser may come from.
    pub allowed_origins: Vec<String>,
}

/// A transport that has been started.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    close: CancellationToken,
    ended: CancellationToken,
}

// === impl Serving ===

impl Serving {
    /// Closes what is still open: streams, and the session on stdio.
    pub fn close(&self) {
        self.close.cancel();
    }

    /// Waits until the last client is gone for good. Cancel-safe.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

/// Starts a transport; the admin pages come with HTTP.
pub async fn start(
    transport: Transport,
    server: Server,
    admin: Router,
    lifecycle: &Lifecycle,
) -> Result<Serving> {
    match transport {
        Transport::Stdio => Ok(start_stdio(server, lifecycle)),
        Transport::Http(config) => start_http(&config, server, admin, lifecycle).await,
    }
}

fn start_stdio(server: Server, lifecycle: &Lifecycle) -> Serving {
    let serving = Serving::default();
    let Serving { close, ended } = serving.clone();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        "serving MCP on stdin and stdout"
    );
    lifecycle.spawn("stdio", async move {
        // Cancelling the token before `initialize` ends the wait for it too.
        match server.serve_with_ct(stdio_pipes(), close).await {
            Ok(session) => drop(session.waiting().await),
            Err(error) => tracing::debug!(%error, "no session on stdin"),
        }
        ended.cancel();
    });
    serving
}

async fn start_http(
    config: &HttpConfig,
    server: Server,
    admin: Router,
    lifecycle: &Lifecycle,
) -> Result<Serving> {
    let ready = lifecycle.latch();
    let serving = Serving::default();
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|error| explain(config, error))?;
    let address = listener
        .local_addr()
        .context("cannot tell the listener's address")?;
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        protocol_config(config, serving.close.clone()),
    );
    let counted = middleware::from_fn_with_state(lifecycle.clone(), exchange::count);
    let router = Router::new()
        .nest_service("/mcp", service)
        .layer(counted)
        .merge(admin);
    // Small messages, one at a time: Nagle's algorithm only delays them.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
    });
    let draining = lifecycle.draining().clone();
    let ended = serving.ended.clone();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        url = %format_args!("http://{address}/mcp"),
        "serving MCP over HTTP"
    );
    drop(ready);
    lifecycle.spawn("http", async move {
        let served = axum::serve(listener, router)
            .with_graceful_shutdown(draining.cancelled_owned())
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "the HTTP server ended");
        }
        ended.cancel();
    });
    Ok(serving)
}

fn explain(config: &HttpConfig, error: io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "\nhint: another program has the port; choose one with --port",
        io::ErrorKind::PermissionDenied => "\nhint: ports below 1024 need privileges",
        io::ErrorKind::AddrNotAvailable => "\nhint: --bind-address must be an address of this host",
        _ => "",
    };
    anyhow::anyhow!("cannot listen on {}: {error}{hint}", config.listen)
}

fn protocol_config(config: &HttpConfig, close: CancellationToken) -> StreamableHttpServerConfig {
    let loopback = ["localhost", "127.0.0.1", "[::1]"];
    let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let origins = loopback
        .iter()
        .flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*")]);
    StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts.into_iter().chain(config.allowed_hosts.clone()))
        .with_allowed_origins(origins.chain(config.allowed_origins.clone()))
        .enforce_origin_validation()
        .with_json_response(true)
        .with_cancellation_token(close)
}
