//! Metrics of sinks.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Metrics of all sinks. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SinksMetrics {
    deliveries: Family<DeliveryLabels, Counter>,
    waiting: Family<SinkLabels, Gauge>,
    up: Family<SinkLabels, Gauge>,
}

/// Metrics of one sink. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SinkMetrics {
    all: SinksMetrics,
    labels: SinkLabels,
}

/// What became of an attempt to deliver, or of what could not wait any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkOutcome {
    /// The target took it.
    Delivered,
    /// The target could not be reached or refused it; it is tried again.
    Failed,
    /// The target does not take it; it is not tried again.
    Rejected,
    /// There was no room for it, or no time left at the end of the process.
    Dropped,
}

/// The names are those of the configuration, so there are few.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SinkLabels {
    sink: String,
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DeliveryLabels {
    sink: String,
    kind: &'static str,
    outcome: &'static str,
}

// === impl SinksMetrics ===

impl SinksMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register(
            "sink_deliveries",
            "Number of deliveries to sinks, by outcome: delivered, failed (tried again), rejected or dropped",
            all.deliveries.clone(),
        );
        registry.register(
            "sink_waiting",
            "Number of incidents that wait to be delivered to a sink",
            all.waiting.clone(),
        );
        registry.register(
            "sink_up",
            "Whether the last delivery to a sink arrived; absent before the first one",
            all.up.clone(),
        );
        all
    }

    /// The metrics of one sink, by its name and kind.
    pub fn of(&self, sink: &str, kind: &'static str) -> SinkMetrics {
        let sink = sink.to_owned();
        let one = SinkMetrics {
            all: self.clone(),
            labels: SinkLabels { sink, kind },
        };
        for outcome in SinkOutcome::ALL {
            // An outcome that never came is a zero, not an absent series.
            let _zero = self.deliveries.get_or_create(&one.delivery(outcome));
        }
        one.waiting(0);
        one
    }
}

// === impl SinkMetrics ===

impl SinkMetrics {
    /// Counts deliveries with an outcome.
    pub fn count(&self, outcome: SinkOutcome, number: usize) {
        let labels = self.delivery(outcome);
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        self.all.deliveries.get_or_create(&labels).inc_by(number);
        match outcome {
            SinkOutcome::Delivered => self.set_up(1),
            SinkOutcome::Failed | SinkOutcome::Rejected => self.set_up(0),
            SinkOutcome::Dropped => {}
        }
    }

    /// Sets the number of incidents that wait.
    pub fn waiting(&self, number: usize) {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.all.waiting.get_or_create(&self.labels).set(number);
    }

    fn set_up(&self, up: i64) {
        self.all.up.get_or_create(&self.labels).set(up);
    }

    fn delivery(&self, outcome: SinkOutcome) -> DeliveryLabels {
        DeliveryLabels {
            sink: self.labels.sink.clone(),
            kind: self.labels.kind,
            outcome: outcome.as_str(),
        }
    }
}

// === impl SinkOutcome ===

impl SinkOutcome {
    const ALL: [Self; 4] = [Self::Delivered, Self::Failed, Self::Rejected, Self::Dropped];

    fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Dropped => "dropped",
        }
    }
}
