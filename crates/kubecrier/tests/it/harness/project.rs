//! A project folder for a test, and counting what a session hears.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use super::{File, Http, StdioSession, command, kubeconfig};

/// A project folder that goes with its test.
pub(crate) struct Project {
    dir: tempfile::TempDir,
    /// Of a cluster that nobody reaches. It stays as long as the server: one that
    /// goes takes its context out of the lists, which is a change like any other.
    kubeconfig: File,
}

// === impl Project ===

impl Project {
    /// With nothing in it.
    pub(crate) fn empty() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            kubeconfig: kubeconfig(|file| {
                file.server_context("dev", "https://127.0.0.1:1", "")
                    .current("dev")
            }),
        }
    }

    /// With one tool, one resource and one prompt.
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
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let draft = path.with_extension("draft~");
        fs::write(&draft, text).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(mode)).unwrap();
        fs::rename(&draft, &path).unwrap();
        path
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

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap().path();
        let target = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry, &target);
        } else {
            fs::copy(&entry, &target).unwrap();
            // Whatever the umask of the checkout was.
            let mode = fs::metadata(&entry).unwrap().permissions().mode() & 0o755;
            fs::set_permissions(&target, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

// === impl StdioSession ===

impl StdioSession {
    /// Everything that is said until nothing has been said for so long.
    pub(crate) fn until_quiet(&self, time: Duration) -> Vec<Value> {
        let mut all = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(time) {
            all.push(serde_json::from_str(&line).unwrap());
        }
        all
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
