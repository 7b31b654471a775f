//! Writes a file whole or not at all, and keeps a copy of it as it was.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process,
};

use super::{
    InstallError,
    change::{Backup, Change},
};
use crate::clients::read;

/// The copy of a file as it was before the first change.
pub(super) fn backup_path(path: &Path) -> PathBuf {
    beside(path, "kubecrier-backup")
}

/// The text of a file that may not be there.
pub(super) fn read_if_there(path: &Path) -> Result<Option<String>, InstallError> {
    if !path.exists() {
        return Ok(None);
    }
    let unreadable = |why| InstallError::Unreadable {
        path: path.to_owned(),
        why,
    };
    read(path).map(Some).map_err(unreadable)
}

/// Makes the change.
///
/// # Errors
///
/// The file is not as it was when the change was made up, or cannot be written. It is then as it
/// was.
pub(super) fn apply(path: &Path, change: &Change) -> Result<(), InstallError> {
    let failed = |source| InstallError::Write {
        path: path.to_owned(),
        source,
    };
    let target = followed(path).map_err(failed)?;
    if read_if_there(&target)? != change.before {
        return Err(InstallError::Changed {
            path: path.to_owned(),
        });
    }
    let backup = backup_path(path);
    let written = || -> io::Result<()> {
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        if let (Backup::Write, Some(before)) = (change.backup, &change.before) {
            write_whole(&backup, before, &target)?;
        }
        match &change.after {
            Some(after) => write_whole(&target, after, &target)?,
            None => fs::remove_file(&target)?,
        }
        if change.backup == Backup::Remove && backup.exists() {
            fs::remove_file(&backup)?;
        }
        Ok(())
    };
    written().map_err(failed)
}

/// Where the text of a file is: a link stays one, as those who keep their settings elsewhere have
/// it, also while there is nothing yet where it leads to.
fn followed(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    // A circle of links is another error, so this ends.
    let mut target = path.to_owned();
    while let Ok(next) = fs::read_link(&target) {
        target = target.with_file_name(next);
    }
    Ok(target)
}

/// Writes beside the file first, with the permissions of a file that is there: others may have
/// secrets in it.
fn write_whole(path: &Path, text: &str, like: &Path) -> io::Result<()> {
    let scratch = beside(path, &format!("kubecrier-{}", process::id()));
    let written = || -> io::Result<()> {
        let mut file = fs::File::options()
            .write(true)
            .create_new(true)
            .open(&scratch)?;
        if let Ok(about) = fs::metadata(like) {
            file.set_permissions(about.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&scratch, path)
    };
    written().inspect_err(|_| {
        let _ignored = fs::remove_file(&scratch);
    })
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.{suffix}"))
}
