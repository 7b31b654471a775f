//! The scopes that a message needs: the base for all, and one more each for logs, for events
//! and for the tools of a project.
//!
//! A client asks for more only if it is refused before its message is answered (403 with
//! `insufficient_scope`), so the scopes follow from the message, and from the mode of a
//! subscription that it names. A message that cannot be read with certainty needs all of them.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
};

use kubecrier_core::filters::Mode;
use kubecrier_oauth::Scopes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    jsonrpc::{Shape, first},
    prompts,
    resources::{ClusterUri, UriTarget, subscription_id},
    tasks::TaskKind,
    tools,
};

/// A scope beyond the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Events, what is wrong, and subscriptions to them.
    Events,
    /// Logs.
    Logs,
    /// Tools and resources of a project, which run programs.
    Tools,
}

/// What tokens have to permit.
#[derive(Clone, Debug)]
pub struct ScopePolicy {
    base: Vec<String>,
    /// Whether logs, events and tools of a project need a scope of their own.
    by_content: bool,
    /// Whether there are tools of a project.
    has_project: bool,
}

/// The modes of subscriptions by their ids, as far as they are known.
pub(crate) type Modes = HashMap<String, Mode>;

/// The scopes that a token lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingScopes {
    /// What is missing.
    pub(crate) missing: Vec<String>,
    /// What to ask for: all that the message needs, and what the token has of ours already, so
    /// that a new token does not permit less.
    pub(crate) wanted: Vec<String>,
}

/// What is read of a message.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "taskId")]
    task_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(default)]
    notifications: Option<Notifications>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notifications {
    #[serde(default)]
    resource_subscriptions: Option<Vec<String>>,
    #[serde(default)]
    task_ids: Option<Vec<String>>,
}

/// What is read of the arguments of a tool.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Arguments<'a> {
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    mode: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "subscriptionId")]
    subscription_id: Option<Cow<'a, str>>,
}

// === impl Scope ===

impl Scope {
    /// Every scope beyond the base.
    pub(crate) const ALL: [Self; 3] = [Self::Events, Self::Logs, Self::Tools];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Events => "kubecrier:events",
            Self::Logs => "kubecrier:logs",
            Self::Tools => "kubecrier:tools",
        }
    }
}

// === impl ScopePolicy ===

impl ScopePolicy {
    /// The scope of everything, unless others are chosen.
    pub const READ: &'static str = "kubecrier:read";

    /// Every request needs all of `base`.
    pub fn new(base: Vec<String>, by_content: bool, has_project: bool) -> Self {
        Self {
            base,
            by_content,
            has_project,
        }
    }

    /// The scopes of every request.
    pub fn base(&self) -> &[String] {
        &self.base
    }

    /// All scopes that there are.
    pub fn supported(&self) -> Vec<String> {
        let mut all = self.base.clone();
        if self.by_content {
            let more = Scope::ALL.into_iter();
            let more = more.filter(|scope| self.has_project || *scope != Scope::Tools);
            all.extend(more.map(|scope| scope.as_str().to_owned()));
        }
        all
    }

    /// The scopes that a token lacks which every request needs.
    pub fn missing_of_base(&self, granted: &Scopes) -> Vec<String> {
        missing(self.base.clone(), granted)
    }

    /// All scopes that a token lacks.
    pub fn missing(&self, granted: &Scopes) -> Vec<String> {
        missing(self.supported(), granted)
    }

    /// Checks a request without a message.
    pub(crate) fn check_base(&self, granted: &Scopes) -> Result<(), MissingScopes> {
        self.check(granted, &BTreeSet::new())
    }

    /// Checks a message, or a batch of them.
    pub(crate) fn check_body(
        &self,
        granted: &Scopes,
        body: &[u8],
        shape: Shape,
        modes: &Modes,
    ) -> Result<(), MissingScopes> {
        let needed = if self.by_content {
            self.needed(body, shape, modes)
        } else {
            BTreeSet::new()
        };
        self.check(granted, &needed)
    }

    /// The subscriptions that a body names: with their modes it may need less.
    pub(crate) fn named_subscriptions(&self, body: &[u8], shape: Shape) -> BTreeSet<String> {
        let messages = read_messages(body, shape).filter(|_| self.by_content);
        let messages = messages.unwrap_or_default();
        messages.iter().flat_map(Message::subscriptions).collect()
    }

