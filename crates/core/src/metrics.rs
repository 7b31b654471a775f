//! Metrics of the server, with the prefix `kubecrier_`. Label values come from closed sets.

mod access;
mod answers;
mod cluster_store;
mod follow;
mod graph;
mod history;
mod incidents;
mod refusals;
mod sinks;
mod waits;
mod watch;

use std::sync::Arc;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
        info::Info,
    },
    registry::Registry,
};

use crate::resource_type::ResourceType;

pub use self::{
    access::{AccessMetrics, ReviewOutcome},
    answers::{AnswerMetrics, ParkedGuard},
    cluster_store::{ClusterStoreMetrics, SharedWatchNumbers},
    follow::FollowMetrics,
    graph::GraphMetrics,
    history::{HistoryMetrics, HistoryNumbers},
    incidents::IncidentMetrics,
    refusals::{RefusalMetrics, RequestRefusal},
    sinks::{SinkMetrics, SinkOutcome, SinksMetrics},
    waits::{WaitGuard, WaitMetrics},
    watch::{WatchEnd, WatchMetrics, WatchState},
};

/// Buckets from a cached answer to a cluster that does not answer.
const SECONDS: [f64; 8] = [0.005, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// The registry of all metrics, with the metrics of tool calls.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    notifications: mcp_notify::Metrics,
    sessions: Gauge,
    calls: Family<CallLabels, Counter>,
    seconds: Family<ToolLabel, Histogram, fn() -> Histogram>,
    answers: AnswerMetrics,
    watch: WatchMetrics,
    follows: FollowMetrics,
    captures: CaptureMetrics,
    graph: GraphMetrics,
    history: HistoryMetrics,
    cluster_store: ClusterStoreMetrics,
    refusals: RefusalMetrics,
    sinks: SinksMetrics,
    waits: WaitMetrics,
    access: AccessMetrics,
}

/// Metrics of log captures. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CaptureMetrics {
    in_flight: Gauge,
    waiting: Gauge,
    done: Counter,
    throttled: Counter,
    failed: Family<ReasonLabel, Counter>,
    seconds: Histogram,
}

/// A capture that waits for a permit; counted until it is dropped.
#[derive(Debug)]
pub struct CaptureWaiting(CaptureMetrics);

