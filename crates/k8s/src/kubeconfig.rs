//! The kubeconfig: its paths, its content, and whether it has changed. Credentials never
//! leave this module, not even in an error.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use kube::config::{ExecInteractiveMode, Kubeconfig, KubeconfigError};
use sha2::{Digest, Sha256};

use super::{
    demo::{self, Demo},
    error::{ClusterError, ErrorKind},
    in_cluster,
};

/// Where clusters come from.
#[derive(Debug)]
pub(super) enum Source {
    /// One or more files, merged.
    File(Box<Kubeconfig>),
    /// The pod's own cluster.
    InCluster(Box<Kubeconfig>),
    /// A cluster in memory.
    Demo(Demo),
}

/// Hash of the content of files.
pub(super) type ContentHash = [u8; 32];

/// Modification time and size of files.
pub(super) type FileStamps = Vec<(PathBuf, Option<(SystemTime, u64)>)>;

/// The files of a kubeconfig, and whether a setting names them.
pub(super) struct KubeconfigPaths {
    pub(super) paths: Vec<PathBuf>,
    named: bool,
}

// === impl KubeconfigPaths ===

impl KubeconfigPaths {
    /// The named file, else `KUBECONFIG`, else `~/.kube/config`.
    pub(super) fn find(named: Option<&Path>) -> Self {
        if let Some(path) = named {
            return Self {
                paths: vec![path.to_owned()],
                named: true,
            };
        }
        match env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
            Some(list) => {
                let paths = env::split_paths(&list).filter(|path| !path.as_os_str().is_empty());
                Self {
                    paths: paths.collect(),
                    named: true,
                }
            }
            None => {
                let default = env::home_dir().map(|home| home.join(".kube/config"));
                Self {
                    paths: default.into_iter().collect(),
                    named: false,
                }
            }
        }
    }

    /// Reads and merges the files that exist.
    pub(super) fn load(&self) -> Result<Source, ClusterError> {
        let present: Vec<_> = self.paths.iter().filter(|path| path.exists()).collect();
        if present.is_empty() {
            // A named file that does not exist is a mistake; falling back to the service
            // account would hide it.
            if !self.named
                && let Some(own) = in_cluster::kubeconfig()?
            {
                return Ok(Source::InCluster(Box::new(own)));
            }
            let tried: Vec<_> = self
                .paths
                .iter()
                .map(|path| format!("`{}`", path.display()))
                .collect();
            return Err(ClusterError::new(
                ErrorKind::Kubeconfig,
                "cannot reach any cluster",
                format!("there is no kubeconfig (looked for {})", tried.join(", ")),
                Some("point --kubeconfig or KUBECONFIG at one, or run inside a cluster".to_owned()),
            ));
        }
        let mut merged = Kubeconfig::default();
        for path in present {
            let broken = |error: KubeconfigError| {
                ClusterError::new(
                    ErrorKind::Kubeconfig,
                    format!("cannot read the kubeconfig `{}`", path.display()),
                    redacted_message(&error),
                    Some("check it with `kubectl config view`".to_owned()),
                )
            };
            merged = Kubeconfig::read_from(path)
                .and_then(|file| merged.merge(file))
                .map_err(broken)?;
        }
        for user in &mut merged.auth_infos {
            if let Some(exec) = user.auth_info.as_mut().and_then(|user| user.exec.as_mut()) {
                // An interactive plugin would inherit stdin, which carries the protocol.
                exec.interactive_mode = Some(ExecInteractiveMode::Never);
            }
        }
        Ok(Source::File(Box::new(merged)))
    }
}

// === impl Source ===

impl Source {
    /// The names of the contexts.
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Self::Demo(_) => vec![demo::CONTEXT],
            Self::File(file) | Self::InCluster(file) => file
                .contexts
                .iter()
                .map(|named| named.name.as_str())
                .collect(),
        }
    }

    /// The kubeconfig, unless the cluster is in memory.
    pub(super) fn file(&self) -> Option<&Kubeconfig> {
        match self {
            Self::File(file) | Self::InCluster(file) => Some(file),
            Self::Demo(_) => None,
        }
    }

    /// Certificates and keys in files of their own, which are renewed without a change of the
    /// kubeconfig.
    pub(super) fn referenced(&self) -> Vec<PathBuf> {
        let Some(file) = self.file() else {
            return Vec::new();
        };
        let clusters = file
            .clusters
            .iter()
            .filter_map(|named| named.cluster.as_ref());
        let users = file
            .auth_infos
            .iter()
            .filter_map(|named| named.auth_info.as_ref());
        clusters
            .filter_map(|cluster| cluster.certificate_authority.as_ref())
            .chain(
                users
                    .clone()
                    .filter_map(|user| user.client_certificate.as_ref()),
            )
            .chain(users.filter_map(|user| user.client_key.as_ref()))
            .map(PathBuf::from)
            .collect()
    }

    /// Whether the kubeconfig has a `proxy-url` for the cluster of a context.
    pub(super) fn names_proxy(&self, context: &str) -> bool {
        let Self::File(file) = self else { return false };
        let context = file.contexts.iter().find(|named| named.name == context);
        let cluster = context
            .and_then(|named| named.context.as_ref())
            .map(|one| &one.cluster);
        file.clusters
            .iter()
            .filter(|named| Some(&named.name) == cluster)
            .any(|named| {
                named
                    .cluster
                    .as_ref()
                    .is_some_and(|one| one.proxy_url.is_some())
            })
    }
}

/// The hash of the content of files; `None` if a file cannot be read.
pub(super) fn content_hash(paths: &[PathBuf]) -> Option<ContentHash> {
    let mut hash = Sha256::new();
    for path in paths {
        // Of several kubeconfigs, some may not exist.
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read.ok()?),
        };
        hash.update([u8::from(bytes.is_some())]);
        hash.update(Sha256::digest(bytes.unwrap_or_default()));
    }
    Some(hash.finalize().into())
}

/// The current modification time and size of files.
pub(super) fn file_stamps(paths: &[PathBuf]) -> FileStamps {
    let metadata = |path: &PathBuf| {
        let meta = fs::metadata(path).ok()?;
        Some((meta.modified().ok()?, meta.len()))
    };
    paths
        .iter()
        .map(|path| (path.clone(), metadata(path)))
        .collect()
}

/// The message of a kubeconfig error without the content of the file: a parser shows the
/// lines around a mistake, which may be tokens and keys.
pub(super) fn redacted_message(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => match error.location() {
            Some(at) => format!(
                "not valid YAML at line {}, column {}",
                at.line(),
                at.column()
            ),
            None => "not valid YAML".to_owned(),
        },
        KubeconfigError::ParseProxyUrl(_) => "its proxy-url is not a URL".to_owned(),
        KubeconfigError::ParseClusterUrl(_) => "the server of the cluster is not a URL".to_owned(),
        other => other.to_string(),
    }
}
