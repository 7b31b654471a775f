//! The contexts of the kubeconfig. Clients are made when first asked for, so that
//! a context that is down costs only the calls that name it, and the file is read
//! again when it has changed.

use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use kube::config::{ExecInteractiveMode, KubeConfigOptions, Kubeconfig, KubeconfigError};
use parking_lot::Mutex;
use serde::Serialize;

use super::{
    error::{ClusterError, ErrorKind},
    target::Cluster,
};

/// The name of the one context when the server runs inside a cluster.
const IN_CLUSTER: &str = "in-cluster";

const BACKSTOP: Duration = Duration::from_secs(1);

/// Settings of this room.
#[derive(Clone, Debug)]
pub struct Config {
    /// The kubeconfig; else `KUBECONFIG`, then `~/.kube/config`, then in-cluster.
    pub kubeconfig: Option<PathBuf>,
    /// The context to use when a call names none; else the file's current one.
    pub context: Option<String>,
    /// How long one request to an API server may take until it answers.
    pub request_timeout: Duration,
}

/// A context as a caller may see it: no credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextInfo {
    /// Its name.
    pub name: String,
    /// The address of its API server.
    pub server: String,
    /// The namespace it starts in.
    pub namespace: String,
    /// Whether calls that name no context go there.
    pub default: bool,
}

/// All contexts, and the clients made so far.
#[derive(Debug)]
pub struct Contexts {
    config: Config,
    // A lock because calls come from many tasks; held for lookups and for reading
    // a small file, never across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    stamp: Stamp,
    source: Option<Arc<Source>>,
    clients: HashMap<String, Cluster>,
}

/// What tells one content of the files from another.
type Stamp = Vec<(PathBuf, Option<(SystemTime, u64)>)>;

#[derive(Debug)]
enum Source {
    File(Box<Kubeconfig>),
    InCluster,
}

// === impl Contexts ===

impl Contexts {
    /// Reads nothing yet: a broken kubeconfig must not keep the server from
    /// starting.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            state: Mutex::default(),
        }
    }

    /// Every context, in the order of the file.
    pub fn list(&self) -> Result<Vec<ContextInfo>, ClusterError> {
        let source = self.source()?;
        let default = self.default_name(&source);
        let Source::File(file) = &*source else {
            return Ok(vec![ContextInfo {
                name: IN_CLUSTER.to_owned(),
                server: "https://kubernetes.default.svc".to_owned(),
                namespace: "default".to_owned(),
                default: true,
            }]);
        };
        let server = |cluster: &str| {
            let named = file.clusters.iter().find(|named| named.name == cluster)?;
            named.cluster.as_ref()?.server.clone()
        };
        let info = |named: &kube::config::NamedContext| ContextInfo {
            name: named.name.clone(),
            server: (named.context.as_ref())
                .and_then(|context| server(&context.cluster))
                .unwrap_or_default(),
            namespace: (named.context.as_ref())
                .and_then(|context| context.namespace.clone())
                .unwrap_or_else(|| "default".to_owned()),
            default: default.as_deref() == Some(named.name.as_str()),
        };
        Ok(file.contexts.iter().map(info).collect())
    }

    /// The cluster behind a context, or behind the default one. Speaks to nobody
    /// but a credential plugin, if the context has one.
    pub async fn cluster(&self, name: Option<&str>) -> Result<Cluster, ClusterError> {
        let source = self.source()?;
        let name = self.choose(&source, name)?;
        if let Some(known) = self.state.lock().clients.get(&name) {
            return Ok(known.clone());
        }
        let cluster = connect(&source, &name, self.config.request_timeout).await?;
        let mut state = self.state.lock();
        // The file may have changed while a plugin ran; then the next call makes a
        // fresh one.
        if state
            .source
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, &source))
        {
            state.clients.insert(name, cluster.clone());
        }
        Ok(cluster)
    }

    /// How many clients exist.
    pub fn connected(&self) -> usize {
        self.state.lock().clients.len()
    }

    fn choose(&self, source: &Source, name: Option<&str>) -> Result<String, ClusterError> {
        let known = source.names();
        let Some(name) = name
            .map(str::to_owned)
            .or_else(|| self.default_name(source))
        else {
            return Err(ClusterError::new(
                ErrorKind::Context,
                "cannot choose a cluster",
                "the kubeconfig has no current context",
                Some(format!(
                    "pass `context` with one of: {}; or start with --context, or run `kubectl \
                     config use-context NAME`",
                    or_none(&known)
                )),
            ));
        };
        if known.contains(&name.as_str()) {
            return Ok(name);
        }
        Err(ClusterError::new(
            ErrorKind::Context,
            format!("cannot use context `{name}`"),
            "the kubeconfig has no context of that name",
            Some(format!("contexts are: {}", or_none(&known))),
        ))
    }

    fn default_name(&self, source: &Source) -> Option<String> {
        match source {
            Source::InCluster => Some(IN_CLUSTER.to_owned()),
            Source::File(file) => self
                .config
                .context
                .clone()
                .or_else(|| file.current_context.clone().filter(|name| !name.is_empty())),
        }
    }

    /// The kubeconfig as it is now.
    fn source(&self) -> Result<Arc<Source>, ClusterError> {
        let paths = self.paths();
        let stamp: Stamp = paths
            .iter()
            .map(|path| (path.clone(), file_stamp(path)))
            .collect();
        let mut state = self.state.lock();
        if let Some(source) = state.source.as_ref().filter(|_| state.stamp == stamp) {
            return Ok(Arc::clone(source));
        }
        let source = Arc::new(load(&paths)?);
        if state.source.is_some() {
            tracing::info!("kubeconfig changed, contexts are read again");
        }
        *state = State {
            stamp,
            source: Some(Arc::clone(&source)),
            clients: HashMap::new(),
        };
        Ok(source)
    }

    fn paths(&self) -> Vec<PathBuf> {
        if let Some(path) = &self.config.kubeconfig {
            return vec![path.clone()];
        }
        match env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
            Some(list) => env::split_paths(&list)
                .filter(|p| !p.as_os_str().is_empty())
                .collect(),
            None => env::home_dir()
                .map(|home| home.join(".kube/config"))
                .into_iter()
                .collect(),
        }
    }
}

