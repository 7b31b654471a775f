//! The ranges of numeric settings.

use std::ops::RangeInclusive;

use super::Settings;

/// Ports; for 0 the system chooses a free one.
pub(super) const PORT: RangeInclusive<u64> = 0..=65_535;
/// Concurrent requests; each may hold a body of up to 4 MiB.
pub(super) const REQUESTS: RangeInclusive<u64> = 1..=100_000;
/// Connections; one for each stream, and one for each request that runs.
pub(super) const CONNECTIONS: RangeInclusive<u64> = 2..=1_000_000;
/// Percent of a limit.
pub(super) const SHARE: RangeInclusive<u64> = 1..=100;
/// Calls that read from clusters at a time; each may hold an answer of tens of MiB.
pub(super) const READS: RangeInclusive<u64> = 1..=10_000;
/// Watches and followed logs; each is a connection to a cluster.
pub(super) const WATCHES: RangeInclusive<u64> = 1..=10_000;
/// Graphs; each is a dozen watches, and up to 100,000 objects in memory.
pub(super) const GRAPHS: RangeInclusive<u64> = 1..=1_000;
/// Sessions in total, sessions per caller, and new sessions per second.
pub(super) const SESSIONS: RangeInclusive<u64> = 1..=1_000_000;
/// Answers that are kept for lost connections; at least a page of text.
pub(super) const PARKED_BYTES: RangeInclusive<u64> = 65_536..=1_099_511_627_776;
/// Long enough for a slow link, short enough for a caller that waits.
pub(super) const REQUEST_TIMEOUT_SECONDS: RangeInclusive<u64> = 1..=60;
/// Kubernetes kills a pod after 30 s by default; more than 5 minutes is a mistake.
pub(super) const DRAIN_TIMEOUT_SECONDS: RangeInclusive<u64> = 1..=300;
/// Subscriptions per session, and in total.
pub(super) const SUBSCRIPTIONS: RangeInclusive<u64> = 1..=100_000;
/// Events kept per subscription.
pub(super) const FEED_EVENTS: RangeInclusive<u64> = 1..=100_000;
/// A watch that has gone silent is noticed when its renewal is due.
pub(super) const WATCH_RENEWAL_SECONDS: RangeInclusive<u64> = 1..=3600;
/// What is kept of events; some blocks of each cluster have to fit.
pub(super) const HISTORY_BYTES: RangeInclusive<u64> = 16_777_216..=17_592_186_044_416;
/// Concurrent captures of logs.
pub(super) const CAPTURES: RangeInclusive<u64> = 1..=1000;
/// A few lines at least; at most what a notification can hold several of.
pub(super) const LOG_BYTES: RangeInclusive<u64> = 256..=262_144;
/// Containers whose logs come with a fault.
pub(super) const CONTAINERS: RangeInclusive<u64> = 1..=50;
/// Concurrent executables of the project, each a process.
pub(super) const PROCESSES: RangeInclusive<u64> = 1..=1_000;
/// A screenful at least; at most what clients accept in one message.
pub(super) const MAX_OUTPUT_BYTES: RangeInclusive<u64> = 4096..=4_194_304;

impl Settings {
    /// The numeric settings with their ranges. clap checks flags and environment variables
    /// itself; the configuration file is checked with these.
    pub(crate) fn numbers(&self) -> [(&'static str, Option<u64>, RangeInclusive<u64>); 26] {
        [
            ("port", self.port, PORT),
            ("caller_share", self.caller_share, SHARE),
            ("max_connections", self.max_connections, CONNECTIONS),
            ("max_cluster_reads", self.max_cluster_reads, READS),
            ("max_waits", self.max_waits, REQUESTS),
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
            ("history_max_bytes", self.history_max_bytes, HISTORY_BYTES),
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
