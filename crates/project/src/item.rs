//! The items of a project, as plain data.

use std::{path::PathBuf, sync::Arc, time::Duration};

use mcp_notify::ContentHash;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::{arguments::InputSchema, template::Template};

/// Tells the kinds of items apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ItemKind {
    /// An executable to call.
    Tool,
    /// Content at one URI.
    Resource,
    /// Content at all URIs that match a template.
    ResourceTemplate,
    /// A text with placeholders.
    Prompt,
}

/// An executable of the project. The hash of a list includes the digest of its bytes, so
/// that a tool with new behaviour is a changed tool; file times do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Program {
    /// The folder to which it is confined: the project, or an installed mcp-bash.
    #[serde(skip)]
    pub root: PathBuf,
    /// The absolute path; not hashed, because a project may be moved.
    #[serde(skip)]
    pub path: PathBuf,
    /// The working directory.
    #[serde(skip)]
    pub folder: PathBuf,
    /// The path relative to the root.
    pub file: String,
    /// SHA-256 of its bytes.
    pub digest: String,
}

/// Whether a call is answered with a task, whose result is fetched later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskSupport {
    /// For clients that know tasks.
    Optional,
    /// Clients that do not know tasks cannot call it.
    Required,
}

/// A tool of the project.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolItem {
    /// Unique among the tools.
    pub name: String,
    /// The tool as `tools/list` shows it.
    pub definition: Value,
    /// The executable.
    pub program: Program,
    /// The time after which a call is stopped.
    #[serde(serialize_with = "seconds")]
    pub timeout: Duration,
    /// The author's advice for a call that timed out.
    pub timeout_hint: Option<String>,
    /// Whether its calls can be tasks of the protocol.
    pub task: Option<TaskSupport>,
    /// The compiled `inputSchema` of the definition.
    #[serde(skip)]
    pub input: InputSchema,
}

/// Says where the content of a resource comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ContentSource {
    /// A file below the root; for a template, a path with variables. `None` stands for the
    /// file that the URI itself names.
    File(Option<String>),
    /// An executable that gets the URI as its argument and prints the content.
    Command(Program),
}

/// A resource of the project.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResourceItem {
    /// Unique among the resources.
    pub uri: String,
    /// The resource as `resources/list` shows it.
    pub definition: Value,
    /// Where the content comes from.
    pub backing: ContentSource,
    /// The type of the content, if the metadata has one.
    pub mime_type: Option<String>,
}

/// A resource template of the project.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TemplateItem {
    /// Unique among the templates.
    pub name: String,
    /// The URIs that it matches.
    pub template: Template,
    /// The template as `resources/templates/list` shows it.
    pub definition: Value,
    /// Where the content comes from.
    pub backing: ContentSource,
    /// The type of the content, if the metadata has one.
    pub mime_type: Option<String>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// The name in the placeholder.
    pub name: String,
    /// A description for clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the prompt cannot be rendered without it.
    #[serde(default)]
    pub required: bool,
}

/// A prompt of the project.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PromptItem {
    /// Unique among the prompts.
    pub name: String,
    /// The prompt as `prompts/list` shows it.
    pub definition: Value,
    /// Declared, or found as placeholders in the text.
    pub arguments: Vec<PromptArgument>,
    /// Messages of the protocol, with placeholders in their texts. Of a resource that is
    /// embedded there may be only the URI.
    pub messages: Vec<Value>,
}

/// Reports a file that is not served, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Rejection {
    /// The file or folder, relative to the root.
    pub path: String,
    /// What is wrong with it, and what to do.
    pub reason: String,
    /// Whether the reason is that the group or others may write it, which is mended for the
    /// whole project at once.
    #[serde(skip)]
    pub(super) is_writable: bool,
}

/// Hashes the content of each list, for `list_changed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListHashes {
    /// The hash of the tools.
    pub tools: ContentHash,
    /// The hash of the resources and the templates.
    pub resources: ContentHash,
    /// The hash of the prompts.
    pub prompts: ContentHash,
}

/// Holds everything that one pass over the folder found. The hashes are those of exactly
/// these items: a file that appears during the pass is in both or in neither, and then the
/// next pass finds it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Sorted by name.
    pub tools: Vec<Arc<ToolItem>>,
    /// Sorted by URI.
    pub resources: Vec<Arc<ResourceItem>>,
    /// Sorted by name.
    pub templates: Vec<Arc<TemplateItem>>,
    /// Sorted by name.
    pub prompts: Vec<Arc<PromptItem>>,
    /// The hashes of the lists above.
    pub hashes: ListHashes,
    /// Files that are not served.
    pub rejections: Vec<Rejection>,
}

// === impl Rejection ===

impl Rejection {
    pub(super) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            reason: reason.into(),
            is_writable: false,
        }
    }

    pub(super) fn of_writable(self) -> Self {
        Self {
            is_writable: true,
            ..self
        }
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// The snapshot before the first pass: no items, and empty hashes, which stand for
    /// unknown lists.
    pub(super) fn empty() -> Self {
        let unknown = || ContentHash::from("");
        Self {
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            hashes: ListHashes {
                tools: unknown(),
                resources: unknown(),
                prompts: unknown(),
            },
            rejections: Vec::new(),
        }
    }

    /// Finds a tool by name.
    pub fn tool(&self, name: &str) -> Option<&Arc<ToolItem>> {
        find(&self.tools, name, |tool| &tool.name)
    }

    /// Finds a prompt by name.
    pub fn prompt(&self, name: &str) -> Option<&Arc<PromptItem>> {
        find(&self.prompts, name, |prompt| &prompt.name)
    }

    /// Finds a resource by its exact URI.
    pub fn resource(&self, uri: &str) -> Option<&Arc<ResourceItem>> {
        find(&self.resources, uri, |resource| &resource.uri)
    }
}

/// Finds an item in a list that is sorted by its key.
fn find<'a, T>(sorted: &'a [Arc<T>], key: &str, key_of: fn(&T) -> &String) -> Option<&'a Arc<T>> {
    let at = sorted.binary_search_by(|item| key_of(item).as_str().cmp(key));
    sorted.get(at.ok()?)
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.as_secs())
}
