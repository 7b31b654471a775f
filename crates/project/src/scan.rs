//! One pass over the folder: items, hashes and refusals, all of the same moment.

mod discover;
mod resources;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use mcp_notify::ContentHash;
use serde::Serialize;
use serde_json::Value;

use super::{
    files::Files,
    hook::Hook,
    item::{Hashes, Kind, PromptItem, Refusal, ResourceItem, Snapshot, TemplateItem, ToolItem},
    register::{self, Register},
    safety::Guard,
};

/// Items of one kind; a page has 200 at most, and nobody reads so many.
const ITEMS_MAX: usize = 5_000;

/// What a project may not take.
#[derive(Clone, Debug, Default)]
pub struct Reserved {
    /// Names of built-in tools.
    pub tools: Vec<String>,
    /// Schemes of built-in resources.
    pub schemes: Vec<String>,
}

/// Looks at a project folder again and again, and reads what may have changed.
pub struct Scanner {
    root: PathBuf,
    user: u32,
    reserved: Reserved,
    /// Whether clients could be shown this.
    accepts: fn(Kind, &Value) -> Result<(), String>,
    files: Files,
    memory: Memory,
    last: Option<Arc<Snapshot>>,
    /// The last registration that could be read.
    register: Option<Register>,
}

/// The items made so far, by what they were made of.
#[derive(Default)]
struct Memory {
    tools: Memo<ToolItem>,
    resources: Memo<ResourceItem>,
    templates: Memo<TemplateItem>,
    prompts: Memo<PromptItem>,
}

struct Memo<T> {
    known: HashMap<String, Remembered<T>>,
}

struct Remembered<T> {
    made_of: String,
    item: Arc<T>,
    fresh: bool,
}

/// One pass under way.
struct Pass<'a> {
    guard: Guard,
    root: &'a Path,
    reserved: &'a Reserved,
    accepts: fn(Kind, &Value) -> Result<(), String>,
    files: &'a mut Files,
    memory: &'a mut Memory,
    refusals: Vec<Refusal>,
}

// === impl Scanner ===

impl Scanner {
    /// Looks at nothing yet. `accepts` says whether clients could be shown a
    /// definition.
    pub fn new(
        root: PathBuf,
        reserved: Reserved,
        accepts: fn(Kind, &Value) -> Result<(), String>,
    ) -> Self {
        Self {
            root,
            user: rustix::process::geteuid().as_raw(),
            reserved,
            accepts,
            files: Files::default(),
            memory: Memory::default(),
            last: None,
            register: None,
        }
    }

    /// One pass. `hook` is what became of `server.d/register.sh`.
    pub(super) fn scan(&mut self, hook: &Hook) -> Arc<Snapshot> {
        let guard = match Guard::new(&self.root, self.user) {
            Ok(guard) => guard,
            Err(refusal) => {
                self.memory = Memory::default();
                let found = Snapshot {
                    refusals: vec![refusal],
                    ..Snapshot::unknown()
                };
                return self.remember(found);
            }
        };
        self.files.begin();
        let mut pass = Pass {
            guard,
            root: &self.root,
            reserved: &self.reserved,
            accepts: self.accepts,
            files: &mut self.files,
            memory: &mut self.memory,
            refusals: Vec::new(),
        };
        let register = match pass.register() {
            Some(Ok(register)) => {
                self.register = Some(register.clone());
                register
            }
            Some(Err(refusal)) => {
                pass.refusals.push(refusal);
                self.register.clone().unwrap_or_else(Register::nothing)
            }
            None => {
                self.register = None;
                pass.refusals.extend(hook.refusal.clone());
                hook.said.as_deref().cloned().unwrap_or_default()
            }
        };
        let mut found = Snapshot::unknown();
        found.tools = pass.tools(register.tools.as_deref());
        found.resources = pass.resources(register.resources.as_deref());
        found.templates = pass.templates(register.templates.as_deref());
        found.prompts = pass.prompts(register.prompts.as_deref());
        if register.completions > 0 {
            let why = "completions are not served; everything else in it is";
            pass.refusals.push(Refusal::new("server.d", why));
        }
        found.refusals = pass.refusals;
        self.files.end();
        self.memory.forget();
        self.remember(found)
    }

