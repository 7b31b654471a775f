//! Statistics of subscriptions and watches, for operators.

use tokio::time::Duration;

use super::Server;
use crate::{caller::Caller, subscriptions::Subscriptions};
use kubecrier_k8s::WatchInfo;

/// The subscriptions, and the watches under them.
#[derive(Clone, Debug)]
pub struct SubscriptionStats {
    /// The number of subscriptions.
    pub subscriptions: usize,
    /// The status of each watch.
    pub watches: Vec<WatchInfo>,
    /// The longest time that a watch has received nothing.
    pub silence: Duration,
}

/// What one caller has open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerUsage {
    pub(crate) sessions: usize,
    pub(crate) subscriptions: usize,
}

impl Server {
    /// All subscriptions, and the watches under them.
    pub(crate) fn subscriptions(&self) -> &Subscriptions {
        &self.shared.subscriptions
    }

    /// The current statistics.
    pub fn watching(&self) -> SubscriptionStats {
        let all = self.subscriptions();
        SubscriptionStats {
            subscriptions: all.count(),
            watches: all.watches().list(),
            silence: all.watches().longest_silence(),
        }
    }

    /// What a caller has open now.
    pub(crate) fn usage_of(&self, caller: &Caller) -> CallerUsage {
        let sessions = self.shared.sessions.get();
        let is_own = |id: &str| sessions.is_some_and(|sessions| sessions.is_of(id, caller));
        CallerUsage {
            sessions: sessions.map_or(0, |sessions| sessions.count_of(caller)),
            subscriptions: self.subscriptions().count_of(caller, is_own),
        }
    }
}
