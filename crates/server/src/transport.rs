//! How clients come in: stdio, or Streamable HTTP at `/mcp`.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::{Context, Result};
use axum::{Router, middleware, routing};
use mcp_notify::{OutboxConfig, Session, rmcp::PeerSink};
use rmcp::{
    ServiceExt,
    transport::{
        io::stdio_pipes,
        streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService},
    },
};
use tokio::{
    net::TcpListener,
    time::{Duration, interval},
};
use tokio_util::sync::CancellationToken;

use super::{
    caller::{self, Identity, Tokens},
    exchange,
    guard::{self, Guard},
    http,
    intake::{self, Places},
    server::Server,
    sessions::{self, SessionLimits, Sessions},
};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_project::Project;

/// How often the lists are looked at for changes.
const LISTS_TTL: Duration = Duration::from_secs(5);

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
    /// Caps and times of sessions.
    pub sessions: SessionLimits,
    /// Named bearer tokens; without the file anyone may call.
    pub auth_token_file: Option<PathBuf>,
    /// The one token of the one client that has started this server for itself.
    pub own_token: Option<String>,
    /// Requests that are worked on at once.
    pub requests_max: usize,
}

/// Nobody can connect, because of the address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}{hint}")]
pub struct CannotListen {
    address: SocketAddr,
    error: io::Error,
    hint: &'static str,
}

/// A transport that has been started.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    close: CancellationToken,
    ended: CancellationToken,
    address: Option<SocketAddr>,
}

// === impl Serving ===

impl Serving {
    /// Closes what is still open: streams, and the session on stdio.
    pub fn close(&self) {
        self.close.cancel();
    }

    /// Where it listens, over HTTP.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
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
        Transport::Stdio => Ok(start_stdio(&server, lifecycle)),
        Transport::Http(config) => start_http(&config, &server, admin, lifecycle).await,
    }
}

fn start_stdio(server: &Server, lifecycle: &Lifecycle) -> Serving {
    let serving = Serving::default();
    let Serving { close, ended, .. } = serving.clone();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        "serving MCP on stdin and stdout"
    );
    // One process is one session.
    let outbox = OutboxConfig::default().metrics(server.failures());
    let session = Session::builder().outbox(outbox).build("stdio");
    let server = server.for_one(session.clone());
    watch_lists(&server, &close, lifecycle);
    let delivering = server.clone();
    lifecycle.spawn("stdio", async move {
        // Cancelling the token before `initialize` ends the wait for it too.
        match server.serve_with_ct(stdio_pipes(), close).await {
            Ok(running) => {
                let sink = PeerSink::new(running.peer().clone());
                #[cfg(feature = "conformance-fixtures")]
                let sink = super::fixtures::failing(sink);
                let push = delivering.delivery(sink).run(&session);
                tokio::select! {
                    _quit = running.waiting() => {}
                    end = push => tracing::error!(%end, "the push path to stdout ended"),
                }
            }
            Err(error) => tracing::debug!(%error, "no session on stdin"),
        }
        ended.cancel();
    });
    serving
}

