//! ServiceAccounts: their tokens, and the folder of a pod that a kubelet keeps them in.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Secret, ServiceAccount},
    rbac::v1::ClusterRoleBinding,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use tempfile::TempDir;

use crate::{Cluster, User};

/// The shortest that the API server issues.
const EXPIRATION_SECONDS: i64 = 600;

/// A token of a ServiceAccount, which is valid while the Secret exists that it is bound to.
#[derive(Clone, Debug)]
pub struct BoundToken {
    /// The token itself.
    pub token: String,
    namespace: String,
    secret: String,
}

/// The folder that a kubelet mounts into a pod: `token`, `ca.crt` and `namespace`, all of which
/// change in one step.
pub struct Mount {
    dir: TempDir,
    namespace: String,
    authority_pem: String,
    generation: AtomicU32,
}

// === impl Cluster ===

impl Cluster {
    /// Issues a token for a ServiceAccount, which is created if it does not exist.
    pub async fn bound_token(&self, namespace: &str, account: &str) -> Result<BoundToken> {
        let admin = self.client(User::Admin).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
        if accounts.get_opt(account).await?.is_none() {
            let account = serde_json::from_value(json!({"metadata": {"name": account}}))?;
            accounts.create(&PostParams::default(), &account).await?;
        }
        let secrets: Api<Secret> = Api::namespaced(admin, namespace);
        let secret = json!({"metadata": {"generateName": format!("{account}-token-")}});
        let secret = serde_json::from_value(secret)?;
        let secret = secrets.create(&PostParams::default(), &secret).await?;
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: Vec::new(),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Secret".to_owned()),
                    name: secret.metadata.name.clone(),
                    uid: secret.metadata.uid,
                }),
                expiration_seconds: Some(EXPIRATION_SECONDS),
            },
            ..TokenRequest::default()
        };
        let issued = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await?;
        Ok(BoundToken {
            token: issued
                .status
                .context("the API server issued no token")?
                .token,
            namespace: namespace.to_owned(),
            secret: secret
                .metadata
                .name
                .context("a created Secret has a name")?,
        })
    }

    /// Issues a token for another server to a ServiceAccount, which is created if it does not exist.
    pub async fn token_for(
        &self,
        namespace: &str,
        account: &str,
        audience: &str,
    ) -> Result<String> {
        let admin = self.client(User::Admin).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(admin, namespace);
        if accounts.get_opt(account).await?.is_none() {
            let account = serde_json::from_value(json!({"metadata": {"name": account}}))?;
            accounts.create(&PostParams::default(), &account).await?;
        }
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: vec![audience.to_owned()],
                bound_object_ref: None,
                expiration_seconds: Some(EXPIRATION_SECONDS),
            },
            ..TokenRequest::default()
        };
        let params = PostParams::default();
        let issued = accounts
            .create_token_request(account, &params, &request)
            .await?;
        let status = issued.status.context("the API server issued no token")?;
        Ok(status.token)
    }

    /// Deletes a ServiceAccount, and with it the validity of its tokens.
    pub async fn delete_account(&self, namespace: &str, account: &str) -> Result<()> {
        let admin = self.client(User::Admin).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(admin, namespace);
        let params = DeleteParams::default();
        accounts.delete(account, &params).await.map(drop)?;
        Ok(())
    }

    /// Lets everybody read where the keys of this cluster's tokens are, as an issuer does.
    pub async fn publish_issuer(&self) -> Result<()> {
        let admin = self.client(User::Admin).await?;
        let bindings: Api<ClusterRoleBinding> = Api::all(admin);
        let name = "issuer-discovery-for-all";
        let binding = serde_json::from_value(json!({
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:service-account-issuer-discovery",
            },
            "subjects": [{
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Group",
                "name": "system:unauthenticated",
            }],
        }))?;
        if bindings.get_opt(name).await?.is_none() {
            bindings.create(&PostParams::default(), &binding).await?;
        }
        Ok(())
    }

    /// Ends the validity of a token. The API server may accept it for some seconds more.
    pub async fn revoke(&self, token: &BoundToken) -> Result<()> {
        let admin = self.client(User::Admin).await?;
        let secrets: Api<Secret> = Api::namespaced(admin, &token.namespace);
        let params = DeleteParams::default();
        secrets.delete(&token.secret, &params).await.map(drop)?;
        Ok(())
    }

    /// The environment of a container in a pod of this cluster: where its API server is.
    pub fn pod_environment(&self) -> [(&'static str, String); 2] {
        let url = self.url();
        let port = url.rsplit(':').next().unwrap_or_default().to_owned();
        [
            ("KUBERNETES_SERVICE_HOST", "127.0.0.1".to_owned()),
            ("KUBERNETES_SERVICE_PORT", port),
        ]
    }
}

// === impl Mount ===

impl Mount {
    /// The folder of a pod in this namespace.
    pub fn new(cluster: &Cluster, namespace: &str, token: &BoundToken) -> io::Result<Self> {
        let mount = Self {
            dir: tempfile::tempdir()?,
            namespace: namespace.to_owned(),
            authority_pem: cluster.authority_pem().to_owned(),
            generation: AtomicU32::new(0),
        };
        mount.renew(token)?;
        for file in ["token", "ca.crt", "namespace"] {
            symlink(Path::new("..data").join(file), mount.path().join(file))?;
        }
        Ok(mount)
    }

    /// Replaces the token as a kubelet does: a new folder, to which a link is moved.
    pub fn renew(&self, token: &BoundToken) -> io::Result<()> {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!("..{generation}"));
        let path = self.path().join(&folder);
        fs::create_dir(&path)?;
        fs::write(path.join("token"), &token.token)?;
        fs::write(path.join("ca.crt"), &self.authority_pem)?;
        fs::write(path.join("namespace"), &self.namespace)?;
        let link = self.path().join("..data_tmp");
        symlink(&folder, &link)?;
        fs::rename(link, self.path().join("..data"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}
