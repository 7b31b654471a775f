//! Opens a path one folder at a time. Each folder is checked on the descriptor through
//! which the next one is opened, so that no part of a path can be replaced after its check.
//!
//! The rule for folders above the project is that of sshd: they belong to the superuser or
//! to the server's user, and nobody else may write them. One exception: in a folder with the
//! sticky bit, such as `/tmp`, others may add entries but not replace those of another user.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStringExt, fs::MetadataExt},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, openat, readlinkat, statat},
    io::Errno,
};

/// Write permission of the group or of others.
const OTHERS_WRITE: u32 = 0o022;
/// Others may add entries to a folder, but not replace them.
const STICKY: u32 = 0o1000;
/// The number of links on the way, as on Linux.
const LINKS_MAX: usize = 40;

/// A folder is opened to look up entries in it, which needs no permission to read it.
#[cfg(target_os = "linux")]
const LOOKUP: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const LOOKUP: OFlags = OFlags::RDONLY;

/// The owners of files that are trusted: the superuser, and the user of the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrustedOwners {
    user: u32,
}

/// A file or a folder that was reached through checked folders only.
#[derive(Debug)]
pub(super) struct CheckedPath {
    /// The path without links.
    pub(super) real: PathBuf,
    /// The folder itself, or the folder of the file.
    folder: File,
    /// The name of the file; `None` for a folder.
    file: Option<OsString>,
}

/// Says why a path was not opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// There is no such file or folder.
    #[error("there is no such file")]
    NotFound,
    /// Another user could have written the path, or a folder on the way.
    #[error("`{}`: {why}", path.display())]
    Untrusted {
        /// The part of the path.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: Distrust,
    },
    /// It is a device, a pipe or a socket, or a folder where a file is needed.
    #[error("it is not a file")]
    NotAFile,
    /// The operating system refused.
    #[error("cannot open it: {0}")]
    Io(#[from] io::Error),
}

/// Says why a file or a folder is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Distrust {
    /// It belongs to another user.
    #[error("it belongs to user {owner} and the server runs as user {user}; chown it")]
    Owner {
        /// The owner.
        owner: u32,
        /// The user of the server.
        user: u32,
    },
    /// The group or others may write it.
    #[error(
        "others may write it (mode {mode:03o}); run `chmod go-w {}`",
        shell_word(path)
    )]
    Writable {
        /// The file or folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// A part of a path that is still to be resolved.
enum Part {
    Root,
    Parent,
    Name(OsString),
}

/// The folders that were opened so far, `/` first.
struct Walk<'a> {
    owners: TrustedOwners,
    /// The project; at and below it there are no exceptions.
    project: Option<&'a Path>,
    folders: Vec<(File, u32)>,
    real: PathBuf,
}

/// Opens an absolute path. `project` is the real path of the project folder, if it is known.
pub(super) fn open(
    path: &Path,
    owners: TrustedOwners,
    project: Option<&Path>,
) -> Result<CheckedPath, OpenError> {
    let mut walk = Walk::begin(owners, project)?;
    let mut waiting = parts(path);
    let mut links = 0;
    while let Some(part) = waiting.pop() {
        let name = match part {
            Part::Root => {
                walk.leave_all();
                continue;
            }
            Part::Parent => {
                walk.leave();
                continue;
            }
            Part::Name(name) => name,
        };
        let stat = walk.look_up(&name)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => walk.enter(&name)?,
            FileType::Symlink => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(OpenError::Io(Errno::LOOP.into()));
                }
                waiting.extend(parts(&walk.link(&name)?));
            }
            FileType::RegularFile if waiting.is_empty() => return walk.file(name),
            _ if waiting.is_empty() => return Err(OpenError::NotAFile),
            _ => return Err(OpenError::NotFound),
        }
    }
    walk.folder()
}

// === impl TrustedOwners ===

impl TrustedOwners {
    /// The superuser and the effective user of this process.
    pub(super) fn current() -> Self {
        Self::of(rustix::process::geteuid().as_raw())
    }

    /// The superuser and another user.
    pub(super) fn of(user: u32) -> Self {
        Self { user }
    }

    /// Checks that nobody else could have written a file.
    pub(super) fn check(self, path: &Path, meta: &Metadata) -> Result<(), Distrust> {
        self.check_owner(meta.uid())?;
        if meta.mode() & OTHERS_WRITE != 0 {
            return Err(Distrust::Writable {
                path: path.to_owned(),
                mode: meta.mode() & 0o777,
            });
        }
        Ok(())
    }

    fn check_owner(self, owner: u32) -> Result<(), Distrust> {
        // Files of the superuser are as trustworthy as the server's own.
        if owner != self.user && owner != 0 {
            return Err(Distrust::Owner {
                owner,
                user: self.user,
            });
        }
        Ok(())
    }
}

// === impl CheckedPath ===

impl CheckedPath {
    pub(super) fn is_folder(&self) -> bool {
        self.file.is_none()
    }

