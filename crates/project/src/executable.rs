//! An executable that was opened and checked, and runs by its descriptors.
//!
//! A path is looked up again by `exec`, and could lead elsewhere by then; a descriptor cannot.
//! A binary is executed by the descriptor of its file. A script is opened by its interpreter,
//! by the name that the kernel passes on, and finds its own files by that name (`dirname
//! "$0"`): so it is executed as `./name` in the folder whose descriptor was checked, where
//! only the superuser and the server's user can replace it. A script without the permission to
//! run is run by the interpreter in its first line, in the same folder and by the same name: in
//! the folders of a project it is where it stands that makes a file a tool.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::MetadataExt,
            process::CommandExt,
        },
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

/// The length of a first line that names an interpreter, as on Linux.
pub(super) const FIRST_LINE_MAX: usize = 256;

pub(super) const NOT_EXECUTABLE: &str =
    "it is not executable; run `chmod +x` on it, or begin it with a line such as `#!/bin/sh`";

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
    start: Start,
    folder: OwnedFd,
    folder_path: PathBuf,
    /// The path relative to the folder; `None` if it is elsewhere.
    name: Option<PathBuf>,
}

/// How an executable is started.
#[derive(Debug)]
enum Start {
    Binary,
    /// The kernel finds the interpreter.
    Script,
    /// A script without the permission to run.
    Interpreter(Interpreter),
}

/// The interpreter that the first line of a script names.
#[derive(Debug, PartialEq, Eq)]
struct Interpreter {
    program: PathBuf,
    argument: Option<OsString>,
}

// === impl Executable ===

impl Executable {
    /// An executable of which the file and the working directory were opened and checked.
    pub(super) fn new(
        program: &Program,
        (path, mut file): (PathBuf, File),
        (folder_path, folder): (PathBuf, OwnedFd),
    ) -> io::Result<Self> {
        let mut first = Vec::new();
        let limit = u64::try_from(FIRST_LINE_MAX).unwrap_or(u64::MAX);
        (&mut file).take(limit).read_to_end(&mut first)?;
        let start = match Interpreter::parse(&first) {
            _ if may_run(file.metadata()?.mode()) && first.starts_with(ELF) => Start::Binary,
            _ if may_run(file.metadata()?.mode()) => Start::Script,
            Some(interpreter) => Start::Interpreter(interpreter),
            None => return Err(io::Error::other(NOT_EXECUTABLE)),
        };
        // By the name in the project, and not by that of a link's target.
        let name = program.path.strip_prefix(&program.folder).ok();
        let name = name.map(|name| Path::new(".").join(name));
        Ok(Self {
            path,
            file: fcntl_dupfd_cloexec(&file, DESCRIPTOR_MIN)?,
            start,
            folder: fcntl_dupfd_cloexec(&folder, DESCRIPTOR_MIN)?,
            folder_path,
            name,
        })
    }

    /// The command that runs it in its folder. The descriptors have to live until it has
    /// started.
    pub(super) fn command(&self) -> Command {
        let name = match &self.name {
            Some(name) if *HAS_DESCRIPTOR_PATHS => name,
            _ => &self.path,
        };
        let mut command = match &self.start {
            Start::Binary if *HAS_DESCRIPTOR_PATHS => {
                let mut command = Command::new(descriptor_path(self.file.as_fd()));
                command.arg0(&self.path);
                command
            }
            Start::Binary => Command::new(&self.path),
            Start::Script => Command::new(name),
            Start::Interpreter(Interpreter { program, argument }) => {
                let mut command = Command::new(program);
                command.args(argument).arg(name);
                command
            }
        };
        if *HAS_DESCRIPTOR_PATHS {
            command.current_dir(descriptor_path(self.folder.as_fd()));
        } else {
            command.current_dir(&self.folder_path);
        }
        command
    }
}

// === impl Interpreter ===

impl Interpreter {
    /// Reads the first line as the kernel does: an absolute path, and everything after it as
    /// one argument.
    fn parse(start: &[u8]) -> Option<Self> {
        let line = start.strip_prefix(b"#!")?;
        let line = match line.iter().position(|byte| *byte == b'\n') {
            Some(end) => &line[..end],
            // Cut, and so perhaps the name of something else.
            None if start.len() >= FIRST_LINE_MAX => return None,
            None => line,
        };
        let line = line.trim_ascii();
        let end = line.iter().position(u8::is_ascii_whitespace);
        let (program, argument) = line.split_at(end.unwrap_or(line.len()));
        let program = Path::new(OsStr::from_bytes(program));
        let argument = argument.trim_ascii();
        let is_one = program.is_absolute() && !line.contains(&0);
        is_one.then(|| Self {
            program: program.to_owned(),
            argument: (!argument.is_empty()).then(|| OsString::from_vec(argument.to_vec())),
        })
    }
}

/// Whether a file begins with a line that names its interpreter.
pub(super) fn names_interpreter(start: &[u8]) -> bool {
    Interpreter::parse(start).is_some()
}

/// Whether a file of this mode may be run as it is.
pub(super) fn may_run(mode: u32) -> bool {
    mode & 0o111 != 0
}

fn descriptor_path(descriptor: BorrowedFd<'_>) -> PathBuf {
    Path::new(DESCRIPTORS).join(descriptor.as_raw_fd().to_string())
}

#[cfg(test)]
mod tests;
