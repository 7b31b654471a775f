//! One pass over the folder: items, hashes and rejections of the same moment.

mod discover;
mod prompts;
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
    checked_path::shell_word,
    files::FileCache,
    hook::HookResult,
    item::{
        ItemKind, ListHashes, PromptItem, Rejection, ResourceItem, Snapshot, TemplateItem, ToolItem,
    },
    registration::{self, Registration},
    safety::PathChecker,
};

/// The number of items of one kind. A page has 200 at most, and no client reads so many.
const ITEMS_MAX: usize = 5_000;

/// Names that a project may not use.
#[derive(Clone, Debug, Default)]
pub struct ReservedNames {
    /// The names of the built-in tools.
    pub tools: Vec<String>,
    /// The URI schemes of the built-in resources.
    pub schemes: Vec<String>,
}

/// Scans a project folder again and again, and reads only files that may have changed.
pub(super) struct Scanner {
    root: PathBuf,
    /// The folder of an installed mcp-bash, whose providers are used too.
    mcp_bash: Option<PathBuf>,
    reserved: ReservedNames,
    /// Checks whether the protocol can express a definition.
    validate: fn(ItemKind, &Value) -> Result<(), String>,
    files: FileCache,
    caches: ItemCaches,
    last: Option<Arc<Snapshot>>,
    /// The last `register.json` that could be parsed.
    registration: Option<Registration>,
}

/// Caches the items of the last pass, so that an unchanged item stays the same object.
#[derive(Default)]
struct ItemCaches {
    tools: ItemCache<ToolItem>,
    resources: ItemCache<ResourceItem>,
    templates: ItemCache<TemplateItem>,
    prompts: ItemCache<PromptItem>,
}

struct ItemCache<T>(HashMap<String, CachedItem<T>>);

struct CachedItem<T> {
    fingerprint: String,
    item: Arc<T>,
    used: bool,
}

/// A pass in progress.
struct Pass<'a> {
    checker: PathChecker,
    root: &'a Path,
    mcp_bash: Option<&'a Path>,
    reserved: &'a ReservedNames,
    validate: fn(ItemKind, &Value) -> Result<(), String>,
    files: &'a mut FileCache,
    caches: &'a mut ItemCaches,
    rejections: Vec<Rejection>,
}

// === impl Scanner ===

impl Scanner {
    /// A scanner that has not run yet. `validate` checks whether the protocol can express a
    /// definition.
    pub(super) fn new(
        root: PathBuf,
        reserved: ReservedNames,
        validate: fn(ItemKind, &Value) -> Result<(), String>,
    ) -> Self {
        Self {
            root,
            mcp_bash: None,
            reserved,
            validate,
            files: FileCache::default(),
            caches: ItemCaches::default(),
            last: None,
            registration: None,
        }
    }

    /// Also uses the providers in the folder of an installed mcp-bash.
    pub(super) fn with_mcp_bash(self, home: Option<PathBuf>) -> Self {
        Self {
            mcp_bash: home,
            ..self
        }
    }

    /// Runs one pass. `hook` is the result of `server.d/register.sh`.
    pub(super) fn scan(&mut self, hook: &HookResult) -> Arc<Snapshot> {
        let checker = match PathChecker::new(&self.root) {
            Ok(checker) => checker,
            Err(rejection) => {
                self.caches = ItemCaches::default();
                let found = Snapshot {
                    rejections: vec![rejection],
                    ..Snapshot::empty()
                };
                return self.publish(found);
            }
        };
        self.files.begin_pass();
        let mut pass = Pass {
            checker,
            root: &self.root,
            mcp_bash: self.mcp_bash.as_deref(),
            reserved: &self.reserved,
            validate: self.validate,
            files: &mut self.files,
            caches: &mut self.caches,
            rejections: Vec::new(),
        };
        let registration = match pass.registration() {
            Some(Ok(registration)) => {
                self.registration = Some(registration.clone());
                registration
            }
            Some(Err(rejection)) => {
                pass.rejections.push(rejection);
                let last = self.registration.clone();
                last.unwrap_or_else(Registration::empty)
            }
            None => {
                self.registration = None;
                pass.rejections.extend(hook.rejection.clone());
                hook.registration.as_deref().cloned().unwrap_or_default()
            }
        };
        let mut found = Snapshot::empty();
        found.tools = pass.tools(registration.tools.as_deref());
        found.resources = pass.resources(registration.resources.as_deref());
        found.templates = pass.templates(registration.templates.as_deref());
        found.prompts = pass.prompts(registration.prompts.as_deref());
        if registration.completions > 0 {
            let why = "completions are not served; everything else in it is";
            pass.rejections.push(Rejection::new("server.d", why));
        }
        found.rejections = merge_writable(&self.root, pass.rejections);
        self.files.end_pass();
        self.caches.evict();
        self.publish(found)
    }

