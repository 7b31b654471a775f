//! The addresses of what a cluster is asked for as a resource.
//!
//! ```text
//!  k8s://{context}/{namespace}/events{?for,types,reason,since,limit}
//!  k8s://{context}/{namespace}/pods/{pod}/logs/{container}{?previous,tail,since}
//!  k8s://{context}/{namespace}/graph{?kinds}
//! ```
//!
//! Every part is percent-encoded, because a context may be called anything. However
//! an address is spelled, it has one normal form, which is how it is written here.
//! There is no address of any other object's content, least of all of a Secret's.

mod parts;

use std::{collections::BTreeSet, fmt, str::FromStr, time::Duration};

pub(crate) use self::parts::cursor;
use self::parts::{
    Query, ago, decoded, encoded, event_type, length, named, number, object, parameters, part,
    reason, shown, since,
};
use super::ResourceError;
use kubecrier_core::filters::EventType;
use kubecrier_k8s::{Name, ObjectName};

const SCHEME: &str = "k8s://";

/// In place of a namespace: all of them.
const ALL: &str = "-";

/// The longest that can be subscribed to.
const BYTES_MAX: usize = 2048;

const EVENTS_DEFAULT: usize = 50;
const EVENTS_MAX: usize = 500;
const TAIL_DEFAULT: usize = 100;
const TAIL_MAX: usize = 10_000;

/// More kinds than this there are not.
const KINDS_MAX: usize = 32;

/// What a URI stands for. As text it is the normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The context, as the kubeconfig spells it.
    pub(crate) context: String,
    /// One namespace, or all of them.
    pub(crate) namespace: Option<Name>,
    /// What of it.
    pub(crate) what: What,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The newest events.
    Events(EventsWanted),
    /// The end of a container's log.
    Logs(LogWanted),
    /// Objects and what ties them together.
    Graph(GraphWanted),
}

/// Which events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventsWanted {
    /// Only about this object.
    pub(crate) about: Option<ObjectName>,
    /// Only of these types; all if empty.
    pub(crate) types: BTreeSet<EventType>,
    /// Only with reasons that begin so.
    pub(crate) reason: Option<String>,
    /// Only since then.
    pub(crate) since: Option<Since>,
    /// At most so many.
    pub(crate) limit: usize,
}

/// From when on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// So long ago.
    Ago(Duration),
    /// After what the read before this one saw: the cursor it gave.
    Cursor(u64),
}

/// Which lines of which log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogWanted {
    /// The pod.
    pub(crate) pod: Name,
    /// The container.
    pub(crate) container: Name,
    /// From before the last restart.
    pub(crate) previous: bool,
    /// At most so many lines, the last ones.
    pub(crate) tail: usize,
    /// Only what was written in that time.
    pub(crate) since: Option<Duration>,
}

/// Which part of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GraphWanted {
    /// Only these kinds, spelled as Kubernetes does where we know it; all if empty.
    pub(crate) kinds: BTreeSet<String>,
}

/// Why a URI is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAddress {
    /// Nothing of ours has that form.
    #[error("no resource has that form; there are {EVENTS}, {LOGS} and {GRAPH}")]
    Form,
    /// It has the form, but a part makes no sense.
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

// === impl Address ===

impl Address {
    /// Events of a namespace, or of all of them.
    pub(crate) fn events(context: &str, namespace: Option<Name>) -> Self {
        let what = What::Events(EventsWanted::default());
        Self::new(context, namespace, what)
    }

    /// The newest events about one object, spelled as Kubernetes does.
    pub(crate) fn events_about(
        context: &str,
        namespace: &Name,
        kind: &str,
        name: &str,
        limit: usize,
    ) -> Self {
        let what = What::Events(EventsWanted {
            about: Some(ObjectName {
                kind: kind.to_owned(),
                exact: true,
                name: name.to_owned(),
            }),
            limit: limit.clamp(1, EVENTS_MAX),
            ..EventsWanted::default()
        });
        Self::new(context, Some(namespace.clone()), what)
    }

