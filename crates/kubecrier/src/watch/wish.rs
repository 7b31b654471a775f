//! What to subscribe to, in the words of the tools.

use serde_json::{Map, Value, json};

use super::{session::Session, wire::WireError};
use crate::cli::{Kind, WatchArgs};
use kubecrier_core::filters::Glob;

/// What is wanted of every context.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    /// None is the default one.
    pub(crate) contexts: Vec<String>,
    pub(crate) spaces: Spaces,
    pub(crate) selector: Option<String>,
    pub(crate) about: Option<String>,
    pub(crate) types: Vec<Kind>,
    pub(crate) reason: Option<String>,
    pub(crate) faults: bool,
    pub(crate) since: Option<String>,
}

/// Which namespaces.
#[derive(Clone, Debug, Default)]
pub(crate) enum Spaces {
    /// The one that the context starts in, as for kubectl.
    #[default]
    Usual,
    All,
    /// Names and patterns.
    These(Vec<String>),
}

/// What is wanted of one context.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) context: String,
    /// Names and patterns; none is all.
    pub(crate) namespaces: Vec<String>,
    /// Nobody named them.
    usual: bool,
    filters: Map<String, Value>,
    faults: bool,
}

// === impl Wish ===

impl From<&WatchArgs> for Wish {
    fn from(args: &WatchArgs) -> Self {
        Self {
            contexts: args.context.clone(),
            spaces: match (args.all_namespaces, args.namespace.as_slice()) {
                (true, _) => Spaces::All,
                (false, []) => Spaces::Usual,
                (false, names) => Spaces::These(names.to_vec()),
            },
            selector: args.selector.clone(),
            about: args.about.clone(),
            types: args.types.clone(),
            reason: args.reason.clone(),
            faults: args.faults || args.exec.is_some(),
            since: args.since.clone(),
        }
    }
}

impl Wish {
    /// One order per context; the server knows which there are.
    pub(crate) async fn orders(&self, session: &Session) -> Result<Vec<Order>, WireError> {
        let known = session
            .call("configuration_contexts_list", json!({}))
            .await?;
        let known = known["contexts"].as_array().cloned().unwrap_or_default();
        let usual = |context: &Value| {
            context["namespace"]
                .as_str()
                .unwrap_or("default")
                .to_owned()
        };
        let chosen: Vec<(String, String)> = if self.contexts.is_empty() {
            let default = known.iter().find(|context| context["default"] == true);
            let Some(default) = default else {
                let names: Vec<_> = known
                    .iter()
                    .filter_map(|one| one["name"].as_str())
                    .collect();
                return Err(WireError::Rpc(format!(
                    "the server has no default context\nhint: choose with --context: {}",
                    names.join(", ")
                )));
            };
            let name = default["name"].as_str().unwrap_or_default();
            vec![(name.to_owned(), usual(default))]
        } else {
            let named = |name: &String| {
                let context = known.iter().find(|context| context["name"] == **name);
                // One that is not there is refused by the server, in better words.
                (name.clone(), context.map_or_else(String::new, usual))
            };
            self.contexts.iter().map(named).collect()
        };
        let order = |(context, usual): (String, String)| Order {
            context,
            namespaces: match &self.spaces {
                Spaces::All => Vec::new(),
                Spaces::Usual => vec![usual],
                Spaces::These(names) => names.clone(),
            },
            usual: matches!(self.spaces, Spaces::Usual),
            filters: self.filters(),
            faults: self.faults,
        };
        Ok(chosen.into_iter().map(order).collect())
    }

    fn filters(&self) -> Map<String, Value> {
        let types: Vec<_> = self.types.iter().map(|one| one.as_str()).collect();
        let given = [
            ("for", json!(self.about)),
            (
                "types",
                if types.is_empty() {
                    Value::Null
                } else {
                    json!(types)
                },
            ),
            ("reason", json!(self.reason)),
        ];
        given
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    /// Arguments of `events_subscribe`.
    pub(crate) fn subscription(&self, order: &Order) -> Value {
        let mut arguments = order.filters.clone();
        arguments.insert("context".to_owned(), json!(order.context));
        if let Some(labels) = &self.selector {
            arguments.insert("labelSelector".to_owned(), json!(labels));
        }
        if order.faults {
            arguments.insert("mode".to_owned(), json!("faults"));
        }
        if !order.namespaces.is_empty() {
            let patterns = order.namespaces.iter().any(|name| Glob::is_pattern(name));
            let key = if patterns {
                "namespaceSelector"
            } else {
                "namespaces"
            };
            arguments.insert(key.to_owned(), json!(order.namespaces));
        }
        Value::Object(arguments)
    }
}

// === impl Order ===

impl Order {
    /// Arguments of `events_list`, one for each namespace that can be listed: a
    /// pattern is looked for among all.
    pub(crate) fn lists(&self, since: &str) -> Vec<Value> {
        let list = |namespace: Option<&str>| {
            let mut arguments = self.filters.clone();
            arguments.insert("context".to_owned(), json!(self.context));
            arguments.insert("since".to_owned(), json!(since));
            arguments.insert("limit".to_owned(), json!(500));
            if self.faults {
                arguments.insert("types".to_owned(), json!(["Warning"]));
            }
            if let Some(namespace) = namespace {
                arguments.insert("namespace".to_owned(), json!(namespace));
            }
            Value::Object(arguments)
        };
        let patterns = self.namespaces.iter().any(|name| Glob::is_pattern(name));
        if patterns || self.namespaces.is_empty() {
            return vec![list(None)];
        }
        self.namespaces
            .iter()
            .map(|name| list(Some(name)))
            .collect()
    }

    /// Whether a listed event is one that would be pushed.
    pub(crate) fn admits(&self, row: &Value) -> bool {
        if self.faults && row["involvedObject"]["kind"] != "Pod" {
            return false;
        }
        let namespace = row["namespace"].as_str().unwrap_or_default();
        self.namespaces.is_empty()
            || (self.namespaces.iter()).any(|name| Glob::new(name).matches(namespace))
    }

    /// For a person.
    pub(crate) fn describe(&self) -> String {
        let what = if self.faults { "faults" } else { "events" };
        let place = match self.namespaces.as_slice() {
            [] => "all namespaces".to_owned(),
            [one] if self.usual => format!("namespace {one} (-A for all)"),
            [one] => format!("namespace {one}"),
            several => format!("namespaces {}", several.join(", ")),
        };
        format!("{what} in {place} of context {}", self.context)
    }
}
