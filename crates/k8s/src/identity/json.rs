//! Names and free text in documents: objects of the API, and the data of an answer.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use kubecrier_k8s_api::grammar;
use kubecrier_redact::Redactor;
use serde_json::{Map, Value};

/// A value that no rule takes for a secret by itself: it is redacted only if its key names
/// one.
const PROBE: &str = "Probe-6f1q";

/// Redacts every text of a document except names: fields that identify something and follow
/// the grammar of the API server, and the keys of labels and annotations. The values of keys
/// and variables that name a secret, and of Secrets, are hidden.
pub fn json(redactor: &Redactor, document: &mut Value) {
    let mut fields = Fields::new(redactor);
    fields.value(document, is_no_name);
}

/// The same for an answer of this server, which also has sentences of its own.
pub fn answer(redactor: &Redactor, data: &mut Value) {
    let mut fields = Fields::new(redactor);
    fields.has_sentences = true;
    fields.value(data, is_no_name);
}

/// Labels as they may be shown.
pub(in super::super) fn labels<'a>(
    redactor: &Redactor,
    labels: impl Iterator<Item = (&'a String, &'a String)>,
) -> BTreeMap<String, String> {
    let labels = labels.map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    let mut labels: Map<_, _> = labels.collect();
    let mut fields = Fields::new(redactor);
    fields.labels(&mut labels);
    let labels = labels.into_iter().map(|(key, value)| match value {
        Value::String(text) => (key, text),
        other => (key, other.to_string()),
    });
    labels.collect()
}

/// Whether a text is a name, in a field that holds names of one grammar.
type Grammar = fn(&str) -> bool;

/// Redacts fields by their names.
pub(in super::super) struct Fields<'r> {
    redactor: &'r Redactor,
    /// Whether some fields hold sentences that this server composed.
    has_sentences: bool,
    /// The same few keys come again and again.
    keys: HashMap<String, Key>,
}

/// What a key says about itself and its value.
#[derive(Clone)]
struct Key {
    /// Whether it names a secret.
    is_secret: bool,
    /// How it is shown, if not as it is.
    shown: Option<String>,
}

/// The grammar of the names in a field. Fields of every kind are called the same where they
/// mean the same, also in custom resources, and a value has to be a name besides.
fn grammar_of(key: &str) -> Grammar {
    match key {
        "name" | "namespace" | "namespaces" | "pod" | "container" | "otherContainers" | "node"
        | "hostname" | "subdomain" | "serviceAccount" | "uid" | "cluster" | "context"
        | "resource" | "source" | "manager" | "by" => grammar::is_dns_subdomain,
        "generateName" => |text| grammar::is_dns_subdomain(text.trim_end_matches('-')),
        "kind" | "reason" | "type" | "status" | "phase" | "state" => grammar::is_word,
        "apiVersion" => grammar::is_api_version,
        "object" | "objects" | "id" | "from" | "to" | "root" | "deleted" => grammar::is_reference,
        "fieldPath" => grammar::is_field_path,
        "image" => grammar::is_image,
        "uri" | "resourceUri" => is_uri,
        // nodeName, secretName, claimName, involvedName, ...
        key if key.ends_with("Name") => grammar::is_dns_subdomain,
        _ => is_no_name,
    }
}

fn is_no_name(_: &str) -> bool {
    false
}

/// Whether a key is the name of a field, or of an object in a map by names.
pub(super) fn is_key(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_alphabetic()) || grammar::is_dns_subdomain(key)
}

/// A URI of this server whose parts are names.
fn is_uri(text: &str) -> bool {
    let path = text
        .strip_prefix("k8s://")
        .or_else(|| text.strip_prefix("kubecrier://"));
    path.is_some_and(|path| path.split('/').all(grammar::is_dns_subdomain))
}

/// The names of the objects of an incident, which its headline has too.
fn object_names(incident: &Map<String, Value>) -> Vec<String> {
    let object = incident.get("object");
    let effects = incident.get("effects").and_then(Value::as_array);
    let effects = effects.into_iter().flatten();
    let objects = object.into_iter().chain(effects.map(|one| &one["object"]));
    let references = objects
        .filter_map(Value::as_str)
        .filter(|one| grammar::is_reference(one));
    let names = references.flat_map(|one| one.split('/').map(str::to_owned));
    names.collect()
}

/// Whether the keys of a map are those of labels or annotations.
fn has_qualified_keys(key: &str) -> bool {
    matches!(
        key,
        "labels" | "annotations" | "matchLabels" | "nodeSelector" | "selector"
    )
}

// === impl Fields ===

impl<'r> Fields<'r> {
    pub(in super::super) fn new(redactor: &'r Redactor) -> Self {
        Self {
            redactor,
            has_sentences: false,
            keys: HashMap::new(),
        }
    }