    /// The descriptor of the folder, or of the folder of the file.
    pub(super) fn into_folder(self) -> OwnedFd {
        self.folder.into()
    }

    /// Checks the rights of the folder itself; nobody else may write it.
    pub(super) fn check_folder(&self, owners: TrustedOwners) -> Result<(), OpenError> {
        owners
            .check(&self.real, &self.folder.metadata()?)
            .map_err(|why| untrusted(&self.real, why))
    }

    /// Opens the file to read it, and checks what was opened.
    pub(super) fn open_file(&self, owners: TrustedOwners) -> Result<File, OpenError> {
        let Some(name) = &self.file else {
            return Err(OpenError::NotAFile);
        };
        // Without NONBLOCK a pipe that has just taken the place of the file would block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.folder, name, flags, Mode::empty()).map_err(not_found)?;
        let file = File::from(file);
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(OpenError::NotAFile);
        }
        owners
            .check(&self.real, &meta)
            .map_err(|why| untrusted(&self.real, why))?;
        Ok(file)
    }
}

// === impl Walk ===

impl<'a> Walk<'a> {
    fn begin(owners: TrustedOwners, project: Option<&'a Path>) -> Result<Self, OpenError> {
        let mut walk = Self {
            owners,
            project,
            folders: Vec::new(),
            real: PathBuf::from("/"),
        };
        let flags = LOOKUP | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, "/", flags, Mode::empty()).map_err(not_found)?;
        walk.push(root)?;
        Ok(walk)
    }

    fn top(&self) -> Result<&(File, u32), OpenError> {
        self.folders.last().ok_or(OpenError::NotFound)
    }

    /// Looks at an entry of the current folder, whose rights matter only now: what a user
    /// could do to the folder depends on the entry.
    fn look_up(&self, name: &OsStr) -> Result<Stat, OpenError> {
        let (folder, mode) = self.top()?;
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(not_found)?;
        self.owners
            .check_owner(stat.st_uid)
            .map_err(|why| untrusted(&self.real.join(name), why))?;
        let is_replaceable = mode & OTHERS_WRITE != 0 && mode & STICKY == 0;
        if is_replaceable {
            let why = Distrust::Writable {
                path: self.real.clone(),
                mode: mode & 0o7777,
            };
            return Err(untrusted(&self.real, why));
        }
        Ok(stat)
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), OpenError> {
        let flags = LOOKUP | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(&self.top()?.0, name, flags, Mode::empty()).map_err(not_found)?;
        self.real.push(name);
        self.push(folder)
    }

    fn push(&mut self, folder: OwnedFd) -> Result<(), OpenError> {
        let folder = File::from(folder);
        let meta = folder.metadata()?;
        let in_project = self
            .project
            .is_some_and(|project| self.real.starts_with(project));
        let checked = if in_project {
            self.owners.check(&self.real, &meta)
        } else {
            self.owners.check_owner(meta.uid())
        };
        checked.map_err(|why| untrusted(&self.real, why))?;
        self.folders.push((folder, meta.mode()));
        Ok(())
    }

    fn leave(&mut self) {
        if self.folders.len() > 1 {
            self.folders.pop();
            self.real.pop();
        }
    }

    fn leave_all(&mut self) {
        self.folders.truncate(1);
        self.real = PathBuf::from("/");
    }

    fn link(&self, name: &OsStr) -> Result<PathBuf, OpenError> {
        let target = readlinkat(&self.top()?.0, name, Vec::new()).map_err(not_found)?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    fn file(mut self, name: OsString) -> Result<CheckedPath, OpenError> {
        let (folder, _) = self.folders.pop().ok_or(OpenError::NotFound)?;
        self.real.push(&name);
        Ok(CheckedPath {
            real: self.real,
            folder,
            file: Some(name),
        })
    }

    fn folder(mut self) -> Result<CheckedPath, OpenError> {
        let (folder, _) = self.folders.pop().ok_or(OpenError::NotFound)?;
        Ok(CheckedPath {
            real: self.real,
            folder,
            file: None,
        })
    }
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<Part> {
    let part = |component: Component<'_>| match component {
        Component::RootDir => Some(Part::Root),
        Component::ParentDir => Some(Part::Parent),
        Component::Normal(name) => Some(Part::Name(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(part).collect()
}

/// A path as a word of a shell command.
pub(super) fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "/._-+,@%".contains(one);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn untrusted(path: &Path, why: Distrust) -> OpenError {
    OpenError::Untrusted {
        path: path.to_owned(),
        why,
    }
}

fn not_found(error: Errno) -> OpenError {
    match error {
        // A name with a NUL character is the name of no file.
        Errno::NOENT | Errno::NOTDIR | Errno::INVAL | Errno::NAMETOOLONG => OpenError::NotFound,
        other => OpenError::Io(other.into()),
    }
}

#[cfg(test)]
mod tests;
