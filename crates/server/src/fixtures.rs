//! Tools, prompts and resources for end-to-end tests: what a project folder cannot do, such
//! as an update that has no bytes. They have the names of the official conformance suite, which
//! itself runs without them.
//!
//! Behind a feature that no release has, and even then only when `CONFORMANCE_FIXTURES`
//! is set.

#[cfg(not(debug_assertions))]
compile_error!("conformance-fixtures is for tests: it lets the environment break a server");

mod failing;
mod resources;
mod tools;

use std::{
    env,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, GetPromptRequestParams, Prompt, PromptArgument, Tool},
    service::RequestContext,
};
use serde_json::{Value, json};

pub(super) use self::failing::failing;
use self::resources::TestResources;
use super::{
    reporter::RequestReporter,
    resources::{ResourceProvider, UpdatePublisher},
    tool_provider::{CallFuture, FilledPrompt, ToolProvider},
};

/// Switches the fixtures on.
const SWITCH: &str = "CONFORMANCE_FIXTURES";

/// Tools and prompts of the suite.
#[derive(Debug, Default)]
struct Fixtures(Arc<FixtureState>);

/// The state that the triggers change.
#[derive(Debug, Default)]
struct FixtureState {
    another_tool: AtomicBool,
    another_prompt: AtomicBool,
    updates: OnceLock<UpdatePublisher>,
}

/// The fixtures, if they are switched on.
pub(super) fn switched_on() -> Option<(Box<dyn ResourceProvider>, Box<dyn ToolProvider>)> {
    env::var_os(SWITCH)?;
    tracing::warn!("serving the fixtures of the conformance suite");
    let state = Arc::new(FixtureState::default());
    let family = TestResources(Arc::clone(&state));
    Some((Box::new(family), Box::new(Fixtures(state))))
}

fn flip(flag: &AtomicBool) {
    flag.fetch_xor(true, Ordering::Relaxed);
}

// === impl Fixtures ===

impl ToolProvider for Fixtures {
    fn tools(&self) -> Arc<[Tool]> {
        tools::list(self.0.another_tool.load(Ordering::Relaxed)).into()
    }

    fn call<'a>(
        &'a self,
        request: &'a CallToolRequestParams,
        reporter: &'a RequestReporter,
        context: &'a RequestContext<RoleServer>,
    ) -> Option<CallFuture<'a>> {
        let known = self.tools().iter().any(|tool| tool.name == request.name);
        known.then(|| tools::call(&self.0, request, reporter, context))
    }

    fn prompts(&self) -> Vec<Prompt> {
        let argument = |name: &str| {
            PromptArgument::new(name)
                .with_description("An argument")
                .with_required(true)
        };
        let mut all = vec![
            Prompt::new("test_simple_prompt", Some("Takes nothing"), None),
            Prompt::new(
                "test_prompt_with_arguments",
                Some("Takes two arguments"),
                Some(vec![argument("arg1"), argument("arg2")]),
            ),
            Prompt::new(
                "test_prompt_with_embedded_resource",
                Some("Embeds a resource"),
                Some(vec![argument("resourceUri")]),
            ),
        ];
        if self.0.another_prompt.load(Ordering::Relaxed) {
            all.push(Prompt::new(
                "test_another_prompt",
                Some("Comes and goes"),
                None,
            ));
        }
        all
    }

    fn prompt(&self, request: &GetPromptRequestParams) -> Option<Result<FilledPrompt, ErrorData>> {
        let known = self.prompts();
        let prompt = known.iter().find(|prompt| prompt.name == request.name)?;
        for argument in prompt.arguments.iter().flatten() {
            if given(request, &argument.name).is_empty() {
                let text = format!("`{}` needs `{}`", prompt.name, argument.name);
                return Some(Err(ErrorData::invalid_params(text, None)));
            }
        }
        let text =
            |text: String| json!({"role": "user", "content": {"type": "text", "text": text}});
        let messages = match prompt.name.as_str() {
            "test_prompt_with_arguments" => {
                let (one, two) = (given(request, "arg1"), given(request, "arg2"));
                vec![text(format!("arg1 is '{one}' and arg2 is '{two}'"))]
            }
            "test_prompt_with_embedded_resource" => {
                let uri = given(request, "resourceUri");
                let content = json!({"uri": uri, "text": "A resource inside of a prompt."});
                let content = json!({"type": "resource", "resource": content});
                vec![
                    json!({"role": "user", "content": content}),
                    text("Say what is in it.".to_owned()),
                ]
            }
            _ => vec![text("A prompt that takes nothing.".to_owned())],
        };
        Some(Ok(FilledPrompt {
            description: None,
            messages,
        }))
    }

    fn complete(&self, prompt: &str, argument: &str, given: &str) -> Option<Vec<String>> {
        let known = self.prompts();
        let prompt = known.iter().find(|one| one.name == prompt)?;
        let mut arguments = prompt.arguments.iter().flatten();
        arguments.find(|one| one.name == argument)?;
        let values = ["paris", "park", "party", "test"].into_iter();
        let fitting = values.filter(|value| value.starts_with(given));
        Some(fitting.map(str::to_owned).collect())
    }
}

fn given(request: &GetPromptRequestParams, name: &str) -> String {
    let value = request.arguments.as_ref().and_then(|all| all.get(name));
    let value = value.and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}
