//! The failure counter: labels from closed sets, and a no-op until it is registered.

use std::fmt;
use std::sync::Arc;

/// The name of the counter as it is scraped.
pub const FAILURES_TOTAL: &str = "mcp_notification_failures_total";

/// The resource types of a server: the values of the label `resource_type`.
///
/// A server implements it for an enum of its own, so that the set is closed when the
/// server is compiled: the counter never has more than
/// `ALL.len() * ErrorType::ALL.len()` series.
///
/// ```
/// use mcp_notify::{ResourceType, ResourceTypes};
///
/// #[derive(Clone, Copy)]
/// enum FileResource {
///     Document,
///     Folder,
/// }
///
/// impl ResourceTypes for FileResource {
///     const ALL: &'static [Self] = &[Self::Document, Self::Folder];
///
///     fn as_str(self) -> &'static str {
///         match self {
///             Self::Document => "document",
///             Self::Folder => "folder",
///         }
///     }
/// }
///
/// assert_eq!(ResourceType::from(FileResource::Folder).as_str(), "folder");
/// ```
pub trait ResourceTypes: Copy + 'static {
    /// Every resource type of the server.
    const ALL: &'static [Self];

    /// The value of the label. Two types must not share one.
    fn as_str(self) -> &'static str;
}

/// One resource type of a server, whichever enum names it: notifications and counters
/// carry it without a type parameter.
///
/// It is made from a value of [`ResourceTypes`] only, so that no text from outside
/// becomes a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResourceType(&'static str);

/// The label `error_type`: why a notification was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// The connection failed or is closed.
    Network,
    /// The send did not complete within its deadline.
    Timeout,
    /// The payload could not be serialised.
    Serialization,
    /// Everything else: invalid parameters, cancellation, overflow, a panic, an
    /// unknown error.
    Other,
}

/// Counts abandoned notifications. Implement it to count elsewhere than in a
/// prometheus-client registry.
pub trait FailureCounter: Send + Sync + 'static {
    /// Counts one abandoned notification. Called from delivery tasks and from tasks
    /// that push: it must not block.
    fn failed(&self, resource_type: ResourceType, error_type: ErrorType);
}

/// A handle to the failure counter. The default one counts nothing.
#[derive(Clone, Default)]
pub struct Metrics(Option<Arc<dyn FailureCounter>>);

// === impl ResourceType ===

impl ResourceType {
    /// The value of the label.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl<T: ResourceTypes> From<T> for ResourceType {
    fn from(resource_type: T) -> Self {
        Self(resource_type.as_str())
    }
}

impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

// === impl ErrorType ===

impl ErrorType {
    /// Every error type.
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

    /// Counts one abandoned notification; the default handle does nothing.
    pub fn failed(&self, resource_type: impl Into<ResourceType>, error_type: ErrorType) {
        if let Some(counter) = &self.0 {
            counter.failed(resource_type.into(), error_type);
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

    use super::{Arc, ErrorType, FailureCounter, Metrics, ResourceType, ResourceTypes};

    /// prometheus-client appends `_total` to a counter's name itself.
    const NAME: &str = "mcp_notification_failures";

    type Labels = [(&'static str, &'static str); 2];

    /// The counters of each resource type, by error type.
    ///
    /// Every series is created at registration: counting is one short search and one
    /// atomic addition, and a rate over the counter is right from the first failure
    /// on, because the series stood at zero before.
    struct Series(Vec<(ResourceType, [Counter; 4])>);

    impl FailureCounter for Series {
        fn failed(&self, resource_type: ResourceType, error_type: ErrorType) {
            // A handful of types: comparing their names is quicker than hashing one.
            let found = self.0.iter().find(|(known, _)| *known == resource_type);
            if let Some((_, counters)) = found {
                counters[error_type as usize].inc();
            }
        }
    }

    impl Metrics {
        /// Registers the counter for the resource types of a server, and returns the
        /// handle that counts in it. A failure of a type that is not in `T::ALL` is
        /// not counted.
        ///
        /// Register once per registry: prometheus-client writes a name that was
        /// registered twice twice.
        pub fn register<T: ResourceTypes>(registry: &mut Registry) -> Self {
            let failures = Family::<Labels, Counter>::default();
            registry.register(
                NAME,
                "Abandoned notifications by resource type and error type",
                failures.clone(),
            );
            let counters = |resource_type: ResourceType| {
                ErrorType::ALL.map(|error_type| {
                    failures.get_or_create_owned(&[
                        ("resource_type", resource_type.as_str()),
                        ("error_type", error_type.as_str()),
                    ])
                })
            };
            let types = T::ALL.iter().map(|one| ResourceType::from(*one));
            let series = types.map(|one| (one, counters(one))).collect();
            Self::new(Arc::new(Series(series)))
        }
    }
}

#[cfg(test)]
mod tests;
