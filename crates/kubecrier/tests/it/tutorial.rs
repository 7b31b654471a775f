//! `docs/tutorial.md`, word for word, for someone who has only run the demo: each command is
//! run as it is written there. `cargo` and `claude` are stand-ins: the one has built the binary
//! already, the other repeats what it was asked.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use tempfile::TempDir;
use testbed::User;

use crate::harness::{Terminal, one_context};

/// The URL in the tutorial.
const URL: &str = "http://127.0.0.1:8080/mcp";

/// The commands of the tutorial, and what the reader sees.
const COMMANDS: [(&str, &str); 10] = [
    ("cargo run --release -- demo", "FAULT   BackOff"),
    ("kubecrier watch --url \"$URL\" -A", " Normal "),
    (
        "kubecrier watch --url \"$URL\" -A --faults -o json",
        "\"faultId\":",
    ),
    (
        "claude mcp add --transport http kubecrier-demo \"$URL\"",
        "asked: mcp add --transport http kubecrier-demo http://127.0.0.1:",
    ),
    (
        "kubecrier watch --url \"$URL\" -A --exec head -c 300",
        "{\"cluster\":",
    ),
    (
        "kubecrier watch --url \"$URL\" -A --exec sh -c 'claude -p \"Explain this Kubernetes fault in \
         three sentences: $(cat)\"'",
        "asked: -p Explain this Kubernetes fault in three sentences: {\"cluster\":",
    ),
    ("kubecrier doctor", "clock"),
    (
        "kubecrier watch -A --faults",
        "watching faults in all namespaces of context dev",
    ),
    ("kubecrier --port 8080", "serving MCP over HTTP"),
    (
        "claude mcp add --transport http kubecrier http://127.0.0.1:8080/mcp",
        "asked: mcp add",
    ),
];

/// The folder of the reader: the repository after `cargo run --release -- demo`.
struct Reader {
    dir: TempDir,
    exports: String,
}

// === impl Reader ===

impl Reader {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let reader = Self {
            dir,
            exports: String::new(),
        };
        let built = reader.dir.path().join("target/release");
        fs::create_dir_all(&built).unwrap();
        symlink(env!("CARGO_BIN_EXE_kubecrier"), built.join("kubecrier")).unwrap();
        reader.program("claude", "echo \"asked: $*\"");
        let cargo = "test \"$1 $2 $3\" = 'run --release --' || exit 9\nshift 3\n\
                     exec ./target/release/kubecrier \"$@\"";
        reader.program("cargo", cargo);
        reader
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.dir.path().join("bin").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Types a command into a terminal of 80 columns.
    fn types(&self, command: &str, kubeconfig: &Path) -> Terminal {
        let bin = self.dir.path().join("bin");
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", &format!("{}\nexec {command}", self.exports)])
            .current_dir(self.dir.path())
            .env_clear()
            .env("HOME", self.dir.path())
            .env("KUBECONFIG", kubeconfig)
            .env("NO_COLOR", "1")
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        Terminal::start(&mut shell, 80)
    }
}

/// The commands in the blocks of a document, each on one line.
fn commands(document: &str) -> Vec<String> {
    let blocks = document.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    let lines = blocks.flat_map(|block| {
        let block = block.replace(" \\\n  ", " ");
        block.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    lines.collect()
}

#[test]
fn every_command_of_the_tutorial_works_after_the_demo() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Admin);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial.md");
    let (exports, typed): (Vec<_>, Vec<_>) = commands(&fs::read_to_string(path).unwrap())
        .into_iter()
        .partition(|line| line.starts_with("export "));
    assert_eq!(typed, COMMANDS.map(|(command, _)| command));
    let mut reader = Reader::new();
    let mut seen = COMMANDS.into_iter();
    let (first, expected) = seen.next().unwrap();
    let mut demo = reader.types(first, &file.path);
    demo.wait_for("/mcp");
    let url = demo.screen.lines().next().unwrap().rsplit(' ').next();
    let url = url.unwrap().trim().to_owned();
    // Other tests have ports of their own.
    reader.exports = exports.join("\n").replace(URL, &url);
    let started = seen.map(|(command, expected)| {
        let command = command.replace("--port 8080", "--port 0");
        (reader.types(&command, &file.path), expected)
    });
    let started: Vec<_> = started.collect();
    demo.wait_for(expected);
    for (mut terminal, expected) in started {
        terminal.wait_for(expected);
    }
    assert!(demo.interrupt().success());
}
