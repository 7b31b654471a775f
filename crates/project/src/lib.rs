//! A project folder: tools, resources and prompts that a site adds to the server.
//!
//! The folder is scanned in one pass, watched while the server runs, and its tools run as
//! child processes. The crate names neither kube nor rmcp; its results are plain data.
//!
//! ```text
//!  folder_watch ──▶ Project::refresh ──▶ Scanner ──▶ Snapshot ──▶ subscribers
//!                        │ └── hook (register.sh)
//!                        └── call, read: Executable ──▶ Runner ──▶ ProcessEvents, ProcessOutput
//! ```
//!
//! - `project`: the snapshot that is served, and when the folder is scanned again
//! - `folder_watch`: file-system events, or polling
//! - `scan`: one pass over the folder: items, hashes, rejections
//! - `safety`: owner and permissions of each file
//! - `checked_path`: opens a path folder by folder, each checked on its descriptor
//! - `executable`: an open, checked executable, which runs by its descriptors
//! - `files`: content of files, read again only when a file may have changed
//! - `meta`, `registration`, `template`, `prompt`: the formats of the files
//! - `item`: what a pass finds, as plain data
//! - `hook`: runs `server.d/register.sh`
//! - `mcp_bash`: an installed mcp-bash, for projects that were written for it
//! - `process`: runs an executable and ends it
//! - `call`: calls of tools
//! - `arguments`: the schema of a tool's arguments, and their environment variables
//! - `read`: reads of resources
//! - `page`: pages of a list, and their cursors
//! - `init`: writes an example project

mod arguments;
mod call;
mod checked_path;
mod executable;
mod files;
mod folder_watch;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hook;
mod init;
mod item;
mod mcp_bash;
mod meta;
mod page;
mod process;
mod project;
mod prompt;
mod read;
mod registration;
mod safety;
mod scan;
mod template;

pub use self::{
    arguments::InputSchema,
    call::{Call, CallError, CallTarget, ToolAnswer},
    folder_watch::watch_folder,
    init::{InitError, init},
    item::{
        ContentSource, ItemKind, ListHashes, Program, PromptArgument, PromptItem, Rejection,
        ResourceItem, Snapshot, TaskSupport, TemplateItem, ToolItem,
    },
    meta::parse_meta,
    page::{CursorError, PAGE_DEFAULT, Page, page},
    process::{Message, ProcessEvent, Progress, RunError},
    project::{Config, Project},
    prompt::{PromptError, is_reference, render},
    read::{ReadError, ResourceBody},
    scan::ReservedNames,
    template::Template,
};

use std::path::Path;

/// The path, relative to the root, of the file that a `file:` URI names:
/// `file://./a/b` or `file:///<root>/a/b`.
fn file_of(root: &Path, uri: &str) -> Option<String> {
    let path = uri.strip_prefix("file://")?;
    let path = percent_encoding::percent_decode_str(path)
        .decode_utf8()
        .ok()?;
    if path.starts_with('/') {
        let below = Path::new(path.as_ref()).strip_prefix(root).ok()?;
        return below.to_str().map(str::to_owned);
    }
    Some(path.into_owned())
}
