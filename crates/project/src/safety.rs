//! Checks of owner, permissions and location. A file that another user could have written
//! is not served, let alone run.

use std::{
    fs::{self, File, Metadata},
    io,
    path::{Component, Path, PathBuf},
};

use super::{
    checked_path::{self, CheckedPath, Distrust, OpenError, TrustedOwners, shell_word},
    executable::Executable,
    files::FileCache,
    item::{Program, Rejection},
};

/// The number of files below the folder of a tool; more is a mistake, such as a checkout.
const ENTRIES_MAX: usize = 2_000;
/// The nesting of folders of a tool.
const DEPTH_MAX: usize = 8;

/// Checks paths below one root.
#[derive(Clone, Debug)]
pub(super) struct PathChecker {
    /// As configured.
    root: PathBuf,
    /// With links resolved.
    real: PathBuf,
    owners: TrustedOwners,
}

/// An entry of a folder that has passed the checks.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) meta: Metadata,
}

/// Says why an entry is not served.
enum Refused {
    /// The group or others may write it.
    Writable(String),
    Other(String),
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl From<Distrust> for Refused {
    fn from(why: Distrust) -> Self {
        match why {
            Distrust::Writable { .. } => Self::Writable(why.to_string()),
            Distrust::Owner { .. } => Self::Other(why.to_string()),
        }
    }
}

// === impl PathChecker ===

impl PathChecker {
    /// A checker of paths below a root, which has to pass the checks too, and so have the
    /// folders above it: who can rename one of them can put another folder in its place.
    pub(super) fn new(root: &Path) -> Result<Self, Rejection> {
        Self::with_owners(root, TrustedOwners::current())
    }

    fn with_owners(root: &Path, owners: TrustedOwners) -> Result<Self, Rejection> {
        let reject = |why: String| Rejection::new(".", why);
        let opened = std::path::absolute(root)
            .map_err(OpenError::Io)
            .and_then(|root| checked_path::open(&root, owners, None))
            .map_err(|error| match error {
                OpenError::NotFound => reject("there is no such folder".to_owned()),
                OpenError::NotAFile => reject("it is not a folder".to_owned()),
                above @ OpenError::Untrusted { .. } => reject(format!(
                    "the way to it is not safe, so nothing of it is served: {above}"
                )),
                error @ OpenError::Io(_) => reject(error.to_string()),
            })?;
        if !opened.is_folder() {
            return Err(reject("it is not a folder".to_owned()));
        }
        opened.check_folder(owners).map_err(|error| match error {
            // A checkout under the umask 002; all of it is the same then.
            OpenError::Untrusted {
                why: Distrust::Writable { path, mode },
                ..
            } => reject(format!(
                "others may write it (mode {mode:03o}), so nothing of it is served; run `chmod \
                 -R go-w {}`",
                shell_word(&path)
            )),
            other => reject(other.to_string()),
        })?;
        Ok(Self {
            root: root.to_owned(),
            real: opened.real,
            owners,
        })
    }

    /// The path as messages show it: relative to the root.
    pub(super) fn display_path(&self, path: &Path) -> String {
        let text = path.as_os_str().to_string_lossy();
        for root in [&self.root, &self.real] {
            let below = text.strip_prefix(&*root.as_os_str().to_string_lossy());
            if let Some(below) = below.and_then(|below| below.strip_prefix('/')) {
                return below.to_owned();
            }
        }
        text.into_owned()
    }

    pub(super) fn rejection(&self, path: &Path, reason: impl Into<String>) -> Rejection {
        Rejection::new(self.display_path(path), reason)
    }

    /// Checks a path whose parent has been checked; `None` if it does not exist.
    pub(super) fn check(&self, path: &Path) -> Result<Option<Metadata>, Rejection> {
        self.inspect(path).map_err(|refused| match refused {
            Refused::Writable(why) => self.rejection(path, why).of_writable(),
            Refused::Other(why) => self.rejection(path, why),
        })
    }

    fn inspect(&self, path: &Path) -> Result<Option<Metadata>, Refused> {
        let mut meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(explain(&error).into()),
        };
        if meta.file_type().is_symlink() {
            let real = path
                .canonicalize()
                .map_err(|error| format!("it is a link that leads nowhere: {}", explain(&error)))?;
            if !real.starts_with(&self.real) {
                return Err(Refused::Other(format!(
                    "it is a link that leaves the project, to `{}`; copy the file instead",
                    real.display()
                )));
            }
            // A user who can write to a folder on the way can replace the target.
            for folder in real
                .ancestors()
                .skip(1)
                .take_while(|one| one.starts_with(&self.real))
            {
                let meta = fs::metadata(folder).map_err(|error| explain(&error))?;
                self.owners.check(folder, &meta).map_err(|why| {
                    format!(
                        "it is a link through `{}`: {why}",
                        self.display_path(folder)
                    )
                })?;
            }
            meta = fs::metadata(&real).map_err(|error| explain(&error))?;
        }
        self.owners.check(path, &meta)?;
        if !meta.is_file() && !meta.is_dir() {
            return Err(Refused::Other(
                "it is neither a file nor a folder".to_owned(),
            ));
        }
        Ok(Some(meta))
    }

