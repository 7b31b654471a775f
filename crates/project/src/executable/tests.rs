//! What runs is what was checked.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    process::Output,
};

use command_fds::CommandFdExt;

use super::*;
use crate::safety::PathChecker;

/// A project with one tool.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new(tool: &str) -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        bench.write("tools/t/tool", tool);
        bench
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn program(&self) -> Program {
        let folder = self.0.path().join("tools/t");
        Program {
            root: self.0.path().to_owned(),
            path: folder.join("tool"),
            folder,
            file: "tools/t/tool".to_owned(),
            digest: String::new(),
        }
    }

    fn open(&self) -> Executable {
        let checker = PathChecker::new(self.0.path()).unwrap();
        checker.open_program(&self.program()).unwrap()
    }
}

fn run(executable: &Executable, arguments: &[&str]) -> Output {
    let mut command = executable.command();
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin");
    // As for every process that also gets a pipe: the standard library starts it by `exec`.
    command.fd_mappings(Vec::new()).unwrap();
    // Another test that starts a process may hold a file that was just written.
    loop {
        match command.args(arguments).output() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {}
            ended => return ended.unwrap(),
        }
    }
}

fn text(executable: &Executable, arguments: &[&str]) -> String {
    let output = run(executable, arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_binary_that_is_replaced_after_its_check_does_not_run() {
    let bench = Bench::new("");
    let copy = |program: &str| {
        let path = bench.0.path().join("tools/t/new");
        fs::copy(program, &path).unwrap();
        fs::rename(&path, bench.0.path().join("tools/t/tool")).unwrap();
    };
    copy("/bin/echo");
    let checked = bench.open();
    copy("/bin/false");
    assert_eq!(
        text(&checked, &["the one that was checked"]),
        "the one that was checked"
    );
    assert!(!run(&bench.open(), &[]).status.success());
}

#[test]
fn a_folder_that_is_replaced_after_its_check_does_not_run() {
    let bench = Bench::new("#!/bin/bash\n. \"$(dirname \"$0\")/lib.sh\"; pwd\n");
    bench.write("tools/t/lib.sh", "echo checked");
    let checked = bench.open();
    let (folder, aside) = (bench.0.path().join("tools/t"), bench.0.path().join("aside"));
    fs::rename(&folder, &aside).unwrap();
    bench.write("tools/t/tool", "#!/bin/bash\necho replaced\n");
    let aside = aside.canonicalize().unwrap();
    assert_eq!(text(&checked, &[]), format!("checked\n{}", aside.display()));
    assert_eq!(text(&bench.open(), &[]), "replaced");
    fs::remove_dir_all(&folder).unwrap();
    symlink(aside, &folder).unwrap();
    assert!(
        text(&bench.open(), &[]).starts_with("checked"),
        "a link inside is fine"
    );
}

#[test]
fn scripts_find_the_files_beside_them() {
    for (script, lib) in [
        (
            "#!/bin/bash\nhere=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")/..\" && pwd)\"\n. \"$here/t/lib\"\n",
            "echo found",
        ),
        (
            "#!/bin/sh\n. \"$(readlink -f \"$0\" | xargs dirname)/lib\"\n",
            "echo found",
        ),
        ("#!/usr/bin/env bash\n. ./lib\n", "echo found"),
        // Without a first line that names one, the shell is the interpreter.
        (". ./lib\n", "echo found"),
        (
            "#!/usr/bin/env python3\nimport os\nos.chdir('/')\nprint(open(os.path.join(os.path.dirname(__file__), 'lib')).read())\n",
            "found",
        ),
    ] {
        let bench = Bench::new(script);
        bench.write("tools/t/lib", lib);
        assert_eq!(text(&bench.open(), &[]), "found", "{script}");
    }
}

#[test]
fn a_binary_sees_its_own_path() {
    let bench = Bench::new("");
    fs::copy("/bin/bash", bench.0.path().join("tools/t/tool")).unwrap();
    let path = bench.0.path().canonicalize().unwrap().join("tools/t/tool");
    let shown = text(
        &bench.open(),
        &["-c", "echo $0; readlink /proc/$$/exe; pwd"],
    );
    let expected = format!(
        "{0}\n{0}\n{1}",
        path.display(),
        path.parent().unwrap().display()
    );
    assert_eq!(shown, expected);
}

#[test]
fn no_descriptor_of_the_server_is_left_to_the_process() {
    let bench = Bench::new("#!/bin/bash\nreadlink /proc/$$/fd/* | grep -F \"$1\"\n");
    let root = bench.0.path().canonicalize().unwrap();
    let root = root.to_str().unwrap();
    // Only the one by which bash reads its script.
    assert_eq!(text(&bench.open(), &[root]), format!("{root}/tools/t/tool"));
}

#[test]
fn a_script_without_the_run_bit_runs_by_its_first_line() {
    for (script, expected) in [
        (
            "#!/bin/bash\n. ./lib; echo \"$0 $1\"\n",
            "found\n./tool one",
        ),
        (
            "#!/usr/bin/env bash\n. ./lib; echo \"$0 $1\"\n",
            "found\n./tool one",
        ),
        ("#! /bin/bash -e \nfalse; echo no\n", ""),
        ("#!/bin/cat", "#!/bin/cat"),
    ] {
        let bench = Bench::new(script);
        bench.write("tools/t/lib", "echo found");
        fs::write(bench.0.path().join("tools/t/one"), "").unwrap();
        let tool = bench.0.path().join("tools/t/tool");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o644)).unwrap();
        let output = run(&bench.open(), &["one"]);
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.trim(), expected, "{script}");
    }
}

#[test]
fn what_has_neither_run_bit_nor_interpreter_does_not_run() {
    let long = format!("#!/{}\n", "x".repeat(FIRST_LINE_MAX));
    for text in [
        "",
        "echo\n",
        "#!bash\n",
        "#! \n",
        "#!/bin/sh\0\n",
        "\x7fELF",
        &long,
    ] {
        assert!(
            !names_interpreter(text.as_bytes()) || text == long,
            "{text:?}"
        );
        let bench = Bench::new(text);
        let tool = bench.0.path().join("tools/t/tool");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o644)).unwrap();
        let checker = PathChecker::new(bench.0.path()).unwrap();
        let refused = checker.open_program(&bench.program()).unwrap_err();
        assert!(refused.reason.contains("chmod +x"), "{text:?}: {refused:?}");
    }
}
