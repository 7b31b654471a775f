//! What to subscribe to, in the arguments of the server's tools.

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::{ClientError, notification, session::Session};

/// Which events to watch, in which contexts.
#[derive(Clone, Debug, Default)]
pub struct WatchRequest {
    /// Names of contexts; empty for the server's default one.
    pub contexts: Vec<String>,
    /// The namespaces, in each context.
    pub namespaces: NamespaceScope,
    /// Labels of the involved object.
    pub label_selector: Option<String>,
    /// The involved object, as `kind/name`.
    pub object: Option<String>,
    /// Types of events; empty for all.
    pub types: Vec<String>,
    /// What a reason begins with.
    pub reason: Option<String>,
    /// Only warnings about pods, with their evidence.
    pub faults: bool,
    /// Incidents: opened, changed, resolved; beside the faults if these are asked for too.
    pub incidents: bool,
    /// How far back to list events first, as a duration such as `15m`.
    pub since: Option<String>,
}

/// The namespaces of a [`WatchRequest`].
#[derive(Clone, Debug, Default)]
pub enum NamespaceScope {
    /// The context's own namespace, as for kubectl.
    #[default]
    Context,
    /// All namespaces.
    All,
    /// Names and patterns.
    Named(Vec<String>),
}

/// The part of a [`WatchRequest`] for one context.
#[derive(Clone, Debug)]
pub(crate) struct ContextRequest {
    context: String,
    /// Names and patterns; empty for all namespaces.
    namespaces: Vec<String>,
    /// Whether the namespace is the context's own, and not one that was asked for.
    is_context_namespace: bool,
    label_selector: Option<String>,
    /// The id of the subscription, once there is one.
    subscription: Value,
    /// Arguments that `events_subscribe` and `events_list` share.
    filters: Map<String, Value>,
    mode: WatchMode,
}

/// The incidents of a context that are open when a subscription begins.
#[derive(Debug)]
pub(crate) struct OpenIncidents {
    pub(crate) cluster: String,
    /// With the members of notifications; the worst, if there are many.
    pub(crate) incidents: Vec<Value>,
    /// Whether these are all.
    pub(crate) is_complete: bool,
}

/// What is subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchMode {
    Events,
    Faults,
    Incidents,
}

// === impl WatchRequest ===

