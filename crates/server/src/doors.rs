//! The doors beside `tools/call`: what is switched off is off at each of them.
//!
//! The operator switches off tools. But what a tool gives may also be read as a resource,
//! pushed, completed, or be a part of a prompt or of a fault. So each of these doors names the
//! tools that give the same, and is open as long as one of them is on.
//!
//! | door | tools |
//! |---|---|
//! | logs as resources, in the evidence of faults | `pods_log` |
//! | events as resources, by `resources_list` | `events_list` |
//! | the graph as a resource | `resources_graph` |
//! | incidents as a resource, subscriptions of mode `incidents` | `faults_list` |
//! | a subscription's feed as a resource | `events_subscribe`, `events_poll` |
//! | subscriptions of mode `faults` | `faults_get` |
//! | names in completions and schemas | the tool that lists them |
//! | a prompt | its `needs` |

use super::tools;
use kubecrier_k8s::{DeniedKinds, RefusedKind};

/// A way to what a tool gives, other than to call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// Logs as resources.
    LogResource,
    /// Events as resources.
    EventsResource,
    /// The graph as a resource.
    GraphResource,
    /// Incidents as a resource.
    IncidentsResource,
    /// Subscriptions to incidents.
    IncidentMode,
    /// The feed of a subscription as a resource.
    FeedResource,
    /// Subscriptions to faults.
    FaultMode,
    /// Log lines in the evidence of faults.
    FaultLogs,
    /// Contexts in schemas, completions and errors.
    ContextNames,
    /// Namespaces in completions.
    NamespaceNames,
    /// Pods in completions.
    PodNames,
    /// Containers in completions.
    ContainerNames,
    /// Services in completions.
    ServiceNames,
    /// Faults in completions.
    FaultIds,
}

/// Why a tool is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    DisabledTools,
    Toolsets,
    DeniedKinds,
    AllowedNamespaces,
    ClusterIdentity,
}

/// Something that the operator has switched off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {}", self.setting.reason(&self.tool))]
pub(super) struct SwitchedOff {
    pub(super) what: String,
    pub(super) tool: String,
    pub(super) setting: Setting,
}

/// How a generic tool reads objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadVerb {
    Get,
    List,
}

// === impl Door ===

impl Door {
    /// Every door.
    #[cfg(test)]
    pub(super) const ALL: [Self; 14] = [
        Self::LogResource,
        Self::EventsResource,
        Self::GraphResource,
        Self::IncidentsResource,
        Self::IncidentMode,
        Self::FeedResource,
        Self::FaultMode,
        Self::FaultLogs,
        Self::ContextNames,
        Self::NamespaceNames,
        Self::PodNames,
        Self::ContainerNames,
        Self::ServiceNames,
        Self::FaultIds,
    ];

    /// The tools that give the same.
    pub(super) const fn tools(self) -> &'static [&'static str] {
        match self {
            Self::LogResource | Self::FaultLogs => &["pods_log"],
            Self::EventsResource => &["events_list"],
            Self::GraphResource => &["resources_graph"],
            Self::FeedResource => &["events_subscribe", "events_poll"],
            Self::FaultMode => &["faults_get"],
            Self::ContextNames => &["configuration_contexts_list"],
            Self::NamespaceNames => &["namespaces_list"],
            Self::PodNames => &["pods_list"],
            Self::ContainerNames => &["pods_get", "pods_log"],
            Self::ServiceNames => &["resources_list"],
            Self::FaultIds | Self::IncidentsResource | Self::IncidentMode => &["faults_list"],
        }
    }

    /// The subject of a refusal.
    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::LogResource | Self::FaultLogs => "logs are",
            Self::EventsResource => "events are",
            Self::GraphResource => "the graph is",
            Self::IncidentsResource | Self::IncidentMode => "incidents are",
            Self::FeedResource => "subscriptions are",
            Self::FaultMode => "faults are",
            Self::ContextNames => "the list of contexts is",
            Self::NamespaceNames => "the list of namespaces is",
            Self::PodNames => "the list of pods is",
            Self::ContainerNames => "the list of containers is",
            Self::ServiceNames => "the list of services is",
            Self::FaultIds => "the list of faults is",
        }
    }
}

// === impl Setting ===

impl Setting {
    /// Why something is not to be had without that tool.
    fn reason(self, tool: &str) -> String {
        let flag = match self {
            Self::DisabledTools => "--disabled-tools",
            Self::Toolsets => "--toolsets",
            Self::DeniedKinds => "--denied-kinds",
            Self::AllowedNamespaces => "--allowed-namespaces",
            Self::ClusterIdentity => {
                return format!(
                    "not offered with --cluster-identity impersonate: `{tool}` gives what is read \
                     once for all callers, with the rights of the server"
                );
            }
        };
        format!("switched off by the server's operator: {flag} excludes the tool `{tool}`")
    }
}

/// What a kind of object has as its own tool: `resources_get` and `resources_list` give the
/// same, so they refuse the kind if that tool is off.
const KINDS: [(&str, &str, &str, &str); 7] = [
    // group, plural, tool that gets, tool that lists
    ("", "pods", "pods_get", "pods_list"),
    ("", "events", "events_list", "events_list"),
    ("events.k8s.io", "events", "events_list", "events_list"),
    ("", "namespaces", "namespaces_list", "namespaces_list"),
    ("", "nodes", "nodes_list", "nodes_list"),
    ("metrics.k8s.io", "pods", "pods_top", "pods_top"),
    ("metrics.k8s.io", "nodes", "nodes_top", "nodes_top"),
];

/// The kinds that generic tools refuse, for the tools that are off.
pub(super) fn refused_kinds(
    verb: ReadVerb,
    off: impl Fn(&'static str) -> Option<SwitchedOff>,
) -> Vec<RefusedKind> {
    let refused = KINDS.iter().filter_map(|(group, plural, gets, lists)| {
        let tool = match verb {
            ReadVerb::Get => gets,
            ReadVerb::List => lists,
        };
        Some(RefusedKind {
            group,
            plural,
            reason: off(tool)?.to_string(),
        })
    });
    refused.collect()
}

/// The tools that cannot work without a kind that is denied.
pub(super) fn without_kinds(denied: &DeniedKinds) -> Vec<&'static str> {
    const METRICS: &str = "metrics.k8s.io";
    let needs = |tool: &str| -> &[(&str, &str)] {
        match tool {
            "pods_get" | "pods_list" | "pods_log" => &[("", "pods")],
            "pods_top" => &[(METRICS, "pods")],
            "nodes_list" => &[("", "nodes")],
            "nodes_top" => &[(METRICS, "nodes")],
            "namespaces_list" => &[("", "namespaces")],
            "faults_get" | "faults_list" | "faults_wait" => &[("", "events"), ("", "pods")],
            tool if tool.starts_with("events_") => &[("", "events")],
            _ => &[],
        }
    };
    let tools = tools::TOOLS.iter().map(|entry| entry.name);
    tools
        .filter(|tool| {
            let mut needs = needs(tool).iter();
            needs.any(|(group, plural)| denied.denies_resource(group, plural))
        })
        .collect()
}

/// The tools that read what belongs to a whole cluster.
pub(super) const CLUSTER_WIDE: [&str; 2] = ["nodes_list", "nodes_top"];