/// A capture in flight; counted until it is dropped.
#[derive(Debug)]
pub struct CaptureInFlight(CaptureMetrics);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabels {
    tool: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ToolLabel {
    tool: &'static str,
}

// === impl Metrics ===

impl Metrics {
    /// Metrics with their own registry, so that two servers in one process do not mix.
    pub fn new() -> Self {
        let calls = Family::<CallLabels, Counter>::default();
        let seconds =
            Family::<ToolLabel, Histogram, fn() -> Histogram>::new_with_constructor(|| {
                Histogram::new(SECONDS)
            });
        let sessions = Gauge::default();
        let mut all = Registry::default();
        // The one metric whose name is specified; all others have our prefix.
        let notifications = mcp_notify::Metrics::register::<ResourceType>(&mut all);
        let registry = all.sub_registry_with_prefix("kubecrier");
        registry.register("sessions", "Number of open HTTP sessions", sessions.clone());
        registry.register(
            "tool_calls",
            "Number of tool calls, by outcome: ok or the kind of error",
            calls.clone(),
        );
        registry.register(
            "tool_seconds",
            "Duration of tool calls in seconds",
            seconds.clone(),
        );
        registry.register(
            "build",
            "Version of the running server",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        let answers = AnswerMetrics::register(registry);
        let watch = WatchMetrics::register(registry);
        let follows = FollowMetrics::register(registry);
        let captures = CaptureMetrics::register(registry);
        let graph = GraphMetrics::register(registry);
        let history = HistoryMetrics::register(registry);
        let cluster_store = ClusterStoreMetrics::register(registry);
        let refusals = RefusalMetrics::register(registry);
        let sinks = SinksMetrics::register(registry);
        let waits = WaitMetrics::register(registry);
        let access = AccessMetrics::register(registry);
        let started = jiff::Timestamp::now().as_second();
        registry.register(
            "start_time_seconds",
            "Start time of the server, in seconds since the Unix epoch",
            ConstGauge::new(started),
        );
        Self {
            registry: Arc::new(all),
            notifications,
            sessions,
            calls,
            seconds,
            answers,
            watch,
            follows,
            captures,
            graph,
            history,
            cluster_store,
            refusals,
            sinks,
            waits,
            access,
        }
    }

    /// Metrics of parked answers.
    pub fn answers(&self) -> AnswerMetrics {
        self.answers.clone()
    }

    /// Metrics of graphs.
    pub fn graph(&self) -> &GraphMetrics {
        &self.graph
    }

    /// Metrics of the store that servers share.
    pub fn cluster_store(&self) -> &ClusterStoreMetrics {
        &self.cluster_store
    }

    /// Metrics of the history.
    pub fn history(&self) -> &HistoryMetrics {
        &self.history
    }

    /// Metrics of waits for incidents.
    pub fn waits(&self) -> WaitMetrics {
        self.waits.clone()
    }

    /// Metrics of the questions who may read what.
    pub fn access(&self) -> AccessMetrics {
        self.access.clone()
    }

    /// Metrics of refused requests.
    pub fn refusals(&self) -> RefusalMetrics {
        self.refusals.clone()
    }

    /// Metrics of sinks.
    pub fn sinks(&self) -> &SinksMetrics {
        &self.sinks
    }

    /// Metrics of log captures.
    pub fn captures(&self) -> CaptureMetrics {
        self.captures.clone()
    }

    /// Metrics of notifications.
    pub fn notifications(&self) -> mcp_notify::Metrics {
        self.notifications.clone()
    }

    /// Metrics of followed logs.
    pub fn follows(&self) -> FollowMetrics {
        self.follows.clone()
    }

    /// Metrics of watches.
    pub fn watch(&self) -> &WatchMetrics {
        &self.watch
    }

    /// Counts a tool call.
    pub fn called(&self, tool: &'static str, outcome: &'static str, seconds: f64) {
        self.calls
            .get_or_create(&CallLabels { tool, outcome })
            .inc();
        self.seconds
            .get_or_create(&ToolLabel { tool })
            .observe(seconds);
    }

    /// All metrics in Prometheus' text format; sizes are as of now.
    pub fn encode(&self, sessions: usize) -> Result<String, std::fmt::Error> {
        self.sessions
            .set(i64::try_from(sessions).unwrap_or(i64::MAX));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

// === impl CaptureMetrics ===

impl CaptureMetrics {
    fn register(registry: &mut Registry) -> Self {
        let all = Self {
            in_flight: Gauge::default(),
            waiting: Gauge::default(),
            done: Counter::default(),
            throttled: Counter::default(),
            failed: Family::default(),
            seconds: Histogram::new(SECONDS),
        };
        registry.register(
            "log_captures_in_flight",
            "Number of log captures in flight",
            all.in_flight.clone(),
        );
        registry.register(
            "log_captures_waiting",
            "Number of log captures that wait for a permit",
            all.waiting.clone(),
        );
        registry.register(
            "log_captures_done",
            "Number of finished log captures",
            all.done.clone(),
        );
        registry.register(
            "log_captures_throttled",
            "Number of log captures that were throttled",
            all.throttled.clone(),
        );
        registry.register(
            "log_captures_failed",
            "Number of logs that could not be read, by reason",
            all.failed.clone(),
        );
        registry.register(
            "log_captures_seconds",
            "Duration of log captures in seconds",
            all.seconds.clone(),
        );
        all
    }

    /// Counts a capture that starts.
    pub fn begin(&self) -> CaptureInFlight {
        self.in_flight.inc();
        CaptureInFlight(self.clone())
    }

    /// Counts a capture that waits for a permit.
    pub fn wait(&self) -> CaptureWaiting {
        self.waiting.inc();
        CaptureWaiting(self.clone())
    }

    /// Counts a capture that was throttled.
    pub fn throttled(&self) {
        self.throttled.inc();
    }

    /// Counts a log that could not be read.
    pub fn failed(&self, reason: &'static str) {
        self.failed.get_or_create(&ReasonLabel { reason }).inc();
    }
}

// === impl CaptureWaiting ===

impl Drop for CaptureWaiting {
    fn drop(&mut self) {
        self.0.waiting.dec();
    }
}

// === impl CaptureInFlight ===

impl CaptureInFlight {
    /// Counts the capture as finished.
    pub fn done(self, seconds: f64) {
        self.0.done.inc();
        self.0.seconds.observe(seconds);
    }
}

impl Drop for CaptureInFlight {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}
