//! The transports: stdio, or Streamable HTTP at `/mcp`.

mod exposure;

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
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    admin::{self, Admin, StatsScope},
    audit::{self, Audit, AuditTarget},
    body::{self, RequestGate},
    caller::{
        self, BearerTokens, ClusterReviewer, Identity, TokenReviewer, Tokens, TrustedUserHeader,
    },
    connections::Connections,
    exchange,
    file_poll::FilePoll,
    http::{self, Listener},
    list_changes,
    log_limit::LogLimit,
    oauth::{
        self, OAuthSettings,
        gate::{self, ScopeGate},
    },
    origin::{self, OriginPolicy},
    server::{Handler, Server},
    sessions::{self, Dispatcher, PeerRequests, Revival, SessionLimits, SessionStore, Sessions},
    share,
    stdio::StdioTransport,
    tls::{Certificate, TlsFiles},
};
use kubecrier_lifecycle::Lifecycle;

/// A transport and its settings.
#[derive(Clone, Debug)]
pub enum Transport {
    /// The client is the parent process.
    Stdio,
    /// Clients connect to a port.
    Http(Box<HttpConfig>),
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
    /// A file of named bearer tokens; without it, callers are not authenticated.
    pub auth_token_file: Option<PathBuf>,
    /// The one token of the one client that has started this server for itself.
    pub own_token: Option<String>,
    /// Whether other users of this machine are served on loopback without a token.
    pub allow_other_users: bool,
    /// The header in which a proxy names the caller.
    pub user_header: Option<TrustedUserHeader>,
    /// Whose access tokens are accepted.
    pub oauth: Option<OAuthSettings>,
    /// The audience of tokens of service accounts, about which the cluster is asked.
    pub service_account_audience: Option<String>,
    /// Where calls and subscriptions are recorded.
    pub audit: Option<AuditTarget>,
    /// The certificate; without it, connections are in clear text.
    pub tls: Option<TlsFiles>,
    /// Where `/metrics` and `/stats` are served instead, without authentication.
    pub admin: Option<SocketAddr>,
    /// Connections at once.
    pub connections_max: usize,
    /// Descriptors that connections leave for those to clusters.
    pub descriptors_reserved: usize,
}

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}{hint}")]
pub struct ListenError {
    address: SocketAddr,
    error: io::Error,
    hint: String,
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

