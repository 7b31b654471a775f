//! The way back to each client, for what we ask by ourselves.

use std::{collections::HashMap, sync::Arc};

use mcp_notify::{RootsClient, RootsFuture, SendError, Session, rmcp::PeerRoots};
use parking_lot::Mutex;
use rmcp::{Peer, RoleServer};

/// Every client that is ready, by the id of its session. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Peers(Arc<Mutex<HashMap<Arc<str>, Peer<RoleServer>>>>);

// === impl Peers ===

impl Peers {
    /// The client is ready; it is forgotten when its session ends.
    pub(super) fn join(&self, session: &Session, peer: &Peer<RoleServer>) {
        let id = Arc::clone(session.id());
        let before = self.0.lock().insert(Arc::clone(&id), peer.clone());
        if before.is_none() {
            let peers = Arc::downgrade(&self.0);
            session.on_close(move |_why| {
                if let Some(peers) = peers.upgrade() {
                    peers.lock().remove(&id);
                }
            });
        }
    }

    fn get(&self, session: &Session) -> Option<Peer<RoleServer>> {
        self.0.lock().get(session.id()).cloned()
    }
}

impl RootsClient for Peers {
    fn list<'a>(&'a self, session: &'a Session, cursor: Option<String>) -> RootsFuture<'a> {
        Box::pin(async move {
            let peer = self.get(session).ok_or(SendError::Closed)?;
            PeerRoots::new(peer).list(session, cursor).await
        })
    }
}
