//! Metrics of servers that work together.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

/// Metrics of the store that servers share, as of the last scrape. A server that is alone has no
/// series of them.
#[derive(Clone, Debug, Default)]
pub struct ClusterStoreMetrics {
    up: Family<NoLabels, Gauge>,
    watches: Family<RoleLabel, Gauge>,
}

/// How many watches of events a server has, by who watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedWatchNumbers {
    /// This server, for all.
    pub holder: usize,
    /// Another server, for all.
    pub follower: usize,
    /// This server, for itself.
    pub alone: usize,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RoleLabel {
    role: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NoLabels {}

// === impl ClusterStoreMetrics ===

impl ClusterStoreMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register(
            "cluster_store_up",
            "Whether the store that servers share can be reached; absent without --cluster-store",
            all.up.clone(),
        );
        registry.register(
            "shared_watches",
            "Number of watches of events that servers share, by role: holder (this server watches for all), follower (another one does) or alone (this server watches for itself)",
            all.watches.clone(),
        );
        all
    }

    /// Sets the numbers, before they are scraped.
    pub fn set(&self, is_up: bool, watches: SharedWatchNumbers) {
        let SharedWatchNumbers {
            holder,
            follower,
            alone,
        } = watches;
        self.up.get_or_create(&NoLabels {}).set(i64::from(is_up));
        for (role, count) in [("holder", holder), ("follower", follower), ("alone", alone)] {
            let gauge = self.watches.get_or_create(&RoleLabel { role });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}
