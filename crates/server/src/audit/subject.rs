//! What a message is about: its method, and the names in it. Nothing else of it is recorded, and
//! what a client calls a method, a tool or a prompt only if there is one.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::{prompts, resources::LISTEN_URIS_MAX, server::Server, tools};

/// Longer names are cut.
const NAME_BYTES_MAX: usize = 256;

/// The same for an issuer with its subject.
const IDENTITY_BYTES_MAX: usize = 2048;

/// Names of a kind that are recorded: as many as one stream can have.
const NAMES_MAX: usize = LISTEN_URIS_MAX;

/// The methods of the protocol that are requests.
const METHODS: [&str; 18] = [
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// Which names there are. Any other text is the client's own.
pub(crate) trait KnownNames: fmt::Debug + Send + Sync {
    fn is_tool(&self, name: &str) -> bool;
    fn is_prompt(&self, name: &str) -> bool;
}

/// The arguments that are recorded, and as what; of several, the first that is there.
const CONTEXT_KEYS: [&str; 2] = ["context", "cluster"];
const KIND_KEYS: [&str; 2] = ["kind", "involvedKind"];
const NAME_KEYS: [&str; 7] = [
    "name",
    "for",
    "involvedName",
    "pod",
    "service",
    "subscriptionId",
    "faultId",
];
/// All of these are recorded.
const NAMESPACE_KEYS: [&str; 4] = [
    "namespace",
    "namespaces",
    "namespaceSelector",
    "involvedNamespace",
];

/// What a message is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Subject {
    method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

// === impl Subject ===

impl Subject {
    /// Of a message.
    pub(super) fn read(body: &[u8], names: &dyn KnownNames) -> Self {
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        let other = match message {
            // Its messages are recorded one by one, unless all of it is refused.
            Value::Array(_) => "batch",
            _ => "response",
        };
        let method = message["method"].as_str().map_or(other, method);
        let params = &message["params"];
        let prompt = |value: &Value| text(value).filter(|name| names.is_prompt(name));
        let mut subject = Self {
            method: method.to_owned(),
            ..Self::default()
        };
        match &*subject.method {
            "tools/call" => {
                subject.tool = text(&params["name"]).filter(|name| names.is_tool(name));
                // What a project's tools are given may be anything.
                if subject.tool.as_deref().and_then(tools::find).is_some() {
                    subject.read_arguments(&params["arguments"]);
                }
            }
            "prompts/get" => {
                subject.prompt = prompt(&params["name"]);
                subject.read_arguments(&params["arguments"]);
            }
            "subscriptions/listen" => {
                subject.resources = texts(&params["notifications"]["resourceSubscriptions"]);
            }
            "completion/complete" => {
                let about = &params["ref"];
                (subject.prompt, subject.resources) =
                    (prompt(&about["name"]), texts(&about["uri"]));
                subject.read_arguments(&params["context"]["arguments"]);
            }
            _ => {
                subject.resources = texts(&params["uri"]);
                subject.name = text(&params["taskId"]);
            }
        }
        subject
    }

    /// Of a request without a message.
    pub(crate) fn of_path(path: &str) -> Self {
        Self {
            method: cut(path, NAME_BYTES_MAX).to_owned(),
            ..Self::default()
        }
    }

    /// Whether it is worth a record: what only keeps a session going is not.
    pub(crate) fn is_recorded(&self) -> bool {
        const SILENT: [&str; 3] = ["ping", "response", "logging/setLevel"];
        !self.method.starts_with("notifications/") && !SILENT.contains(&&*self.method)
    }

    /// Whether a handler notes how it ends: for all but what is answered in front of it, or
    /// never refused.
    pub(super) fn is_handled(&self) -> bool {
        !matches!(&*self.method, "batch" | "initialize" | "server/discover")
    }

    /// Whether it is about resources.
    pub(super) fn has_resources(&self) -> bool {
        !self.resources.is_empty()
    }

    /// The resources that are not among these.
    pub(super) fn resources_beyond(&self, accepted: &[String]) -> Vec<&str> {
        let accepted: Vec<_> = accepted
            .iter()
            .map(|uri| cut(uri, NAME_BYTES_MAX))
            .collect();
        let own = self.resources.iter().map(String::as_str);
        own.filter(|uri| !accepted.contains(uri)).collect()
    }

    fn read_arguments(&mut self, arguments: &Value) {
        let first = |keys: &[&str]| keys.iter().find_map(|key| text(&arguments[*key]));
        self.context = first(&CONTEXT_KEYS);
        self.kind = first(&KIND_KEYS);
        self.name = first(&NAME_KEYS);
        self.namespaces = NAMESPACE_KEYS
            .iter()
            .flat_map(|key| texts(&arguments[*key]))
            .take(NAMES_MAX)
            .collect();
    }
}

fn text(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    Some(cut(text, NAME_BYTES_MAX).to_owned())
}

/// A method as it is recorded.
fn method(name: &str) -> &str {
    match METHODS.iter().find(|method| **method == name) {
        Some(method) => method,
        None if name.starts_with("notifications/") => "notifications/",
        None => "unknown",
    }
}

/// One text or a list of them, up to a limit.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(_) => text(value).into_iter().collect(),
        Value::Array(list) => list.iter().filter_map(text).take(NAMES_MAX).collect(),
        _ => Vec::new(),
    }
}

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// A caller or a user, as it is recorded.
pub(super) fn cut_identity(name: &str) -> &str {
    cut(name, IDENTITY_BYTES_MAX)
}