    /// The address that it listens on, over HTTP.
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
    admin: Admin,
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
    // A process on stdio has one session.
    let outbox = OutboxConfig::default().metrics(server.notification_metrics());
    let session = Session::builder().outbox(outbox).build("stdio");
    let handler = server.handler_for_session(session.clone());
    spawn_tasks(server, &close, lifecycle);
    let delivering = server.clone();
    lifecycle.spawn("stdio", async move {
        // Cancelling the token before `initialize` ends the wait for it too.
        let transport = StdioTransport::new(stdio_pipes(), session.clone(), handler.announced());
        match handler.serve_with_ct(transport, close).await {
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
    pages: Admin,
    lifecycle: &Lifecycle,
) -> Result<Serving> {
    let ready = lifecycle.readiness_gate();
    let mut serving = Serving::default();
    let (mut identity, token_poll) = identity(config, server, &pages)?;
    if let Some(target) = config.audit.clone() {
        let (refusals, close) = (pages.metrics.refusals(), serving.close.clone());
        let names = Arc::new(server.clone());
        let audit = Audit::start(target, names, refusals, close, lifecycle).await?;
        identity.audit = Some(audit);
    }
    let identity = Arc::new(identity);
    let (certificate, certificate_poll) = match &config.tls {
        None => (None, None),
        Some(files) => {
            let (certificate, poll) = Certificate::read(files)?;
            (Some(certificate), Some(poll))
        }
    };
    let socket = bind(config.listen, "--port", "--bind-address").await?;
    let address = socket
        .local_addr()
        .context("cannot tell the listener's address")?;
    serving.address = Some(address);
    let peers = server.session_peers();
    let store = server.session_registry().map(SessionStore::new);
    let store = store.map(|store| match &peers {
        Some(peers) => Arc::new(store.shared_as(peers.name())),
        None => Arc::new(store),
    });
    let sessions = Sessions::new(
        config.sessions,
        server.notification_metrics(),
        server.answer_metrics(),
    );
    let sessions = Arc::new(sessions.kept(store.clone()));
    let handler = server.handler_for_sessions(Arc::clone(&sessions));
    spawn_tasks(server, &serving.close, lifecycle);
    if let (Some(tokens), Some(poll)) = (identity.tokens.clone(), token_poll) {
        let (server, sessions) = (server.clone(), Arc::clone(&sessions));
        let on_change = move |contents| {
            let revoked = tokens.replace(contents);
            sessions.end_revoked();
            for caller in &revoked {
                server.subscriptions().end_caller(caller);
            }
        };
        lifecycle.spawn("tokens", poll.run(serving.close.clone(), on_change));
    }
    if let (Some(certificate), Some(poll)) = (certificate.clone(), certificate_poll) {
        let on_change = move |contents| certificate.replace(contents);
        lifecycle.spawn("certificate", poll.run(serving.close.clone(), on_change));
    }
    let uncut = |identity| middleware::from_fn_with_state(identity, caller::refuse_cut_head);
    // Clients reach it by its public URL.
    let public = config.oauth.as_ref().map(|oauth| &oauth.public_url);
    let hosts: Vec<String> = (config.allowed_hosts.iter().cloned())
        .chain(public.map(|url| url.authority().to_owned()))
        .collect();
    let origins = Arc::new(OriginPolicy::new(&hosts, &config.allowed_origins));
    let share = config.sessions.share;
    let proxies = config.user_header.as_ref();
    let connections = Arc::new(Connections::new(
        config.connections_max,
        config.descriptors_reserved,
        share,
        proxies.map_or_else(Vec::new, |header| header.proxies.clone()),
    ));
    if let Some(listen) = config.admin {
        let socket = bind(listen, "--admin-address", "--admin-address").await?;
        let address = socket.local_addr().unwrap_or(listen);
        let checked = Arc::clone(&origins);
        // The operator has chosen the address: nobody else is asked who they are.
        let router = admin::pages(pages.clone(), StatsScope::Everyone)
            .layer(middleware::from_fn_with_state(
                Arc::new(Identity::default()),
                caller::identify,
            ))
            .merge(admin::health(pages.clone()))
            .layer(middleware::from_fn_with_state(checked, origin::check))
            .layer(uncut(Arc::new(Identity::default())));
        let listener = Listener {
            socket,
            limit: Arc::clone(&connections),
            peers: exposure::peers(config, address, &Identity::default()),
            certificate: certificate.clone(),
        };
        let scheme = scheme(certificate.as_ref());
        tracing::info!(url = %format_args!("{scheme}://{address}/metrics"), "serving pages for operators");
        lifecycle.spawn(
            "admin",
            http::serve(listener, router, lifecycle.draining().clone()),
        );
    }
    for warning in exposure::warnings(config, address, &identity) {
        tracing::warn!("{warning}");
    }
    let listener = Listener {
        socket,
        limit: connections,
        peers: exposure::peers(config, address, &identity),
        certificate,
    };
    let scopes = config.oauth.as_ref().map(|oauth| ScopeGate {
        policy: oauth.scopes.clone(),
        challenge: oauth.challenge(),
        refusals: pages.metrics.refusals(),
    });
    let gate = RequestGate::new(
        server.work(),
        share,
        Arc::clone(&sessions),
        server.subscriptions().clone(),
        scopes.clone(),
        identity.audit.clone(),
    );
    let scope = if identity.is_required() {
        StatsScope::Caller
    } else {
        StatsScope::Everyone
    };
    let mut router = mcp_router(handler, &sessions, &serving.close, lifecycle);
    let revival = store.map(|store| {
        let revival = Revival::new(server.clone(), Arc::clone(&sessions), store, peers.clone());
        Arc::new(revival)
    });
    if let (Some(peers), Some(revival)) = (peers, &revival) {
        let mut routes = router.clone();
        if let Some(audit) = identity.audit.clone() {
            // What is in front of them here is not in front of them there.
            routes = routes.layer(middleware::from_fn_with_state(audit, audit::record));
        }
        let requests = PeerRequests::new(Arc::clone(&sessions), lifecycle.clone(), routes);
        peers.serve(Arc::new(requests));
        let revival = Arc::clone(revival);
        router = router.layer(middleware::from_fn_with_state(revival, sessions::forward));
    }
    router = router.layer(middleware::from_fn_with_state(Arc::new(gate), body::check));
    if let Some(revival) = revival {
        router = router.layer(middleware::from_fn_with_state(revival, sessions::revive));
    }
    if server.contexts().impersonates() {
        let identity = Arc::clone(&identity);
        let layer = middleware::from_fn_with_state(identity, caller::require_user);
        router = router.layer(layer);
    }
    if config.admin.is_none() {
        let mut admin = admin::pages(pages.clone(), scope);
        if let Some(scopes) = scopes {
            let scopes = Arc::new(scopes);
            admin = admin.layer(middleware::from_fn_with_state(scopes, gate::check_page));
        }
        router = router.merge(admin);
    }
    // Context names and counters are nothing for a web page either.
    let metadata = config.oauth.as_ref().map(oauth::pages);
    let identified = Arc::clone(&identity);
    let router = router
        .layer(middleware::from_fn_with_state(identified, caller::identify))
        .layer(middleware::from_fn(share::note_peer))
        .merge(admin::health(pages))
        .merge(metadata.unwrap_or_default())
        .layer(middleware::from_fn_with_state(origins, origin::check))
        .layer(uncut(identity));
    let close = serving.close.clone();
    let heartbeats = Arc::clone(&sessions);
    let described = server.clone();
    lifecycle.spawn("sessions", async move {
        let describe = |entry: &_, record| described.describe_session(entry, record);
        let keeping = Arc::clone(&sessions).keep_records(describe, close.clone());
        tokio::join!(Arc::clone(&sessions).sweep(close), keeping);
        sessions.close_all();
    });
    let close = serving.close.clone();
    lifecycle.spawn("heartbeat", async move {
        heartbeats.run_heartbeats(close).await;
    });
    let draining = lifecycle.draining().clone();
    let ended = serving.ended.clone();
    let scheme = scheme(listener.certificate.as_ref());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        url = %format_args!("{scheme}://{address}/mcp"),
        "serving MCP over HTTP"
    );
    drop(ready);
    lifecycle.spawn("http", async move {
        http::serve(listener, router, draining).await;
        ended.cancel();
    });
    Ok(serving)
}

/// How callers are told apart, and the file of tokens to poll.
fn identity(
    config: &HttpConfig,
    server: &Server,
    admin: &Admin,
) -> Result<(Identity, Option<FilePoll>)> {
    let (tokens, poll) = match (&config.own_token, &config.auth_token_file) {
        (Some(token), _) => (Some(Tokens::single(token)), None),
        (None, Some(path)) => {
            let (tokens, poll) = Tokens::read(path)?;
            (Some(tokens), Some(poll))
        }
        (None, None) => (None, None),
    };
    // A server that one client has started for itself serves nobody else.
    let is_shared = config.own_token.is_none();
    let oauth = config.oauth.as_ref().filter(|_| is_shared);
    let audience = config.service_account_audience.as_ref();
    let identity = Identity {
        tokens: tokens.map(Arc::new),
        user_header: config.user_header.clone(),
        bearer: BearerTokens::new(
            oauth.map(OAuthSettings::authenticator),
            audience.filter(|_| is_shared).map(|audience| {
                Arc::new(ClusterReviewer {
                    contexts: Arc::clone(server.contexts()),
                    audience: audience.clone(),
                }) as Arc<dyn TokenReviewer>
            }),
        ),
        challenge: oauth.map(OAuthSettings::challenge).unwrap_or_default(),
        refusals: Some(admin.metrics.refusals()),
        audit: None,
        log_limit: LogLimit::default(),
    };
    Ok((identity, poll))
}

fn scheme(certificate: Option<&Certificate>) -> &'static str {
    certificate.map_or("http", |_| "https")
}

async fn bind(
    address: SocketAddr,
    port_flag: &'static str,
    address_flag: &'static str,
) -> Result<TcpListener, ListenError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("\nhint: another program has the port; choose one with {port_flag}")
            }
            io::ErrorKind::PermissionDenied => {
                "\nhint: ports below 1024 need privileges".to_owned()
            }
            io::ErrorKind::AddrNotAvailable => {
                format!("\nhint: {address_flag} must be an address of this host")
            }
            _ => String::new(),
        };
        ListenError {
            address,
            error,
            hint,
        }
    })
}

