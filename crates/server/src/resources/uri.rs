//! The URIs of a cluster's resources.
//!
//! ```text
//!  k8s://{context}/{namespace}/events{?for,types,reason,since,limit}
//!  k8s://{context}/{namespace}/pods/{pod}/logs/{container}{?previous,tail,since}
//!  k8s://{context}/{namespace}/graph{?kinds}
//!  k8s://{context}/{namespace}/incidents, k8s://{context}/incidents
//! ```
//!
//! Every part is percent-encoded, because a context may have any name. A URI has one
//! normal form, which is how it is written here. No URI leads to the content of any
//! other object, least of all of a Secret.

mod parts;

use std::{collections::BTreeSet, fmt, str::FromStr, time::Duration};

pub(crate) use self::parts::cursor;
use self::parts::{
    QueryWriter, ago, decoded, encoded, event_type, length, named, number, object, parameters,
    part, reason, shown, since,
};
use super::ResourceError;
use kubecrier_core::filters::EventType;
use kubecrier_k8s::{Name, ObjectName};

const SCHEME: &str = "k8s://";

/// In place of a namespace: all namespaces.
const ALL: &str = "-";

/// The longest that can be subscribed to.
const BYTES_MAX: usize = 2048;

const EVENTS_DEFAULT: usize = 50;
const EVENTS_MAX: usize = 500;
const TAIL_DEFAULT: usize = 100;
const TAIL_MAX: usize = 10_000;

/// There are fewer kinds than this.
const KINDS_MAX: usize = 32;

/// A resource of a cluster. As text it is the normal form of the URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterUri {
    /// The context, as the kubeconfig spells it.
    pub(crate) context: String,
    /// One namespace, or all of them.
    pub(crate) namespace: Option<Name>,
    /// The kind of resource, with its parameters.
    pub(crate) target: UriTarget,
}

/// The kinds of resources, with their parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UriTarget {
    /// The newest events.
    Events(EventsParams),
    /// The end of a container's log.
    Logs(LogParams),
    /// Objects and what ties them together.
    Graph(GraphParams),
    /// What is wrong.
    Incidents,
}

/// The selection of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventsParams {
    /// Only events about this object.
    pub(crate) about: Option<ObjectName>,
    /// Only these types; all if empty.
    pub(crate) types: BTreeSet<EventType>,
    /// Only reasons with this prefix.
    pub(crate) reason: Option<String>,
    /// Only events since then.
    pub(crate) since: Option<Since>,
    /// The maximum number of events.
    pub(crate) limit: usize,
}

/// The start of a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// A time before now.
    Ago(Duration),
    /// After what the read before this one saw: the cursor it gave.
    Cursor(u64),
}

/// The selection of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogParams {
    /// The pod.
    pub(crate) pod: Name,
    /// The container.
    pub(crate) container: Name,
    /// The log from before the last restart.
    pub(crate) previous: bool,
    /// The maximum number of lines, counted from the end.
    pub(crate) tail: usize,
    /// Only lines newer than this.
    pub(crate) since: Option<Duration>,
}

/// The selection of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GraphParams {
    /// Only these kinds, spelled as Kubernetes does where the kind is known; all if
    /// empty.
    pub(crate) kinds: BTreeSet<String>,
}

/// Why a URI is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidUri {
    /// No resource has a URI of that form.
    #[error(
        "no resource has that form; there are {EVENTS}, {LOGS}, {GRAPH}, {INCIDENTS_OF_NAMESPACE} and {INCIDENTS}"
    )]
    Form,
    /// The form is right, but a part is not valid.
    #[error("{0}")]
    Part(String),
}

/// The template of events.
pub(crate) const EVENTS: &str = "k8s://{context}/{namespace}/events{?for,types,reason,since,limit}";

/// The template of logs.
pub(crate) const LOGS: &str =
    "k8s://{context}/{namespace}/pods/{pod}/logs/{container}{?previous,tail,since}";

/// The template of graphs.
pub(crate) const GRAPH: &str = "k8s://{context}/{namespace}/graph{?kinds}";

/// The template of a cluster's incidents.
pub(crate) const INCIDENTS: &str = "k8s://{context}/incidents";

/// The template of a namespace's incidents.
pub(crate) const INCIDENTS_OF_NAMESPACE: &str = "k8s://{context}/{namespace}/incidents";

// === impl ClusterUri ===