impl KnownNames for Server {
    fn is_tool(&self, name: &str) -> bool {
        tools::find(name).is_some() || self.tool(name).is_some()
    }

    fn is_prompt(&self, name: &str) -> bool {
        prompts::find(name).is_some() || self.prompts().iter().any(|prompt| prompt.name == name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A project has a tool and a prompt.
    #[derive(Debug)]
    struct Names;

    impl KnownNames for Names {
        fn is_tool(&self, name: &str) -> bool {
            tools::find(name).is_some() || name == "deploy"
        }

        fn is_prompt(&self, name: &str) -> bool {
            prompts::find(name).is_some() || name == "pod_crash"
        }
    }

    fn read(message: &Value) -> Value {
        json!(Subject::read(message.to_string().as_bytes(), &Names))
    }

    #[test]
    fn names_are_recorded_and_nothing_else() {
        let message = json!({"method": "tools/call", "params": {"name": "pods_log", "arguments": {
            "context": "prod", "namespace": "shop", "name": "web-0", "grep": "hunter2",
        }}});
        let expected = json!({"method": "tools/call", "tool": "pods_log", "context": "prod",
                              "namespaces": ["shop"], "name": "web-0"});
        assert_eq!(read(&message), expected);
        let message = json!({"method": "tools/call", "params": {"name": "deploy", "arguments": {
            "name": "hunter2", "namespace": "hunter2",
        }}});
        assert_eq!(
            read(&message),
            json!({"method": "tools/call", "tool": "deploy"})
        );
        let message = json!({"method": "resources/read", "params": {"uri": "k8s://dev/a/events"}});
        let expected = json!({"method": "resources/read", "resources": ["k8s://dev/a/events"]});
        assert_eq!(read(&message), expected);
        let long = json!({"method": "resources/read", "params": {"uri": "ü".repeat(10_000)}});
        assert_eq!(
            read(&long)["resources"][0].as_str().unwrap().len(),
            NAME_BYTES_MAX
        );
        // Where there is no such name it may be anything, as a secret.
        for method in [
            "hunter2",
            "tools/call",
            "prompts/get",
            "completion/complete",
        ] {
            let given = json!({"name": "hunter2", "ref": {"name": "hunter2"}});
            let message = json!({"method": method, "params": given});
            let method = method.replace("hunter2", "unknown");
            assert_eq!(read(&message), json!({"method": method}));
        }
        let uris: Vec<_> = (0..LISTEN_URIS_MAX)
            .map(|n| format!("k8s://dev/ns-{n}/events"))
            .collect();
        let filter = json!({"notifications": {"resourceSubscriptions": uris}});
        let message = json!({"method": "subscriptions/listen", "params": filter});
        assert_eq!(read(&message)["resources"], json!(uris), "all of them");
        let message = json!({"method": "prompts/get", "params": {"name": "triage_fault",
                             "arguments": {"faultId": "i-1"}}});
        let expected = json!({"method": "prompts/get", "prompt": "triage_fault", "name": "i-1"});
        assert_eq!(read(&message), expected);
        let message = json!({"method": "completion/complete", "params": {
            "ref": {"type": "ref/prompt", "name": "pod_crash"},
            "argument": {"name": "pod", "value": "hunter2"},
            "context": {"arguments": {"namespace": "shop"}},
        }});
        let expected = json!({"method": "completion/complete", "prompt": "pod_crash",
                              "namespaces": ["shop"]});
        assert_eq!(read(&message), expected);
        let message = json!({"method": "tasks/cancel", "params": {"taskId": "t-1"}});
        assert_eq!(
            read(&message),
            json!({"method": "tasks/cancel", "name": "t-1"})
        );
        for odd in [json!(null), json!({"params": 7})] {
            assert_eq!(read(&odd), json!({"method": "response"}));
        }
        assert_eq!(read(&json!([1])), json!({"method": "batch"}));
    }

    /// Whoever adds an argument decides whether it says which objects a call is about.
    #[test]
    fn each_argument_of_a_tool_is_recorded_or_known_to_name_nothing() {
        const NAMES_NOTHING: [&str; 26] = [
            "apiVersion",
            "container",
            "cursor",
            "depth",
            "exclude",
            "excludeReasons",
            "fieldSelector",
            "include",
            "includeResolved",
            "labelSelector",
            "limit",
            "limitBytes",
            "mode",
            "output",
            "previous",
            "reason",
            "severity",
            "since",
            "sortBy",
            "tail",
            "timeoutSeconds",
            "timestamps",
            "type",
            "types",
            "until",
            "waitSeconds",
        ];
        let recorded = [&CONTEXT_KEYS[..], &KIND_KEYS, &NAME_KEYS, &NAMESPACE_KEYS].concat();
        for entry in &tools::TOOLS {
            let schema = entry
                .definition(&tools::ContextChoice::default())
                .input_schema;
            let none = serde_json::Map::new();
            let arguments = schema.get("properties").and_then(Value::as_object);
            let arguments = arguments.unwrap_or(&none);
            for argument in arguments.keys().map(String::as_str) {
                let is_known = recorded.contains(&argument) != NAMES_NOTHING.contains(&argument);
                assert!(is_known, "{argument} of {}", entry.name);
            }
        }
    }
}