impl WatchRequest {
    /// The request of each context; asks the server which contexts there are.
    pub(crate) async fn resolve(
        &self,
        session: &Session,
    ) -> Result<Vec<ContextRequest>, ClientError> {
        let listed = session
            .call_tool("configuration_contexts_list", json!({}))
            .await?;
        // A list of very many contexts is cut.
        let is_complete = listed["more"]["exactly"] == 0;
        let listed = listed["contexts"].as_array().cloned().unwrap_or_default();
        let namespace = |context: &Value| {
            context["namespace"]
                .as_str()
                .unwrap_or("default")
                .to_owned()
        };
        let names = || {
            let names = listed.iter().filter_map(|context| context["name"].as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let chosen: Vec<(String, String)> = if self.contexts.is_empty() {
            let default = listed.iter().find(|context| context["default"] == true);
            let Some(default) = default else {
                return Err(ClientError::Rpc(format!(
                    "the server has no default context\nhint: choose with --context: {}",
                    names()
                )));
            };
            let name = default["name"].as_str().unwrap_or_default();
            vec![(name.to_owned(), namespace(default))]
        } else {
            let named = |name: &String| {
                let context = listed.iter().find(|context| context["name"] == **name);
                if context.is_none() && is_complete {
                    return Err(ClientError::UnknownContext {
                        name: name.clone(),
                        known: names(),
                    });
                }
                Ok((name.clone(), namespace(context.unwrap_or(&Value::Null))))
            };
            let named = self.contexts.iter().map(named);
            named.collect::<Result<_, ClientError>>()?
        };
        let request = |mode: WatchMode, context: String, namespace: String| ContextRequest {
            context,
            namespaces: match &self.namespaces {
                NamespaceScope::All => Vec::new(),
                NamespaceScope::Context => vec![namespace],
                NamespaceScope::Named(names) => names.clone(),
            },
            is_context_namespace: matches!(self.namespaces, NamespaceScope::Context),
            label_selector: self.label_selector.clone(),
            filters: self.filters(),
            subscription: Value::Null,
            mode,
        };
        let requests = chosen.into_iter().flat_map(|(context, namespace)| {
            let modes = self.modes().into_iter();
            modes.map(move |mode| request(mode, context.clone(), namespace.clone()))
        });
        Ok(requests.collect())
    }

    fn modes(&self) -> Vec<WatchMode> {
        match (self.faults, self.incidents) {
            (false, false) => vec![WatchMode::Events],
            (true, false) => vec![WatchMode::Faults],
            (false, true) => vec![WatchMode::Incidents],
            (true, true) => vec![WatchMode::Faults, WatchMode::Incidents],
        }
    }

    fn filters(&self) -> Map<String, Value> {
        let mut filters = Map::new();
        if let Some(object) = &self.object {
            filters.insert("for".to_owned(), json!(object));
        }
        if !self.types.is_empty() {
            filters.insert("types".to_owned(), json!(self.types));
        }
        if let Some(reason) = &self.reason {
            filters.insert("reason".to_owned(), json!(reason));
        }
        filters
    }
}

// === impl ContextRequest ===

impl ContextRequest {
    /// Arguments of `events_subscribe`.
    pub(crate) fn subscribe_arguments(&self) -> Value {
        let mut arguments = self.filters.clone();
        arguments.insert("context".to_owned(), json!(self.context));
        if let Some(labels) = &self.label_selector {
            arguments.insert("labelSelector".to_owned(), json!(labels));
        }
        match self.mode {
            WatchMode::Events => {}
            WatchMode::Faults => drop(arguments.insert("mode".to_owned(), json!("faults"))),
            WatchMode::Incidents => drop(arguments.insert("mode".to_owned(), json!("incidents"))),
        }
        if !self.namespaces.is_empty() {
            let key = if self.has_patterns() {
                "namespaceSelector"
            } else {
                "namespaces"
            };
            arguments.insert(key.to_owned(), json!(self.namespaces));
        }
        Value::Object(arguments)
    }

    /// The tool that lists what happened before, and the key of its rows.
    pub(crate) fn list_tool(&self) -> (&'static str, &'static str) {
        match self.mode {
            WatchMode::Events | WatchMode::Faults => ("events_list", "events"),
            WatchMode::Incidents => ("faults_list", "incidents"),
        }
    }

    /// Arguments of that tool, one call per namespace. The tool takes no patterns: with one of
    /// them, all namespaces are listed and [`ContextRequest::matches`] filters.
    pub(crate) fn list_arguments(&self, since: &str) -> Vec<Value> {
        let list = |namespace: Option<&str>| {
            let (mut arguments, limit) = match self.mode {
                WatchMode::Events | WatchMode::Faults => (self.filters.clone(), 500),
                // It has no such filters.
                WatchMode::Incidents => (Map::new(), 200),
            };
            arguments.insert("context".to_owned(), json!(self.context));
            arguments.insert("since".to_owned(), json!(since));
            arguments.insert("limit".to_owned(), json!(limit));
            if self.mode == WatchMode::Faults {
                arguments.insert("types".to_owned(), json!(["Warning"]));
            }
            if let Some(namespace) = namespace {
                arguments.insert("namespace".to_owned(), json!(namespace));
            }
            Value::Object(arguments)
        };
        if self.has_patterns() || self.namespaces.is_empty() {
            return vec![list(None)];
        }
        self.namespaces
            .iter()
            .map(|name| list(Some(name)))
            .collect()
    }

    /// Whether what is listed is something that the subscription would push.
    pub(crate) fn matches(&self, row: &Value) -> bool {
        if self.mode == WatchMode::Incidents {
            return self.matches_incident(row);
        }
        if self.mode == WatchMode::Faults && row["involvedObject"]["kind"] != "Pod" {
            return false;
        }
        let namespace = row["namespace"].as_str().unwrap_or_default();
        self.namespaces.is_empty()
            || (self.namespaces.iter()).any(|pattern| matches_pattern(pattern, namespace))
    }

    /// Whether a listed incident is over and one of those that are asked for. What is open is in
    /// the answer of `events_subscribe`.
    fn matches_incident(&self, row: &Value) -> bool {
        let effects = row["effects"].as_array().into_iter().flatten();
        let objects = std::iter::once(&row["object"]).chain(effects.map(|one| &one["object"]));
        let mut objects = objects.filter_map(Value::as_str);
        let is_asked_for = |object: &str| {
            let (namespace, short) = match object.splitn(3, '/').collect::<Vec<_>>()[..] {
                [namespace, kind, name] => (namespace, format!("{kind}/{name}")),
                _ => ("", object.to_owned()),
            };
            let is_here = !self.has_patterns()
                || (self.namespaces.iter()).any(|pattern| matches_pattern(pattern, namespace));
            let asked = self.filters.get("for").and_then(Value::as_str);
            is_here && asked.is_none_or(|asked| asked.eq_ignore_ascii_case(&short))
        };
        row["status"] == "resolved" && objects.any(is_asked_for)
    }

    /// The request, with the id of its subscription.
    pub(crate) fn subscribed(self, subscription: Value) -> Self {
        Self {
            subscription,
            ..self
        }
    }

    /// Incidents that are open when the subscription begins; `None` if it is one of others.
    pub(crate) fn open_incidents(&self, answer: &Value) -> Option<OpenIncidents> {
        let shown = answer["open"]["incidents"].as_array()?;
        let with_members = |incident: &Value| {
            notification::open_incident(&self.context, &self.subscription, incident)
        };
        Some(OpenIncidents {
            cluster: self.context.clone(),
            is_complete: answer["open"]["total"] == shown.len(),
            incidents: shown.iter().map(with_members).collect(),
        })
    }

    /// A listed event or incident with the members of a notification of the subscription.
    pub(crate) fn notification(&self, row: &Value) -> Value {
        if self.mode == WatchMode::Incidents {
            return notification::past_incident(&self.context, &self.subscription, row);
        }
        notification::from_history(&self.context, &self.subscription, row)
    }

    /// The request in words.
    pub(crate) fn describe(&self) -> String {
        let what = match self.mode {
            WatchMode::Events => "events",
            WatchMode::Faults => "faults",
            WatchMode::Incidents => "incidents",
        };
        let namespaces = match self.namespaces.as_slice() {
            [] => "all namespaces".to_owned(),
            [one] if self.is_context_namespace => format!("namespace {one} (-A for all)"),
            [one] => format!("namespace {one}"),
            several => format!("namespaces {}", several.join(", ")),
        };
        format!("{what} in {namespaces} of context {}", self.context)
    }

    fn has_patterns(&self) -> bool {
        self.namespaces.iter().any(|name| name.contains(['*', '?']))
    }
}

/// Whether a namespace matches a pattern as the server reads it: `*` is any text, `?` any
/// one character.
fn matches_pattern(pattern: &str, namespace: &str) -> bool {
    let regex = regex::escape(pattern)
        .replace("\\*", ".*")
        .replace("\\?", ".");
    Regex::new(&format!("^(?:{regex})$")).is_ok_and(|regex| regex.is_match(namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(namespaces: &[&str]) -> ContextRequest {
        ContextRequest {
            context: "dev".to_owned(),
            namespaces: namespaces.iter().map(|&name| name.to_owned()).collect(),
            is_context_namespace: false,
            label_selector: None,
            filters: Map::new(),
            subscription: Value::Null,
            mode: WatchMode::Events,
        }
    }

    #[test]
    fn patterns_select_namespaces_and_names_list_them() {
        let named = request(&["a", "b"]);
        assert_eq!(named.subscribe_arguments()["namespaces"], json!(["a", "b"]));
        let lists = named.list_arguments("10m");
        assert_eq!(lists.len(), 2);
        assert_eq!(lists[1]["namespace"], "b");
        let pattern = request(&["a", "prod-*"]);
        let arguments = pattern.subscribe_arguments();
        assert_eq!(arguments["namespaceSelector"], json!(["a", "prod-*"]));
        assert_eq!(pattern.list_arguments("10m").len(), 1);
        assert_eq!(
            pattern.list_arguments("10m")[0].get("namespace"),
            None,
            "all are listed"
        );
    }

    #[test]
    fn listed_events_are_those_that_would_be_pushed() {
        let matches = |namespaces: &[&str], namespace: &str| {
            request(namespaces).matches(&json!({"namespace": namespace}))
        };
        assert!(matches(&[], "any") && matches(&["a", "b"], "b"));
        assert!(matches(&["prod-*"], "prod-eu") && matches(&["prod-?"], "prod-1"));
        assert!(!matches(&["prod-*"], "preprod-1") && !matches(&["prod-?"], "prod-10"));
        assert!(!matches(&["a.b"], "axb"), "a dot is a dot");
        let mut faults = request(&[]);
        faults.mode = WatchMode::Faults;
        assert_eq!(faults.list_tool().0, "events_list");
        assert!(!faults.matches(&json!({"involvedObject": {"kind": "Node"}})));
        assert!(faults.matches(&json!({"involvedObject": {"kind": "Pod"}})));
    }

    #[test]
    fn listed_incidents_are_those_that_are_over_and_asked_for() {
        let row = |object: &str, status: &str| {
            json!({"object": object, "status": status,
                   "effects": [{"object": "bank/deployment/teller", "what": "waits"}]})
        };
        let mut all = request(&[]);
        all.mode = WatchMode::Incidents;
        assert_eq!(all.list_tool(), ("faults_list", "incidents"));
        assert_eq!(all.list_arguments("2d")[0]["limit"], 200);
        assert!(all.matches(&row("node/worker-2", "resolved")));
        assert!(
            !all.matches(&row("node/worker-2", "open")),
            "it is shown as open"
        );
        let mut some = request(&["shop-*", "ba?k"]);
        some.mode = WatchMode::Incidents;
        assert!(some.matches(&row("shop-1/pod/web", "resolved")));
        assert!(
            some.matches(&row("node/worker-2", "resolved")),
            "it hurts one of them"
        );
        let mut one = request(&["shop"]);
        one.mode = WatchMode::Incidents;
        one.filters
            .insert("for".to_owned(), json!("Deployment/web"));
        assert!(one.matches(&row("shop/deployment/web", "resolved")));
        assert!(!one.matches(&row("shop/deployment/cart", "resolved")));
        assert!(one.list_arguments("2d")[0].get("for").is_none());
        let data = one.notification(&row("shop/deployment/web", "resolved"));
        assert_eq!(data["incident"]["transition"], "resolved");
    }
}
