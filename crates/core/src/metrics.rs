//! What the server counts, under the prefix `kubecrier_`; label values come from
//! closed sets.

mod follow;
mod graph;
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

pub use self::{
    follow::FollowMetrics,
    graph::GraphMetrics,
    watch::{WatchEnd, WatchMetrics, WatchState},
};

/// From a cached answer to a cluster that does not answer.
const SECONDS: [f64; 8] = [0.005, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// The counters of tool calls, and the registry that everything is in.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    notifications: mcp_notify::Metrics,
    sessions: Gauge,
    calls: Family<CallLabels, Counter>,
    seconds: Family<ToolLabel, Histogram, fn() -> Histogram>,
    watch: WatchMetrics,
    follows: FollowMetrics,
    captures: CaptureMetrics,
    graph: GraphMetrics,
}

/// The counters of log captures. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CaptureMetrics {
    in_flight: Gauge,
    waiting: Gauge,
    done: Counter,
    throttled: Counter,
    failed: Family<ReasonLabel, Counter>,
    seconds: Histogram,
}

/// A capture that waits for a place; counted until it is dropped.
#[derive(Debug)]
pub struct CaptureWaiting(CaptureMetrics);

/// A capture under way; counted until it is dropped.
#[derive(Debug)]
pub struct CaptureUnderWay(CaptureMetrics);

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
    /// A registry of its own, so that two servers in one process do not mix.
    pub fn new() -> Self {
        let calls = Family::<CallLabels, Counter>::default();
        let seconds =
            Family::<ToolLabel, Histogram, fn() -> Histogram>::new_with_constructor(|| {
                Histogram::new(SECONDS)
            });
        let sessions = Gauge::default();
        let mut all = Registry::default();
        // The one metric whose name is given; everything else has our prefix.
        let notifications = mcp_notify::Metrics::register(&mut all);
        let registry = all.sub_registry_with_prefix("kubecrier");
        registry.register("sessions", "Sessions over HTTP", sessions.clone());
        registry.register(
            "tool_calls",
            "Calls of tools by how they ended: ok, or the kind of error",
            calls.clone(),
        );
        registry.register(
            "tool_seconds",
            "How long calls of tools took",
            seconds.clone(),
        );
        registry.register(
            "build",
            "What is running",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        let watch = WatchMetrics::register(registry);
        let follows = FollowMetrics::register(registry);
        let captures = CaptureMetrics::register(registry);
        let graph = GraphMetrics::register(registry);
        let started = jiff::Timestamp::now().as_second();
        registry.register(
            "start_time_seconds",
            "When the server was started",
            ConstGauge::new(started),
        );
        Self {
            registry: Arc::new(all),
            notifications,
            sessions,
            calls,
            seconds,
            watch,
            follows,
            captures,
            graph,
        }
    }

    /// Where graphs are counted.
    pub fn graph(&self) -> &GraphMetrics {
        &self.graph
    }

    /// Where log captures are counted.
    pub fn captures(&self) -> CaptureMetrics {
        self.captures.clone()
    }

    /// Where failed notifications are counted.
    pub fn notifications(&self) -> mcp_notify::Metrics {
        self.notifications.clone()
    }

    /// Where followed logs are counted.
    pub fn follows(&self) -> FollowMetrics {
        self.follows.clone()
    }

    /// Where watches are counted.
    pub fn watch(&self) -> &WatchMetrics {
        &self.watch
    }

    /// Counts one call.
    pub fn called(&self, tool: &'static str, outcome: &'static str, seconds: f64) {
        self.calls
            .get_or_create(&CallLabels { tool, outcome })
            .inc();
        self.seconds
            .get_or_create(&ToolLabel { tool })
            .observe(seconds);
    }

    /// Everything, as Prometheus reads it; sizes are as of now.
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
            "Captures of logs under way",
            all.in_flight.clone(),
        );
        registry.register(
            "log_captures_waiting",
            "Captures of logs that wait for a free place",
            all.waiting.clone(),
        );
        registry.register(
            "log_captures_done",
            "Captures of logs that came to an end",
            all.done.clone(),
        );
        registry.register(
            "log_captures_throttled",
            "Captures of logs that found no free place",
            all.throttled.clone(),
        );
        registry.register(
            "log_captures_failed",
            "Logs that could not be had, by why",
            all.failed.clone(),
        );
        registry.register(
            "log_captures_seconds",
            "How long captures of logs took",
            all.seconds.clone(),
        );
        all
    }

    /// One begins.
    pub fn begin(&self) -> CaptureUnderWay {
        self.in_flight.inc();
        CaptureUnderWay(self.clone())
    }

    /// One waits for a free place.
    pub fn wait(&self) -> CaptureWaiting {
        self.waiting.inc();
        CaptureWaiting(self.clone())
    }

    /// One found no free place.
    pub fn throttled(&self) {
        self.throttled.inc();
    }

    /// A log could not be had.
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

// === impl CaptureUnderWay ===

impl CaptureUnderWay {
    /// It came to an end.
    pub fn done(self, seconds: f64) {
        self.0.done.inc();
        self.0.seconds.observe(seconds);
    }
}

impl Drop for CaptureUnderWay {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}
