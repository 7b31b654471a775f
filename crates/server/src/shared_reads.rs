//! What is read once, with the rights of the server, and given to several callers.
//!
//! Where callers act in clusters as themselves (`--cluster-identity impersonate`), none of it
//! may reach a caller whom Kubernetes would not let read it. [`SharedRead::is_open_to_callers`]
//! is the one place that decides which of these ways are open then; `tool_filter` closes the
//! tools and, with them, the doors that give the same, and `resources` the updates.

/// One kind of what is read for all callers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedRead {
    /// Events of watches, delivered to subscriptions and kept in their feeds.
    Subscriptions,
    /// Faults, whose evidence is captured once for all subscriptions.
    Faults,
    /// Incidents of a namespace or cluster.
    Incidents,
    /// The graph of a namespace or cluster.
    Graph,
    /// Updates of events as a resource.
    EventUpdates,
    /// Updates of a log as a resource.
    LogUpdates,
    /// Of a tool that is not known here.
    Unknown,
}

// === impl SharedRead ===

impl SharedRead {
    /// Every kind.
    #[cfg(test)]
    pub(super) const ALL: [Self; 7] = [
        Self::Subscriptions,
        Self::Faults,
        Self::Incidents,
        Self::Graph,
        Self::EventUpdates,
        Self::LogUpdates,
        Self::Unknown,
    ];

    /// Whether a caller gets of it only what Kubernetes lets the caller read. One that is
    /// decided so for each caller is opened here.
    pub(super) const fn is_open_to_callers(self) -> bool {
        match self {
            Self::Subscriptions
            | Self::Faults
            | Self::EventUpdates
            | Self::LogUpdates
            // Derived for each user again, from what that user may read.
            | Self::Incidents
            | Self::Graph => true,
            Self::Unknown => false,
        }
    }

    /// What the answer of a built-in tool is made of, if it is read for all callers together.
    pub(super) fn of_tool(tool: &str) -> Option<Self> {
        match tool {
            "events_subscribe"
            | "events_poll"
            | "events_list_subscriptions"
            | "events_unsubscribe" => Some(Self::Subscriptions),
            "faults_get" => Some(Self::Faults),
            "faults_list" | "faults_wait" => Some(Self::Incidents),
            "resources_graph" => Some(Self::Graph),
            // One request for each call, as the caller; the contexts are those of the server.
            "changes_list"
            | "configuration_contexts_list"
            | "events_list"
            | "namespaces_list"
            | "nodes_list"
            | "nodes_top"
            | "pods_get"
            | "pods_list"
            | "pods_log"
            | "pods_top"
            | "resources_get"
            | "resources_list" => None,
            // A tool that is not known here is read by nobody.
            _ => Some(Self::Unknown),
        }
    }

    /// The subject of a refusal.
    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::Subscriptions => "subscriptions to events are",
            Self::Faults => "faults are",
            Self::Incidents => "incidents are",
            Self::Graph => "the graph is",
            Self::EventUpdates => "updates of events are",
            Self::LogUpdates => "updates of logs are",
            Self::Unknown => "this is",
        }
    }
}

/// What a caller is refused that acts as itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} not offered with --cluster-identity impersonate: it is read once for all callers, \
     with the rights of the server"
)]
pub(super) struct NotPerCaller {
    pub(super) what: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::TOOLS;

    /// A new tool is named above, or is closed to callers that act as themselves.
    #[test]
    fn every_tool_is_known() {
        let shared: Vec<_> = TOOLS
            .iter()
            .filter(|tool| SharedRead::of_tool(tool.name).is_some())
            .map(|tool| tool.name)
            .collect();
        assert_eq!(
            shared,
            [
                "events_list_subscriptions",
                "events_poll",
                "events_subscribe",
                "events_unsubscribe",
                "faults_get",
                "faults_list",
                "faults_wait",
                "resources_graph",
            ]
        );
        let new = SharedRead::of_tool("a_new_tool");
        assert!(new.is_some_and(|read| !read.is_open_to_callers()));
    }

    #[test]
    fn a_refusal_names_the_setting() {
        for read in SharedRead::ALL {
            let what = read.what().to_owned();
            let text = NotPerCaller { what }.to_string();
            assert!(
                text.contains("not offered with --cluster-identity impersonate"),
                "{text}"
            );
        }
    }
}
