//! The built-in prompts. Each comes with its evidence: answers of tools, current
//! resources, and links to resources that are worth following.
//!
//! - `triage`: one fault, or a whole cluster;
//! - `runbooks`: well-known failures of a pod or a service;
//! - `evidence`: collects what a prompt embeds.

mod evidence;
mod runbooks;
mod triage;

use std::{future::Future, pin::Pin};

use rmcp::{
    ErrorData,
    model::{GetPromptRequestParams, JsonObject, Prompt, PromptArgument},
};
use serde_json::Value;

pub(super) use self::evidence::{EvidenceCollector, PromptContent};
use crate::{doors::SwitchedOff, tool_filter::ToolFilter};

/// Every built-in prompt, in the order clients see.
pub(super) const PROMPTS: &[PromptEntry] = &[
    triage::CLUSTER_HEALTH_CHECK,
    runbooks::CRASH_LOOP,
    runbooks::IMAGE_PULL,
    runbooks::NO_ENDPOINTS,
    runbooks::PENDING,
    triage::TRIAGE_FAULT,
];

/// A prompt: what a client sees of it, and what fills it in.
pub(super) struct PromptEntry {
    pub(super) name: &'static str,
    title: &'static str,
    pub(super) description: &'static str,
    arguments: &'static [PromptParam],
    /// The tools without which there is nothing to it.
    needs: &'static [&'static str],
    pub(super) render: for<'a> fn(&'a EvidenceCollector<'a>, PromptArguments) -> PromptFuture<'a>,
}

/// An argument of a prompt.
struct PromptParam {
    name: &'static str,
    description: &'static str,
    required: bool,
    /// The kind of its values, if a cluster can list them.
    value_kind: Option<ValueKind>,
}

/// The kind of object that an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Context,
    Namespace,
    Pod,
    Service,
    Fault,
}

/// Checked arguments: every required one is there.
#[derive(Debug)]
pub(super) struct PromptArguments(JsonObject);

/// A prompt that is being filled in.
pub(super) type PromptFuture<'a> =
    Pin<Box<dyn Future<Output = Result<PromptContent, ErrorData>> + Send + 'a>>;

const CONTEXT: PromptParam = PromptParam {
    name: "context",
    description: "Kubeconfig context (default: the server's)",
    required: false,
    value_kind: Some(ValueKind::Context),
};

const NAMESPACE: PromptParam = PromptParam {
    name: "namespace",
    description: "Namespace",
    required: true,
    value_kind: Some(ValueKind::Namespace),
};

/// The definitions of the prompts that the operator has left on.
pub(super) fn definitions(tool_filter: &ToolFilter) -> Vec<Prompt> {
    let open = PROMPTS
        .iter()
        .filter(|entry| entry.check(tool_filter).is_ok());
    open.map(PromptEntry::definition).collect()
}

/// The prompt of that name.
pub(super) fn find(name: &str) -> Option<&'static PromptEntry> {
    PROMPTS.iter().find(|entry| entry.name == name)
}

// === impl PromptEntry ===

impl PromptEntry {
    /// Whether the operator has left on what the prompt is made of.
    pub(super) fn check(&self, tool_filter: &ToolFilter) -> Result<(), SwitchedOff> {
        tool_filter.check_all(&format!("prompt `{}` is", self.name), self.needs)
    }

    /// The definition that clients see.
    pub(super) fn definition(&self) -> Prompt {
        let argument = |one: &PromptParam| {
            PromptArgument::new(one.name)
                .with_description(one.description)
                .with_required(one.required)
        };
        let arguments = self.arguments.iter().map(argument).collect();
        Prompt::new(self.name, Some(self.description), Some(arguments)).with_title(self.title)
    }

    /// The kind of object that one of its arguments names.
    pub(super) fn value_kind(&self, argument: &str) -> Option<ValueKind> {
        let mut arguments = self.arguments.iter();
        arguments.find(|one| one.name == argument)?.value_kind
    }

    /// Checks the arguments of a request: every required one, and no unknown one.
    pub(super) fn arguments(
        &self,
        request: &GetPromptRequestParams,
    ) -> Result<PromptArguments, ErrorData> {
        let given = request.arguments.clone().unwrap_or_default();
        let names = || {
            let names: Vec<_> = self.arguments.iter().map(|one| one.name).collect();
            names.join(", ")
        };
        for (name, value) in &given {
            let known = self.arguments.iter().any(|one| one.name == name);
            let text = match (known, value) {
                (true, Value::String(_)) => continue,
                (true, _) => format!("`{name}` is not a text"),
                (false, _) => format!("`{}` takes no `{name}`, but: {}", self.name, names()),
            };
            return Err(ErrorData::invalid_params(text, None));
        }
        let given = PromptArguments(given);
        for one in self.arguments.iter().filter(|one| one.required) {
            if given.get(one.name).is_none() {
                let text = format!("`{}` needs `{}`: {}", self.name, one.name, one.description);
                return Err(ErrorData::invalid_params(text, None));
            }
        }
        Ok(given)
    }
}

// === impl PromptArguments ===

impl PromptArguments {
    /// An argument that is not empty.
    fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name).and_then(Value::as_str);
        value.filter(|text| !text.is_empty())
    }

    /// A required argument; `given` has checked that it is there.
    fn required_text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(name: &str, arguments: Value) -> GetPromptRequestParams {
        serde_json::from_value(json!({"name": name, "arguments": arguments})).unwrap()
    }

    #[test]
    fn what_is_missing_or_not_known_is_named() {
        let entry = find("runbook_crash_loop").unwrap();
        for (arguments, says) in [
            (json!({}), "needs `namespace`"),
            (json!({"namespace": "shop", "name": ""}), "needs `name`"),
            (
                json!({"namespace": "shop", "pod": "x"}),
                "takes no `pod`, but: namespace,",
            ),
            (json!({"namespace": 1, "name": "x"}), "not a text"),
        ] {
            let error = entry
                .arguments(&request(entry.name, arguments))
                .unwrap_err();
            assert!(error.message.contains(says), "{error:?}");
            assert_eq!(error.code.0, -32602);
        }
        let whole = json!({"namespace": "shop", "name": "web-0", "context": ""});
        let given = entry.arguments(&request(entry.name, whole)).unwrap();
        assert_eq!(
            (given.required_text("name"), given.get("context")),
            ("web-0", None)
        );
    }

    #[test]
    fn prompts_have_a_fixed_order_and_say_what_they_take() {
        let names: Vec<_> = PROMPTS.iter().map(|entry| entry.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!(names, sorted);
        for entry in PROMPTS {
            assert!(
                entry
                    .needs
                    .iter()
                    .all(|tool| crate::tools::find(tool).is_some()),
                "{}",
                entry.name
            );
            let shown = serde_json::to_value(entry.definition()).unwrap();
            for argument in shown["arguments"].as_array().unwrap() {
                assert!(argument["description"].is_string(), "{shown}");
            }
        }
    }
}
