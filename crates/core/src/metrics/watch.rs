//! Metrics of watches and subscriptions.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use serde::Serialize;

use super::IncidentMetrics;

/// Metrics of watches. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct WatchMetrics {
    watches: Family<StateLabel, Gauge>,
    restarts: Family<EndLabel, Counter>,
    events: Family<EventLabel, Counter>,
    silence: Gauge,
    subscriptions: Gauge,
    incidents: IncidentMetrics,
}

/// State of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchState {
    /// The watch was never established.
    Connecting,
    /// The watch is established.
    Live,
    /// The watch was established and has to be established again.
    Reconnecting,
    /// Several attempts in a row have failed.
    Degraded,
}

/// Why a watch has to be established again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchEnd {
    /// The API server closed the watch, as it does regularly.
    Closed,
    /// The connection broke, or the API server sent an error.
    Broken,
    /// The watch was silent for too long.
    Silent,
    /// The resourceVersion has expired (410 Gone).
    Gone,
    /// The watch could not be established.
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
    /// Metrics of what is made of watches: incidents.
    pub fn incidents(&self) -> &IncidentMetrics {
        &self.incidents
    }

    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            incidents: IncidentMetrics::register(registry),
            ..Self::default()
        };
        let Self {
            watches,
            restarts,
            events,
            silence,
            subscriptions,
            incidents: _,
        } = metrics.clone();
        for state in [
            WatchState::Connecting,
            WatchState::Live,
            WatchState::Reconnecting,
            WatchState::Degraded,
        ] {
            // A state without a watch is a zero, not an absent series.
            let _zero = watches.get_or_create(&state.label());
        }
        registry.register(
            "watches",
            "Number of watches, of events, for graphs and for incidents, by state",
            watches,
        );
        registry.register(
            "watch_restarts",
            "Number of attempts to re-establish a watch, by reason",
            restarts,
        );
        registry.register(
            "watch_events",
            "Number of events that watches have received, by whether a subscription may want them",
            events,
        );
        registry.register(
            "watch_silence_seconds",
            "Time since the quietest watch received anything, in seconds",
            silence,
        );
        registry.register(
            "subscriptions",
            "Number of event subscriptions",
            subscriptions,
        );
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