async fn start_http(
    config: &HttpConfig,
    server: &Server,
    admin: Router,
    lifecycle: &Lifecycle,
) -> Result<Serving> {
    let ready = lifecycle.latch();
    let mut serving = Serving::default();
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|error| CannotListen::new(config, error))?;
    let address = listener
        .local_addr()
        .context("cannot tell the listener's address")?;
    serving.address = Some(address);
    let sessions = Arc::new(Sessions::new(
        config.sessions,
        server.failures(),
        server.slices(),
    ));
    let server = server.for_many(Arc::clone(&sessions));
    watch_lists(&server, &serving.close, lifecycle);
    let guard = Arc::new(Guard::new(
        address.ip(),
        &config.allowed_hosts,
        &config.allowed_origins,
    ));
    // Context names and counters are nothing for a web page either.
    let identity = Arc::new(match (&config.own_token, &config.auth_token_file) {
        (Some(token), _) => Identity::Tokens(Tokens::single(token)),
        (None, Some(path)) => Identity::Tokens(Tokens::read(path)?),
        (None, None) => Identity::Anonymous,
    });
    let places = Arc::new(Places::new(config.requests_max));
    let router = mcp_router(server, &sessions, &serving.close, lifecycle)
        .layer(middleware::from_fn_with_state(places, intake::check))
        .layer(middleware::from_fn_with_state(identity, caller::identify))
        .merge(admin)
        .layer(middleware::from_fn_with_state(guard, guard::check));
    if address.ip().is_unspecified() && config.allowed_hosts.is_empty() {
        tracing::warn!(
            "requests must name this host by an address of loopback; name others with \
             --allowed-hosts"
        );
    }
    let close = serving.close.clone();
    let hearts = Arc::clone(&sessions);
    lifecycle.spawn("sessions", async move {
        Arc::clone(&sessions).sweep(close).await;
        sessions.end_all();
    });
    let close = serving.close.clone();
    lifecycle.spawn(
        "heartbeat",
        async move { hearts.listen_to_hearts(close).await },
    );
    let draining = lifecycle.draining().clone();
    let ended = serving.ended.clone();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        url = %format_args!("http://{address}/mcp"),
        "serving MCP over HTTP"
    );
    drop(ready);
    lifecycle.spawn("http", async move {
        http::serve(listener, router, draining).await;
        ended.cancel();
    });
    Ok(serving)
}

/// `/mcp`: requests are rmcp's, the stream and the end of a session are ours.
fn mcp_router(
    server: Server,
    sessions: &Arc<Sessions>,
    close: &CancellationToken,
    lifecycle: &Lifecycle,
) -> Router {
    let requests = StreamableHttpService::new(
        move || Ok(server.for_caller()),
        Arc::clone(sessions),
        // Hosts and origins are checked by our own guard, for every method. Without
        // a retry hint the answers to requests have no event ids: only the stream,
        // which can be resumed, has.
        StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_sse_retry(None)
            .with_json_response(true)
            .with_cancellation_token(close.clone()),
    );
    let methods = routing::get(sessions::open)
        .delete(sessions::close)
        .post_service(requests);
    // The last layer is the first that a request meets.
    Router::new()
        .route("/mcp", methods.with_state(Arc::clone(sessions)))
        .layer(middleware::from_fn_with_state(
            Arc::clone(sessions),
            sessions::admit,
        ))
        .layer(middleware::from_fn_with_state(
            lifecycle.clone(),
            exchange::count,
        ))
}

/// Tells clients when a list has changed (the kubeconfig's contexts are part of what
/// the tools say), and asks for theirs when they say so.
fn watch_lists(server: &Server, close: &CancellationToken, lifecycle: &Lifecycle) {
    let sweeping = server.subscriptions().clone().sweep(close.clone());
    lifecycle.spawn("subscriptions", sweeping);
    let (server, close) = (server.clone(), close.clone());
    let (roots, stop) = (server.clone(), close.clone());
    lifecycle.spawn("roots", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = roots.follow_roots() => {}
        }
    });
    lifecycle.spawn("lists", async move {
        let mut ticks = interval(LISTS_TTL);
        let mut folder = server.project().map(Project::subscribe);
        loop {
            let looked = async {
                match &mut folder {
                    // The project is the server's, so it is never dropped before.
                    Some(folder) => folder.changed().await.is_ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = close.cancelled() => return,
                _tick = ticks.tick() => server.refresh(),
                true = looked => server.refresh(),
            }
        }
    });
}

// === impl CannotListen ===

impl CannotListen {
    fn new(config: &HttpConfig, error: io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "\nhint: another program has the port; choose one with --port"
            }
            io::ErrorKind::PermissionDenied => "\nhint: ports below 1024 need privileges",
            io::ErrorKind::AddrNotAvailable => {
                "\nhint: --bind-address must be an address of this host"
            }
            _ => "",
        };
        Self {
            address: config.listen,
            error,
            hint,
        }
    }

    /// Whether another program has the port.
    pub fn is_taken(&self) -> bool {
        self.error.kind() == io::ErrorKind::AddrInUse
    }
}
