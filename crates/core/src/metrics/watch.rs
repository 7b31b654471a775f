//! What is counted about watches and subscriptions.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use serde::Serialize;

/// The counters of watches.
#[derive(Clone, Debug, Default)]
pub struct WatchMetrics {
    watches: Family<StateLabel, Gauge>,
    restarts: Family<EndLabel, Counter>,
    events: Family<EventLabel, Counter>,
    silence: Gauge,
    subscriptions: Gauge,
}

/// How a watch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchState {
    /// It has never stood.
    Connecting,
    /// Events come.
    Live,
    /// It stood and has to be established again.
    Reconnecting,
    /// That has failed several times in a row.
    Degraded,
}

/// Why a watch had to be established again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchEnd {
    /// The server has closed it, as it does every now and then.
    Closed,
    /// The connection or the server broke it off.
    Broken,
    /// Nothing was heard for too long.
    Silent,
    /// The server's history did not reach back far enough.
    Gone,
    /// It could not be established.
    Failed,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EventLabel {
    wanted: &'static str,
}

// === impl WatchState ===

impl WatchState {
    fn label(self) -> StateLabel {
        let state = match self {
            Self::Connecting => "connecting",
            Self::Live => "live",
            Self::Reconnecting => "reconnecting",
            Self::Degraded => "degraded",
        };
        StateLabel { state }
    }
}

// === impl WatchEnd ===

impl WatchEnd {
    fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Broken => "broken",
            Self::Silent => "silent",
            Self::Gone => "gone",
            Self::Failed => "failed",
        }
    }
}

// === impl WatchMetrics ===

impl WatchMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self {
            watches,
            restarts,
            events,
            silence,
            subscriptions,
        } = metrics.clone();
        for state in [
            WatchState::Connecting,
            WatchState::Live,
            WatchState::Reconnecting,
            WatchState::Degraded,
        ] {
            // A state nobody is in is a zero, not an absence.
            let _zero = watches.get_or_create(&state.label());
        }
        registry.register(
            "watches",
            "Watches, of events and for graphs, by how they stand",
            watches,
        );
        registry.register(
            "watch_restarts",
            "Watches that were established again, or not, by why",
            restarts,
        );
        registry.register(
            "watch_events",
            "Events that watches have seen, by whether anybody may want them",
            events,
        );
        registry.register(
            "watch_silence_seconds",
            "How long the quietest watch has said nothing",
            silence,
        );
        registry.register("subscriptions", "Event subscriptions", subscriptions);
        metrics
    }

    /// Moves one watch from a state to another; `None` is before its start or after its end.
    pub fn entered(&self, before: Option<WatchState>, now: Option<WatchState>) {
        if let Some(state) = before {
            self.watches.get_or_create(&state.label()).dec();
        }
        if let Some(state) = now {
            self.watches.get_or_create(&state.label()).inc();
        }
    }

    /// Counts a watch that has to be established again.
    pub fn ended(&self, reason: WatchEnd) {
        let reason = reason.as_str();
        self.restarts.get_or_create(&EndLabel { reason }).inc();
    }

    /// Counts an event, and whether any subscription could match it.
    pub fn event(&self, wanted: bool) {
        let wanted = if wanted { "yes" } else { "no" };
        self.events.get_or_create(&EventLabel { wanted }).inc();
    }

    /// As of now, for a scrape.
    pub fn sizes(&self, silence: std::time::Duration, subscriptions: usize) {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.silence.set(whole(silence.as_secs()));
        self.subscriptions.set(whole(subscriptions as u64));
    }
}
