//! The context that a watch is bound to. While the watch runs, credentials may be
//! renewed, and the context may come to name another cluster.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use super::source::WatchError;
use crate::{
    Actor, Contexts,
    client::{ClientId, Cluster},
    error::ClusterError,
    identity,
};

/// A context, and the cluster that the resourceVersions of a watch belong to.
pub(crate) struct BoundContext {
    contexts: Arc<Contexts>,
    context: String,
    /// The API server that the known resourceVersions are from.
    server: Mutex<Option<Arc<str>>>,
    /// The client that the last request was made with.
    client: Mutex<Option<ClientId>>,
    /// The generation of the kubeconfig that the watch was last opened with.
    generation: AtomicU64,
}

// === impl BoundContext ===

impl BoundContext {
    pub(crate) fn new(contexts: Arc<Contexts>, context: &str) -> Self {
        Self {
            contexts,
            context: context.to_owned(),
            server: Mutex::default(),
            client: Mutex::default(),
            generation: AtomicU64::new(0),
        }
    }

    /// Waits until the kubeconfig has changed since the watch was opened. Cancel-safe.
    pub(crate) async fn changed(&self) {
        let opened_with = self.generation.load(Ordering::Relaxed);
        self.contexts.changed_since(opened_with).await;
    }

    /// Drops the client of the last request, with its connections, unless another watch has
    /// done so: the next request makes a new one.
    pub(crate) fn reconnect(&self) {
        if let Some(client) = &*self.client.lock() {
            self.contexts.forget_client(&self.context, client);
        }
    }

    pub(crate) fn context(&self) -> &str {
        &self.context
    }

    /// Redacts a text that leaves the server.
    pub(crate) fn redact(&self, text: &str) -> String {
        identity::sentence(self.contexts.redactor(), text)
    }

    /// Opens a watch or lists everything: from here on a change of the kubeconfig
    /// counts as one.
    pub(crate) async fn open<T, E, F>(&self, open: impl Fn(Cluster) -> F) -> Result<T, WatchError>
    where
        F: Future<Output = Result<T, E>>,
        WatchError: From<E>,
    {
        self.record_generation()?;
        self.request(open).await
    }

    /// Makes a request to the cluster that the resourceVersions belong to.
    pub(crate) async fn request<T, E, F>(
        &self,
        request: impl Fn(Cluster) -> F,
    ) -> Result<T, WatchError>
    where
        F: Future<Output = Result<T, E>>,
        WatchError: From<E>,
    {
        let checked = |cluster: Cluster| {
            let answer = self.same_cluster(&cluster).map(|()| request(cluster));
            async move { Ok(answer?.await?) }
        };
        let context = Some(self.context.as_str());
        self.contexts
            .with_cluster(&Actor::Server, context, checked)
            .await
    }

    /// From here on a change of the kubeconfig counts as one.
    pub(crate) fn record_generation(&self) -> Result<(), ClusterError> {
        // `resolve` notices a change that has happened already, so the generation read
        // after it is the one that the watch is opened with.
        let resolved = self.contexts.resolve(Some(&self.context));
        let generation = self.contexts.generation();
        self.generation.store(generation, Ordering::Relaxed);
        resolved.map(drop)
    }

    /// Fails once if the context has come to name another cluster.
    fn same_cluster(&self, cluster: &Cluster) -> Result<(), WatchError> {
        *self.client.lock() = Some(cluster.client_id());
        let server = cluster.server().clone();
        let before = self.server.lock().replace(server);
        if before.is_some_and(|before| before != *cluster.server()) {
            return Err(WatchError::ClusterReplaced);
        }
        Ok(())
    }
}
