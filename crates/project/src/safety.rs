//! Whom a file of the project belongs to, and whether it stays inside. What
//! somebody else could have written is not served, let alone run.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

use super::{files::Files, item::Refusal};

/// Files below one folder of a tool; more is a mistake, such as a checkout.
const ENTRIES_MAX: usize = 2_000;
/// How deep folders may be nested.
const DEPTH_MAX: usize = 8;
/// Written by the group, or by everybody.
const OTHERS_WRITE: u32 = 0o022;

/// Checks what lies below one root.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// As it was named.
    root: PathBuf,
    /// Where that really is.
    real: PathBuf,
    /// Who we are.
    user: u32,
}

/// One entry of a folder that has been found safe.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) meta: Metadata,
}

// === impl Guard ===

impl Guard {
    /// The root itself has to be safe too.
    pub(super) fn new(root: &Path, user: u32) -> Result<Self, Refusal> {
        let refuse = |error: io::Error| Refusal::new(".", explain(&error));
        let guard = Self {
            root: root.to_owned(),
            real: root.canonicalize().map_err(refuse)?,
            user,
        };
        let meta = fs::metadata(&guard.real).map_err(refuse)?;
        if !meta.is_dir() {
            return Err(Refusal::new(".", "it is not a folder"));
        }
        guard.owned(&meta).map_err(|why| Refusal::new(".", why))?;
        Ok(guard)
    }

    /// The path as messages name it.
    pub(super) fn shown(&self, path: &Path) -> String {
        let text = path.as_os_str().to_string_lossy();
        for root in [&self.root, &self.real] {
            let below = text.strip_prefix(&*root.as_os_str().to_string_lossy());
            if let Some(below) = below.and_then(|below| below.strip_prefix('/')) {
                return below.to_owned();
            }
        }
        text.into_owned()
    }

    pub(super) fn refusal(&self, path: &Path, reason: impl Into<String>) -> Refusal {
        Refusal::new(self.shown(path), reason)
    }

    /// Looks at one path, whose parent has been looked at. `None`: there is nothing.
    pub(super) fn look(&self, path: &Path) -> Result<Option<Metadata>, Refusal> {
        self.examine(path).map_err(|why| self.refusal(path, why))
    }

