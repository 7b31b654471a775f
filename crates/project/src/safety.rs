//! Checks of owner, permissions and location. A file that another user could have written
//! is not served, let alone run.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

use super::{files::FileCache, item::Rejection};

/// The number of files below the folder of a tool; more is a mistake, such as a checkout.
const ENTRIES_MAX: usize = 2_000;
/// The nesting of folders of a tool.
const DEPTH_MAX: usize = 8;
/// Write permission of the group or of others.
const OTHERS_WRITE: u32 = 0o022;

/// Checks paths below one root.
#[derive(Clone, Debug)]
pub(super) struct PathChecker {
    /// As configured.
    root: PathBuf,
    /// With links resolved.
    real: PathBuf,
    /// The effective user of the server.
    user: u32,
}

/// An entry of a folder that has passed the checks.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) meta: Metadata,
}

// === impl PathChecker ===

impl PathChecker {
    /// A checker of paths below a root, which has to pass the checks too.
    pub(super) fn new(root: &Path) -> Result<Self, Rejection> {
        Self::for_user(root, rustix::process::geteuid().as_raw())
    }

    fn for_user(root: &Path, user: u32) -> Result<Self, Rejection> {
        let reject = |error: io::Error| Rejection::new(".", explain(&error));
        let checker = Self {
            root: root.to_owned(),
            real: root.canonicalize().map_err(reject)?,
            user,
        };
        let meta = fs::metadata(&checker.real).map_err(reject)?;
        if !meta.is_dir() {
            return Err(Rejection::new(".", "it is not a folder"));
        }
        checker
            .check_owner(&meta)
            .map_err(|why| Rejection::new(".", why))?;
        Ok(checker)
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
        self.inspect(path).map_err(|why| self.rejection(path, why))
    }

