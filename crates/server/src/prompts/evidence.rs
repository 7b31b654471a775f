//! Collects the evidence of a prompt from the tools and resources that a client has,
//! with the same text.

use rmcp::{
    ErrorData,
    model::{
        ContentBlock, GetPromptResult, JsonObject, PromptMessage, Resource, ResourceContents, Role,
    },
};
use serde_json::{Map, Value, json};

use super::PromptEntry;
use crate::{
    output::{Output, ToolError, cleaned_contents},
    resources::{ClusterUri, Resources},
    tools::{self, ToolContext},
};
use kubecrier_k8s::identity;
use kubecrier_redact::Redactor;

/// Answers a prompt's questions.
pub(crate) struct EvidenceCollector<'a> {
    pub(crate) tools: ToolContext<'a>,
    pub(crate) resources: &'a Resources,
    /// Whether the client's protocol version has resource links.
    pub(crate) links: bool,
}

/// Why something is not to be had, as it may leave.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct EvidenceError {
    text: String,
    /// Whether the client can help itself with other arguments.
    is_client_error: bool,
    kind: &'static str,
}

/// The messages of a prompt, as they come together.
#[derive(Debug, Default)]
pub(crate) struct PromptContent {
    messages: Vec<PromptMessage>,
}

// === impl EvidenceCollector ===

impl EvidenceCollector<'_> {
    /// The context that is meant, spelled out.
    pub(super) fn context(&self, given: Option<&str>) -> Result<String, EvidenceError> {
        let resolved = self.tools.contexts.resolve(given);
        resolved.map_err(|error| EvidenceError::of(&ToolError::Cluster(error), self.tools.redactor))
    }

    /// Calls a tool.
    pub(super) async fn tool(&self, name: &str, arguments: Value) -> Result<Output, EvidenceError> {
        let off = |text: String| EvidenceError {
            text,
            is_client_error: false,
            kind: "switched_off",
        };
        if let Err(why) = self.tools.tool_filter.check_tool(name) {
            return Err(off(why.to_string()));
        }
        let Some(entry) = tools::find(name) else {
            return Err(off("there is no such tool".to_owned()));
        };
        let arguments: JsonObject = match arguments {
            Value::Object(given) => given,
            _ => Map::new(),
        };
        let answer = (entry.call)(self.tools, arguments).await;
        answer.map_err(|error| EvidenceError::of(&error, self.tools.redactor))
    }

    /// A resource as it is now, as it may leave; or why there is none.
    pub(super) async fn read(&self, address: &ClusterUri) -> Result<Vec<ResourceContents>, String> {
        let uri = address.to_string();
        let ToolContext { limits, client, .. } = self.tools;
        let read = (self.resources).read_within(&uri, &client.requester, limits.output_bytes);
        match read.await {
            Ok(contents) => Ok(cleaned_contents(self.tools.redactor, contents).contents),
            Err(error) => Err(identity::sentence(self.tools.redactor, &error.to_string())),
        }
    }

    /// Adds the answer of a tool.
    pub(super) async fn add_tool(&self, prompt: &mut PromptContent, name: &str, arguments: Value) {
        let shown = arguments.to_string();
        let answer = match self.tool(name, arguments).await {
            Ok(output) => output.text().to_owned(),
            Err(why) => format!("not to be had: {why}"),
        };
        prompt.text(format!(
            "What `{name}` says, called with {shown}:\n\n{answer}"
        ));
    }

    /// Adds a resource as it is now.
    pub(super) async fn add_resource(&self, prompt: &mut PromptContent, address: &ClusterUri) {
        match self.read(address).await {
            Ok(contents) => {
                for one in contents {
                    prompt.push(ContentBlock::resource(one));
                }
            }
            Err(why) => prompt.text(format!("`{address}` is not to be had: {why}")),
        }
    }

    /// Adds which of the tools that the prompt names are off.
    pub(crate) fn add_switched_off(&self, prompt: &mut PromptContent) {
        let texts = prompt
            .messages
            .iter()
            .filter_map(|one| one.content.as_text());
        let texts: Vec<_> = texts.map(|text| text.text.as_str()).collect();
        let is_named = |tool: &str| texts.iter().any(|text| text.contains(tool));
        let off: Vec<_> = tools::TOOLS
            .iter()
            .filter(|entry| !self.tools.tool_filter.includes(entry) && is_named(entry.name))
            .map(|entry| entry.name)
            .collect();
        if !off.is_empty() {
            prompt.text(format!(
                "Switched off by the server's operator, so go without: {}",
                off.join(", ")
            ));
        }
    }

    /// Adds resources to follow, of those that are served.
    pub(super) fn add_links(&self, prompt: &mut PromptContent, links: &[(ClusterUri, &str)]) {
        let uris: Vec<_> = links.iter().map(|(uri, _)| uri.to_string()).collect();
        let served = self
            .resources
            .listenable(&uris, &self.tools.client.requester);
        let names = uris.iter().zip(links.iter().map(|(_, name)| *name));
        let links: Vec<_> = names.filter(|(uri, _)| served.contains(uri)).collect();
        if self.links {
            for (uri, name) in links {
                let link = Resource::new(uri, name);
                prompt.push(ContentBlock::resource_link(link.with_description(
                    "Read it for more, or subscribe to be notified of changes",
                )));
            }
            return;
        }
        let list: Vec<_> = (links.iter())
            .map(|(uri, name)| format!("- {name}: {uri}"))
            .collect();
        prompt.text(format!(
            "Resources to read for more, or to subscribe to:\n{}",
            list.join("\n")
        ));
    }
}

// === impl EvidenceError ===

impl EvidenceError {
    fn of(error: &ToolError, redactor: &Redactor) -> Self {
        let (message, hint) = error.redacted(redactor);
        let hint = hint.map(|hint| format!("; {hint}"));
        Self {
            text: format!("{message}{}", hint.unwrap_or_default()),
            is_client_error: error.is_client_error(),
            kind: error.kind(),
        }
    }
}

impl From<EvidenceError> for ErrorData {
    fn from(error: EvidenceError) -> Self {
        let kind = Some(json!({"kind": error.kind}));
        if error.is_client_error {
            Self::invalid_params(error.text, kind)
        } else {
            Self::internal_error(error.text, kind)
        }
    }
}

// === impl PromptContent ===

impl PromptContent {
    pub(super) fn text(&mut self, text: impl Into<String>) {
        self.push(ContentBlock::text(text.into()));
    }

    fn push(&mut self, content: ContentBlock) {
        self.messages.push(PromptMessage::new(Role::User, content));
    }

    /// All of it, under what the client sees of the prompt.
    pub(crate) fn under(self, entry: &PromptEntry) -> GetPromptResult {
        GetPromptResult::new(self.messages).with_description(entry.description)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubecrier_k8s::{ClusterError, ErrorKind};

    #[test]
    fn only_what_does_not_exist_is_the_fault_of_whoever_asks() {
        let code = |error: &ToolError| {
            let error = EvidenceError::of(error, &Redactor::default());
            ErrorData::from(error).code.0
        };
        let cluster = |kind| {
            let error = ClusterError::new(kind, "cannot list pods", "so it is", None);
            code(&ToolError::Cluster(error))
        };
        assert_eq!(code(&ToolError::NotFound("no fault".to_owned())), -32602);
        assert_eq!(cluster(ErrorKind::Context), -32602);
        for kind in [
            ErrorKind::Unreachable,
            ErrorKind::Timeout,
            ErrorKind::Forbidden,
            ErrorKind::Kubeconfig,
        ] {
            assert_eq!(cluster(kind), -32603, "{kind:?}");
        }
    }
}