/// `/mcp`: rmcp serves the requests, `sessions` the stream and the end of a session.
fn mcp_router(
    handler: Handler,
    sessions: &Arc<Sessions>,
    close: &CancellationToken,
    lifecycle: &Lifecycle,
) -> Router {
    let dispatcher = Dispatcher::new(Arc::clone(sessions), handler.clone());
    let requests = StreamableHttpService::new(
        move || Ok(handler.for_current_caller()),
        Arc::new(dispatcher),
        // Hosts and origins are checked by `origin`, for every method. Without a retry hint
        // rmcp adds no event ids of its own: those of `sessions` can be resumed.
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

/// Starts the tasks that a server needs over every transport.
fn spawn_tasks(server: &Server, close: &CancellationToken, lifecycle: &Lifecycle) {
    let sweeping = server.subscriptions().clone().sweep(close.clone());
    lifecycle.spawn("subscriptions", sweeping);
    let (contexts, stop) = (Arc::clone(server.contexts()), close.clone());
    lifecycle.spawn("kubeconfig", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            never = contexts.watch_kubeconfig() => match never {},
        }
    });
    let viewers = server.subscriptions().viewers().clone();
    let following = viewers.follow_contexts(Arc::clone(server.contexts()), close.clone());
    lifecycle.spawn("rights", following);
    lifecycle.spawn("lists", list_changes::watch(server.clone(), close.clone()));
}

// === impl ListenError ===

impl ListenError {
    /// Whether another program listens on the port.
    pub fn is_address_in_use(&self) -> bool {
        self.error.kind() == io::ErrorKind::AddrInUse
    }
}
