//! Serving HTTP/1.1: sockets that notice a dead peer, clients that must be quick
//! with their headers, and an end that lets answers out.
//!
//! A connection passes, in this order: the limit of connections, the lookup of its peer, TLS, and then its requests,
//! each with the [`Peer`] as an extension. `heads` cuts heads that are too large to be read.

mod heads;

use std::{future::ready, io, pin::Pin, sync::Arc, time::Duration};

use axum::Router;
use futures_util::{FutureExt, TryFutureExt};
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use rustix::net::sockopt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

pub(super) use self::heads::HeadCut;
use self::heads::{CutHeads, HeadState};
use super::{
    connections::{Connections, Refusal},
    peer::{Peer, PeerPolicy},
    tls::Certificate,
};

/// The deadline for headers. It also ends a connection that stays idle between two
/// requests.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);

/// Bytes that stay unacknowledged for this long mean a dead peer.
const PEER_GONE_AFTER: Duration = Duration::from_secs(30);

/// The kernel's send buffer per connection: enough for a page of text, little enough
/// that a stalled reader is noticed.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// The buffers of a connection in this process: the headers of a request, and a chunk of a
/// stream with what is around it.
const BUFFER_BYTES: usize = 128 * 1024;

/// What is read of the head of a request, a little less than what hyper refuses.
pub(super) const HEAD_BYTES_MAX: usize = BUFFER_BYTES - 64;

/// The kernel is out of something; it has it again in a moment.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A port, and what a connection to it must pass.
pub(super) struct Listener {
    pub(super) socket: TcpListener,
    /// How many connections there may be, at all ports together.
    pub(super) limit: Arc<Connections>,
    /// Whose connections are served.
    pub(super) peers: PeerPolicy,
    /// The certificate; without one, connections are in clear text.
    pub(super) certificate: Option<Certificate>,
}

/// The requests of a connection, until it ends.
type ServingRequests = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// A connection that was accepted.
struct Connection {
    stream: TcpStream,
    peers: PeerPolicy,
    certificate: Option<Certificate>,
    router: Router,
    watcher: Watcher,
    stop: CancellationToken,
}

/// Serves until `stop`, then until the last connection has closed.
pub(super) async fn serve(listener: Listener, router: Router, stop: CancellationToken) {
    let Listener {
        socket,
        limit,
        peers,
        certificate,
    } = listener;
    if let Err(error) = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES) {
        tracing::debug!(%error, "cannot set the send buffer");
    }
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            // Ended connections are removed as they end.
            Some(_ended) = connections.join_next() => continue,
            accepted = socket.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok((stream, peer)) => (stream, peer.ip()),
            Err(error) => {
                if !is_the_peers(&error) {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                }
                continue;
            }
        };
        let refusal = match certificate {
            None => Refusal::ClearText,
            Some(_) => Refusal::Close,
        };
        let Some(permit) = limit.admit(&stream, peer, refusal) else {
            continue;
        };
        let connection = Connection {
            stream,
            peers: peers.clone(),
            certificate: certificate.clone(),
            router: router.clone(),
            watcher: graceful.watcher(),
            stop: stop.clone(),
        };
        // In a box that goes when the first request is waited for. Everything that a connection
        // passes on its way there would else have room in its task for as long as it is open.
        let beginning = Box::pin(connection.begin());
        connections.spawn(async move {
            let _permit = permit;
            let begun = beginning.await;
            let ended = match begun {
                Ok(serving) => serving.await,
                Err(error) => Err(error),
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
    drop(socket);
    graceful.shutdown().await;
    while connections.join_next().await.is_some() {}
}

// === impl Connection ===

impl Connection {
    /// Does all that comes before requests, which are then served by the future that is returned.
    async fn begin(self) -> io::Result<ServingRequests> {
        let Self {
            stream,
            peers,
            certificate,
            router,
            watcher,
            stop,
        } = self;
        prepare(&stream);
        let peer = peers.identify(&stream).await?;
        let Some(certificate) = certificate else {
            return Ok(Box::pin(serve_requests(stream, peer, router, watcher)));
        };
        // A stop does not wait for who has not said anything yet.
        // Without TLS there is no room for it.
        let accepting = Box::pin(certificate.accept(stream));
        match stop.run_until_cancelled(accepting).await {
            Some(stream) => Ok(Box::pin(serve_requests(stream?, peer, router, watcher))),
            None => Ok(Box::pin(ready(Ok(())))),
        }
    }
}

/// Not an `async fn`, which would hold the connection twice: before and after it is watched.
fn serve_requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    watcher: Watcher,
) -> impl Future<Output = io::Result<()>> + Send {
    let router = TowerToHyperService::new(router);
    let head = Arc::new(HeadState::default());
    let stream = CutHeads::new(stream, HEAD_BYTES_MAX, Arc::clone(&head));
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        if head.begin_answer() {
            request.extensions_mut().insert(HeadCut);
        }
        let head = Arc::clone(&head);
        (router.call(request)).inspect(move |_answer| head.answer_begun())
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    watcher.watch(connection).map_err(io::Error::other)
}

fn prepare(stream: &TcpStream) {
    // Small messages, one at a time: Nagle's algorithm only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    #[cfg(target_os = "linux")]
    {
        let millis = u32::try_from(PEER_GONE_AFTER.as_millis()).unwrap_or(u32::MAX);
        if let Err(error) = sockopt::set_tcp_user_timeout(stream, millis) {
            tracing::debug!(%error, "cannot set TCP_USER_TIMEOUT");
        }
    }
    let kept = sockopt::set_socket_keepalive(stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(stream, PEER_GONE_AFTER));
    if let Err(error) = kept {
        tracing::debug!(%error, "cannot set SO_KEEPALIVE");
    }
}

/// Whether the peer went away before its connection was accepted.
fn is_the_peers(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
