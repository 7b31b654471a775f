//! Finding tools and prompts, in the folder or in a registration.

use std::{os::unix::fs::MetadataExt, path::Path, sync::Arc};

use serde_json::{Map, Value};

use super::Pass;
use crate::{
    item::{Kind, Program, PromptItem, Refusal, ToolItem},
    meta::{self, PromptMeta, ToolMeta},
    prompt,
    safety::Entry,
};

/// A meta file; schemas can be long, but not so long.
pub(super) const META_MAX: u64 = 256 * 1024;
/// The text of a prompt.
const TEXT_MAX: u64 = 256 * 1024;
/// How deep resources and prompts may lie.
const DEPTH_MAX: usize = 4;
/// What a folder of a tool may hold besides the tool: a test of it.
const NOT_A_TOOL: &str = "smoke.sh";
pub(super) const META: &str = ".meta.json";

pub(super) type Entries = [Map<String, Value>];
pub(super) type Found<T> = Vec<(String, Arc<T>)>;

impl Pass<'_> {
    // --- tools

    pub(super) fn tools(&mut self, registered: Option<&Entries>) -> Vec<Arc<ToolItem>> {
        let mut found = Found::new();
        match registered {
            Some(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    let place = format!("server.d/register.json tools[{index}]");
                    let made = self.registered_tool(&place, entry);
                    self.keep(made, place, &mut found);
                }
            }
            None => {
                for folder in self.below("tools") {
                    let place = self.guard.shown(&folder.path);
                    if folder.meta.is_dir() {
                        let made = self.tool_in(&folder, &place);
                        self.keep(made, place, &mut found);
                    } else if is_executable(&folder) {
                        let why = "a tool has a folder of its own: move it to `tools/<name>/tool`";
                        self.refusals.push(Refusal::new(place, why));
                    }
                }
            }
        }
        let reserved = self.reserved;
        found.retain(|(place, tool)| {
            let taken = reserved.tools.contains(&tool.name);
            if taken {
                let why = format!("shadowed: `{}` is a built-in tool; rename yours", tool.name);
                self.refusals.push(Refusal::new(place, why));
            }
            !taken
        });
        self.settle(found, "tool", |tool| &tool.name)
    }

    fn tool_in(&mut self, folder: &Entry, place: &str) -> Result<Arc<ToolItem>, Refusal> {
        let refuse = |why: String| Refusal::new(place, why);
        let mut unsafe_ones = Vec::new();
        let entries = self.guard.entries(folder, self.files, &mut unsafe_ones);
        if let Some(first) = unsafe_ones.into_iter().next() {
            return Err(first);
        }
        for inner in entries.iter().filter(|entry| entry.meta.is_dir()) {
            self.guard.deep(inner, self.files)?;
        }
        let program = executable(&entries).map_err(refuse)?;
        let names = [
            format!("tool{META}"),
            format!("{}{META}", program.name),
            format!("{}{META}", stem(&program.name)),
        ];
        let about = names
            .iter()
            .find_map(|name| entries.iter().find(|entry| entry.name == *name))
            .ok_or_else(|| refuse(format!("there is no `tool{META}` that says what it does")))?;
        let shown = self.guard.shown(&about.path);
        let content = self
            .files
            .read(&about.path, &about.meta, META_MAX)
            .map_err(|error| Refusal::new(&shown, error.to_string()))?;
        let program = self.program(program, &folder.path)?;
        let made_of = format!("{} {} {}", content.digest, program.file, program.digest);
        let accepts = self.accepts;
        self.memory
            .tools
            .get(place, made_of, || {
                let about: ToolMeta = meta::read(&content.bytes)?;
                let name = about.name.clone().unwrap_or_else(|| folder.name.clone());
                tool(name, &about, program, accepts)
            })
            .map_err(|why| Refusal::new(shown, why))
    }

    fn registered_tool(
        &mut self,
        place: &str,
        entry: &Map<String, Value>,
    ) -> Result<Arc<ToolItem>, Refusal> {
        let refuse = |why: String| Refusal::new(place, why);
        let about: ToolMeta = meta::from_value(Value::Object(entry.clone())).map_err(refuse)?;
        let name = about.name.clone().ok_or_else(|| refuse(needs("name")))?;
        let path = about.path.as_deref().ok_or_else(|| refuse(needs("path")))?;
        let file = self.guard.resolve(&self.root.join("tools"), path)?;
        if !is_executable(&file) {
            return Err(self.guard.refusal(&file.path, NOT_EXECUTABLE));
        }
        let folder = file.path.parent().unwrap_or(self.root).to_owned();
        if folder != self.root.join("tools") {
            let beside = self.guard.resolve(self.root, &self.guard.shown(&folder))?;
            self.guard.deep(&beside, self.files)?;
        }
        let program = self.program(&file, &folder)?;
        let made_of = format!("{} {}", Value::Object(entry.clone()), program.digest);
        let accepts = self.accepts;
        self.memory
            .tools
            .get(place, made_of, || tool(name, &about, program, accepts))
            .map_err(refuse)
    }

    // --- prompts

    pub(super) fn prompts(&mut self, registered: Option<&Entries>) -> Vec<Arc<PromptItem>> {
        let mut found = Found::new();
        if let Some(entries) = registered {
            for (index, entry) in entries.iter().enumerate() {
                let place = format!("server.d/register.json prompts[{index}]");
                let made = self.registered_prompt(&place, entry);
                self.keep(made, place, &mut found);
            }
        } else {
            let all = self.all_below("prompts");
            for text in all.iter().filter(|entry| is_text(entry)) {
                let place = self.guard.shown(&text.path);
                let about = all.iter().find(|other| is_beside(other, text));
                let made = self.prompt_in(&place, text, about);
                self.keep(made, place, &mut found);
            }
        }
        self.settle(found, "prompt", |prompt| &prompt.name)
    }

    fn prompt_in(
        &mut self,
        place: &str,
        text: &Entry,
        about: Option<&Entry>,
    ) -> Result<Arc<PromptItem>, Refusal> {
        let about = match about {
            None => None,
            Some(entry) => {
                let shown = self.guard.shown(&entry.path);
                let content = self
                    .files
                    .read(&entry.path, &entry.meta, META_MAX)
                    .map_err(|error| Refusal::new(&shown, error.to_string()))?;
                let read: PromptMeta =
                    meta::read(&content.bytes).map_err(|why| Refusal::new(&shown, why))?;
                Some((content.digest.clone(), read))
            }
        };
        let (made_of, about) = about.unwrap_or_default();
        let name = about.name.clone();
        let name = name.unwrap_or_else(|| stem(&text.name).to_owned());
        self.prompt(place, made_of, name, &about, text)
    }

    fn registered_prompt(
        &mut self,
        place: &str,
        entry: &Map<String, Value>,
    ) -> Result<Arc<PromptItem>, Refusal> {
        let refuse = |why: String| Refusal::new(place, why);
        let value = Value::Object(entry.clone());
        let made_of = value.to_string();
        let about: PromptMeta = meta::from_value(value).map_err(refuse)?;
        let name = about.name.clone().ok_or_else(|| refuse(needs("name")))?;
        let path = about.path.as_deref().ok_or_else(|| refuse(needs("path")))?;
        let text = self.guard.resolve(&self.root.join("prompts"), path)?;
        self.prompt(place, made_of, name, &about, &text)
    }

    fn prompt(
        &mut self,
        place: &str,
        made_of: String,
        name: String,
        about: &PromptMeta,
        text: &Entry,
    ) -> Result<Arc<PromptItem>, Refusal> {
        let refuse = |why: String| Refusal::new(place, why);
        let content = self
            .files
            .read(&text.path, &text.meta, TEXT_MAX)
            .map_err(|error| refuse(error.to_string()))?;
        let made_of = format!("{made_of} {}", content.digest);
        let accepts = self.accepts;
        let memory = &mut self.memory.prompts;
        let made = memory.get(place, made_of, || {
            meta::plain_name(&name)?;
            let text = std::str::from_utf8(&content.bytes)
                .map_err(|_| "its text is not UTF-8".to_owned())?;
            let arguments = match about.arguments()? {
                Some(declared) => declared,
                None => prompt::placeholders(text),
            };
            let definition = about.definition(&name, &arguments);
            accepts(Kind::Prompt, &definition)?;
            Ok(PromptItem {
                name,
                definition,
                arguments,
                role: about.role()?,
                text: text.into(),
            })
        });
        made.map_err(refuse)
    }

    // --- folders

    /// The entries of one of the project's folders.
    fn below(&mut self, folder: &str) -> Vec<Entry> {
        let path = self.root.join(folder);
        match self.guard.look(&path) {
            Ok(Some(meta)) if meta.is_dir() => {
                let folder = Entry {
                    path,
                    name: folder.to_owned(),
                    meta,
                };
                self.guard.entries(&folder, self.files, &mut self.refusals)
            }
            Ok(Some(_)) => {
                self.refusals
                    .push(Refusal::new(folder, "it is not a folder"));
                Vec::new()
            }
            Ok(None) => Vec::new(),
            Err(refusal) => {
                self.refusals.push(refusal);
                Vec::new()
            }
        }
    }

    /// The files of one of the project's folders and of those below.
    pub(super) fn all_below(&mut self, folder: &str) -> Vec<Entry> {
        let mut waiting = vec![(self.below(folder), 1)];
        let mut files = Vec::new();
        while let Some((entries, depth)) = waiting.pop() {
            for entry in entries {
                if entry.meta.is_file() {
                    files.push(entry);
                } else if depth < DEPTH_MAX {
                    let inner = self.guard.entries(&entry, self.files, &mut self.refusals);
                    waiting.push((inner, depth + 1));
                } else {
                    let why = format!("folders are read {DEPTH_MAX} deep");
                    self.refusals.push(self.guard.refusal(&entry.path, why));
                }
            }
        }
        files
    }

    pub(super) fn program(&mut self, file: &Entry, folder: &Path) -> Result<Program, Refusal> {
        let content = self
            .files
            .digest(&file.path, &file.meta)
            .map_err(|error| self.guard.refusal(&file.path, error.to_string()))?;
        Ok(Program {
            path: file.path.clone(),
            folder: folder.to_owned(),
            file: self.guard.shown(&file.path),
            digest: content.digest.clone(),
        })
    }

    pub(super) fn keep<T>(
        &mut self,
        made: Result<Arc<T>, Refusal>,
        place: String,
        found: &mut Found<T>,
    ) {
        match made {
            Ok(item) => found.push((place, item)),
            Err(refusal) => self.refusals.push(refusal),
        }
    }
}

