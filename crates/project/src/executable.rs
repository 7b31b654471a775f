//! An executable that was opened and checked, and runs by its descriptors.
//!
//! A path is looked up again by `exec`, and could lead elsewhere by then; a descriptor cannot.
//! A binary is executed by the descriptor of its file. A script is opened by its interpreter,
//! by the name that the kernel passes on, and finds its own files by that name (`dirname
//! "$0"`): so it is executed as `./name` in the folder whose descriptor was checked, where
//! only the superuser and the server's user can replace it.

use std::{
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use rustix::io::fcntl_dupfd_cloexec;

use super::item::Program;

/// Descriptors of executables are higher, so that those that a process gets, up to the one
/// for progress, do not replace them before it has started.
const DESCRIPTOR_MIN: i32 = 10;

/// The first bytes of a binary. Everything else is run by an interpreter.
const ELF: &[u8] = b"\x7fELF";

/// Descriptors as paths, which is how a process is started by one without `unsafe`.
const DESCRIPTORS: &str = "/proc/self/fd";

static HAS_DESCRIPTOR_PATHS: LazyLock<bool> =
    LazyLock::new(|| cfg!(target_os = "linux") && Path::new(DESCRIPTORS).is_dir());

/// An open executable, and the folder in which it runs.
#[derive(Debug)]
pub(super) struct Executable {
    /// The path, for messages and as the name of a binary.
    path: PathBuf,
    file: OwnedFd,
    is_binary: bool,
    folder: OwnedFd,
    folder_path: PathBuf,
    /// The path relative to the folder; `None` if it is elsewhere.
    name: Option<PathBuf>,
}

// === impl Executable ===

impl Executable {
    /// An executable of which the file and the working directory were opened and checked.
    pub(super) fn new(
        program: &Program,
        (path, mut file): (PathBuf, File),
        (folder_path, folder): (PathBuf, OwnedFd),
    ) -> io::Result<Self> {
        let mut start = Vec::new();
        (&mut file).take(4).read_to_end(&mut start)?;
        // By the name in the project, and not by that of a link's target.
        let name = program.path.strip_prefix(&program.folder).ok();
        let name = name.map(|name| Path::new(".").join(name));
        Ok(Self {
            path,
            file: fcntl_dupfd_cloexec(&file, DESCRIPTOR_MIN)?,
            is_binary: start == ELF,
            folder: fcntl_dupfd_cloexec(&folder, DESCRIPTOR_MIN)?,
            folder_path,
            name,
        })
    }

    /// The command that runs it in its folder. The descriptors have to live until it has
    /// started.
    pub(super) fn command(&self) -> Command {
        let mut command = match &self.name {
            _ if !*HAS_DESCRIPTOR_PATHS => Command::new(&self.path),
            _ if self.is_binary => {
                let mut command = Command::new(descriptor_path(self.file.as_fd()));
                command.arg0(&self.path);
                command
            }
            Some(name) => Command::new(name),
            None => Command::new(&self.path),
        };
        if *HAS_DESCRIPTOR_PATHS {
            command.current_dir(descriptor_path(self.folder.as_fd()));
        } else {
            command.current_dir(&self.folder_path);
        }
        command
    }
}

fn descriptor_path(descriptor: BorrowedFd<'_>) -> PathBuf {
    Path::new(DESCRIPTORS).join(descriptor.as_raw_fd().to_string())
}

#[cfg(test)]
mod tests;
