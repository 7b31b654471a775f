//! What a message is about: its method, and the names in it. Nothing else of it is recorded.

use serde::Serialize;
use serde_json::Value;

use crate::tools;

/// Longer names are cut.
const NAME_CHARS_MAX: usize = 256;

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
    pub(crate) fn read(body: &[u8]) -> Self {
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        let other = match message {
            // Its messages are recorded one by one, unless all of it is refused.
            Value::Array(_) => "batch",
            _ => "response",
        };
        let method = text(&message["method"]).unwrap_or_else(|| other.to_owned());
        let params = &message["params"];
        let mut subject = Self {
            method,
            ..Self::default()
        };
        match &*subject.method {
            "tools/call" => {
                subject.tool = text(&params["name"]);
                // What a project's tools are given may be anything.
                if subject.tool.as_deref().and_then(tools::find).is_some() {
                    subject.read_arguments(&params["arguments"]);
                }
            }
            "prompts/get" => {
                subject.prompt = text(&params["name"]);
                subject.read_arguments(&params["arguments"]);
            }
            "subscriptions/listen" => {
                subject.resources = texts(&params["notifications"]["resourceSubscriptions"]);
            }
            "completion/complete" => {
                let about = &params["ref"];
                (subject.prompt, subject.resources) = (text(&about["name"]), texts(&about["uri"]));
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
            method: cut(path),
            ..Self::default()
        }
    }

    /// Whether it is worth a record: what only keeps a session going is not.
    pub(crate) fn is_recorded(&self) -> bool {
        const SILENT: [&str; 3] = ["ping", "response", "logging/setLevel"];
        !self.method.starts_with("notifications/") && !SILENT.contains(&&*self.method)
    }

    fn read_arguments(&mut self, arguments: &Value) {
        let first = |keys: &[&str]| keys.iter().find_map(|key| text(&arguments[*key]));
        self.context = first(&CONTEXT_KEYS);
        self.kind = first(&KIND_KEYS);
        self.name = first(&NAME_KEYS);
        self.namespaces = NAMESPACE_KEYS
            .iter()
            .flat_map(|key| texts(&arguments[*key]))
            .collect();
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(cut)
}

/// One text or a list of them, up to a limit.
fn texts(value: &Value) -> Vec<String> {
    const TEXTS_MAX: usize = 16;
    match value {
        Value::String(one) => vec![cut(one)],
        Value::Array(list) => list.iter().filter_map(text).take(TEXTS_MAX).collect(),
        _ => Vec::new(),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(NAME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(message: &Value) -> Value {
        json!(Subject::read(message.to_string().as_bytes()))
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
        let long = json!({"method": "x".repeat(10_000)});
        assert_eq!(
            read(&long)["method"].as_str().unwrap().len(),
            NAME_CHARS_MAX
        );
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