    fn check(&self, granted: &Scopes, needed: &BTreeSet<Scope>) -> Result<(), MissingScopes> {
        let needed = needed.iter().map(|scope| scope.as_str());
        let needed: Vec<&str> = self.base.iter().map(String::as_str).chain(needed).collect();
        let missing = needed.iter().filter(|scope| !is_granted(granted, scope));
        let missing: Vec<String> = missing.map(ToString::to_string).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let all = self.supported();
        let wanted = all
            .into_iter()
            .filter(|scope| needed.contains(&&**scope) || is_granted(granted, scope));
        Err(MissingScopes {
            missing,
            wanted: wanted.collect(),
        })
    }

    fn needed(&self, body: &[u8], shape: Shape, modes: &Modes) -> BTreeSet<Scope> {
        match read_messages(body, shape) {
            Some(messages) => messages
                .iter()
                .flat_map(|one| self.of_message(one, modes))
                .collect(),
            None => Scope::ALL.into(),
        }
    }

    fn of_message(&self, message: &Message<'_>, modes: &Modes) -> Vec<Scope> {
        let (Some(method), Some(params)) = (message.method.as_deref(), &message.params) else {
            return Vec::new();
        };
        match method {
            "tools/call" => {
                let name = params.name.as_deref().unwrap_or_default();
                self.of_tool(name, params.arguments, modes)
            }
            "resources/read" | "resources/subscribe" => {
                let uri = params.uri.as_deref();
                uri.map(|uri| self.of_uri(uri, modes)).unwrap_or_default()
            }
            "subscriptions/listen" => {
                let filter = params.notifications.as_ref();
                let tasks = filter.and_then(|filter| filter.task_ids.as_ref());
                let uris = params.listened().flat_map(|uri| self.of_uri(uri, modes));
                let tasks = tasks.into_iter().flatten().flat_map(|id| of_task(id));
                uris.chain(tasks).collect()
            }
            // The answer is that of the call.
            "tasks/get" => params.task_id.as_deref().map(of_task).unwrap_or_default(),
            // They come with events and logs as their evidence.
            "prompts/get" if params.name.as_deref().and_then(prompts::find).is_some() => {
                vec![Scope::Events, Scope::Logs]
            }
            // They embed what their files name, such as logs and resources that run programs.
            "prompts/get" if self.has_project => Scope::ALL.to_vec(),
            _ => Vec::new(),
        }
    }

    fn of_tool(&self, name: &str, arguments: Option<&RawValue>, modes: &Modes) -> Vec<Scope> {
        match of_built_in(name) {
            Some(ToolScopes::Always(scopes)) => scopes.to_vec(),
            Some(ToolScopes::ByKind) => match read_arguments(arguments) {
                Some(arguments) if arguments.kind.as_deref().is_some_and(is_event) => {
                    vec![Scope::Events]
                }
                Some(_) => Vec::new(),
                None => Scope::ALL.into(),
            },
            Some(ToolScopes::ByMode) => match read_arguments(arguments) {
                Some(arguments) => match (arguments.named(), arguments.mode.as_deref()) {
                    (Some(id), _) => of_mode(modes.get(id).copied()),
                    (None, None | Some("events")) => of_mode(Some(Mode::Events)),
                    (None, Some(_)) => of_mode(None),
                },
                None => Scope::ALL.into(),
            },
            // A tool that does not exist has an answer of its own.
            None if self.has_project => vec![Scope::Tools],
            None => Vec::new(),
        }
    }

    fn of_uri(&self, uri: &str, modes: &Modes) -> Vec<Scope> {
        if let Some(id) = subscription_id(uri) {
            return of_mode(modes.get(id).copied());
        }
        match uri.parse::<ClusterUri>().map(|uri| uri.target) {
            Ok(UriTarget::Logs(_)) => vec![Scope::Logs],
            Ok(UriTarget::Events(_)) => vec![Scope::Events],
            Ok(UriTarget::Incidents) => of_mode(Some(Mode::Incidents)),
            Err(_) if self.has_project && !uri.starts_with("k8s://") => vec![Scope::Tools],
            // What is no address has an answer of its own.
            Ok(UriTarget::Graph(_)) | Err(_) => Vec::new(),
        }
    }
}

/// What is read of a body; `None` if it cannot be read with certainty.
fn read_messages(body: &[u8], shape: Shape) -> Option<Vec<Message<'_>>> {
    match shape {
        // A struct is read from an array too, and an array is no message.
        Shape::Message if first(body) == Some(b'{') => {
            serde_json::from_slice(body).map(|one| vec![one]).ok()
        }
        Shape::Message => Some(Vec::new()),
        Shape::Batch => serde_json::from_slice(body).ok(),
    }
}

