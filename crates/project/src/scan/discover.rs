//! Discovery of tools, in the folder or in a registration.

use std::{os::unix::fs::MetadataExt, path::Path, sync::Arc};

use serde_json::{Map, Value};

use super::Pass;
use crate::{
    arguments::InputSchema,
    executable::{NOT_EXECUTABLE, may_run},
    item::{ItemKind, Program, Rejection, ToolItem},
    meta::{self, ToolMeta},
    safety::Entry,
};

/// The size of a meta file, with room for long schemas.
pub(super) const META_MAX: u64 = 256 * 1024;
/// The nesting of folders of resources and prompts.
const DEPTH_MAX: usize = 4;
/// An executable in the folder of a tool that is a test and not the tool.
const TEST_SCRIPT: &str = "smoke.sh";
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
                    let origin = format!("server.d/register.json tools[{index}]");
                    let made = self.registered_tool(&origin, entry);
                    self.collect(made, origin, &mut found);
                }
            }
            None => {
                for folder in self.entries_of("tools") {
                    let origin = self.checker.display_path(&folder.path);
                    if folder.meta.is_dir() {
                        let made = self.tool_in(&folder, &origin);
                        self.collect(made, origin, &mut found);
                    } else if is_executable(&folder) {
                        let why = "a tool has a folder of its own: move it to `tools/<name>/tool`";
                        self.rejections.push(Rejection::new(origin, why));
                    }
                }
            }
        }
        let reserved = self.reserved;
        found.retain(|(origin, tool)| {
            let taken = reserved.tools.contains(&tool.name);
            if taken {
                let why = format!("shadowed: `{}` is a built-in tool; rename yours", tool.name);
                self.rejections.push(Rejection::new(origin, why));
            }
            !taken
        });
        self.finish_list(found, "tool", |tool| &tool.name)
    }

    fn tool_in(&mut self, folder: &Entry, origin: &str) -> Result<Arc<ToolItem>, Rejection> {
        let reject = |why: String| Rejection::new(origin, why);
        let mut rejections = Vec::new();
        let entries = self.checker.entries(folder, self.files, &mut rejections);
        if let Some(first) = rejections.into_iter().next() {
            return Err(first);
        }
        for inner in entries.iter().filter(|entry| entry.meta.is_dir()) {
            self.checker.check_tree(inner, self.files)?;
        }
        let program = self.executable(&entries).map_err(reject)?;
        let names = [
            format!("tool{META}"),
            format!("{}{META}", program.name),
            format!("{}{META}", stem(&program.name)),
        ];
        let about = names
            .iter()
            .find_map(|name| entries.iter().find(|entry| entry.name == *name))
            .ok_or_else(|| reject(format!("there is no `tool{META}` that says what it does")))?;
        let shown = self.checker.display_path(&about.path);
        let content = self
            .files
            .read(&about.path, &about.meta, META_MAX)
            .map_err(|error| Rejection::new(&shown, error.to_string()))?;
        let program = self.program(program, &folder.path)?;
        let fingerprint = format!("{} {} {}", content.digest, program.file, program.digest);
        let validate = self.validate;
        self.caches
            .tools
            .get(origin, fingerprint, || {
                let about: ToolMeta = meta::read(&content.bytes)?;
                let name = about.name.clone().unwrap_or_else(|| folder.name.clone());
                tool(name, &about, program, validate)
            })
            .map_err(|why| Rejection::new(shown, why))
    }

    fn registered_tool(
        &mut self,
        origin: &str,
        entry: &Map<String, Value>,
    ) -> Result<Arc<ToolItem>, Rejection> {
        let reject = |why: String| Rejection::new(origin, why);
        let about: ToolMeta = meta::from_value(Value::Object(entry.clone())).map_err(reject)?;
        let name = about.name.clone().ok_or_else(|| reject(needs("name")))?;
        let path = about.path.as_deref().ok_or_else(|| reject(needs("path")))?;
        let file = self.checker.resolve(&self.root.join("tools"), path)?;
        if !self.is_runnable(&file) {
            return Err(self.checker.rejection(&file.path, NOT_EXECUTABLE));
        }
        let folder = file.path.parent().unwrap_or(self.root).to_owned();
        if folder != self.root.join("tools") {
            let beside = self
                .checker
                .resolve(self.root, &self.checker.display_path(&folder))?;
            self.checker.check_tree(&beside, self.files)?;
        }
        let program = self.program(&file, &folder)?;
        let fingerprint = format!("{} {}", Value::Object(entry.clone()), program.digest);
        let validate = self.validate;
        self.caches
            .tools
            .get(origin, fingerprint, || {
                tool(name, &about, program, validate)
            })
            .map_err(reject)
    }

    // --- folders

    /// The entries of a top folder of the project.
    fn entries_of(&mut self, folder: &str) -> Vec<Entry> {
        let path = self.root.join(folder);
        match self.checker.check(&path) {
            Ok(Some(meta)) if meta.is_dir() => {
                let folder = Entry {
                    path,
                    name: folder.to_owned(),
                    meta,
                };
                self.checker
                    .entries(&folder, self.files, &mut self.rejections)
            }
            Ok(Some(_)) => {
                self.rejections
                    .push(Rejection::new(folder, "it is not a folder"));
                Vec::new()
            }
            Ok(None) => Vec::new(),
            Err(rejection) => {
                self.rejections.push(rejection);
                Vec::new()
            }
        }
    }

    /// The files below a top folder of the project.
    pub(super) fn files_below(&mut self, folder: &str) -> Vec<Entry> {
        let mut waiting = vec![(self.entries_of(folder), 1)];
        let mut files = Vec::new();
        while let Some((entries, depth)) = waiting.pop() {
            for entry in entries {
                if entry.meta.is_file() {
                    files.push(entry);
                } else if depth < DEPTH_MAX {
                    let inner = self
                        .checker
                        .entries(&entry, self.files, &mut self.rejections);
                    waiting.push((inner, depth + 1));
                } else {
                    let why = format!("folders are read {DEPTH_MAX} deep");
                    self.rejections
                        .push(self.checker.rejection(&entry.path, why));
                }
            }
        }
        files
    }

    /// The executable of a tool: `tool` or `tool.<extension>`, else the only executable.
    fn executable<'e>(&mut self, entries: &'e [Entry]) -> Result<&'e Entry, String> {
        let is_tool = |entry: &&Entry| entry.name == "tool" || entry.name.starts_with("tool.");
        let candidates: Vec<_> = entries
            .iter()
            .filter(|entry| entry.meta.is_file() && !entry.name.ends_with(META))
            .filter(|entry| entry.name != TEST_SCRIPT)
            .collect();
        let mut named = candidates.iter().copied().filter(is_tool);
        if let Some(tool) = named.clone().find(|entry| self.is_runnable(entry)) {
            return Ok(tool);
        }
        if let Some(tool) = named.next() {
            return Err(format!("`{}`: {NOT_EXECUTABLE}", tool.name));
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

    /// Whether a file that is named as an executable can run: by its permissions, or by the
    /// interpreter in its first line.
    pub(super) fn is_runnable(&mut self, entry: &Entry) -> bool {
        is_executable(entry)
            || entry.meta.is_file()
                && self
                    .files
                    .digest(&entry.path, &entry.meta)
                    .is_ok_and(|content| content.has_interpreter)
    }

    pub(super) fn program(&mut self, file: &Entry, folder: &Path) -> Result<Program, Rejection> {
        let content = self
            .files
            .digest(&file.path, &file.meta)
            .map_err(|error| self.checker.rejection(&file.path, error.to_string()))?;
        Ok(Program {
            root: self.root.to_owned(),
            path: file.path.clone(),
            folder: folder.to_owned(),
            file: self.checker.display_path(&file.path),
            digest: content.digest.clone(),
        })
    }

    pub(super) fn collect<T>(
        &mut self,
        made: Result<Arc<T>, Rejection>,
        origin: String,
        found: &mut Found<T>,
    ) {
        match made {
            Ok(item) => found.push((origin, item)),
            Err(rejection) => self.rejections.push(rejection),
        }
    }
}

pub(super) fn needs(key: &str) -> String {
    format!("it must have `{key}`")
}

fn tool(
    name: String,
    about: &ToolMeta,
    program: Program,
    validate: fn(ItemKind, &Value) -> Result<(), String>,
) -> Result<ToolItem, String> {
    meta::tool_name(&name)?;
    let definition = about.definition(&name)?;
    validate(ItemKind::Tool, &definition)?;
    Ok(ToolItem {
        input: InputSchema::compile(&definition["inputSchema"])?,
        definition,
        program,
        timeout: about.timeout()?,
        timeout_hint: about.timeout_hint.clone(),
        task: about.task,
        name,
    })
}

pub(super) fn is_executable(entry: &Entry) -> bool {
    entry.meta.is_file() && may_run(entry.meta.mode())
}

/// Whether a meta file describes a file: `a.txt.meta.json` or `a.meta.json`.
pub(super) fn is_beside(about: &Entry, file: &Entry) -> bool {
    let Some(of) = about.name.strip_suffix(META) else {
        return false;
    };
    !file.name.ends_with(META)
        && about.path.parent() == file.path.parent()
        && (of == file.name || of == stem(&file.name))
}

/// A file name without its extension.
pub(super) fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}
