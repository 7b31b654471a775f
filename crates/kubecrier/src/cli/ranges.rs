//! The ranges of numeric settings.

use std::ops::RangeInclusive;

use super::{
    CAPTURES, CONNECTIONS, CONTAINERS, DRAIN_TIMEOUT_SECONDS, FEED_EVENTS, GRAPHS, LOG_BYTES,
    MAX_OUTPUT_BYTES, PARKED_BYTES, PORT, PROCESSES, READS, REQUEST_TIMEOUT_SECONDS, REQUESTS,
    SESSIONS, SHARE, SUBSCRIPTIONS, Settings, WATCH_RENEWAL_SECONDS, WATCHES,
};

impl Settings {
    /// The numeric settings with their ranges. clap checks flags and environment variables
    /// itself; the configuration file is checked with these.
    pub(crate) fn numbers(&self) -> [(&'static str, Option<u64>, RangeInclusive<u64>); 24] {
        [
            ("port", self.port, PORT),
            ("caller_share", self.caller_share, SHARE),
            ("max_connections", self.max_connections, CONNECTIONS),
            ("max_cluster_reads", self.max_cluster_reads, READS),
            ("max_graphs", self.max_graphs, GRAPHS),
            ("max_followed_logs", self.max_followed_logs, WATCHES),
            ("max_watches", self.max_watches, WATCHES),
            (
                "max_concurrent_requests",
                self.max_concurrent_requests,
                REQUESTS,
            ),
            ("max_sessions", self.max_sessions, SESSIONS),
            (
                "max_sessions_per_caller",
                self.max_sessions_per_caller,
                SESSIONS,
            ),
            ("max_session_rate", self.max_session_rate, SESSIONS),
            (
                "max_parked_answer_bytes",
                self.max_parked_answer_bytes,
                PARKED_BYTES,
            ),
            (
                "drain_timeout_seconds",
                self.drain_timeout_seconds,
                DRAIN_TIMEOUT_SECONDS,
            ),
            (
                "request_timeout_seconds",
                self.request_timeout_seconds,
                REQUEST_TIMEOUT_SECONDS,
            ),
            (
                "max_subscriptions_per_session",
                self.max_subscriptions_per_session,
                SUBSCRIPTIONS,
            ),
            (
                "max_subscriptions_global",
                self.max_subscriptions_global,
                SUBSCRIPTIONS,
            ),
            ("max_feed_events", self.max_feed_events, FEED_EVENTS),
            (
                "watch_renewal_seconds",
                self.watch_renewal_seconds,
                WATCH_RENEWAL_SECONDS,
            ),
            (
                "max_log_captures_per_cluster",
                self.max_log_captures_per_cluster,
                CAPTURES,
            ),
            (
                "max_log_captures_global",
                self.max_log_captures_global,
                CAPTURES,
            ),
            (
                "max_log_bytes_per_container",
                self.max_log_bytes_per_container,
                LOG_BYTES,
            ),
            (
                "max_containers_per_notification",
                self.max_containers_per_notification,
                CONTAINERS,
            ),
            ("max_output_bytes", self.max_output_bytes, MAX_OUTPUT_BYTES),
            ("max_tool_processes", self.max_tool_processes, PROCESSES),
        ]
    }
}

pub(super) fn within(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let (low, high) = (range.start(), range.end());
        text.parse()
            .ok()
            .filter(|number| range.contains(number))
            .ok_or_else(|| format!("must be a whole number from {low} to {high}"))
    }
}
