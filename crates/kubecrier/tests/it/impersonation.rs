//! Callers who act in the cluster as themselves (`--cluster-identity impersonate`).
//!
//! The server's own user may read nothing: whatever is answered, is answered because the
//! caller's user may read it.

mod another_cluster;
mod connections;
mod evidence;
mod names;
mod recorded;
mod refusals;
mod rights;
mod service_accounts;
mod setup;
mod shared;
mod tasks;

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::{Cluster, LogScript, User, deployment, event, namespace, pod};

use crate::harness::{File, Http, Server, command, one_context};

pub(crate) const ANN: &str = "0123456789abcdef-ann";
pub(crate) const BOB: &str = "0123456789abcdef-bob";

/// A file of tokens that is replaced as careful programs do.
pub(crate) struct TokenFile {
    dir: TempDir,
    pub(crate) path: PathBuf,
}

/// A server whose callers act as themselves.
pub(crate) struct Acting {
    server: Server,
    pub(crate) base: String,
    pub(crate) tokens: TokenFile,
    _file: File,
}

// === impl TokenFile ===

impl TokenFile {
    pub(crate) fn new(lines: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        let file = Self { dir, path };
        file.replace(lines);
        file
    }

    pub(crate) fn replace(&self, lines: &[&str]) {
        let next = self.dir.path().join("next");
        fs::write(&next, lines.join("\n")).unwrap();
        fs::rename(&next, &self.path).unwrap();
    }
}

// === impl Acting ===

impl Acting {
    pub(crate) fn start(cluster: &Cluster, lines: &[&str]) -> Self {
        Self::start_as(cluster, User::ActsAsCallers, lines)
    }

    pub(crate) fn start_as(cluster: &Cluster, user: User, lines: &[&str]) -> Self {
        let (file, tokens) = (one_context(cluster, user), TokenFile::new(lines));
        let (server, base) = Http::launch(
            command()
                .arg("--kubeconfig")
                .arg(&file.path)
                .args(["--cluster-identity", "impersonate"])
                .arg("--auth-token-file")
                .arg(&tokens.path),
        );
        Self {
            server,
            base,
            tokens,
            _file: file,
        }
    }

    /// Waits until the server has logged a line with this text.
    pub(crate) fn wait_for(&self, text: &str) {
        self.server.wait_for(text);
    }

    /// What the server has logged.
    pub(crate) fn log(&self) -> String {
        self.server.log()
    }
}

/// A namespace with a pod `web`, its events and its logs.
pub(crate) async fn furnish(cluster: &Cluster, space: &str) {
    let created = cluster.create_cluster_wide(&namespace(space)).await;
    created.unwrap();
    cluster.create(&pod(space, "web", &["app"])).await.unwrap();
    let created = cluster.create(&deployment(space, "web")).await;
    created.unwrap();
    let warning = event(
        space,
        "Pod/web",
        "Warning",
        "BackOff",
        &format!("event of {space}"),
    );
    cluster.create(&warning).await.unwrap();
    let key = format!("{space}/web/app");
    let lines = |what: &str| LogScript::lines([format!("{what} of {space}")]);
    cluster.node().set_log(&key, lines("log"));
    cluster.node().set_previous_log(&key, lines("previous log"));
}

/// Lets a subject read a namespace, as the users of the testbed do.
pub(crate) async fn grant(cluster: &Cluster, space: &str, name: &str, kind: &str, subject: &str) {
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/rolebindings");
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "testbed-reader"},
        "subjects": [{"apiGroup": group, "kind": kind, "name": subject}],
    });
    cluster.send("POST", &path, &binding).await.unwrap();
}

/// Takes a binding away.
pub(crate) async fn revoke(cluster: &Cluster, space: &str, name: &str) {
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/rolebindings/{name}");
    cluster.send("DELETE", &path, &json!({})).await.unwrap();
}

/// Checks that a request of the server was made as a user, or is one that the server makes for
/// itself, and returns the user.
pub(crate) fn user_of(request: &Value) -> Option<&str> {
    let user = request["impersonatedUser"]["username"].as_str();
    let message = request["responseStatus"]["message"].as_str();
    // It named a user, and was refused for that: another test tries what that user cannot do.
    if message.is_some_and(|message| message.contains("cannot impersonate")) {
        return None;
    }
    let resource = request["objectRef"]["resource"].as_str();
    let is_own = match resource {
        // Discovery and the version of the server: the same for all.
        None => true,
        Some(resource) => resource.starts_with("selfsubject") || resource == "subjectaccessreviews",
    };
    assert_eq!(user.is_none(), is_own, "{request}");
    user
}