    fn inspect(&self, path: &Path) -> Result<Option<Metadata>, String> {
        let mut meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(explain(&error)),
        };
        if meta.file_type().is_symlink() {
            let real = path
                .canonicalize()
                .map_err(|error| format!("it is a link that leads nowhere: {}", explain(&error)))?;
            if !real.starts_with(&self.real) {
                return Err(format!(
                    "it is a link that leaves the project, to `{}`; copy the file instead",
                    real.display()
                ));
            }
            // A user who can write to a folder on the way can replace the target.
            for folder in real
                .ancestors()
                .skip(1)
                .take_while(|one| one.starts_with(&self.real))
            {
                let meta = fs::metadata(folder).map_err(|error| explain(&error))?;
                self.check_owner(&meta).map_err(|why| {
                    format!(
                        "it is a link through `{}`: {why}",
                        self.display_path(folder)
                    )
                })?;
            }
            meta = fs::metadata(&real).map_err(|error| explain(&error))?;
        }
        self.check_owner(&meta)?;
        if !meta.is_file() && !meta.is_dir() {
            return Err("it is neither a file nor a folder".to_owned());
        }
        Ok(Some(meta))
    }

    fn check_owner(&self, meta: &Metadata) -> Result<(), String> {
        // Files of the superuser are as trustworthy as the server's own.
        if meta.uid() != self.user && meta.uid() != 0 {
            return Err(format!(
                "it belongs to user {} and the server runs as user {}; chown it",
                meta.uid(),
                self.user
            ));
        }
        if meta.mode() & OTHERS_WRITE != 0 {
            return Err(format!(
                "others may write it (mode {:03o}); run `chmod go-w` on it",
                meta.mode() & 0o777
            ));
        }
        Ok(())
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

    /// Resolves a path that contains a client's input, and checks that it stays below the
    /// root. The file has to be opened by the returned path.
    pub(super) fn resolve_inside(&self, path: &Path) -> Result<PathBuf, Rejection> {
        let gone = || self.rejection(path, "there is no such file");
        let real = path.canonicalize().map_err(|_| gone())?;
        if !real.starts_with(&self.real) {
            // The answer must not reveal what exists outside of the root.
            return Err(gone());
        }
        for part in real
            .ancestors()
            .take_while(|one| one.starts_with(&self.real))
        {
            self.check(part)?;
        }
        Ok(real)
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
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn root() -> (tempfile::TempDir, PathChecker) {
        let dir = tempfile::tempdir().unwrap();
        let checker = PathChecker::new(dir.path()).unwrap();
        (dir, checker)
    }

    fn user() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn entry(checker: &PathChecker, path: &Path) -> Entry {
        Entry {
            path: path.to_owned(),
            name: String::new(),
            meta: checker.check(path).unwrap().unwrap(),
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_that_others_may_write_is_rejected() {
        let (dir, checker) = root();
        let file = dir.path().join("a");
        fs::write(&file, "x").unwrap();
        for mode in [0o644, 0o755, 0o600] {
            set_mode(&file, mode);
            assert!(checker.check(&file).unwrap().is_some());
        }
        for mode in [0o664, 0o646, 0o777] {
            set_mode(&file, mode);
            let rejection = checker.check(&file).unwrap_err();
            assert_eq!(rejection.path, "a");
            assert!(
                rejection.reason.contains("chmod go-w"),
                "{}",
                rejection.reason
            );
        }
        set_mode(dir.path(), 0o777);
        assert_eq!(PathChecker::new(dir.path()).unwrap_err().path, ".");
    }

    #[test]
    fn a_file_of_another_user_is_rejected() {
        let (dir, checker) = root();
        let file = dir.path().join("a");
        fs::write(&file, "x").unwrap();
        // Without the right to change the owner, check as another user instead.
        if chown(&file, Some(4242), None).is_ok() {
            let rejection = checker.check(&file).unwrap_err();
            assert!(
                rejection.reason.contains("user 4242"),
                "{}",
                rejection.reason
            );
        } else {
            assert!(PathChecker::for_user(dir.path(), user() + 1).is_err());
        }
    }

    #[test]
    fn a_link_may_stay_inside_and_not_leave() {
        let (dir, checker) = root();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/real"), "x").unwrap();
        symlink("sub/real", dir.path().join("fine")).unwrap();
        symlink(outside.path().join("secret"), dir.path().join("leak")).unwrap();
        symlink(outside.path(), dir.path().join("leaks")).unwrap();
        symlink("nowhere", dir.path().join("dangling")).unwrap();
        assert!(checker.check(&dir.path().join("fine")).unwrap().is_some());
        for bad in ["leak", "leaks", "dangling"] {
            assert!(checker.check(&dir.path().join(bad)).is_err(), "{bad}");
        }
        let mut rejections = Vec::new();
        let root = entry(&checker, dir.path());
        let names: Vec<_> = checker
            .entries(&root, &mut FileCache::default(), &mut rejections)
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert_eq!(names, ["fine", "sub"]);
        assert_eq!(rejections.len(), 3);
        assert!(
            checker
                .resolve_inside(&dir.path().join("leaks/secret"))
                .is_err()
        );
        assert!(
            checker
                .resolve_inside(&dir.path().join("sub/../sub/real"))
                .is_ok()
        );
    }

    #[test]
    fn a_link_through_a_folder_that_others_may_write_is_rejected() {
        let (dir, checker) = root();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::write(open.join("file"), "x").unwrap();
        symlink("open/file", dir.path().join("link")).unwrap();
        set_mode(&open, 0o777);
        let rejection = checker.check(&dir.path().join("link")).unwrap_err();
        assert!(
            rejection.reason.contains("through `open`"),
            "{}",
            rejection.reason
        );
    }

    #[test]
    fn a_configured_path_stays_below_the_root() {
        let (dir, checker) = root();
        fs::write(dir.path().join("a"), "x").unwrap();
        assert!(checker.resolve(dir.path(), "./a").is_ok());
        for bad in ["../a", "/etc/passwd", "", "b", "a/../a"] {
            assert!(checker.resolve(dir.path(), bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_file_beside_a_tool_is_checked() {
        let (dir, checker) = root();
        let deep = dir.path().join("tool/lib/more");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("helper"), "x").unwrap();
        let tool = entry(&checker, &dir.path().join("tool"));
        checker
            .check_tree(&tool, &mut FileCache::default())
            .unwrap();
        set_mode(&deep.join("helper"), 0o666);
        let rejection = checker
            .check_tree(&tool, &mut FileCache::default())
            .unwrap_err();
        assert_eq!(rejection.path, "tool/lib/more/helper");
    }
}
