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

use std::{collections::BTreeSet, fmt, str::FromStr, time::Duration};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::ResourceError;
use crate::{
    cluster::{ClusterError, Name, ObjectName},
    duration,
    subscriptions::EventType,
};

const SCHEME: &str = "k8s://";

/// In place of a namespace: all of them.
const ALL: &str = "-";

/// The longest that can be subscribed to.
const BYTES_MAX: usize = 2048;

/// What needs no encoding anywhere in a URI stays readable.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

const EVENTS_DEFAULT: usize = 50;
const EVENTS_MAX: usize = 500;
const TAIL_DEFAULT: usize = 100;
const TAIL_MAX: usize = 10_000;

/// More kinds than this there are not.
const KINDS_MAX: usize = 32;

/// What a URI stands for. As text it is the normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::mcp) struct Address {
    /// The context, as the kubeconfig spells it.
    pub(in crate::mcp) context: String,
    /// One namespace, or all of them.
    pub(in crate::mcp) namespace: Option<Name>,
    /// What of it.
    pub(in crate::mcp) what: What,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::mcp) enum What {
    /// The newest events.
    Events(EventsWanted),
    /// The end of a container's log.
    Logs(LogWanted),
    /// Objects and what ties them together.
    Graph(GraphWanted),
}

/// Which events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::mcp) struct EventsWanted {
    /// Only about this object.
    pub(in crate::mcp) about: Option<ObjectName>,
    /// Only of these types; all if empty.
    pub(in crate::mcp) types: BTreeSet<EventType>,
    /// Only with reasons that begin so.
    pub(in crate::mcp) reason: Option<String>,
    /// Only since then.
    pub(in crate::mcp) since: Option<Since>,
    /// At most so many.
    pub(in crate::mcp) limit: usize,
}

/// From when on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mcp) enum Since {
    /// So long ago.
    Ago(Duration),
    /// After what the read before this one saw: the cursor it gave.
    Cursor(u64),
}

/// Which lines of which log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::mcp) struct LogWanted {
    /// The pod.
    pub(in crate::mcp) pod: Name,
    /// The container.
    pub(in crate::mcp) container: Name,
    /// From before the last restart.
    pub(in crate::mcp) previous: bool,
    /// At most so many lines, the last ones.
    pub(in crate::mcp) tail: usize,
    /// Only what was written in that time.
    pub(in crate::mcp) since: Option<Duration>,
}

/// Which part of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::mcp) struct GraphWanted {
    /// Only these kinds, spelled as Kubernetes does where we know it; all if empty.
    pub(in crate::mcp) kinds: BTreeSet<String>,
}

/// Why a URI is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::mcp) enum BadAddress {
    /// Nothing of ours has that form.
    #[error("no resource has that form; there are {EVENTS}, {LOGS} and {GRAPH}")]
    Form,
    /// It has the form, but a part makes no sense.
    #[error("{0}")]
    Part(String),
}

/// The template of events.
pub(in crate::mcp) const EVENTS: &str =
    "k8s://{context}/{namespace}/events{?for,types,reason,since,limit}";

/// The template of logs.
pub(in crate::mcp) const LOGS: &str =
    "k8s://{context}/{namespace}/pods/{pod}/logs/{container}{?previous,tail,since}";

/// The template of graphs.
pub(in crate::mcp) const GRAPH: &str = "k8s://{context}/{namespace}/graph{?kinds}";

// === impl Address ===

impl Address {
    /// Events of a namespace, or of all of them.
    pub(in crate::mcp) fn events(context: &str, namespace: Option<Name>) -> Self {
        let what = What::Events(EventsWanted::default());
        Self::new(context, namespace, what)
    }

