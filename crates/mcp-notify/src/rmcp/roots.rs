//! Roots over rmcp (features `rmcp` and `roots`).

#![expect(
    deprecated,
    reason = "2026-07-28 removed roots, and rmcp deprecates them"
)]

use std::fmt;

use rmcp::{Peer, RoleServer};

use crate::roots::{Root, RootsClient, RootsFuture, RootsPage};
use crate::session::Session;
use crate::sink::SendError;

/// Requests the roots of one client. rmcp has no pages of roots, so the result is one
/// page.
pub struct PeerRoots(Peer<RoleServer>);

impl PeerRoots {
    /// Requests the roots of this peer.
    pub fn new(peer: Peer<RoleServer>) -> Self {
        Self(peer)
    }
}

impl RootsClient for PeerRoots {
    fn list<'a>(&'a self, _: &'a Session, _: Option<String>) -> RootsFuture<'a> {
        Box::pin(async move {
            let result = self.0.list_roots().await.map_err(SendError::classify)?;
            let roots = result.roots.into_iter();
            let roots = roots
                .map(|root| Root {
                    uri: root.uri,
                    name: root.name,
                })
                .collect();
            Ok(RootsPage {
                roots,
                next_cursor: None,
            })
        })
    }
}

impl fmt::Debug for PeerRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerRoots").finish_non_exhaustive()
    }
}
