//! For whom a request counts under the limits that callers share.
//!
//! An authenticated caller counts by its name, wherever it comes from. Anonymous callers
//! count by their network address. On this host all have the same address, and all are the
//! user who runs the server: there each session counts for itself, and everything outside of
//! sessions counts for the address.

use std::{net::IpAddr, sync::Arc};

use axum::{extract::Request, middleware::Next, response::Response};

use crate::{caller::Caller, peer::Peer};
use kubecrier_core::shares::ShareKey;

tokio::task_local! {
    static PEER: Option<IpAddr>;
}

/// Middleware: makes the peer known to the rest of the request.
pub(super) async fn note_peer(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().map(|peer| peer.address);
    PEER.scope(peer, next.run(request)).await
}

/// Runs work as a request from that address.
pub(super) async fn with_peer<F: Future>(peer: Option<IpAddr>, work: F) -> F::Output {
    PEER.scope(peer, work).await
}

/// The address that the request under way comes from, over HTTP.
pub(super) fn current_peer() -> Option<IpAddr> {
    PEER.try_with(|peer| *peer).ok().flatten()
}

/// For whom something counts.
pub(super) fn key(caller: &Caller, peer: Option<IpAddr>, session: Option<&Arc<str>>) -> ShareKey {
    if *caller != Caller::ANONYMOUS {
        return caller.share_key();
    }
    match (peer, session) {
        (Some(peer), Some(session)) if peer.to_canonical().is_loopback() => {
            ShareKey::Session(Arc::clone(session))
        }
        (Some(peer), _) => ShareKey::address(peer),
        (None, _) => ShareKey::Process,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_before_an_address_and_an_address_before_a_session() {
        let session: Arc<str> = "s".into();
        let far: IpAddr = "192.0.2.1".parse().unwrap();
        let near: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        let (ann, nobody) = (Caller::named("ann"), Caller::ANONYMOUS);
        let named = ShareKey::Caller("ann".into());
        assert_eq!(key(&ann, Some(far), Some(&session)), named);
        assert_eq!(key(&ann, Some(near), None), named);
        assert_eq!(
            key(&nobody, Some(far), Some(&session)),
            ShareKey::address(far)
        );
        assert_eq!(
            key(&nobody, Some(near), Some(&session)),
            ShareKey::Session(session.clone())
        );
        assert_eq!(key(&nobody, Some(near), None), ShareKey::address(near));
        assert_eq!(key(&nobody, None, Some(&session)), ShareKey::Process);
    }
}
