//! Archives without times, owners and the order of a file system, by GNU tar.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

/// Packs a folder below `parent` into a `.tar.gz`.
pub(super) fn tar_gz(parent: &Path, folder: &str, archive: &Path) -> Result<()> {
    // Without the name and time of the archive itself.
    let gzip = "--use-compress-program=gzip --no-name -9";
    pack(&[gzip], parent, &[folder], archive)
}

/// Packs folders below `parent` into a `.tar`.
pub(super) fn tar(parent: &Path, folders: &[&str], archive: &Path) -> Result<()> {
    pack(&[], parent, folders, archive)
}

fn pack(options: &[&str], parent: &Path, folders: &[&str], archive: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=ustar", "--sort=name", "--mtime=@0"])
        .args(["--owner=0", "--group=0", "--numeric-owner"])
        // Whatever the umask was; what may be executed stays so.
        .args(["--mode=u+rw,go-w,a+rX"])
        .args(options)
        .arg("--file")
        .arg(archive)
        .arg("--directory")
        .arg(parent)
        .args(folders);
    let done = tar.output().context("cannot start tar")?;
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr);
        bail!("{tar:?} failed (GNU tar is needed): {words}");
    }
    Ok(())
}

/// The files below a folder that git knows, by their path in it: not what an editor or a person
/// has left there.
pub(super) fn tracked_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z"]).current_dir(folder);
    let done = list.output().context("cannot start git")?;
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr);
        bail!("cannot list `{}`: {words}", folder.display());
    }
    let text = String::from_utf8(done.stdout)?;
    let files: Vec<_> = text.split_terminator('\0').map(PathBuf::from).collect();
    if files.is_empty() {
        bail!("git knows no file in `{}`", folder.display());
    }
    Ok(files)
}

/// All files below a folder, by their path in it, in order.
pub(super) fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path.strip_prefix(folder)?.to_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}
