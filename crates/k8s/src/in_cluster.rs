//! The cluster that the server runs in: its address is in the environment of the pod, its
//! credentials are those of the ServiceAccount that is mounted into the pod.

use std::{
    env, fs,
    net::Ipv6Addr,
    path::{Path, PathBuf},
};

use kube::config::{AuthInfo, Cluster, Context, Kubeconfig};
use kube::config::{NamedAuthInfo, NamedCluster, NamedContext};

use super::{
    error::{ClusterError, ErrorKind},
    name::Name,
};

/// Name of the only context when the server runs inside a cluster.
pub(super) const IN_CLUSTER: &str = "in-cluster";

/// Where the kubelet mounts the ServiceAccount. Kubernetes has no setting for it.
const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";

/// What a pod knows of its own cluster.
struct PodEnvironment {
    host: Option<String>,
    port: Option<String>,
    mount: PathBuf,
}

/// The pod's own cluster as a kubeconfig with one context; none outside of a cluster. Its token
/// is named by path: the client reads it again, as the kubelet renews it.
pub(super) fn kubeconfig() -> Result<Option<Kubeconfig>, ClusterError> {
    let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
    PodEnvironment {
        host: set(HOST),
        port: set(PORT),
        mount: mount(),
    }
    .kubeconfig()
}

/// How a person calls kubectl for a context. Nobody's kubeconfig has that of a pod.
pub(super) fn kubectl(context: &str) -> String {
    match context {
        IN_CLUSTER => "kubectl".to_owned(),
        other => format!("kubectl --context {other}"),
    }
}

#[cfg(not(feature = "conformance-fixtures"))]
fn mount() -> PathBuf {
    MOUNT.into()
}

/// Tests have the folder elsewhere.
#[cfg(feature = "conformance-fixtures")]
fn mount() -> PathBuf {
    env::var_os("TESTBED_SERVICE_ACCOUNT").map_or_else(|| MOUNT.into(), Into::into)
}

// === impl PodEnvironment ===

impl PodEnvironment {
    fn kubeconfig(&self) -> Result<Option<Kubeconfig>, ClusterError> {
        let Some(host) = &self.host else {
            return if self.mount.join("token").exists() {
                Err(incomplete(
                    format!("{HOST} is not set, though the ServiceAccount is mounted"),
                    "Kubernetes sets it for every container: start the server with the container's \
                     whole environment",
                ))
            } else {
                Ok(None)
            };
        };
        let port = self.port.as_deref().unwrap_or_default();
        let Ok(port) = port.parse::<u16>() else {
            return Err(incomplete(
                format!("{HOST} is set, but {PORT} is no port: `{port}`"),
                "Kubernetes sets both for every container: do not overwrite them",
            ));
        };
        // The token is read here to be sure that it is there; only its path is kept.
        self.read("token")?;
        self.read("ca.crt")?;
        let namespace = Name::label("namespace", &self.read("namespace")?)?;
        Ok(Some(self.with_one_context(host, port, &namespace)))
    }

    /// A file of the mount, without the line break that a hand-made one may end in.
    fn read(&self, file: &str) -> Result<String, ClusterError> {
        let path = self.mount.join(file);
        let reason = match fs::read_to_string(&path) {
            Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
            Ok(_empty) => "it is empty".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(incomplete(
            format!("cannot read `{}`: {reason}", path.display()),
            "the pod needs its ServiceAccount mounted: automountServiceAccountToken: true, or a \
             projected volume with `token`, `ca.crt` and `namespace`; or point --kubeconfig at a \
             file",
        ))
    }

    fn with_one_context(&self, host: &str, port: u16, namespace: &Name) -> Kubeconfig {
        let host = match host.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_other) => host.to_owned(),
        };
        let path = |file: &str| Some(as_text(&self.mount.join(file)));
        let name = || IN_CLUSTER.to_owned();
        let cluster = Cluster {
            server: Some(format!("https://{host}:{port}")),
            certificate_authority: path("ca.crt"),
            ..Cluster::default()
        };
        let user = AuthInfo {
            token_file: path("token"),
            ..AuthInfo::default()
        };
        let context = Context {
            cluster: name(),
            user: Some(name()),
            namespace: Some(namespace.as_str().to_owned()),
            ..Context::default()
        };
        Kubeconfig {
            clusters: vec![NamedCluster {
                name: name(),
                cluster: Some(cluster),
                ..NamedCluster::default()
            }],
            auth_infos: vec![NamedAuthInfo {
                name: name(),
                auth_info: Some(user),
                ..NamedAuthInfo::default()
            }],
            contexts: vec![NamedContext {
                name: name(),
                context: Some(context),
                ..NamedContext::default()
            }],
            current_context: Some(name()),
            ..Kubeconfig::default()
        }
    }
}

fn as_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn incomplete(reason: String, hint: &str) -> ClusterError {
    ClusterError::new(
        ErrorKind::Kubeconfig,
        "cannot reach the cluster that this pod runs in",
        reason,
        Some(hint.to_owned()),
    )
}

#[cfg(test)]
mod tests;
