//! Statistics of subscriptions and watches, for operators.

use tokio::time::Duration;

use super::Server;
use crate::subscriptions::Subscriptions;
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
}