    /// The log of a container.
    pub(crate) fn log(context: &str, namespace: Name, pod: Name, container: Name) -> Self {
        let what = What::Logs(LogWanted {
            pod,
            container,
            previous: false,
            tail: TAIL_DEFAULT,
            since: None,
        });
        Self::new(context, Some(namespace), what)
    }

    /// The graph of a namespace, or of all of them.
    pub(crate) fn graph(context: &str, namespace: Option<Name>) -> Self {
        let what = What::Graph(GraphWanted::default());
        Self::new(context, namespace, what)
    }

    fn new(context: &str, namespace: Option<Name>, what: What) -> Self {
        Self {
            context: context.to_owned(),
            namespace,
            what,
        }
    }

    /// Whether a URI can be one of ours at all.
    pub(crate) fn looks_like(uri: &str) -> bool {
        uri.starts_with(SCHEME)
    }

    /// Reads a URI, for an answer to a client.
    pub(crate) fn read(uri: &str) -> Result<Self, ResourceError> {
        uri.parse().map_err(|error: BadAddress| match error {
            BadAddress::Form => ResourceError::NotFound {
                uri: uri.chars().take(BYTES_MAX).collect(),
                hint: error.to_string(),
            },
            BadAddress::Part(text) => ResourceError::Invalid(text),
        })
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(uri: &str) -> Result<Self, BadAddress> {
        let rest = uri.strip_prefix(SCHEME).ok_or(BadAddress::Form)?;
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
        let segments: Vec<_> = path.split('/').collect();
        let what = match segments.get(2..) {
            Some(["events"]) => What::Events(EventsWanted::from_query(query)?),
            Some(["pods", pod, "logs", container]) => {
                let pod = named(Name::dns("pod", &decoded(pod)?))?;
                let container = named(Name::label("container", &decoded(container)?))?;
                What::Logs(LogWanted::from_query(pod, container, query)?)
            }
            Some(["graph"]) => What::Graph(GraphWanted::from_query(query)?),
            _ => return Err(BadAddress::Form),
        };
        let context = decoded(segments[0])?;
        if context.is_empty() {
            return part("the context is missing: `k8s://` is followed by its name");
        }
        let namespace = match segments[1] {
            ALL => None,
            name => Some(named(Name::label("namespace", &decoded(name)?))?),
        };
        if namespace.is_none() && matches!(what, What::Logs(_)) {
            return part("a pod has one namespace: name it in place of `-`");
        }
        Ok(Self {
            context,
            namespace,
            what,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_ref().map_or(ALL, Name::as_str);
        write!(f, "{SCHEME}{}/{namespace}/", encoded(&self.context))?;
        match &self.what {
            What::Events(wanted) => {
                f.write_str("events")?;
                wanted.write(f)
            }
            What::Logs(wanted) => {
                write!(f, "pods/{}/logs/{}", wanted.pod, wanted.container)?;
                wanted.write(f)
            }
            What::Graph(wanted) => {
                f.write_str("graph")?;
                wanted.write(f)
            }
        }
    }
}

// === impl EventsWanted ===

impl Default for EventsWanted {
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

impl EventsWanted {
    fn from_query(query: &str) -> Result<Self, BadAddress> {
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
        let mut query = Query::new(f);
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

// === impl LogWanted ===

impl LogWanted {
    fn from_query(pod: Name, container: Name, query: &str) -> Result<Self, BadAddress> {
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
        let mut query = Query::new(f);
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

// === impl GraphWanted ===

impl GraphWanted {
    fn from_query(query: &str) -> Result<Self, BadAddress> {
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
                // It knows the words that kubectl takes for a kind.
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
        Query::new(f).put_list("kinds", &kinds)
    }
}

#[cfg(test)]
mod tests;