    /// Adds the hashes. Lists of the same objects keep their hash.
    fn publish(&mut self, mut found: Snapshot) -> Arc<Snapshot> {
        let last = self.last.as_deref();
        found.hashes = ListHashes {
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

/// Makes one rejection of those for files that others may write, which one command mends. A
/// checkout under the umask 002 would have one for each of its files.
fn merge_writable(root: &Path, rejections: Vec<Rejection>) -> Vec<Rejection> {
    let (mut writable, mut rest): (Vec<_>, Vec<_>) =
        rejections.into_iter().partition(|one| one.is_writable);
    if writable.len() > 1 {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let why = format!(
            "others may write {} files and folders in it, such as `{}`, so they are not served; run \
             `chmod -R go-w {}`",
            writable.len(),
            writable[0].path,
            shell_word(&root)
        );
        writable = vec![Rejection::new(".", why).of_writable()];
    }
    rest.append(&mut writable);
    rest
}

fn same<T>(one: &[Arc<T>], other: &[Arc<T>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| Arc::ptr_eq(a, b))
}

fn values<T: Serialize>(items: &[Arc<T>]) -> Vec<Value> {
    // Plain data always serialises; a value that did not would count as null.
    items
        .iter()
        .map(|item| serde_json::to_value(item).unwrap_or_default())
        .collect()
}

fn hash(collections: &[Vec<Value>]) -> ContentHash {
    let collections: Vec<_> = collections.iter().map(Vec::as_slice).collect();
    ContentHash::of_all(&collections).unwrap_or_else(|_| ContentHash::from(""))
}

// === impl ItemCaches ===

impl ItemCaches {
    fn evict(&mut self) {
        self.tools.evict();
        self.resources.evict();
        self.templates.evict();
        self.prompts.evict();
    }
}

// === impl ItemCache ===

impl<T: PartialEq> ItemCache<T> {
    /// The item of an origin: the cached one if its fingerprint is the same.
    fn get(
        &mut self,
        origin: &str,
        fingerprint: String,
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<Arc<T>, String> {
        if let Some(known) = self.0.get_mut(origin)
            && known.fingerprint == fingerprint
        {
            known.used = true;
            return Ok(Arc::clone(&known.item));
        }
        let item = Arc::new(make()?);
        let cached = CachedItem {
            fingerprint,
            item: Arc::clone(&item),
            used: true,
        };
        self.0.insert(origin.to_owned(), cached);
        Ok(item)
    }

    /// Evicts the items that the pass did not use.
    fn evict(&mut self) {
        self.0.retain(|_, known| std::mem::take(&mut known.used));
    }
}

impl<T> Default for ItemCache<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

// === impl Pass ===

impl Pass<'_> {
    /// `server.d/register.json`, if there is one.
    fn registration(&mut self) -> Option<Result<Registration, Rejection>> {
        let folder = self.root.join("server.d");
        let file = folder.join("register.json");
        let found = self.checker.check(&folder).and_then(|there| match there {
            Some(_) => self.checker.check(&file),
            None => Ok(None),
        });
        let meta = match found {
            Ok(Some(meta)) => meta,
            Ok(None) => return None,
            Err(rejection) => return Some(Err(rejection)),
        };
        let read = self
            .files
            .read(&file, &meta, registration::BYTES_MAX)
            .map_err(|error| error.to_string())
            .and_then(|content| Registration::parse(&content.bytes));
        let hint = "until it is fixed, its last valid version is served, or nothing";
        Some(read.map_err(|why| self.checker.rejection(&file, format!("{why}; {hint}"))))
    }

    /// Sorts the items, and rejects the second of a name and those over the limit.
    fn finish_list<T>(
        &mut self,
        mut items: Vec<(String, Arc<T>)>,
        what: &str,
        name: impl Fn(&T) -> &str,
    ) -> Vec<Arc<T>> {
        // By name, then by origin, so that the same one of two always wins.
        items.sort_by(|a, b| name(&a.1).cmp(name(&b.1)).then_with(|| a.0.cmp(&b.0)));
        let mut kept: Vec<(String, Arc<T>)> = Vec::with_capacity(items.len());
        for (origin, item) in items {
            match kept.last() {
                Some((first, last)) if name(last) == name(&item) => {
                    let why = format!("the {what} `{}` is already in `{first}`", name(&item));
                    self.rejections.push(Rejection::new(origin, why));
                }
                _ => kept.push((origin, item)),
            }
        }
        if kept.len() > ITEMS_MAX {
            let why = format!(
                "there are {} {what}s, and {ITEMS_MAX} are served",
                kept.len()
            );
            self.rejections.push(Rejection::new(".", why));
            kept.truncate(ITEMS_MAX);
        }
        kept.into_iter().map(|(_, item)| item).collect()
    }
}

#[cfg(test)]
impl Scanner {
    pub(super) fn poison(&mut self, path: &Path) {
        self.files.poison(path);
    }
}

#[cfg(test)]
mod tests;
