//! The folder of a store: whose it is, and who may read it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use thiserror::Error;

/// The one file of a store.
const FILE: &str = "history.redb";

/// What may be in the folder beside it: a new file system has it.
const LOST_AND_FOUND: &str = "lost+found";

/// Why a folder cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder cannot be made, read or closed to others.
    #[error("cannot use the folder `{}` of --history: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// Others may enter the folder, and it belongs to another user.
    #[error(
        "the folder `{}` of --history is open to others and belongs to another user: name a folder \
         below it, which is then made for this server alone, such as `{}`",
        folder.display(), folder.join("kubecrier").display()
    )]
    Open {
        /// The folder.
        folder: PathBuf,
    },
    /// There is something else in the folder.
    #[error(
        "the folder `{}` of --history has `{found}` in it, and no history of this server: name an \
         empty folder, or one that does not exist",
        folder.display()
    )]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// One of the things in it.
        found: String,
    },
    /// Another server has it open.
    #[error(
        "the history in `{}` is in use by another server: give each its own folder with --history",
        folder.display()
    )]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// It was written by another version.
    #[error(
        "the history in `{}` has format {found}, and this version reads format {expected}: use the \
         version that wrote it, or name another folder with --history",
        folder.display()
    )]
    Version {
        /// The folder.
        folder: PathBuf,
        /// The format that was found.
        found: String,
        /// The format of this version.
        expected: u32,
    },
    /// It is damaged, or something else.
    #[error(
        "the history in `{}` cannot be opened: {why}; move the folder away to begin anew, or name \
         another one with --history",
        folder.display()
    )]
    Damaged {
        /// The folder.
        folder: PathBuf,
        /// The error of the store.
        why: String,
    },
}

/// Makes the folder and opens its file, both for this user alone.
pub(crate) fn open(folder: &Path) -> Result<File, OpenError> {
    let failed = |source| OpenError::Folder {
        folder: folder.to_owned(),
        source,
    };
    if !folder.exists() {
        let mut builder = DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
    }
    check_content(folder)?;
    let mode = fs::metadata(folder).map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(|error| match error
            .kind()
        {
            io::ErrorKind::PermissionDenied => OpenError::Open {
                folder: folder.to_owned(),
            },
            _ => failed(error),
        })?;
    }
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    let file = options.open(folder.join(FILE)).map_err(failed)?;
    if file.metadata().map_err(failed)?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))
            .map_err(failed)?;
    }
    Ok(file)
}

/// The bytes that the store takes on the disk.
pub(crate) fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    // Blocks of 512 bytes: the end of the file may be a hole.
    fs::metadata(folder.join(FILE)).map_or(0, |file| file.blocks() * 512)
}

/// Nothing is written into a folder that has something else in it.
fn check_content(folder: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Folder {
        folder: folder.to_owned(),
        source,
    };
    let mut other = None;
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        match name.to_str() {
            Some(FILE) => return Ok(()),
            Some(LOST_AND_FOUND) => {}
            _ => other = Some(name.to_string_lossy().into_owned()),
        }
    }
    match other {
        Some(found) => Err(OpenError::Foreign {
            folder: folder.to_owned(),
            found,
        }),
        None => Ok(()),
    }
}
