//! The room of a site's own tools, resources and prompts: what lies in a project
//! folder, read in one pass, followed while the server runs, and run as child
//! processes. It names neither kube nor rmcp; what leaves it is plain data.

mod call;
mod files;
mod hook;
mod init;
mod item;
mod meta;
mod page;
mod process;
mod project;
mod prompt;
mod register;
mod safety;
mod scan;
mod template;
mod watch;

pub use self::{
    call::{Call, CallError, Place, ReadError, ResourceBody, ToolAnswer},
    init::{InitError, init},
    item::{
        Backing, Hashes, Kind, Program, PromptArgument, PromptItem, Refusal, ResourceItem,
        Snapshot, TemplateItem, ToolItem,
    },
    page::{CursorError, PAGE_DEFAULT, PAGE_MAX, Paged, page},
    process::{Ended, Environment, Job, Progress, RunError, Runner, Running, Said, describe},
    project::{Config, Project},
    prompt::{PromptError, render},
    scan::{Reserved, Scanner},
    template::{Template, TemplateError},
    watch::follow,
};

use std::path::Path;

/// The file of the project that a `file:` URI names, seen from the root:
/// `file://./a/b` and `file:///<root>/a/b`.
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