// === impl Message ===

impl Message<'_> {
    /// The subscriptions that it names.
    fn subscriptions(&self) -> Vec<String> {
        let Some(params) = &self.params else {
            return Vec::new();
        };
        let polled = read_arguments(params.arguments);
        let polled = polled.as_ref().and_then(Arguments::named);
        let uris = params.uri.as_deref().into_iter().chain(params.listened());
        let ids = polled.into_iter().chain(uris.filter_map(subscription_id));
        ids.map(str::to_owned).collect()
    }
}

impl Params<'_> {
    /// The URIs of a listen.
    fn listened(&self) -> impl Iterator<Item = &str> {
        let filter = self.notifications.as_ref();
        let uris = filter.and_then(|filter| filter.resource_subscriptions.as_ref());
        uris.into_iter().flatten().map(String::as_str)
    }
}

impl Arguments<'_> {
    /// The subscription that a poll is of.
    fn named(&self) -> Option<&str> {
        self.subscription_id.as_deref().filter(|id| !id.is_empty())
    }
}

/// What a subscription tells. Faults have logs, and incidents say why in the words of logs.
fn of_mode(mode: Option<Mode>) -> Vec<Scope> {
    match mode {
        Some(Mode::Events) => vec![Scope::Events],
        Some(Mode::Faults | Mode::Incidents) | None => vec![Scope::Events, Scope::Logs],
    }
}

fn missing(mut scopes: Vec<String>, granted: &Scopes) -> Vec<String> {
    scopes.retain(|scope| !is_granted(granted, scope));
    scopes
}

/// Whether a token has a scope. One that is a URL is asked for as a whole, and Entra writes only
/// its last part into tokens.
fn is_granted(granted: &Scopes, scope: &str) -> bool {
    let last = scope
        .contains("://")
        .then(|| scope.rsplit_once('/'))
        .flatten();
    granted.contains(scope) || last.is_some_and(|(_, last)| granted.contains(last))
}

/// How the scopes of a built-in tool are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolScopes {
    /// Always these.
    Always(&'static [Scope]),
    /// Objects of any kind, of which events are one.
    ByKind,
    /// Subscriptions: to events, or to faults with their logs.
    ByMode,
}

/// The scopes of a built-in tool.
fn of_built_in(name: &str) -> Option<ToolScopes> {
    let entry = tools::find(name)?;
    Some(match entry.name {
        "pods_log" => ToolScopes::Always(&[Scope::Logs]),
        "events_list" | "events_list_subscriptions" | "events_unsubscribe" => {
            ToolScopes::Always(&[Scope::Events])
        }
        "faults_get" | "faults_list" | "faults_wait" => {
            ToolScopes::Always(&[Scope::Events, Scope::Logs])
        }
        "events_subscribe" | "events_poll" => ToolScopes::ByMode,
        "resources_get" | "resources_list" => ToolScopes::ByKind,
        "changes_list"
        | "configuration_contexts_list"
        | "namespaces_list"
        | "nodes_list"
        | "nodes_top"
        | "pods_get"
        | "pods_list"
        | "pods_top"
        | "resources_graph" => ToolScopes::Always(&[]),
        // One that is not named here is not given away.
        _ => ToolScopes::Always(&Scope::ALL),
    })
}

/// The arguments; `None` if they cannot be read with certainty.
fn read_arguments(arguments: Option<&RawValue>) -> Option<Arguments<'_>> {
    match arguments {
        None => Some(Arguments::default()),
        Some(text) => serde_json::from_str(text.get()).ok(),
    }
}

/// Whether a kind is that of events, under any of its names.
fn is_event(kind: &str) -> bool {
    let kind = kind.trim().to_lowercase();
    let word = kind.split(['.', '/']).next().unwrap_or_default();
    let last = kind.rsplit('/').next().unwrap_or_default();
    [word, last]
        .iter()
        .any(|word| matches!(*word, "event" | "events" | "ev"))
}

fn of_task(id: &str) -> Vec<Scope> {
    match TaskKind::of_id(id) {
        Some(TaskKind::Wait) => vec![Scope::Events, Scope::Logs],
        Some(TaskKind::Tool) => vec![Scope::Tools],
        // There is none.
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
