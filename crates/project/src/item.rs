//! What a project holds, as plain data.

use std::{path::PathBuf, sync::Arc, time::Duration};

use mcp_notify::ContentHash;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::template::Template;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// Something to call.
    Tool,
    /// Something to read at one URI.
    Resource,
    /// Something to read at a family of URIs.
    ResourceTemplate,
    /// A text to fill in.
    Prompt,
}

/// An executable of the project. Its bytes count by their hash, so that a tool that
/// does something else now is another tool; its times do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Program {
    /// The file; not part of what is hashed, because a project may be moved.
    #[serde(skip)]
    pub path: PathBuf,
    /// Where it runs.
    #[serde(skip)]
    pub folder: PathBuf,
    /// The file, seen from the project's root.
    pub file: String,
    /// SHA-256 of its bytes.
    pub digest: String,
}

/// A tool of the project.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolItem {
    /// Its name.
    pub name: String,
    /// What clients see, in the protocol's own words.
    pub definition: Value,
    /// What runs.
    pub program: Program,
    /// How long it may run.
    #[serde(serialize_with = "seconds")]
    pub timeout: Duration,
    /// What to do when that was too long.
    pub timeout_hint: Option<String>,
}

/// Where the content of a resource comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Backing {
    /// A file below the root; of a template, with its variables in it. `None` is
    /// the file that the URI itself names.
    File(Option<String>),
    /// An executable that is given the URI and prints the content.
    Command(Program),
}

/// A resource of the project.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResourceItem {
    /// Its address.
    pub uri: String,
    /// What clients see.
    pub definition: Value,
    /// Where its content comes from.
    pub backing: Backing,
    /// The type of its content, if it says.
    pub mime_type: Option<String>,
}

/// A family of resources.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TemplateItem {
    /// Its name.
    pub name: String,
    /// The addresses.
    pub template: Template,
    /// What clients see.
    pub definition: Value,
    /// Where the content comes from.
    pub backing: Backing,
    /// The type of its content, if it says.
    pub mime_type: Option<String>,
}

/// What a prompt asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PromptArgument {
    /// Its name, as in the placeholder.
    pub name: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the prompt makes no sense without it.
    pub required: bool,
}

/// A prompt of the project.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PromptItem {
    /// Its name.
    pub name: String,
    /// What clients see.
    pub definition: Value,
    /// What it asks for.
    pub arguments: Vec<PromptArgument>,
    /// Who says it: `user` or `assistant`.
    pub role: String,
    /// The text with its placeholders.
    pub text: Arc<str>,
}

/// A file that is not served, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Refusal {
    /// The file or folder, seen from the project's root.
    pub path: String,
    /// What is wrong with it, and what to do.
    pub reason: String,
}

/// The content of each list, for `list_changed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashes {
    /// Of the tools.
    pub tools: ContentHash,
    /// Of the resources and their templates.
    pub resources: ContentHash,
    /// Of the prompts.
    pub prompts: ContentHash,
}

/// Everything one pass over the folder found. The hashes are those of exactly
/// these items: what appears during the pass is in both or in neither, and then
/// the next pass finds it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// In the order of their names.
    pub tools: Vec<Arc<ToolItem>>,
    /// In the order of their URIs.
    pub resources: Vec<Arc<ResourceItem>>,
    /// In the order of their names.
    pub templates: Vec<Arc<TemplateItem>>,
    /// In the order of their names.
    pub prompts: Vec<Arc<PromptItem>>,
    /// What they amount to.
    pub hashes: Hashes,
    /// What is not served.
    pub refusals: Vec<Refusal>,
}

// === impl Refusal ===

impl Refusal {
    pub(super) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            reason: reason.into(),
        }
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// Before the first pass: nothing, and no hash that anybody is told of.
    pub(super) fn unknown() -> Self {
        let unknown = || ContentHash::from("");
        Self {
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            hashes: Hashes {
                tools: unknown(),
                resources: unknown(),
                prompts: unknown(),
            },
            refusals: Vec::new(),
        }
    }

    /// The tool of that name.
    pub fn tool(&self, name: &str) -> Option<&Arc<ToolItem>> {
        let by_name = |tool: &Arc<ToolItem>| tool.name.as_str().cmp(name);
        let at = self.tools.binary_search_by(by_name).ok()?;
        self.tools.get(at)
    }

    /// The prompt of that name.
    pub fn prompt(&self, name: &str) -> Option<&Arc<PromptItem>> {
        let by_name = |prompt: &Arc<PromptItem>| prompt.name.as_str().cmp(name);
        let at = self.prompts.binary_search_by(by_name).ok()?;
        self.prompts.get(at)
    }

    /// The resource at exactly that address.
    pub fn resource(&self, uri: &str) -> Option<&Arc<ResourceItem>> {
        let by_uri = |resource: &Arc<ResourceItem>| resource.uri.as_str().cmp(uri);
        let at = self.resources.binary_search_by(by_uri).ok()?;
        self.resources.get(at)
    }
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.as_secs())
}
