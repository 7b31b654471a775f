//! Kubeconfig files for tests: several contexts, also ones that cannot work.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{Cluster, Issued, User};

/// Builds a kubeconfig; written as JSON, which is YAML.
#[derive(Clone, Debug, Default)]
pub struct Kubeconfig {
    clusters: Vec<Value>,
    users: Vec<Value>,
    contexts: Vec<Value>,
    current: Option<String>,
}

// === impl Kubeconfig ===

impl Kubeconfig {
    /// Without contexts and without a current one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a context of that name for a user of a real cluster.
    #[must_use]
    pub fn context(self, name: &str, cluster: &Cluster, user: User) -> Self {
        self.raw(
            name,
            &cluster.url(),
            cluster.authority_pem(),
            &json!({"token": user.token()}),
        )
    }

    /// Adds a context for a user of a real cluster that is reached at another address.
    #[must_use]
    pub fn context_at(self, name: &str, url: &str, cluster: &Cluster, user: User) -> Self {
        let user = json!({"token": user.token()});
        self.raw(name, url, cluster.authority_pem(), &user)
    }

    /// Adds a context that presents a client certificate.
    #[must_use]
    pub fn certificate_context(self, name: &str, cluster: &Cluster, client: &Issued) -> Self {
        let user = json!({
            "client-certificate-data": BASE64_STANDARD.encode(&client.certificate),
            "client-key-data": BASE64_STANDARD.encode(&client.key),
        });
        self.raw(name, &cluster.url(), cluster.authority_pem(), &user)
    }

    /// Adds a context that gets its credentials from a program.
    #[must_use]
    pub fn exec_context(self, name: &str, cluster: &Cluster, program: &str, args: &[&str]) -> Self {
        let user = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": program,
            "args": args,
            "interactiveMode": "IfAvailable",
        }});
        self.raw(name, &cluster.url(), cluster.authority_pem(), &user)
    }

    /// Adds a context for any server.
    #[must_use]
    pub fn server_context(self, name: &str, url: &str, authority_pem: &str) -> Self {
        self.raw(name, url, authority_pem, &json!({"token": "none"}))
    }

    /// Names the current context.
    #[must_use]
    pub fn current(mut self, name: &str) -> Self {
        self.current = Some(name.to_owned());
        self
    }

    /// Sets the default namespace of the context added last.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        if let Some(last) = self.contexts.last_mut() {
            last["context"]["namespace"] = namespace.into();
        }
        self
    }

    /// The file's content.
    pub fn to_value(&self) -> Value {
        let mut file = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": self.clusters,
            "users": self.users,
            "contexts": self.contexts,
        });
        if let Some(current) = &self.current {
            file["current-context"] = current.as_str().into();
        }
        file
    }

    /// Writes the file, readable by its owner alone, in one step: a reader sees the
    /// old content or the new.
    pub fn write(&self, path: &Path) -> io::Result<PathBuf> {
        let draft = path.with_extension("draft");
        fs::write(&draft, format!("{:#}\n", self.to_value()))?;
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o600))?;
        fs::rename(&draft, path)?;
        Ok(path.to_owned())
    }

    fn raw(mut self, name: &str, url: &str, authority_pem: &str, user: &Value) -> Self {
        let authority = BASE64_STANDARD.encode(authority_pem);
        self.clusters.push(json!({
            "name": name,
            "cluster": {"server": url, "certificate-authority-data": authority},
        }));
        self.users.push(json!({"name": name, "user": user}));
        self.contexts
            .push(json!({"name": name, "context": {"cluster": name, "user": name}}));
        self
    }
}
