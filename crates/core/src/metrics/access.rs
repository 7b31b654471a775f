//! Metrics of the questions who may read what.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Metrics of access reviews. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AccessMetrics {
    reviews: Family<OutcomeLabel, Counter>,
    // Counted for each event and user, so that no map is read for it.
    known: Counter,
    asked: Counter,
}

/// What became of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReviewOutcome {
    /// The user may.
    Allowed,
    /// The user may not.
    Denied,
    /// There was no answer, or an error.
    Failed,
    /// It was not asked: too many questions.
    Throttled,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

// === impl ReviewOutcome ===

impl ReviewOutcome {
    const ALL: [Self; 4] = [Self::Allowed, Self::Denied, Self::Failed, Self::Throttled];

    fn label(self) -> OutcomeLabel {
        let outcome = match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::Throttled => "throttled",
        };
        OutcomeLabel { outcome }
    }
}

// === impl AccessMetrics ===

impl AccessMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        for outcome in ReviewOutcome::ALL {
            drop(all.reviews.get_or_create(&outcome.label()));
        }
        registry.register(
            "access_reviews",
            "Number of SubjectAccessReviews, by outcome: allowed, denied, failed or throttled",
            all.reviews.clone(),
        );
        registry.register(
            "access_lookups_known",
            "Number of times that it was known who may read what",
            all.known.clone(),
        );
        registry.register(
            "access_lookups_asked",
            "Number of times that it had to be asked who may read what",
            all.asked.clone(),
        );
        all
    }

    /// Counts a review.
    pub fn reviewed(&self, outcome: ReviewOutcome) {
        self.reviews.get_or_create(&outcome.label()).inc();
    }

    /// Counts a lookup; `is_known`: without a review.
    pub fn looked_up(&self, is_known: bool) {
        if is_known {
            self.known.inc();
        } else {
            self.asked.inc();
        }
    }
}
