//! What a prompt asks for its evidence: the tools and resources that a client has,
//! in the same words.

use rmcp::{
    ErrorData,
    model::{
        ContentBlock, GetPromptResult, JsonObject, PromptMessage, Resource, ResourceContents, Role,
    },
};
use serde_json::{Map, Value};

use super::Entry;
use crate::{
    offer::Offer,
    output::{Output, ToolError, cleaned_contents},
    resources::{Address, Resources},
    tools::{self, ToolContext},
};
use kubecrier_redact::Redactor;

/// Answers a prompt's questions.
pub(crate) struct Consult<'a> {
    pub(crate) tools: ToolContext<'a>,
    pub(crate) resources: &'a Resources,
    pub(crate) offer: &'a Offer,
    pub(crate) redactor: &'a Redactor,
    /// Whether the client's version has links to resources.
    pub(crate) links: bool,
}

/// Why something is not to be had, as it may leave.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct Missing {
    text: String,
    /// What was asked for does not exist: another question would do better.
    asked_wrong: bool,
}

/// The messages of a prompt, as they come together.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    messages: Vec<PromptMessage>,
}

// === impl Consult ===

impl Consult<'_> {
    /// The context that is meant, spelled out.
    pub(super) fn context(&self, given: Option<&str>) -> Result<String, Missing> {
        let resolved = self.tools.contexts.resolve(given);
        resolved.map_err(|error| Missing::of(&ToolError::Cluster(error), self.redactor))
    }

    /// What a tool says, as it may leave; or why it says nothing.
    pub(super) async fn tool(&self, name: &str, arguments: Value) -> Result<Output, Missing> {
        let entry = tools::find(name).filter(|entry| self.offer.has(entry));
        let Some(entry) = entry.filter(|_| self.offer.allows(name)) else {
            return Err(Missing {
                text: "it is switched off by whoever runs this server".to_owned(),
                asked_wrong: false,
            });
        };
        let arguments: JsonObject = match arguments {
            Value::Object(given) => given,
            _ => Map::new(),
        };
        match (entry.call)(self.tools, arguments).await {
            Ok(mut output) => {
                output.text = self.redactor.workload(&output.text).into_owned();
                Ok(output)
            }
            Err(error) => Err(Missing::of(&error, self.redactor)),
        }
    }

    /// A resource as it is now, as it may leave; or why there is none.
    pub(super) async fn read(&self, address: &Address) -> Result<Vec<ResourceContents>, String> {
        let uri = address.to_string();
        let ToolContext { limits, client, .. } = self.tools;
        let read = (self.resources).read_within(&uri, &client.who, limits.output_bytes);
        match read.await {
            Ok(contents) => Ok(cleaned_contents(self.redactor, contents).contents),
            Err(error) => Err(self.redactor.workload(&error.to_string()).into_owned()),
        }
    }

    /// Adds what a tool says.
    pub(super) async fn add_tool(&self, pages: &mut Pages, name: &str, arguments: Value) {
        let shown = arguments.to_string();
        let said = match self.tool(name, arguments).await {
            Ok(output) => output.text,
            Err(why) => format!("not to be had: {why}"),
        };
        pages.text(format!(
            "What `{name}` says, called with {shown}:\n\n{said}"
        ));
    }

    /// Adds a resource as it is now.
    pub(super) async fn add_resource(&self, pages: &mut Pages, address: &Address) {
        match self.read(address).await {
            Ok(contents) => {
                for one in contents {
                    pages.push(ContentBlock::resource(one));
                }
            }
            Err(why) => pages.text(format!("`{address}` is not to be had: {why}")),
        }
    }

    /// Adds resources to follow, of those that are served.
    pub(super) fn add_links(&self, pages: &mut Pages, links: &[(Address, &str)]) {
        let uris: Vec<_> = links.iter().map(|(uri, _)| uri.to_string()).collect();
        let served = self.resources.listenable(&uris, &self.tools.client.who);
        let names = uris.iter().zip(links.iter().map(|(_, name)| *name));
        let links: Vec<_> = names.filter(|(uri, _)| served.contains(uri)).collect();
        if self.links {
            for (uri, name) in links {
                let link = Resource::new(uri, name);
                pages.push(ContentBlock::resource_link(link.with_description(
                    "Read it for more, or subscribe to be told of changes",
                )));
            }
            return;
        }
        let list: Vec<_> = (links.iter())
            .map(|(uri, name)| format!("- {name}: {uri}"))
            .collect();
        pages.text(format!(
            "Resources to read for more, or to subscribe to:\n{}",
            list.join("\n")
        ));
    }
}

// === impl Missing ===

impl Missing {
    fn of(error: &ToolError, redactor: &Redactor) -> Self {
        let hint = error.hint().map(|hint| format!("; {hint}"));
        let text = format!("{error}{}", hint.unwrap_or_default());
        Self {
            text: redactor.workload(&text).into_owned(),
            asked_wrong: error.is_the_callers(),
        }
    }
}

impl From<Missing> for ErrorData {
    fn from(missing: Missing) -> Self {
        if missing.asked_wrong {
            Self::invalid_params(missing.text, None)
        } else {
            Self::internal_error(missing.text, None)
        }
    }
}

// === impl Pages ===

impl Pages {
    pub(super) fn text(&mut self, text: impl Into<String>) {
        self.push(ContentBlock::text(text.into()));
    }

    fn push(&mut self, content: ContentBlock) {
        self.messages.push(PromptMessage::new(Role::User, content));
    }

    /// All of it, under what the client sees of the prompt.
    pub(crate) fn under(self, entry: &Entry) -> GetPromptResult {
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
            let missing = Missing::of(error, &Redactor::default());
            ErrorData::from(missing).code.0
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
