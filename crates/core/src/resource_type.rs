//! The resource types of the server: the values of the label `resource_type` of
//! `mcp_notification_failures_total`.

use mcp_notify::ResourceTypes;

/// The type of a resource that clients subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceType {
    /// A graph of objects.
    Graph,
    /// A list of events, and the messages that carry them.
    Events,
    /// The log of a container.
    PodLogs,
}

// === impl ResourceType ===

impl ResourceTypes for ResourceType {
    const ALL: &'static [Self] = &[Self::Graph, Self::Events, Self::PodLogs];

    fn as_str(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Events => "events",
            Self::PodLogs => "podlogs",
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::Metrics;

    #[test]
    fn the_failure_counter_has_a_series_per_type_and_error() {
        let text = Metrics::new().encode(0).unwrap();
        let series: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("mcp_"))
            .collect();
        assert_eq!(series.len(), 12, "{text}");
        for resource_type in ["graph", "events", "podlogs"] {
            for error_type in ["network", "timeout", "serialization", "other"] {
                let one = format!(
                    "mcp_notification_failures_total{{resource_type=\"{resource_type}\",error_type=\"{error_type}\"}} 0"
                );
                assert!(series.contains(&one.as_str()), "no {one}");
            }
        }
    }
}
