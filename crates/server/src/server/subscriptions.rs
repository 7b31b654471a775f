//! Event subscriptions, for those who run the server.

use tokio::time::Duration;

use super::Server;
use crate::subscriptions::Subscriptions;
use kubecrier_k8s::WatchInfo;

/// What is being watched.
#[derive(Clone, Debug)]
pub struct Watching {
    /// How many subscriptions there are.
    pub subscriptions: usize,
    /// How the watches under them do.
    pub watches: Vec<WatchInfo>,
    /// Since when the quietest watch has said nothing.
    pub silence: Duration,
}

impl Server {
    /// All subscriptions, and the watches under them.
    pub(crate) fn subscriptions(&self) -> &Subscriptions {
        &self.shared.subscriptions
    }

    /// What is being watched now.
    pub fn watching(&self) -> Watching {
        let all = self.subscriptions();
        Watching {
            subscriptions: all.count(),
            watches: all.watches().list(),
            silence: all.watches().quietest(),
        }
    }
}
