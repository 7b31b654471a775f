//! The way to a path: owners, rights, links.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
};

use super::*;

fn owners() -> TrustedOwners {
    TrustedOwners::current()
}

fn refused(path: &Path) -> String {
    open(path, owners(), None).unwrap_err().to_string()
}

#[test]
fn the_real_path_has_no_links() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().canonicalize().unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    fs::write(dir.path().join("a/b/file"), "x").unwrap();
    symlink("a", dir.path().join("one")).unwrap();
    symlink(dir.path().join("one/b"), dir.path().join("two")).unwrap();
    symlink("../two/./../b/file", dir.path().join("a/three")).unwrap();
    for (path, expected) in [
        ("a/b/file", "a/b/file"),
        ("one/b", "a/b"),
        ("two/file", "a/b/file"),
        ("one/three", "a/b/file"),
        ("a/../one/../a", "a"),
    ] {
        let opened = open(&dir.path().join(path), owners(), None).unwrap();
        assert_eq!(opened.real, real.join(expected), "{path}");
        assert_eq!(opened.is_folder(), !expected.ends_with("file"), "{path}");
    }
    assert_eq!(
        open(Path::new("/../.."), owners(), None).unwrap().real,
        Path::new("/")
    );
}

#[test]
fn what_is_not_there_is_not_found() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    symlink("loop", dir.path().join("loop")).unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    for gone in ["none", "none/x", "file/x", "dangling", "a\0b"] {
        let error = open(&dir.path().join(gone), owners(), None).unwrap_err();
        assert!(matches!(error, OpenError::NotFound), "{gone}: {error}");
    }
    let error = open(&dir.path().join("loop"), owners(), None).unwrap_err();
    assert!(matches!(error, OpenError::Io(_)), "{error}");
}

#[test]
fn another_users_part_of_the_way_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (theirs, link) = (dir.path().join("theirs"), dir.path().join("link"));
    fs::create_dir_all(theirs.join("mine")).unwrap();
    if chown(&theirs, Some(4242), None).is_err() {
        // Without the right to change owners, look as another user: all is another's then.
        let stranger = TrustedOwners::of(rustix::process::geteuid().as_raw() + 1);
        let error = open(&theirs.join("mine"), stranger, None).unwrap_err();
        assert!(matches!(error, OpenError::Untrusted { .. }), "{error}");
        return;
    }
    assert!(refused(&theirs.join("mine")).contains("user 4242"));
    // In a folder with the sticky bit everybody may put a link, and it is theirs.
    let sticky = dir.path().join("sticky");
    fs::create_dir(&sticky).unwrap();
    fs::set_permissions(&sticky, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::create_dir(&link).unwrap();
    symlink(&link, sticky.join("mine")).unwrap();
    assert!(open(&sticky.join("mine"), owners(), None).is_ok());
    std::os::unix::fs::lchown(sticky.join("mine"), Some(4242), None).unwrap();
    assert!(refused(&sticky.join("mine")).contains("user 4242"));
}

#[test]
fn what_replaces_a_file_after_it_was_found_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "x").unwrap();
    let found = open(&path, owners(), None).unwrap();
    assert!(found.open_file(owners()).is_ok());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let error = found.open_file(owners()).unwrap_err();
    assert!(matches!(error, OpenError::Untrusted { .. }), "{error}");
    fs::remove_file(&path).unwrap();
    symlink("/etc/passwd", &path).unwrap();
    assert!(found.open_file(owners()).is_err(), "a link is not followed");
    fs::remove_file(&path).unwrap();
    rustix::fs::mkfifoat(CWD, &path, Mode::from_raw_mode(0o600)).unwrap();
    assert!(
        matches!(found.open_file(owners()), Err(OpenError::NotAFile)),
        "a pipe neither blocks nor is read"
    );
}