    /// Resolves a path from a file of the project, and checks every part of it.
    pub(super) fn resolve(&self, base: &Path, given: &str) -> Result<Entry, Rejection> {
        let named = Path::new(given);
        let is_relative = !given.is_empty()
            && named
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let mut path = base.to_owned();
        if !is_relative {
            return Err(self.rejection(
                &path.join(given),
                "a path must be relative and without `..`",
            ));
        }
        let mut meta = self.check(&path)?;
        for part in named.components() {
            if matches!(part, Component::CurDir) {
                continue;
            }
            path.push(part);
            meta = self.check(&path)?;
        }
        let Some(meta) = meta else {
            return Err(self.rejection(&path, "there is no such file"));
        };
        let name = path.file_name().unwrap_or_default();
        Ok(Entry {
            name: name.to_string_lossy().into_owned(),
            path,
            meta,
        })
    }

    /// The entries of a folder that has been checked, sorted by name. Entries that fail the
    /// checks are rejected; the others are returned.
    pub(super) fn entries(
        &self,
        folder: &Entry,
        files: &mut FileCache,
        rejections: &mut Vec<Rejection>,
    ) -> Vec<Entry> {
        let listing = match files.list(&folder.path, &folder.meta) {
            Ok(listing) => listing,
            Err(error) => {
                if !is_gone(&error) {
                    rejections.push(self.rejection(&folder.path, explain(&error)));
                }
                return Vec::new();
            }
        };
        let invalid = listing.invalid.iter();
        rejections.extend(invalid.map(|(path, why)| self.rejection(path, *why)));
        let mut found = Vec::with_capacity(listing.names.len());
        for (name, path) in &listing.names {
            match self.check(path) {
                Ok(Some(meta)) => found.push(Entry {
                    path: path.clone(),
                    name: name.clone(),
                    meta,
                }),
                // Deleted since the folder was read.
                Ok(None) => {}
                Err(rejection) => rejections.push(rejection),
            }
        }
        found
    }

    /// Checks everything below a folder: a tool may load any file beside it.
    pub(super) fn check_tree(
        &self,
        folder: &Entry,
        files: &mut FileCache,
    ) -> Result<(), Rejection> {
        let mut waiting = vec![(folder.clone(), 1)];
        let mut seen = 0_usize;
        while let Some((folder, depth)) = waiting.pop() {
            let mut rejections = Vec::new();
            let entries = self.entries(&folder, files, &mut rejections);
            if let Some(first) = rejections.into_iter().next() {
                return Err(first);
            }
            seen += entries.len();
            if seen > ENTRIES_MAX || depth > DEPTH_MAX {
                return Err(self.rejection(
                    &folder.path,
                    format!("a tool may have {ENTRIES_MAX} files, {DEPTH_MAX} folders deep"),
                ));
            }
            let folders = entries.into_iter().filter(|entry| entry.meta.is_dir());
            waiting.extend(folders.map(|entry| (entry, depth + 1)));
        }
        Ok(())
    }

    /// Opens a file below a folder of the project, and nowhere else, through descriptors
    /// that were checked. The path may contain a client's input.
    pub(super) fn open_file(&self, folder: &Path, path: &Path) -> Result<File, OpenError> {
        let confined = self.open(&self.root.join(folder))?.real;
        let opened = self.open(&self.root.join(folder).join(path))?;
        if !opened.real.starts_with(&confined) {
            // The answer must not reveal what exists elsewhere.
            return Err(OpenError::NotFound);
        }
        opened.open_file(self.owners)
    }

    /// Opens an executable right before it runs: its permissions may have changed since the
    /// scan.
    pub(super) fn open_program(&self, program: &Program) -> Result<Executable, Rejection> {
        let open = || {
            let folder = self.open(&program.folder)?;
            let file = self.open(&program.path)?;
            let real = file.real.clone();
            let file = file.open_file(self.owners)?;
            let folder = (folder.real.clone(), folder.into_folder());
            Ok(Executable::new(program, (real, file), folder)?)
        };
        open().map_err(|error: OpenError| match error {
            OpenError::Untrusted { path, why } => self.rejection(&path, why.to_string()),
            other => self.rejection(&program.path, other.to_string()),
        })
    }

    fn open(&self, path: &Path) -> Result<CheckedPath, OpenError> {
        let path = std::path::absolute(path)?;
        let opened = checked_path::open(&path, self.owners, Some(&self.real))?;
        if opened.real.starts_with(&self.real) {
            Ok(opened)
        } else {
            Err(OpenError::NotFound)
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such folder".to_owned(),
        _ => format!("cannot look at it: {error}"),
    }
}

#[cfg(test)]
mod tests;
