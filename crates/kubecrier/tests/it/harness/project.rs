//! A project folder for a test, and the notifications that a session receives for it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use serde_json::{Value, json};

use super::{File, Http, HttpSession, StdioSession, Stream, command, kubeconfig};

/// A resource of [`Project::new`]; an update of it shows that a session has received all
/// earlier notifications.
pub(crate) const MARKER: &str = "file://./resources/one.txt";

/// A project folder that is removed at the end of its test.
pub(crate) struct Project {
    dir: tempfile::TempDir,
    /// The kubeconfig of an unreachable cluster. The file has to exist as long as the server
    /// runs: its removal would change the lists of tools.
    kubeconfig: File,
}

// === impl Project ===

impl Project {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            kubeconfig: kubeconfig(|file| {
                file.server_context("dev", "https://127.0.0.1:1", "")
                    .current("dev")
            }),
        }
    }

    /// A folder with one tool, one resource and one prompt.
    pub(crate) fn new() -> Self {
        let project = Self::empty();
        project.tool("test_tool", "echo ok");
        project.resource("one", "text");
        project.prompt("ask", "About {{what}}?");
        project
    }

    /// A copy of one of the samples, as a checkout has it.
    pub(crate) fn sample(name: &str) -> Self {
        let project = Self::empty();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/projects");
        copy(&from.join(name), project.path());
        project
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn text(&self) -> &str {
        self.path().to_str().unwrap()
    }

    /// Writes a file as an editor does: a new one, renamed over the old.
    pub(crate) fn write(&self, path: &str, text: &str, mode: u32) -> PathBuf {
        write(self.path().join(path), text, mode)
    }

    /// Changes the marker.
    pub(crate) fn mark(&self) {
        mark(self.path());
    }

    /// The notifications before the update of the marker; see [`before_marker`].
    pub(crate) async fn before_marker(
        &self,
        session: &HttpSession,
        stream: &mut Stream,
    ) -> Vec<Value> {
        before_marker(self.path(), session, stream).await
    }

    /// Checks that no notification is pending for the session.
    pub(crate) async fn expect_nothing_before_marker(
        &self,
        session: &HttpSession,
        stream: &mut Stream,
    ) {
        let before = self.before_marker(session, stream).await;
        assert!(before.is_empty(), "{before:?}");
    }

    pub(crate) fn tool(&self, name: &str, script: &str) {
        let script = format!("#!/bin/bash\n{script}\n");
        self.write(&format!("tools/{name}/tool.sh"), &script, 0o755);
        self.meta(name, &json!({"description": "A test tool"}));
    }

    pub(crate) fn meta(&self, tool: &str, meta: &Value) {
        let path = format!("tools/{tool}/tool.meta.json");
        self.write(&path, &meta.to_string(), 0o644);
    }

    pub(crate) fn resource(&self, name: &str, text: &str) {
        self.write(&format!("resources/{name}.txt"), text, 0o644);
        let meta = json!({"name": name}).to_string();
        self.write(&format!("resources/{name}.meta.json"), &meta, 0o644);
    }

    pub(crate) fn prompt(&self, name: &str, text: &str) {
        self.write(&format!("prompts/{name}.txt"), text, 0o644);
    }

    /// A server over HTTP that serves it.
    pub(crate) async fn http(&self, more: &[&str]) -> Http {
        self.http_of(self.text(), more).await
    }

    /// A server over HTTP that serves a folder inside of it.
    pub(crate) async fn http_of(&self, root: &str, more: &[&str]) -> Http {
        let arguments = [&["--project-root", root], more].concat();
        Http::start(&self.kubeconfig.path, &arguments).await
    }

    /// A server on stdio that serves it.
    pub(crate) fn stdio(&self) -> StdioSession {
        StdioSession::start(command().args(["--project-root", self.text()]))
    }
}

fn write(path: PathBuf, text: &str, mode: u32) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let draft = path.with_extension("draft~");
    fs::write(&draft, text).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(mode)).unwrap();
    fs::rename(&draft, &path).unwrap();
    path
}

fn mark(root: &Path) {
    static MARKS: AtomicU64 = AtomicU64::new(0);
    let text = format!("mark {}", MARKS.fetch_add(1, Ordering::Relaxed));
    write(root.join("resources/one.txt"), &text, 0o644);
}

/// All notifications of a session before two updates of the marker in the folder `root`.
/// Two are needed because different tasks publish lists and resources: each update is found
/// by another scan of the folder, and what the first scan finds is published before the
/// second.
pub(crate) async fn before_marker(
    root: &Path,
    session: &HttpSession,
    stream: &mut Stream,
) -> Vec<Value> {
    let marker = json!({"uri": MARKER});
    let answer = session.rpc("resources/subscribe", marker.clone()).await;
    assert_eq!(answer["result"], json!({}), "{answer}");
    let mut before = Vec::new();
    for _ in 0..2 {
        mark(root);
        loop {
            let message = stream.next().await;
            if message["params"]["uri"] == MARKER {
                break;
            }
            before.push(message);
        }
    }
    session.rpc("resources/unsubscribe", marker).await;
    before
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap().path();
        let target = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry, &target);
        } else {
            fs::copy(&entry, &target).unwrap();
            // Independent of the umask of the checkout.
            let mode = fs::metadata(&entry).unwrap().permissions().mode() & 0o755;
            fs::set_permissions(&target, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

/// The methods of changed lists among messages, sorted.
pub(crate) fn changed(messages: &[Value]) -> Vec<String> {
    let methods = messages.iter().filter_map(|one| one["method"].as_str());
    let mut methods: Vec<_> = methods
        .filter(|method| method.ends_with("/list_changed"))
        .map(str::to_owned)
        .collect();
    methods.sort();
    methods
}
