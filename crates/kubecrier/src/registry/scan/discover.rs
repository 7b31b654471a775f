//! Finding the items of each kind, in the folder or in a registration.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value};

use super::Pass;
use crate::registry::{
    item::{Backing, Kind, Program, PromptItem, Refusal, ResourceItem, TemplateItem, ToolItem},
    meta::{self, PromptMeta, ResourceMeta, ToolMeta},
    prompt,
    safety::Entry,
    template::Template,
};

/// A meta file; schemas can be long, but not so long.
const META_MAX: u64 = 256 * 1024;
/// The text of a prompt.
const TEXT_MAX: u64 = 256 * 1024;
/// How deep resources and prompts may lie.
const DEPTH_MAX: usize = 4;
/// What a folder of a tool may hold besides the tool: a test of it.
const NOT_A_TOOL: &str = "smoke.sh";
const META: &str = ".meta.json";

type Entries = [Map<String, Value>];
type Found<T> = Vec<(String, Arc<T>)>;

/// What is said of a resource.
struct Said {
    /// Where.
    place: String,
    made_of: String,
    about: ResourceMeta,
    /// The file beside the meta file.
    beside: Option<Entry>,
}

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
        let entries = self.guard.entries(&folder.path, &mut unsafe_ones);
        if let Some(first) = unsafe_ones.into_iter().next() {
            return Err(first);
        }
        for inner in entries.iter().filter(|entry| entry.meta.is_dir()) {
            self.guard.deep(&inner.path)?;
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
            self.guard.deep(&folder)?;
        }
        let program = self.program(&file, &folder)?;
        let made_of = format!("{} {}", Value::Object(entry.clone()), program.digest);
        let accepts = self.accepts;
        self.memory
            .tools
            .get(place, made_of, || tool(name, &about, program, accepts))
            .map_err(refuse)
    }

    // --- resources

    pub(super) fn resources(&mut self, registered: Option<&Entries>) -> Vec<Arc<ResourceItem>> {
        let mut found = Found::new();
        for said in self.said("resources", registered) {
            // Templates lie in the same folder, and are looked at on their own.
            if registered.is_some() || said.about.uri_template.is_none() {
                let place = said.place.clone();
                let made = self.resource(said);
                self.keep(made, place, &mut found);
            }
        }
        self.settle(found, "resource", |resource| &resource.uri)
    }

    pub(super) fn templates(&mut self, registered: Option<&Entries>) -> Vec<Arc<TemplateItem>> {
        let mut found = Found::new();
        // What is wrong with the files was said when the resources were looked for,
        // unless those were registered.
        let before = self.refusals.len();
        let all = self.said("resourceTemplates", registered);
        for refusal in self.refusals.split_off(before) {
            if !self.refusals.contains(&refusal) {
                self.refusals.push(refusal);
            }
        }
        for said in all {
            if registered.is_some() || said.about.uri_template.is_some() {
                let place = said.place.clone();
                let made = self.template(said);
                self.keep(made, place, &mut found);
            }
        }
        self.settle(found, "resource template", |template| &template.name)
    }

    /// What is said of resources, by hand or in the folder.
    fn said(&mut self, key: &str, registered: Option<&Entries>) -> Vec<Said> {
        let mut found = Vec::new();
        if let Some(entries) = registered {
            for (index, entry) in entries.iter().enumerate() {
                let place = format!("server.d/register.json {key}[{index}]");
                let value = Value::Object(entry.clone());
                let made_of = value.to_string();
                match meta::from_value(value) {
                    Ok(about) => found.push(Said {
                        place,
                        made_of,
                        about,
                        beside: None,
                    }),
                    Err(why) => self.refusals.push(Refusal::new(place, why)),
                }
            }
            return found;
        }
        let all = self.all_below("resources");
        for entry in all.iter().filter(|entry| entry.name.ends_with(META)) {
            let place = self.guard.shown(&entry.path);
            let content = match self.files.read(&entry.path, &entry.meta, META_MAX) {
                Ok(content) => content,
                Err(error) => {
                    self.refusals.push(Refusal::new(place, error.to_string()));
                    continue;
                }
            };
            let beside = all.iter().find(|other| is_beside(entry, other)).cloned();
            match meta::read(&content.bytes) {
                Ok(about) => found.push(Said {
                    place,
                    made_of: content.digest.clone(),
                    about,
                    beside,
                }),
                Err(why) => self.refusals.push(Refusal::new(place, why)),
            }
        }
        found
    }

    fn resource(&mut self, said: Said) -> Result<Arc<ResourceItem>, Refusal> {
        let Said {
            place,
            made_of,
            about,
            beside,
        } = said;
        let refuse = |why: String| Refusal::new(&place, why);
        if about.uri.is_some() && about.uri_template.is_some() {
            return Err(refuse("it has both `uri` and `uriTemplate`".to_owned()));
        }
        let uri = match (&about.uri, &beside) {
            (Some(uri), _) => uri.clone(),
            (None, Some(file)) => format!("file://./{}", self.guard.shown(&file.path)),
            (None, None) => return Err(refuse(needs("uri"))),
        };
        meta::address(&uri).map_err(refuse)?;
        self.free_scheme(&uri).map_err(refuse)?;
        let backing = match self.provider(about.provider.as_deref())? {
            Some(program) => Backing::Command(program),
            None => {
                let root = self.root.to_owned();
                let file = if let Some(path) = &about.path {
                    self.guard.resolve(&root.join("resources"), path)?
                } else if let Some(path) = self.path_in(&uri) {
                    self.guard.resolve(&root, &path)?
                } else if let Some(file) = beside {
                    file
                } else {
                    let why =
                        format!("`{uri}` is no file of the project: say `path` or `provider`");
                    return Err(refuse(why));
                };
                if !file.meta.is_file() {
                    return Err(self.guard.refusal(&file.path, "it is not a file"));
                }
                Backing::File(Some(self.guard.shown(&file.path)))
            }
        };
        let made_of = format!("{made_of} {backing:?}");
        let accepts = self.accepts;
        let memory = &mut self.memory.resources;
        let made = memory.get(&place, made_of, || {
            let name = about.name.clone().unwrap_or_else(|| last_part(&uri));
            meta::plain_name(&name)?;
            let definition = about.definition(&name, "uri", &uri);
            accepts(Kind::Resource, &definition)?;
            Ok(ResourceItem {
                uri,
                definition,
                backing,
                mime_type: about.mime_type,
            })
        });
        made.map_err(refuse)
    }

    fn template(&mut self, said: Said) -> Result<Arc<TemplateItem>, Refusal> {
        let Said {
            place,
            made_of,
            about,
            ..
        } = said;
        let refuse = |why: String| Refusal::new(&place, why);
        let (Some(text), None) = (about.uri_template.clone(), &about.uri) else {
            let why = "it must have `uriTemplate`, and no `uri`";
            return Err(refuse(why.to_owned()));
        };
        self.free_scheme(&text).map_err(refuse)?;
        let backing = match self.provider(about.provider.as_deref())? {
            Some(program) => Backing::Command(program),
            None => match &about.path {
                Some(path) => Backing::File(Some(format!("resources/{path}"))),
                None if text.starts_with("file://") => Backing::File(None),
                None => {
                    let why = "its URIs are no files of the project: say `path` or `provider`";
                    return Err(refuse(why.to_owned()));
                }
            },
        };
        let made_of = format!("{made_of} {backing:?}");
        let accepts = self.accepts;
        let memory = &mut self.memory.templates;
        let made = memory.get(&place, made_of, || {
            let name = about.name.clone().ok_or_else(|| needs("name"))?;
            meta::plain_name(&name)?;
            let template = Template::parse(&text).map_err(|error| error.to_string())?;
            let definition = about.definition(&name, "uriTemplate", &text);
            accepts(Kind::ResourceTemplate, &definition)?;
            Ok(TemplateItem {
                name,
                template,
                definition,
                backing,
                mime_type: about.mime_type,
            })
        });
        made.map_err(refuse)
    }

    /// The executable behind a provider's name; none for plain files.
    fn provider(&mut self, name: Option<&str>) -> Result<Option<Program>, Refusal> {
        let Some(name) = name.filter(|name| *name != "file") else {
            return Ok(None);
        };
        for folder in ["providers", "resources"] {
            let base = self.root.join(folder);
            if !base.exists() {
                continue;
            }
            for file in [name.to_owned(), format!("{name}.sh")] {
                let path = base.join(&file);
                if !path.is_file() {
                    continue;
                }
                let found = self.guard.resolve(&base, &file)?;
                if !is_executable(&found) {
                    return Err(self.guard.refusal(&found.path, NOT_EXECUTABLE));
                }
                return self.program(&found, &base).map(Some);
            }
        }
        Err(Refusal::new(
            format!("providers/{name}"),
            "there is no such provider; besides `file`, a provider is an executable in `providers/`",
        ))
    }

    fn free_scheme(&self, uri: &str) -> Result<(), String> {
        let scheme = uri.split(':').next().unwrap_or_default();
        let ours = &self.reserved.schemes;
        if ours.iter().any(|one| one.eq_ignore_ascii_case(scheme)) {
            return Err(format!(
                "shadowed: `{scheme}:` is built in; use another scheme"
            ));
        }
        Ok(())
    }

    /// The file of the project that a URI names.
    fn path_in(&self, uri: &str) -> Option<String> {
        super::super::file_of(self.root, uri)
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
            Ok(Some(meta)) if meta.is_dir() => self.guard.entries(&path, &mut self.refusals),
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
    fn all_below(&mut self, folder: &str) -> Vec<Entry> {
        let mut waiting = vec![(self.below(folder), 1)];
        let mut files = Vec::new();
        while let Some((entries, depth)) = waiting.pop() {
            for entry in entries {
                if entry.meta.is_file() {
                    files.push(entry);
                } else if depth < DEPTH_MAX {
                    let inner = self.guard.entries(&entry.path, &mut self.refusals);
                    waiting.push((inner, depth + 1));
                } else {
                    let why = format!("folders are read {DEPTH_MAX} deep");
                    self.refusals.push(self.guard.refusal(&entry.path, why));
                }
            }
        }
        files
    }

    fn program(&mut self, file: &Entry, folder: &Path) -> Result<Program, Refusal> {
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

    fn keep<T>(&mut self, made: Result<Arc<T>, Refusal>, place: String, found: &mut Found<T>) {
        match made {
            Ok(item) => found.push((place, item)),
            Err(refusal) => self.refusals.push(refusal),
        }
    }
}

const NOT_EXECUTABLE: &str = "it is not executable; run `chmod +x` on it";

fn needs(key: &str) -> String {
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

fn is_executable(entry: &Entry) -> bool {
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
fn is_beside(about: &Entry, file: &Entry) -> bool {
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

fn last_part(uri: &str) -> String {
    let path = PathBuf::from(uri);
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