pub(super) const NOT_EXECUTABLE: &str = "it is not executable; run `chmod +x` on it";

pub(super) fn needs(key: &str) -> String {
    format!("it must have `{key}`")
}

fn tool(
    name: String,
    about: &ToolMeta,
    program: Program,
    accepts: fn(Kind, &Value) -> Result<(), String>,
) -> Result<ToolItem, String> {
    meta::tool_name(&name)?;
    let definition = about.definition(&name)?;
    accepts(Kind::Tool, &definition)?;
    Ok(ToolItem {
        definition,
        program,
        timeout: about.timeout()?,
        timeout_hint: about.timeout_hint.clone(),
        name,
    })
}

pub(super) fn is_executable(entry: &Entry) -> bool {
    entry.meta.is_file() && entry.meta.mode() & 0o111 != 0
}

/// The executable of a tool: `tool` or `tool.<something>`, else the only one.
fn executable(entries: &[Entry]) -> Result<&Entry, String> {
    let is_tool = |name: &str| name == "tool" || name.starts_with("tool.");
    let candidates: Vec<_> = entries
        .iter()
        .filter(|entry| entry.meta.is_file() && !entry.name.ends_with(META))
        .filter(|entry| entry.name != NOT_A_TOOL)
        .collect();
    if let Some(tool) = candidates.iter().find(|entry| is_tool(&entry.name)) {
        return if is_executable(tool) {
            Ok(tool)
        } else {
            Err(format!("`{}`: {NOT_EXECUTABLE}", tool.name))
        };
    }
    let runnable: Vec<_> = candidates
        .into_iter()
        .filter(|entry| is_executable(entry))
        .collect();
    match runnable[..] {
        [one] => Ok(one),
        [] => Err("there is no executable in it; call it `tool`".to_owned()),
        _ => Err("there are several executables in it; call the right one `tool`".to_owned()),
    }
}

/// Whether a meta file is about that file: `a.txt.meta.json` or `a.meta.json`.
pub(super) fn is_beside(about: &Entry, file: &Entry) -> bool {
    let Some(of) = about.name.strip_suffix(META) else {
        return false;
    };
    !file.name.ends_with(META)
        && about.path.parent() == file.path.parent()
        && (of == file.name || of == stem(&file.name))
}

/// A name without its ending.
fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// Whether it is the text of a prompt.
fn is_text(entry: &Entry) -> bool {
    !entry.name.ends_with(META) && !entry.name.to_ascii_uppercase().starts_with("README")
}