    /// Hashes what is new. Items that are the same objects have the same hash.
    fn remember(&mut self, mut found: Snapshot) -> Arc<Snapshot> {
        let last = self.last.as_deref();
        found.hashes = Hashes {
            tools: match last.filter(|last| same(&last.tools, &found.tools)) {
                Some(last) => last.hashes.tools.clone(),
                None => hash(&[values(&found.tools)]),
            },
            resources: match last.filter(|last| {
                same(&last.resources, &found.resources) && same(&last.templates, &found.templates)
            }) {
                Some(last) => last.hashes.resources.clone(),
                None => hash(&[values(&found.resources), values(&found.templates)]),
            },
            prompts: match last.filter(|last| same(&last.prompts, &found.prompts)) {
                Some(last) => last.hashes.prompts.clone(),
                None => hash(&[values(&found.prompts)]),
            },
        };
        let found = Arc::new(found);
        self.last = Some(Arc::clone(&found));
        found
    }

    #[cfg(test)]
    pub(super) fn reads(&self) -> u64 {
        self.files.reads()
    }
}

impl std::fmt::Debug for Scanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scanner")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

fn same<T>(one: &[Arc<T>], other: &[Arc<T>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| Arc::ptr_eq(a, b))
}

fn values<T: Serialize>(items: &[Arc<T>]) -> Vec<Value> {
    // Plain data always serialises; a value that would not is shown as its absence.
    items
        .iter()
        .map(|item| serde_json::to_value(item).unwrap_or_default())
        .collect()
}

fn hash(collections: &[Vec<Value>]) -> ContentHash {
    let collections: Vec<_> = collections.iter().map(Vec::as_slice).collect();
    ContentHash::of_all(&collections).unwrap_or_else(|_| ContentHash::from(""))
}

// === impl Memory ===

impl Memory {
    fn forget(&mut self) {
        self.tools.forget();
        self.resources.forget();
        self.templates.forget();
        self.prompts.forget();
    }
}

// === impl Memo ===

impl<T: PartialEq> Memo<T> {
    /// The item at that place: the one from before if it is made of the same.
    fn get(
        &mut self,
        place: &str,
        made_of: String,
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<Arc<T>, String> {
        if let Some(known) = self.known.get_mut(place)
            && known.made_of == made_of
        {
            known.fresh = true;
            return Ok(Arc::clone(&known.item));
        }
        let item = Arc::new(make()?);
        let remembered = Remembered {
            made_of,
            item: Arc::clone(&item),
            fresh: true,
        };
        self.known.insert(place.to_owned(), remembered);
        Ok(item)
    }

    /// Forgets what the pass did not ask for.
    fn forget(&mut self) {
        self.known
            .retain(|_, known| std::mem::take(&mut known.fresh));
    }
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
        }
    }
}

// === impl Pass ===

impl Pass<'_> {
    /// `server.d/register.json`, if there is one.
    fn register(&mut self) -> Option<Result<Register, Refusal>> {
        let folder = self.root.join("server.d");
        let file = folder.join("register.json");
        let found = self.guard.look(&folder).and_then(|there| match there {
            Some(_) => self.guard.look(&file),
            None => Ok(None),
        });
        let meta = match found {
            Ok(Some(meta)) => meta,
            Ok(None) => return None,
            Err(refusal) => return Some(Err(refusal)),
        };
        let read = self
            .files
            .read(&file, &meta, register::BYTES_MAX)
            .map_err(|error| error.to_string())
            .and_then(|content| Register::parse(&content.bytes));
        let hint = "until it is mended, what it last said is served, or nothing";
        Some(read.map_err(|why| self.guard.refusal(&file, format!("{why}; {hint}"))))
    }

    /// Sorts, and refuses what comes second under a name, and what is too many.
    fn settle<T>(
        &mut self,
        mut items: Vec<(String, Arc<T>)>,
        what: &str,
        name: impl Fn(&T) -> &str,
    ) -> Vec<Arc<T>> {
        // By name, then by place: which of two wins does not depend on chance.
        items.sort_by(|a, b| name(&a.1).cmp(name(&b.1)).then_with(|| a.0.cmp(&b.0)));
        let mut kept: Vec<(String, Arc<T>)> = Vec::with_capacity(items.len());
        for (place, item) in items {
            match kept.last() {
                Some((first, last)) if name(last) == name(&item) => {
                    let why = format!("the {what} `{}` is already in `{first}`", name(&item));
                    self.refusals.push(Refusal::new(place, why));
                }
                _ => kept.push((place, item)),
            }
        }
        if kept.len() > ITEMS_MAX {
            let why = format!(
                "there are {} {what}s, and {ITEMS_MAX} are served",
                kept.len()
            );
            self.refusals.push(Refusal::new(".", why));
            kept.truncate(ITEMS_MAX);
        }
        kept.into_iter().map(|(_, item)| item).collect()
    }
}

#[cfg(test)]
mod tests;
