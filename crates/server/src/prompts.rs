//! Prompts that are built in. Each comes with the evidence it is about: what tools
//! say, resources as they are now, and links to those worth following.

mod consult;
mod runbooks;
mod triage;

use std::{future::Future, pin::Pin};

use rmcp::{
    ErrorData,
    model::{GetPromptRequestParams, JsonObject, Prompt, PromptArgument},
};
use serde_json::Value;

pub(super) use self::consult::{Consult, Pages};

/// Every built-in prompt, in the order clients see.
pub(super) const PROMPTS: &[Entry] = &[
    triage::CLUSTER_HEALTH_CHECK,
    runbooks::CRASH_LOOP,
    runbooks::IMAGE_PULL,
    runbooks::NO_ENDPOINTS,
    runbooks::PENDING,
    triage::TRIAGE_FAULT,
];

/// A prompt: what a client sees of it, and what fills it in.
pub(super) struct Entry {
    pub(super) name: &'static str,
    title: &'static str,
    pub(super) description: &'static str,
    arguments: &'static [Argument],
    pub(super) fill: for<'a> fn(&'a Consult<'a>, Given) -> Filling<'a>,
}

/// One argument.
struct Argument {
    name: &'static str,
    description: &'static str,
    required: bool,
    /// What a value names, if a cluster can tell the values.
    names: Option<Names>,
}

/// What the values of an argument name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    Context,
    Namespace,
    Pod,
    Service,
    Fault,
}

/// What was given, each argument that is needed among it.
#[derive(Debug)]
pub(super) struct Given(JsonObject);

/// A prompt that is being filled in.
pub(super) type Filling<'a> = Pin<Box<dyn Future<Output = Result<Pages, ErrorData>> + Send + 'a>>;

const CONTEXT: Argument = Argument {
    name: "context",
    description: "Context of the kubeconfig (default: the usual one)",
    required: false,
    names: Some(Names::Context),
};

const NAMESPACE: Argument = Argument {
    name: "namespace",
    description: "Namespace",
    required: true,
    names: Some(Names::Namespace),
};

/// The prompt of that name.
pub(super) fn find(name: &str) -> Option<&'static Entry> {
    PROMPTS.iter().find(|entry| entry.name == name)
}

// === impl Entry ===

impl Entry {
    /// What clients see.
    pub(super) fn definition(&self) -> Prompt {
        let argument = |one: &Argument| {
            PromptArgument::new(one.name)
                .with_description(one.description)
                .with_required(one.required)
        };
        let arguments = self.arguments.iter().map(argument).collect();
        Prompt::new(self.name, Some(self.description), Some(arguments)).with_title(self.title)
    }

    /// What the values of one of its arguments name.
    pub(super) fn names(&self, argument: &str) -> Option<Names> {
        let mut arguments = self.arguments.iter();
        arguments.find(|one| one.name == argument)?.names
    }

    /// What was given, if it is all there and nothing else.
    pub(super) fn given(&self, request: &GetPromptRequestParams) -> Result<Given, ErrorData> {
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
        let given = Given(given);
        for one in self.arguments.iter().filter(|one| one.required) {
            if given.get(one.name).is_none() {
                let text = format!("`{}` needs `{}`: {}", self.name, one.name, one.description);
                return Err(ErrorData::invalid_params(text, None));
            }
        }
        Ok(given)
    }
}

// === impl Given ===

impl Given {
    /// An argument that is not empty.
    fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name).and_then(Value::as_str);
        value.filter(|text| !text.is_empty())
    }

    /// One that is needed; it was looked for before.
    fn needed(&self, name: &str) -> &str {
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
            let error = entry.given(&request(entry.name, arguments)).unwrap_err();
            assert!(error.message.contains(says), "{error:?}");
            assert_eq!(error.code.0, -32602);
        }
        let whole = json!({"namespace": "shop", "name": "web-0", "context": ""});
        let given = entry.given(&request(entry.name, whole)).unwrap();
        assert_eq!(
            (given.needed("name"), given.get("context")),
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
            let shown = serde_json::to_value(entry.definition()).unwrap();
            for argument in shown["arguments"].as_array().unwrap() {
                assert!(argument["description"].is_string(), "{shown}");
            }
        }
    }
}
