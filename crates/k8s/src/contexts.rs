//! The contexts of the kubeconfig. Clients are made on demand, so that a context that is
//! down costs only the calls that name it, and the file is read again when it changes.

mod clusters;

pub use self::clusters::NamedClusters;

use std::{
    collections::HashMap, convert::Infallible, ffi::OsString, future::Future, path::PathBuf,
    sync::Arc, time::Duration,
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::{sync::watch, time::interval};

use super::{
    allowed::{Allowed, ReadScope},
    client::{ClientId, Cluster},
    connect::{self, ClusterFuture},
    demo::Demo,
    error::{ClusterError, ErrorKind, Operation},
    impersonation::{Actor, ClusterIdentity},
    kubeconfig::{ContentHash, FileStamps, KubeconfigPaths, Source, content_hash, file_stamps},
    name::Name,
    read_only::DeniedKinds,
};
use kubecrier_core::KubernetesUser;
use kubecrier_redact::Redactor;

/// How often the kubeconfig is checked for changes. Polling works for every kind of file,
/// also for a mounted ConfigMap or Secret, whose files are replaced by links.
const KUBECONFIG_POLL: Duration = Duration::from_secs(1);

/// Which clusters there are, and how requests to them are made.
#[derive(Clone, Debug)]
pub struct Config {
    /// The kubeconfig; else `KUBECONFIG`, then `~/.kube/config`, then in-cluster.
    pub kubeconfig: Option<PathBuf>,
    /// The context to use when a call names none; else the file's current one, or
    /// its only one.
    pub context: Option<String>,
    /// How long one request to an API server may take until it answers.
    pub request_timeout: Duration,
    /// Cleans the lines of logs before anything else is done with them.
    pub redactor: Redactor,
    /// A cluster in memory in place of any kubeconfig.
    pub demo: Option<Demo>,
    /// Kinds that must not be read.
    pub denied: DeniedKinds,
    /// Contexts and namespaces that may be read.
    pub allowed: Allowed,
    /// As whom callers act.
    pub identity: ClusterIdentity,
}

/// The error of a request to a cluster.
pub trait RequestError: From<ClusterError> {
    /// Whether the credentials were not accepted.
    fn is_unauthorized(&self) -> bool;
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
    /// The number of times that the content of the kubeconfig has changed.
    generation: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// The kubeconfig and the files it names, as they were when it was read.
    stamp: FileStamps,
    /// The hash of what is in them, if it is that of what was read.
    content: Option<ContentHash>,
    source: Option<Arc<Source>>,
    /// The kubeconfig could not be read the last time.
    unreadable: bool,
    clients: HashMap<String, ClusterFuture>,
}

impl RequestError for ClusterError {
    fn is_unauthorized(&self) -> bool {
        self.kind() == ErrorKind::Unauthorized
    }
}

// === impl Contexts ===

impl Contexts {
    /// Reads nothing yet: a broken kubeconfig must not keep the server from
    /// starting.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            state: Mutex::default(),
            generation: watch::Sender::default(),
        }
    }

    /// Polls the kubeconfig for as long as the future lives, so that a change is noticed
    /// without a request that needs it.
    pub async fn watch_kubeconfig(&self) -> Infallible {
        let mut ticks = interval(KUBECONFIG_POLL);
        loop {
            ticks.tick().await;
            // A kubeconfig that cannot be read is the answer of every call that needs it.
            let _unreadable = self.source();
        }
    }

    /// The number of times that the content of the kubeconfig has changed.
    pub fn generation(&self) -> u64 {
        *self.generation.borrow()
    }

    /// Waits until the content has changed since this generation. Cancel-safe.
    pub async fn changed_since(&self, generation: u64) {
        let mut now = self.generation.subscribe();
        // It does not end otherwise: the sender is in `self`.
        let _changed = now.wait_for(|now| *now != generation).await;
    }

    /// The files the contexts come from, as `KUBECONFIG` has them; none inside of a
    /// cluster.
    pub fn kubeconfig(&self) -> Option<OsString> {
        let kubeconfig = KubeconfigPaths::find(self.config.kubeconfig.as_deref());
        let there = kubeconfig.paths.iter().any(|path| path.exists());
        there.then(|| std::env::join_paths(&kubeconfig.paths).ok())?
    }

    /// Every context that callers may use, in the order of the file.
    pub fn list(&self) -> Result<Vec<ContextInfo>, ClusterError> {
        let source = self.source()?;
        let (default, scope) = (self.default_name(&source), self.scope());
        let mut contexts = Self::describe(&source, default.as_deref());
        contexts.retain(|one| self.config.allowed.contexts.allows(&one.name));
        for one in &mut contexts {
            let namespace = scope.default_namespace(&one.namespace);
            one.namespace = namespace.unwrap_or_default().to_owned();
        }
        Ok(contexts)
    }

    fn describe(source: &Source, default: Option<&str>) -> Vec<ContextInfo> {
        let Some(file) = source.file() else {
            return vec![Demo::info()];
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
            default: default == Some(named.name.as_str()),
        };
        file.contexts.iter().map(info).collect()
    }

    /// The cluster behind a context, or behind the default one, for requests on behalf of the
    /// actor. Sends no request; runs the credential plugin, if the context has one.
    pub async fn cluster(
        &self,
        actor: &Actor,
        name: Option<&str>,
    ) -> Result<Cluster, ClusterError> {
        let user = self.user_of(actor)?;
        let source = self.source()?;
        let name = self.choose(&source, name)?;
        if let Some(user) = &user {
            self.check_account(user, &name)?;
        }
        let setup = self.setup(&source, &name);
        let Ok(made) = tokio::time::timeout(self.config.request_timeout, setup).await else {
            return Err(connect::connect_timeout(&name, self.config.request_timeout));
        };
        if made.as_ref().map_or(true, Cluster::has_expired) {
            self.forget(&name);
        }
        let cluster = made?.with_redactor(self.config.redactor.clone());
        match user {
            Some(user) => cluster.acting_as(user),
            None => Ok(cluster),
        }
    }

    /// The user as whom requests of an actor are made; none is the server's own.
    fn user_of(&self, actor: &Actor) -> Result<Option<Arc<KubernetesUser>>, ClusterError> {
        match (self.config.identity, actor) {
            (ClusterIdentity::Shared, _) | (ClusterIdentity::Impersonate, Actor::Server) => {
                Ok(None)
            }
            (ClusterIdentity::Impersonate, Actor::Caller(Some(user))) => Ok(Some(Arc::clone(user))),
            (ClusterIdentity::Impersonate, Actor::Caller(None)) => Err(ClusterError::new(
                ErrorKind::Forbidden,
                "cannot ask a cluster for this caller",
                "callers act as themselves here (--cluster-identity impersonate), and this one has \
                 no Kubernetes user",
                Some("whoever runs this server maps callers to users: ask to be mapped".to_owned()),
            )),
        }
    }

    /// Whether callers act in clusters as themselves.
    pub fn impersonates(&self) -> bool {
        self.config.identity.is_impersonate()
    }

    /// Makes a request on behalf of the actor to the cluster behind a context, or behind the
    /// default one. If its credentials are not accepted, the client is made anew and the request is
    /// repeated once: a token may have been renewed since the client was made.
    pub async fn with_cluster<T, E, F>(
        &self,
        actor: &Actor,
        context: Option<&str>,
        request: impl Fn(Cluster) -> F,
    ) -> Result<T, E>
    where
        E: RequestError,
        F: Future<Output = Result<T, E>>,
    {
        let mut cluster = self.cluster(actor, context).await?;
        let name = cluster.context().to_owned();
        let mut is_retry = false;
        // A loop, because what is awaited in two places is compiled twice.
        loop {
            match request(cluster).await {
                Err(error) if error.is_unauthorized() && !is_retry => {
                    is_retry = true;
                    self.forget(&name);
                    cluster = self.cluster(actor, Some(&name)).await?;
                }
                answer => return answer,
            }
        }
    }

    /// The context a name stands for; none is the default one.
    pub fn resolve(&self, name: Option<&str>) -> Result<String, ClusterError> {
        let source = self.source()?;
        self.choose(&source, name)
    }

    /// Refuses a namespace that the operator does not allow, before anything is asked for.
    pub fn check_namespace(&self, context: &str, namespace: &Name) -> Result<(), ClusterError> {
        let operation = Operation {
            verb: "read",
            resource: "objects",
            name: None,
            namespace: Some(namespace.as_str()),
            context,
        };
        let checked = self.scope().check_namespace(namespace.as_str());
        checked.map_err(|refused| ClusterError::refused(&operation, &refused))
    }

    /// Whether a server is confined to some namespaces.
    pub fn is_confined(&self) -> bool {
        self.config.allowed.namespaces.is_restricted()
    }

    /// Whether the operator has switched logs off.
    pub(super) fn hides_logs(&self) -> bool {
        self.config.allowed.hides_logs
    }

    /// Kinds that must not be read.
    pub fn denied_kinds(&self) -> &DeniedKinds {
        &self.config.denied
    }

    /// What must not leave.
    pub(super) fn redactor(&self) -> &Redactor {
        &self.config.redactor
    }

    /// Drops the client of a context: its credentials are not accepted any more.
    fn forget(&self, name: &str) {
        self.state.lock().clients.remove(name);
    }

    /// Drops the client of a context, if it is still that one: its connections may be dead.
    pub(super) fn forget_client(&self, name: &str, client: &ClientId) {
        let mut state = self.state.lock();
        let known = state.clients.get(name).and_then(ClusterFuture::peek);
        if matches!(known, Some(Ok(cluster)) if cluster.is_client(client)) {
            state.clients.remove(name);
        }
    }

    /// How many clients exist.
    pub fn connected(&self) -> usize {
        let state = self.state.lock();
        state
            .clients
            .values()
            .filter(|setup| matches!(setup.peek(), Some(Ok(_))))
            .count()
    }

    /// The client that is there or on its way, or a new one.
    fn setup(&self, source: &Arc<Source>, name: &str) -> ClusterFuture {
        let mut state = self.state.lock();
        let expired = |setup: &ClusterFuture| {
            setup
                .peek()
                .is_some_and(|made| made.as_ref().map_or(true, Cluster::has_expired))
        };
        if let Some(known) = state.clients.get(name).filter(|setup| !expired(setup)) {
            return known.clone();
        }
        let timeout = self.config.request_timeout;
        let setup = connect::start(
            Arc::clone(source),
            name,
            timeout,
            self.scope(),
            self.config.identity,
        );
        state.clients.insert(name.to_owned(), setup.clone());
        setup
    }

    /// What may be read of each cluster.
    pub(super) fn scope(&self) -> ReadScope {
        ReadScope {
            denied: self.config.denied.clone(),
            namespaces: self.config.allowed.namespaces.clone(),
            hides_logs: self.config.allowed.hides_logs,
        }
    }

    /// The contexts that exist for callers.
    fn names<'a>(&self, source: &'a Source) -> Vec<&'a str> {
        let mut names = source.names();
        names.retain(|name| self.config.allowed.contexts.allows(name));
        names
    }

    fn choose(&self, source: &Source, name: Option<&str>) -> Result<String, ClusterError> {
        let known = self.names(source);
        let shown = if self.config.allowed.hides_contexts {
            "(not shown: the list of contexts is switched off)".to_owned()
        } else {
            or_none(&known)
        };
        let Some(name) = name
            .map(str::to_owned)
            .or_else(|| self.default_name(source))
        else {
            return Err(ClusterError::new(
                ErrorKind::Context,
                "cannot choose a cluster",
                "the kubeconfig has no current context",
                Some(format!(
                    "pass `context` with one of: {shown}; or start with --context, or run `kubectl \
                     config use-context NAME`",
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
            Some(format!("contexts are: {shown}")),
        ))
    }

    fn default_name(&self, source: &Source) -> Option<String> {
        if let Some(name) = &self.config.context {
            return Some(name.clone());
        }
        let allowed = &self.config.allowed.contexts;
        let current = source
            .file()
            .and_then(|file| file.current_context.clone())
            .filter(|name| !name.is_empty() && allowed.allows(name));
        // Where there is no choice, none has to be made.
        current.or_else(|| match self.names(source).as_slice() {
            [only] => Some((*only).to_owned()),
            _ => None,
        })
    }

    /// The kubeconfig as it is now.
    fn source(&self) -> Result<Arc<Source>, ClusterError> {
        if let Some(demo) = &self.config.demo {
            let mut state = self.state.lock();
            let source = state
                .source
                .get_or_insert_with(|| Arc::new(Source::Demo(demo.clone())));
            return Ok(Arc::clone(source));
        }
        let kubeconfig = KubeconfigPaths::find(self.config.kubeconfig.as_deref());
        let mut state = self.state.lock();
        if let Some(source) = &state.source {
            let paths: Vec<_> = kubeconfig
                .paths
                .iter()
                .cloned()
                .chain(source.referenced())
                .collect();
            let now = file_stamps(&paths);
            if state.stamp == now {
                return Ok(Arc::clone(source));
            }
            // Written again with the same in it, as some tools do again and again.
            if state.content.is_some() && state.content == content_hash(&paths) {
                let source = Arc::clone(source);
                state.stamp = now;
                return Ok(source);
            }
            tracing::info!("kubeconfig changed, contexts are read again");
            self.generation.send_modify(|generation| *generation += 1);
        }
        // The last content is not used any more, whatever comes now.
        let before = std::mem::take(&mut *state);
        // Before it is read: what is written meanwhile is read once more.
        let mut stamped = file_stamps(&kubeconfig.paths);
        state.unreadable = true;
        let source = Arc::new(kubeconfig.load()?);
        if before.unreadable {
            self.generation.send_modify(|generation| *generation += 1);
        }
        let referenced = source.referenced();
        stamped.extend(file_stamps(&referenced));
        let paths = [kubeconfig.paths, referenced].concat();
        *state = State {
            content: content_hash(&paths).filter(|_| stamped == file_stamps(&paths)),
            stamp: stamped,
            source: Some(Arc::clone(&source)),
            unreadable: false,
            clients: HashMap::new(),
        };
        Ok(source)
    }
}

#[cfg(test)]
impl Contexts {
    /// Those of a cluster in memory.
    pub(super) fn of_demo(cluster: &demo_cluster::DemoCluster) -> Arc<Self> {
        Arc::new(Self::new(Config {
            kubeconfig: None,
            context: None,
            request_timeout: Duration::from_secs(5),
            redactor: Redactor::default(),
            demo: Some(Demo::new(cluster)),
            denied: DeniedKinds::default(),
            allowed: Allowed::default(),
            identity: ClusterIdentity::default(),
        }))
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("clients", &self.clients.len())
            .finish_non_exhaustive()
    }
}

fn or_none(names: &[&str]) -> String {
    if names.is_empty() {
        "(none in the file)".to_owned()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests;