// === impl Source ===

impl Source {
    fn names(&self) -> Vec<&str> {
        match self {
            Self::InCluster => vec![IN_CLUSTER],
            Self::File(file) => file
                .contexts
                .iter()
                .map(|named| named.name.as_str())
                .collect(),
        }
    }
}

fn or_none(names: &[&str]) -> String {
    if names.is_empty() {
        "(none in the file)".to_owned()
    } else {
        names.join(", ")
    }
}

fn file_stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

fn load(paths: &[PathBuf]) -> Result<Source, ClusterError> {
    let present: Vec<_> = paths.iter().filter(|path| path.exists()).collect();
    if present.is_empty() {
        if env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
            return Ok(Source::InCluster);
        }
        let looked: Vec<_> = paths
            .iter()
            .map(|path| format!("`{}`", path.display()))
            .collect();
        return Err(ClusterError::new(
            ErrorKind::Kubeconfig,
            "cannot reach any cluster",
            format!("there is no kubeconfig (looked for {})", looked.join(", ")),
            Some("point --kubeconfig or KUBECONFIG at one, or run inside a cluster".to_owned()),
        ));
    }
    let mut merged = Kubeconfig::default();
    for path in present {
        let broken = |error: KubeconfigError| {
            ClusterError::new(
                ErrorKind::Kubeconfig,
                format!("cannot read the kubeconfig `{}`", path.display()),
                flat(&error),
                Some("check it with `kubectl config view`".to_owned()),
            )
        };
        merged = Kubeconfig::read_from(path)
            .and_then(|file| merged.merge(file))
            .map_err(broken)?;
    }
    for user in &mut merged.auth_infos {
        if let Some(exec) = user.auth_info.as_mut().and_then(|user| user.exec.as_mut()) {
            // A plugin that may ask questions would inherit our stdin, and that is
            // the protocol's.
            exec.interactive_mode = Some(ExecInteractiveMode::Never);
        }
    }
    Ok(Source::File(Box::new(merged)))
}

async fn connect(source: &Source, name: &str, timeout: Duration) -> Result<Cluster, ClusterError> {
    let failed = |reason: String| {
        ClusterError::new(
            ErrorKind::Kubeconfig,
            format!("cannot set up a client for context `{name}`"),
            reason,
            Some(format!("check it with `kubectl --context {name} version`")),
        )
    };
    let mut config = match source {
        Source::InCluster => kube::Config::incluster().map_err(|error| failed(flat(&error)))?,
        Source::File(file) => {
            let options = KubeConfigOptions {
                context: Some(name.to_owned()),
                ..KubeConfigOptions::default()
            };
            kube::Config::from_custom_kubeconfig((**file).clone(), &options)
                .await
                .map_err(|error| failed(flat(&error)))?
        }
    };
    // Each request has its deadline, which comes first and says more. These end
    // what goes on behind it.
    config.connect_timeout = Some(timeout + BACKSTOP);
    config.write_timeout = Some(timeout + BACKSTOP);
    let namespace = config.default_namespace.clone();
    // Credential plugins are programs that kube waits for on the spot.
    let client = tokio::task::spawn_blocking(move || kube::Client::try_from(config));
    match tokio::time::timeout(timeout, client).await {
        Ok(Ok(Ok(client))) => Ok(Cluster::new(name, client, namespace, timeout)),
        Ok(Ok(Err(error))) => Err(failed(flat(&error))),
        Ok(Err(panicked)) => Err(failed(panicked.to_string())),
        Err(_elapsed) => Err(failed(format!(
            "its credential plugin did not finish within {} s",
            timeout.as_secs_f64()
        ))),
    }
}

/// An error and its causes on one line.
fn flat(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let deeper = error.to_string();
        if !text.contains(&deeper) {
            text = format!("{text}: {deeper}");
        }
        cause = error.source();
    }
    text
}