    /// A text as it may be shown in a field of that name.
    pub(in super::super) fn show(&mut self, key: &str, text: String) -> String {
        let mut value = Value::String(text);
        if self.key(key).is_secret {
            self.secret(key, &mut value);
        } else {
            self.value(&mut value, grammar_of(key));
        }
        match value {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    fn value(&mut self, value: &mut Value, is_name: Grammar) {
        match value {
            Value::String(text) => {
                if !is_name(text)
                    && let Cow::Owned(clean) = self.redactor.workload(text)
                {
                    *text = clean;
                }
            }
            Value::Array(items) => self.items(items, is_name),
            Value::Object(fields) => self.object(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The items of a list. In the arguments of a command the value of a flag is the next item.
    fn items(&mut self, items: &mut [Value], is_name: Grammar) {
        let mut secret_flag: Option<String> = None;
        for item in items {
            let flag = item.as_str().and_then(|text| text.strip_prefix('-'));
            let flag = flag.map(|flag| flag.trim_start_matches('-').to_owned());
            match (secret_flag.take(), &flag) {
                (Some(name), None) if item.is_string() => self.secret(&name, item),
                _ => self.value(item, is_name),
            }
            secret_flag = flag.filter(|flag| self.key(flag).is_secret);
        }
    }

    fn object(&mut self, fields: &mut Map<String, Value>) {
        let text = |key: &str| fields.get(key).and_then(Value::as_str);
        let is_secret = text("kind") == Some("Secret");
        let variable = text("name").map(str::to_owned);
        let headline_names = match text("headline") {
            Some(_) if self.has_sentences => object_names(fields),
            _ => Vec::new(),
        };
        let is_variable = variable.is_some_and(|name| self.key(&name).is_secret);
        for (key, value) in fields.iter_mut() {
            match key.as_str() {
                "data" | "stringData" if is_secret => self.hide_in("kind", "Secret", key, value),
                "value" if is_variable => self.hide_in("name", "password", key, value),
                "notes" | "warnings" | "error" | "incomplete" if self.has_sentences => {
                    self.sentences(value);
                }
                "headline" if !headline_names.is_empty() => {
                    if let Value::String(text) = value {
                        let names: Vec<_> = headline_names.iter().map(String::as_str).collect();
                        *text = super::keep_names(self.redactor, text, &names);
                    }
                }
                key if has_qualified_keys(key) => match value {
                    Value::Object(labels) => self.labels(labels),
                    other => self.value(other, is_no_name),
                },
                key if self.key(key).is_secret => self.secret(key, value),
                key => self.value(value, grammar_of(key)),
            }
        }
        self.rename(fields, is_key);
    }

    fn sentences(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = super::sentence(self.redactor, text),
            Value::Array(items) => {
                for item in items {
                    self.sentences(item);
                }
            }
            other => self.value(other, is_no_name),
        }
    }

    /// Labels and annotations: the keys are names, and values may be.
    fn labels(&mut self, labels: &mut Map<String, Value>) {
        for (key, value) in labels.iter_mut() {
            if self.key(key).is_secret {
                self.secret(key, value);
            } else {
                self.value(value, grammar::is_dns_subdomain);
            }
        }
        self.rename(labels, grammar::is_qualified_name);
    }

    /// The value of a key that names a secret. Structures below it are not hidden: they refer
    /// to the secret, as `secretKeyRef` does.
    fn secret(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::Object(fields) => self.object(fields),
            Value::Array(items) => {
                for item in items {
                    self.secret(key, item);
                }
            }
            other => self.hide(
                other,
                |value| Map::from_iter([(key.to_owned(), value)]),
                key,
            ),
        }
    }

    /// Hides what is a secret because of another field beside it.
    fn hide_in(&self, beside: &str, is: &str, key: &str, value: &mut Value) {
        let pair = |value| {
            Map::from_iter([
                (beside.to_owned(), Value::from(is)),
                (key.to_owned(), value),
            ])
        };
        self.hide(value, pair, key);
    }

    /// Lets the redactor decide on a value together with what makes it a secret.
    fn hide(&self, value: &mut Value, pair: impl FnOnce(Value) -> Map<String, Value>, key: &str) {
        let mut pair = Value::Object(pair(value.take()));
        self.redactor.json(&mut pair);
        // A key that is itself redacted is not found again, and then neither is its value.
        *value = pair.get_mut(key).map(Value::take).unwrap_or_default();
    }

    fn key(&mut self, key: &str) -> Key {
        if let Some(known) = self.keys.get(key) {
            return known.clone();
        }
        let mut probe = Value::Object(Map::from_iter([(key.to_owned(), PROBE.into())]));
        self.redactor.json(&mut probe);
        let made = Key {
            is_secret: probe.get(key).and_then(Value::as_str) != Some(PROBE),
            shown: match self.redactor.workload(key) {
                Cow::Borrowed(_) => None,
                Cow::Owned(clean) => Some(clean),
            },
        };
        self.keys.insert(key.to_owned(), made.clone());
        made
    }

    /// Redacts the keys that are no names.
    fn rename(&mut self, fields: &mut Map<String, Value>, is_name: Grammar) {
        let is_dirty =
            |fields: &mut Self, key: &str| !is_name(key) && fields.key(key).shown.is_some();
        if !fields.keys().any(|key| is_dirty(self, key)) {
            return;
        }
        *fields = std::mem::take(fields)
            .into_iter()
            .map(|(key, value)| match self.key(&key).shown {
                Some(shown) if !is_name(&key) => (shown, value),
                _ => (key, value),
            })
            .collect();
    }
}
