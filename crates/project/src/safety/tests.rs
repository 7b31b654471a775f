//! Owners, permissions and links.

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
        assert!(PathChecker::with_owners(dir.path(), TrustedOwners::of(user() + 1)).is_err());
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
    let open = |path: &str| checker.open_file(Path::new(""), Path::new(path));
    for bad in ["leak", "leaks/secret", "dangling", "sub"] {
        assert!(open(bad).is_err(), "{bad}");
    }
    for good in ["sub/real", "fine", "sub/../sub/real"] {
        assert!(open(good).is_ok(), "{good}");
    }
}

#[test]
fn a_file_is_opened_below_its_folder_only() {
    let (dir, checker) = root();
    for path in ["a/in", "b/out"] {
        fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
        fs::write(dir.path().join(path), "x").unwrap();
    }
    symlink("../b/out", dir.path().join("a/link")).unwrap();
    symlink(dir.path().join("a/in"), dir.path().join("a/absolute")).unwrap();
    let open = |path: &str| checker.open_file(Path::new("a"), Path::new(path));
    for good in ["in", "absolute"] {
        assert!(open(good).is_ok(), "{good}");
    }
    for bad in ["link", "../b/out", "out", "/etc/passwd", ""] {
        assert!(open(bad).is_err(), "{bad}");
    }
    // A folder on the way that others may write could hold a link of theirs.
    set_mode(&dir.path().join("a"), 0o777);
    assert!(matches!(open("in"), Err(OpenError::Untrusted { .. })));
}

#[test]
fn a_folder_above_the_project_that_others_may_write_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let above = dir.path().join("above");
    let project = above.join("project");
    fs::create_dir_all(&project).unwrap();
    set_mode(&project, 0o755);
    symlink(&project, dir.path().join("link")).unwrap();
    for mode in [0o755, 0o700, 0o711, 0o1777] {
        set_mode(&above, mode);
        assert!(PathChecker::new(&project).is_ok(), "{mode:o}");
    }
    for mode in [0o777, 0o775, 0o757] {
        set_mode(&above, mode);
        for root in [&project, &dir.path().join("link")] {
            let rejection = PathChecker::new(root).unwrap_err();
            let named = above.canonicalize().unwrap().display().to_string();
            assert_eq!(rejection.path, ".");
            assert!(
                rejection.reason.contains(&named) && rejection.reason.contains("chmod go-w"),
                "{}",
                rejection.reason
            );
        }
    }
    // The folder of a link on the way counts as much.
    set_mode(&above, 0o755);
    let links = dir.path().join("links");
    fs::create_dir(&links).unwrap();
    symlink(&project, links.join("link")).unwrap();
    assert!(PathChecker::new(&links.join("link")).is_ok());
    set_mode(&links, 0o777);
    assert!(PathChecker::new(&links.join("link")).is_err());
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
