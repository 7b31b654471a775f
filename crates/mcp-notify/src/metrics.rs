//! The failure counter: closed label sets, and nothing at all until it is set up.

use std::fmt;
use std::sync::Arc;

/// The name of the counter as it is scraped.
pub const FAILURES_TOTAL: &str = "mcp_notification_failures_total";

/// The label `resource_type`: what kind of streaming resource was not delivered.
///
/// The set is closed, so that the counter never has more than
/// `ResourceType::ALL.len() * ErrorType::ALL.len()` = 12 series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceType {
    /// A graph of objects.
    Graph,
    /// A list of events, and the messages that carry them.
    Events,
    /// The tail of a log.
    PodLogs,
}

/// The label `error_type`: why it was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// The connection failed or is gone.
    Network,
    /// The send did not end within its deadline.
    Timeout,
    /// The payload could not be serialised.
    Serialization,
    /// Everything else: invalid parameters, cancellation, overflow, a panic, the unknown.
    Other,
}

/// Counts notifications that were given up. Implement it to count elsewhere
/// than in a prometheus-client registry.
pub trait FailureCounter: Send + Sync + 'static {
    /// One more notification was given up. Called from delivery tasks and from
    /// whoever pushes: it must not block.
    fn failed(&self, resource_type: ResourceType, error_type: ErrorType);
}

/// A handle to the failure counter. The default one counts nowhere.
#[derive(Clone, Default)]
pub struct Metrics(Option<Arc<dyn FailureCounter>>);

// === impl ResourceType ===

impl ResourceType {
    /// Every value there is.
    pub const ALL: [Self; 3] = [Self::Graph, Self::Events, Self::PodLogs];

    /// The value of the label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Events => "events",
            Self::PodLogs => "podlogs",
        }
    }
}

impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl ErrorType ===

impl ErrorType {
    /// Every value there is.
    pub const ALL: [Self; 4] = [
        Self::Network,
        Self::Timeout,
        Self::Serialization,
        Self::Other,
    ];

    /// The value of the label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Serialization => "serialization",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for ErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Metrics ===

impl Metrics {
    /// Counts in `counter`.
    pub fn new(counter: Arc<dyn FailureCounter>) -> Self {
        Self(Some(counter))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// Counts one notification that was given up; does nothing by default.
    pub fn failed(&self, resource_type: ResourceType, error_type: ErrorType) {
        if let Some(counter) = &self.0 {
            counter.failed(resource_type, error_type);
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Metrics").field(&self.0.is_some()).finish()
    }
}

#[cfg(feature = "prometheus")]
mod prometheus {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::registry::Registry;

    use super::{Arc, ErrorType, FailureCounter, Metrics, ResourceType};

    /// prometheus-client appends `_total` to a counter's name itself.
    const NAME: &str = "mcp_notification_failures";

    type Labels = [(&'static str, &'static str); 2];

    /// Every series resolved at registration: counting is one atomic addition,
    /// and a rate over the counter is right from the first failure on, because
    /// the series stood at zero before.
    struct Resolved([[Counter; 4]; 3]);

    impl FailureCounter for Resolved {
        fn failed(&self, resource_type: ResourceType, error_type: ErrorType) {
            self.0[resource_type as usize][error_type as usize].inc();
        }
    }

    impl Metrics {
        /// Registers the counter and returns the handle that counts in it.
        ///
        /// Register once per registry; prometheus-client writes a name that
        /// was registered twice twice.
        pub fn register(registry: &mut Registry) -> Self {
            let failures = Family::<Labels, Counter>::default();
            registry.register(
                NAME,
                "Notifications given up, by what they were about and why",
                failures.clone(),
            );
            let resolved = ResourceType::ALL.map(|resource_type| {
                ErrorType::ALL.map(|error_type| {
                    failures.get_or_create_owned(&[
                        ("resource_type", resource_type.as_str()),
                        ("error_type", error_type.as_str()),
                    ])
                })
            });
            Self::new(Arc::new(Resolved(resolved)))
        }
    }
}

#[cfg(test)]
mod tests;
