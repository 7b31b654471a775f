//! What servers have in common that serve the same clusters together.
//!
//! ```text
//!  sessions ───────▶ Registry, Peers     whose they are, and requests that come elsewhere
//!  watches ────────▶ SharedLog, leases   one of a scope for all (kubecrier_k8s::watch::shared)
//!  captures ───────▶ Registry            one of a fault for all
//!  cursors ────────▶ secret              the same everywhere
//! ```
//!
//! Everything works without the store as well, as on a server that is alone: what it is asked
//! for and does not answer is done by this server for itself.

mod captures;
mod secret;

pub use self::secret::shared_secret;
pub(crate) use self::{captures::SharedCaptures, secret::keep_secret};

use std::sync::Arc;

use kubecrier_history::{Peers, Registry, SharedLog};

/// What servers that work together have in common.
#[derive(Clone, Debug)]
pub struct ClusterStore {
    /// Small records: of sessions, of leases, of captures.
    pub registry: Arc<dyn Registry>,
    /// How the others are reached.
    pub peers: Arc<dyn Peers>,
    /// What the watches see.
    pub log: Arc<dyn SharedLog>,
}

// === impl ClusterStore ===

impl ClusterStore {
    /// Why the store cannot be reached now.
    pub fn failure(&self) -> Option<String> {
        self.log.failure()
    }
}