impl ClusterUri {
    /// Events of a namespace, or of all of them.
    pub(crate) fn events(context: &str, namespace: Option<Name>) -> Self {
        let target = UriTarget::Events(EventsParams::default());
        Self::new(context, namespace, target)
    }

    /// The newest events about one object, spelled as Kubernetes does.
    pub(crate) fn events_about(
        context: &str,
        namespace: &Name,
        kind: &str,
        name: &str,
        limit: usize,
    ) -> Self {
        let target = UriTarget::Events(EventsParams {
            about: Some(ObjectName {
                kind: kind.to_owned(),
                exact: true,
                name: name.to_owned(),
            }),
            limit: limit.clamp(1, EVENTS_MAX),
            ..EventsParams::default()
        });
        Self::new(context, Some(namespace.clone()), target)
    }

    /// The log of a container.
    pub(crate) fn log(context: &str, namespace: Name, pod: Name, container: Name) -> Self {
        let target = UriTarget::Logs(LogParams {
            pod,
            container,
            previous: false,
            tail: TAIL_DEFAULT,
            since: None,
        });
        Self::new(context, Some(namespace), target)
    }

    /// The graph of a namespace, or of all of them.
    pub(crate) fn graph(context: &str, namespace: Option<Name>) -> Self {
        let target = UriTarget::Graph(GraphParams::default());
        Self::new(context, namespace, target)
    }

    /// The incidents of a namespace, or of a cluster.
    pub(crate) fn incidents(context: &str, namespace: Option<Name>) -> Self {
        Self::new(context, namespace, UriTarget::Incidents)
    }

    fn new(context: &str, namespace: Option<Name>, target: UriTarget) -> Self {
        Self {
            context: context.to_owned(),
            namespace,
            target,
        }
    }

    /// Whether the URI has the scheme.
    pub(crate) fn looks_like(uri: &str) -> bool {
        uri.starts_with(SCHEME)
    }

    /// Reads a URI, for an answer to a client.
    pub(crate) fn read(uri: &str) -> Result<Self, ResourceError> {
        uri.parse().map_err(|error: InvalidUri| match error {
            InvalidUri::Form => ResourceError::NotFound {
                uri: uri.chars().take(BYTES_MAX).collect(),
                hint: error.to_string(),
            },
            InvalidUri::Part(text) => ResourceError::Invalid(text),
        })
    }
}

impl FromStr for ClusterUri {
    type Err = InvalidUri;

    fn from_str(uri: &str) -> Result<Self, InvalidUri> {
        let rest = uri.strip_prefix(SCHEME).ok_or(InvalidUri::Form)?;
        if uri.len() > BYTES_MAX {
            return part(format!("a URI may have {BYTES_MAX} bytes"));
        }
        if rest.contains('#') {
            return part("a URI of a cluster has no `#`; write %23 if a name has one");
        }
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, query),
            None => (rest, ""),
        };
        let mut segments: Vec<_> = path.split('/').collect();
        // Those of a cluster have no namespace.
        if let [_, "incidents"] = segments.as_slice() {
            segments.insert(1, ALL);
        }
        let target = match segments.get(2..) {
            Some(["events"]) => UriTarget::Events(EventsParams::from_query(query)?),
            Some(["pods", pod, "logs", container]) => {
                let pod = named(Name::dns("pod", &decoded(pod)?))?;
                let container = named(Name::label("container", &decoded(container)?))?;
                UriTarget::Logs(LogParams::from_query(pod, container, query)?)
            }
            Some(["graph"]) => UriTarget::Graph(GraphParams::from_query(query)?),
            Some(["incidents"]) => {
                parameters(query, &[])?;
                UriTarget::Incidents
            }
            _ => return Err(InvalidUri::Form),
        };
        let context = decoded(segments[0])?;
        if context.is_empty() {
            return part("the context is missing: `k8s://` is followed by its name");
        }
        let namespace = match segments[1] {
            ALL => None,
            name => Some(named(Name::label("namespace", &decoded(name)?))?),
        };
        if namespace.is_none() && matches!(target, UriTarget::Logs(_)) {
            return part("a pod has one namespace: name it in place of `-`");
        }
        let uri = Self {
            context,
            namespace,
            target,
        };
        // The form that clients are given has to be one that they can use.
        if uri.to_string().len() > BYTES_MAX {
            return part(format!("a URI may have {BYTES_MAX} bytes, percent-encoded"));
        }
        Ok(uri)
    }
}