    fn examine(&self, path: &Path) -> Result<Option<Metadata>, String> {
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
            // Somebody who can write a folder on the way can change what is there.
            for folder in real
                .ancestors()
                .skip(1)
                .take_while(|one| one.starts_with(&self.real))
            {
                let meta = fs::metadata(folder).map_err(|error| explain(&error))?;
                self.owned(&meta).map_err(|why| {
                    format!("it is a link through `{}`: {why}", self.shown(folder))
                })?;
            }
            meta = fs::metadata(&real).map_err(|error| explain(&error))?;
        }
        self.owned(&meta)?;
        if !meta.is_file() && !meta.is_dir() {
            return Err("it is neither a file nor a folder".to_owned());
        }
        Ok(Some(meta))
    }

    fn owned(&self, meta: &Metadata) -> Result<(), String> {
        // What the superuser writes is no weaker than what we write.
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

    /// Looks at everything from the root to a path that somebody wrote down.
    pub(super) fn resolve(&self, base: &Path, given: &str) -> Result<Entry, Refusal> {
        let named = Path::new(given);
        let plain = !given.is_empty()
            && named
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let mut path = base.to_owned();
        if !plain {
            return Err(self.refusal(
                &path.join(given),
                "a path must be relative and without `..`",
            ));
        }
        let mut meta = self.look(&path)?;
        for part in named.components() {
            if matches!(part, Component::CurDir) {
                continue;
            }
            path.push(part);
            meta = self.look(&path)?;
        }
        let Some(meta) = meta else {
            return Err(self.refusal(&path, "there is no such file"));
        };
        let name = path.file_name().unwrap_or_default();
        Ok(Entry {
            name: name.to_string_lossy().into_owned(),
            path,
            meta,
        })
    }

    /// The entries of a folder that has been looked at, in the order of their names.
    /// What is not safe is refused, and the rest is there.
    pub(super) fn entries(
        &self,
        folder: &Entry,
        files: &mut Files,
        refusals: &mut Vec<Refusal>,
    ) -> Vec<Entry> {
        let listing = match files.list(&folder.path, &folder.meta) {
            Ok(listing) => listing,
            Err(error) => {
                if !is_gone(&error) {
                    refusals.push(self.refusal(&folder.path, explain(&error)));
                }
                return Vec::new();
            }
        };
        let odd = listing.odd.iter();
        refusals.extend(odd.map(|(path, why)| self.refusal(path, *why)));
        let mut found = Vec::with_capacity(listing.names.len());
        for (name, path) in &listing.names {
            match self.look(path) {
                Ok(Some(meta)) => found.push(Entry {
                    path: path.clone(),
                    name: name.clone(),
                    meta,
                }),
                // Gone since the folder was read.
                Ok(None) => {}
                Err(refusal) => refusals.push(refusal),
            }
        }
        found
    }

    /// Everything below a folder is safe: a tool may load whatever lies beside it.
    pub(super) fn deep(&self, folder: &Entry, files: &mut Files) -> Result<(), Refusal> {
        let mut waiting = vec![(folder.clone(), 1)];
        let mut seen = 0_usize;
        while let Some((folder, depth)) = waiting.pop() {
            let mut refusals = Vec::new();
            let entries = self.entries(&folder, files, &mut refusals);
            if let Some(first) = refusals.into_iter().next() {
                return Err(first);
            }
            seen += entries.len();
            if seen > ENTRIES_MAX || depth > DEPTH_MAX {
                return Err(self.refusal(
                    &folder.path,
                    format!("a tool may have {ENTRIES_MAX} files, {DEPTH_MAX} folders deep"),
                ));
            }
            let folders = entries.into_iter().filter(|entry| entry.meta.is_dir());
            waiting.extend(folders.map(|entry| (entry, depth + 1)));
        }
        Ok(())
    }

    /// Whether a path that was made up of a caller's words stays inside; the file is
    /// opened by the path that comes back.
    pub(super) fn inside(&self, path: &Path) -> Result<PathBuf, Refusal> {
        let gone = || self.refusal(path, "there is no such file");
        let real = path.canonicalize().map_err(|_| gone())?;
        if !real.starts_with(&self.real) {
            // Nobody is told what lies outside.
            return Err(gone());
        }
        for part in real
            .ancestors()
            .take_while(|one| one.starts_with(&self.real))
        {
            self.look(part)?;
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

    fn root() -> (tempfile::TempDir, Guard) {
        let dir = tempfile::tempdir().unwrap();
        let guard = Guard::new(dir.path(), user()).unwrap();
        (dir, guard)
    }

    fn user() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn entry(guard: &Guard, path: &Path) -> Entry {
        Entry {
            path: path.to_owned(),
            name: String::new(),
            meta: guard.look(path).unwrap().unwrap(),
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_may_write_is_refused_by_name() {
        let (dir, guard) = root();
        let file = dir.path().join("a");
        fs::write(&file, "x").unwrap();
        for mode in [0o644, 0o755, 0o600] {
            set_mode(&file, mode);
            assert!(guard.look(&file).unwrap().is_some());
        }
        for mode in [0o664, 0o646, 0o777] {
            set_mode(&file, mode);
            let refusal = guard.look(&file).unwrap_err();
            assert_eq!(refusal.path, "a");
            assert!(refusal.reason.contains("chmod go-w"), "{}", refusal.reason);
        }
        set_mode(dir.path(), 0o777);
        assert_eq!(Guard::new(dir.path(), user()).unwrap_err().path, ".");
    }

    #[test]
    fn what_belongs_to_somebody_else_is_refused() {
        let (dir, guard) = root();
        let file = dir.path().join("a");
        fs::write(&file, "x").unwrap();
        // Without the right to give files away, be somebody else instead.
        if chown(&file, Some(4242), None).is_ok() {
            let refusal = guard.look(&file).unwrap_err();
            assert!(refusal.reason.contains("user 4242"), "{}", refusal.reason);
        } else {
            assert!(Guard::new(dir.path(), user() + 1).is_err());
        }
    }

    #[test]
    fn a_link_may_stay_inside_and_not_leave() {
        let (dir, guard) = root();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/real"), "x").unwrap();
        symlink("sub/real", dir.path().join("fine")).unwrap();
        symlink(outside.path().join("secret"), dir.path().join("leak")).unwrap();
        symlink(outside.path(), dir.path().join("leaks")).unwrap();
        symlink("nowhere", dir.path().join("dangling")).unwrap();
        assert!(guard.look(&dir.path().join("fine")).unwrap().is_some());
        for bad in ["leak", "leaks", "dangling"] {
            assert!(guard.look(&dir.path().join(bad)).is_err(), "{bad}");
        }
        let mut refusals = Vec::new();
        let root = entry(&guard, dir.path());
        let names: Vec<_> = guard
            .entries(&root, &mut Files::default(), &mut refusals)
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert_eq!(names, ["fine", "sub"]);
        assert_eq!(refusals.len(), 3);
        assert!(guard.inside(&dir.path().join("leaks/secret")).is_err());
        assert!(guard.inside(&dir.path().join("sub/../sub/real")).is_ok());
    }

    #[test]
    fn a_link_through_a_folder_that_others_write_is_refused() {
        let (dir, guard) = root();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::write(open.join("file"), "x").unwrap();
        symlink("open/file", dir.path().join("link")).unwrap();
        set_mode(&open, 0o777);
        let refusal = guard.look(&dir.path().join("link")).unwrap_err();
        assert!(
            refusal.reason.contains("through `open`"),
            "{}",
            refusal.reason
        );
    }

    #[test]
    fn a_written_path_stays_below() {
        let (dir, guard) = root();
        fs::write(dir.path().join("a"), "x").unwrap();
        assert!(guard.resolve(dir.path(), "./a").is_ok());
        for bad in ["../a", "/etc/passwd", "", "b", "a/../a"] {
            assert!(guard.resolve(dir.path(), bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn whatever_lies_beside_a_tool_counts() {
        let (dir, guard) = root();
        let deep = dir.path().join("tool/lib/more");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("helper"), "x").unwrap();
        let tool = entry(&guard, &dir.path().join("tool"));
        guard.deep(&tool, &mut Files::default()).unwrap();
        set_mode(&deep.join("helper"), 0o666);
        let refusal = guard.deep(&tool, &mut Files::default()).unwrap_err();
        assert_eq!(refusal.path, "tool/lib/more/helper");
    }
}
