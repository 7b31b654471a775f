use std::os::unix::fs::PermissionsExt;

use super::*;

/// A program that answers as kubecrier does, a thousand times smaller.
fn program(folder: &Path) -> PathBuf {
    let path = folder.join("program");
    fs::write(&path, "#!/bin/sh\necho \"$@\"\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = archive::files_below(folder).unwrap().into_iter();
    files
        .map(|file| {
            let bytes = fs::read(folder.join(&file)).unwrap();
            (file, bytes)
        })
        .collect()
}

/// Whether the packages can be made here. Where nothing may be skipped, they have to be.
fn can_pack() -> bool {
    let required = env::var_os("TESTBED_REQUIRED").is_some_and(|value| !value.is_empty());
    let npm = Command::new("npm").arg("--version").output();
    let there = required || npm.is_ok_and(|done| done.status.success());
    if !there {
        print_line("skipped: no npm to make packages with; install Node 20 or newer");
    }
    there
}

#[test]
fn everything_is_made_twice_alike_and_checked_by_its_sums() {
    if !can_pack() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let program = program(scratch.path());
    let out = scratch.path().join("dist");
    make(Some(&program), &out).unwrap();
    let first = contents(&out);
    let version = env!("CARGO_PKG_VERSION");
    let platform = platform().unwrap();
    let names: Vec<_> = first
        .iter()
        .map(|(file, _)| file.to_str().unwrap())
        .collect();
    let wheel = names.iter().find(|name| name.contains("-none-")).unwrap();
    let mut expected = vec![
        SUMS.to_owned(),
        format!("charts/kubecrier-{version}.tgz"),
        format!("kubecrier-{version}-{platform}.tar.gz"),
        format!("npm/kubecrier-{version}.tgz"),
        format!("npm/kubecrier-{platform}-{version}.tgz"),
        (*wheel).to_owned(),
        format!("pypi/kubecrier-{version}.tar.gz"),
        "server.json".to_owned(),
    ];
    expected.sort();
    assert_eq!(names, expected);
    let check = ["--check", "--strict", SUMS];
    let sums = Command::new("sha256sum")
        .args(check)
        .current_dir(&out)
        .output();
    assert!(sums.unwrap().status.success());
    // Into the folder of before, whose files are other ones now.
    fs::write(out.join("stale"), "x").unwrap();
    make(Some(&program), &out).unwrap();
    assert!(first == contents(&out));
}

#[test]
fn a_folder_that_something_else_made_is_not_cleared() {
    let scratch = tempfile::tempdir().unwrap();
    let program = program(scratch.path());
    let error = make(Some(&program), scratch.path())
        .unwrap_err()
        .to_string();
    assert!(error.contains("was not made by this command"), "{error}");
    assert!(program.is_file());
}

#[test]
fn the_archive_holds_the_program_and_what_it_prints() {
    let scratch = tempfile::tempdir().unwrap();
    let program = program(scratch.path());
    let archive = scratch.path().join("x.tar.gz");
    make_archive(&program, "kubecrier-1", &archive).unwrap();
    let mut unpack = Command::new("tar");
    unpack.arg("--extract").arg("--file").arg(&archive);
    let unpack = unpack.arg("--directory").arg(scratch.path());
    assert!(unpack.status().unwrap().success());
    let folder = scratch.path().join("kubecrier-1");
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
    assert_eq!(read("completions/_kubecrier"), "completion zsh\n");
    assert_eq!(read("kubecrier.1"), "man\n");
    let mode = fs::metadata(folder.join("kubecrier"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o755);
}