impl fmt::Display for ClusterUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/", encoded(&self.context))?;
        match (&self.namespace, &self.target) {
            (Some(namespace), _) => write!(f, "{namespace}/")?,
            (None, UriTarget::Incidents) => {}
            (None, _) => write!(f, "{ALL}/")?,
        }
        match &self.target {
            UriTarget::Events(wanted) => {
                f.write_str("events")?;
                wanted.write(f)
            }
            UriTarget::Logs(wanted) => {
                write!(f, "pods/{}/logs/{}", wanted.pod, wanted.container)?;
                wanted.write(f)
            }
            UriTarget::Graph(wanted) => {
                f.write_str("graph")?;
                wanted.write(f)
            }
            UriTarget::Incidents => f.write_str("incidents"),
        }
    }
}

// === impl EventsParams ===

impl Default for EventsParams {
    fn default() -> Self {
        Self {
            about: None,
            types: BTreeSet::new(),
            reason: None,
            since: None,
            limit: EVENTS_DEFAULT,
        }
    }
}

impl EventsParams {
    fn from_query(query: &str) -> Result<Self, InvalidUri> {
        let mut wanted = Self::default();
        let known = ["for", "types", "reason", "since", "limit"];
        for (name, value) in parameters(query, &known)? {
            match name {
                "for" => wanted.about = Some(object(&value)?),
                "types" => {
                    let types = value.split(',').map(event_type);
                    wanted.types = types.collect::<Result<_, _>>()?;
                }
                "reason" => wanted.reason = Some(reason(value)?),
                "since" => wanted.since = Some(since(&value)?),
                _ => wanted.limit = number(name, &value, EVENTS_MAX)?,
            }
        }
        Ok(wanted)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut query = QueryWriter::new(f);
        if let Some(object) = &self.about {
            query.put("for", &format!("{}/{}", object.kind, object.name))?;
        }
        if !self.types.is_empty() {
            let types: Vec<_> = self.types.iter().map(|one| one.as_str()).collect();
            query.put_list("types", &types)?;
        }
        if let Some(reason) = &self.reason {
            query.put("reason", reason)?;
        }
        match self.since {
            Some(Since::Ago(time)) => query.put("since", &length(time))?,
            Some(Since::Cursor(version)) => query.put("since", &cursor(version))?,
            None => {}
        }
        if self.limit != EVENTS_DEFAULT {
            query.put("limit", &self.limit.to_string())?;
        }
        Ok(())
    }
}

// === impl LogParams ===

impl LogParams {
    fn from_query(pod: Name, container: Name, query: &str) -> Result<Self, InvalidUri> {
        let mut wanted = Self {
            pod,
            container,
            previous: false,
            tail: TAIL_DEFAULT,
            since: None,
        };
        for (name, value) in parameters(query, &["previous", "tail", "since"])? {
            match name {
                "previous" => {
                    wanted.previous = match value.as_str() {
                        "true" => true,
                        "false" => false,
                        _ => return part("`previous` is true or false"),
                    }
                }
                "tail" => wanted.tail = number(name, &value, TAIL_MAX)?,
                _ => wanted.since = Some(ago(&value)?),
            }
        }
        Ok(wanted)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut query = QueryWriter::new(f);
        if self.previous {
            query.put("previous", "true")?;
        }
        if self.tail != TAIL_DEFAULT {
            query.put("tail", &self.tail.to_string())?;
        }
        match self.since {
            Some(time) => query.put("since", &length(time)),
            None => Ok(()),
        }
    }
}

// === impl GraphParams ===

impl GraphParams {
    fn from_query(query: &str) -> Result<Self, InvalidUri> {
        let mut wanted = Self::default();
        for (_, value) in parameters(query, &["kinds"])? {
            for word in value.split(',') {
                let fits = (1..=63).contains(&word.len())
                    && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
                if !fits {
                    return part(format!(
                        "`kinds` has `{}`, which no kind is called",
                        shown(word)
                    ));
                }
                // `object` knows the names that kubectl accepts for a kind.
                wanted.kinds.insert(object(&format!("{word}/any"))?.kind);
            }
            if wanted.kinds.len() > KINDS_MAX {
                return part(format!("`kinds` may have {KINDS_MAX} of them"));
            }
        }
        Ok(wanted)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kinds.is_empty() {
            return Ok(());
        }
        let kinds: Vec<_> = self.kinds.iter().map(String::as_str).collect();
        QueryWriter::new(f).put_list("kinds", &kinds)
    }
}

#[cfg(test)]
mod tests;
