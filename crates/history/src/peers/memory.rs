//! Servers of one process that reach each other, for tests.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;

use super::{PeerAnswer, PeerError, PeerFuture, PeerHandler, Peers};

/// The servers of one process. A clone is the same.
#[derive(Clone, Default)]
pub struct MemoryNetwork {
    // A lock for one map operation.
    handlers: Arc<Mutex<HashMap<String, Arc<dyn PeerHandler>>>>,
}

/// One server of a [`MemoryNetwork`].
#[derive(Clone)]
pub struct MemoryPeers {
    name: String,
    network: MemoryNetwork,
}

// === impl MemoryNetwork ===

impl MemoryNetwork {
    /// A server of that name, which is there once it serves.
    pub fn peer(&self, name: &str) -> MemoryPeers {
        MemoryPeers {
            name: name.to_owned(),
            network: self.clone(),
        }
    }

    /// Takes a server away, as its end would.
    pub fn remove(&self, name: &str) {
        let removed = self.handlers.lock().remove(name);
        drop(removed);
    }
}

impl Peers for MemoryPeers {
    fn name(&self) -> &str {
        &self.name
    }

    fn send<'a>(
        &'a self,
        peer: &'a str,
        request: Bytes,
    ) -> PeerFuture<'a, Result<PeerAnswer, PeerError>> {
        let handler = self.network.handlers.lock().get(peer).cloned();
        Box::pin(async move {
            match handler {
                Some(handler) => Ok(handler.answer(request).await),
                None => Err(PeerError::Gone(peer.to_owned())),
            }
        })
    }

    fn serve(&self, handler: Arc<dyn PeerHandler>) {
        let mut handlers = self.network.handlers.lock();
        handlers.insert(self.name.clone(), handler);
    }
}

impl std::fmt::Debug for MemoryPeers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryPeers")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