    /// The newest events about one object, spelled as Kubernetes does.
    pub(in crate::mcp) fn events_about(
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
    pub(in crate::mcp) fn log(context: &str, namespace: Name, pod: Name, container: Name) -> Self {
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
    pub(in crate::mcp) fn graph(context: &str, namespace: Option<Name>) -> Self {
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
    pub(in crate::mcp) fn looks_like(uri: &str) -> bool {
        uri.starts_with(SCHEME)
    }

    /// Reads a URI, for an answer to a client.
    pub(in crate::mcp) fn read(uri: &str) -> Result<Self, ResourceError> {
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

/// Writes parameters.
struct Query<'a, 'b> {
    to: &'a mut fmt::Formatter<'b>,
    next: char,
}

// === impl Query ===

impl<'a, 'b> Query<'a, 'b> {
    fn new(to: &'a mut fmt::Formatter<'b>) -> Self {
        Self { to, next: '?' }
    }

    fn put(&mut self, name: &str, value: &str) -> fmt::Result {
        self.put_list(name, &[value])
    }

    /// As RFC 6570 expands a list: commas between, everything else encoded.
    fn put_list(&mut self, name: &str, values: &[&str]) -> fmt::Result {
        let values: Vec<_> = values.iter().map(|one| encoded(one)).collect();
        write!(self.to, "{}{name}={}", self.next, values.join(","))?;
        self.next = '&';
        Ok(())
    }
}

/// What a read gives to go on from, as `since` takes it.
pub(in crate::mcp) fn cursor(version: u64) -> String {
    format!("v{version}")
}

/// Each parameter once, and only those that are known. One without a value was left
/// out: that is how a template expands what is empty.
fn parameters<'a>(query: &str, known: &[&'a str]) -> Result<Vec<(&'a str, String)>, BadAddress> {
    let mut found: Vec<(&str, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name)?;
        let Some(name) = known.iter().find(|one| **one == name) else {
            return part(format!(
                "there is no parameter `{}`; there are: {}",
                shown(&name),
                known.join(", ")
            ));
        };
        if found.iter().any(|(before, _)| before == name) {
            return part(format!("the parameter `{name}` stands twice"));
        }
        found.push((*name, decoded(value)?));
    }
    found.retain(|(_, value)| !value.is_empty());
    Ok(found)
}

fn object(text: &str) -> Result<ObjectName, BadAddress> {
    let object = named(ObjectName::parse(text))?;
    let fits = !object.kind.is_empty()
        && (object.kind.bytes()).all(|byte| byte.is_ascii_alphanumeric())
        && !object.name.contains(char::is_control);
    if !fits {
        return part(format!(
            "`for` is `{}`; write for example pod/web-0 or deployment/web",
            shown(text)
        ));
    }
    Ok(object)
}

fn event_type(word: &str) -> Result<EventType, BadAddress> {
    let all = [EventType::Normal, EventType::Warning];
    let mut all = all.into_iter();
    match all.find(|one| one.as_str().eq_ignore_ascii_case(word)) {
        Some(known) => Ok(known),
        None => part(format!(
            "`types` has `{}`; an event is Normal or Warning",
            shown(word)
        )),
    }
}

fn reason(text: String) -> Result<String, BadAddress> {
    let fits = text.len() <= 128 && text.chars().all(|one| one.is_ascii_alphanumeric());
    if !fits {
        return part(format!(
            "`reason` is `{}`; a reason is one word such as BackOff, or its beginning",
            shown(&text)
        ));
    }
    Ok(text)
}

fn since(text: &str) -> Result<Since, BadAddress> {
    let version = text.strip_prefix('v').filter(|digits| {
        // `parse` alone would take a sign, and zeros that make another spelling.
        digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    match version.map(str::parse) {
        Some(Ok(version)) => Ok(Since::Cursor(version)),
        Some(Err(_)) => part(format!("`since` is `{}`, which is no cursor", shown(text))),
        None => ago(text).map(Since::Ago),
    }
}

fn ago(text: &str) -> Result<Duration, BadAddress> {
    duration::parse(text).or_else(|_| {
        part(format!(
            "`since` is `{}`; write for example 15m or 2h",
            shown(text)
        ))
    })
}

/// As it is read again, in the largest units that fit.
fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')];
    let fits = units
        .into_iter()
        .find(|(size, _)| seconds > 0 && seconds.is_multiple_of(*size));
    let (size, unit) = fits.unwrap_or((1, 's'));
    format!("{}{unit}", seconds / size)
}

fn number(name: &str, text: &str, most: usize) -> Result<usize, BadAddress> {
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => part(format!(
            "`{name}` is `{}`, but must be from 1 to {most}",
            shown(text)
        )),
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

fn decoded(text: &str) -> Result<String, BadAddress> {
    let mut escapes = text.split('%').skip(1);
    let whole = escapes.all(|after| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    let decoded = percent_decode_str(text).decode_utf8().ok();
    match decoded.filter(|_| whole) {
        Some(decoded) => Ok(decoded.into_owned()),
        None => part(format!(
            "`{}` is not percent-encoded UTF-8; write %25 for a `%`",
            shown(text)
        )),
    }
}

fn named<T>(checked: Result<T, ClusterError>) -> Result<T, BadAddress> {
    checked.map_err(|error| BadAddress::Part(error.to_string()))
}

/// What a caller wrote, in a message: not too long, nothing that moves a cursor.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(80).collect();
    start.escape_debug().to_string()
}

fn part<T>(text: impl Into<String>) -> Result<T, BadAddress> {
    Err(BadAddress::Part(text.into()))
}

#[cfg(test)]
mod tests;
