//! Serving HTTP/1.1: sockets that notice a dead peer, clients that must be quick
//! with their headers, and an end that lets answers out.

use std::{io, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use rustix::net::sockopt;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// The deadline for headers. It also ends a connection that stays idle between two
/// requests.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);

/// Bytes that stay unacknowledged for this long mean a dead peer.
const PEER_GONE_AFTER: Duration = Duration::from_secs(30);

/// The kernel's send buffer per connection: enough for a page of text, little enough
/// that a stalled reader is noticed.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// The kernel is out of something; it has it again in a moment.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Serves until `stop`, then until the last connection has closed.
pub(super) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    if let Err(error) = sockopt::set_socket_send_buffer_size(&listener, SEND_BUFFER_BYTES) {
        tracing::debug!(%error, "cannot set the send buffer");
    }
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            // Ended connections are removed as they end.
            Some(_ended) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _peer)) => stream,
            Err(error) => {
                if !is_the_peers(&error) {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                }
                continue;
            }
        };
        prepare(&stream);
        let service = TowerToHyperService::new(router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN)
            .serve_connection(TokioIo::new(stream), service);
        let watched = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = watched.await {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
    drop(listener);
    graceful.shutdown().await;
    while connections.join_next().await.is_some() {}
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
