//! The cluster that a watch is of: while it runs, credentials may be renewed, and the
//! context may come to stand for another cluster.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use super::source::Fault;
use crate::{
    Contexts,
    error::{ClusterError, ErrorKind},
    target::Cluster,
};

/// Where a watch is at home.
pub(crate) struct Home {
    contexts: Arc<Contexts>,
    context: String,
    /// Where the versions that we have are from.
    server: Mutex<Option<Arc<str>>>,
    /// Which kubeconfig the watch was opened with, or would have been.
    generation: AtomicU64,
}

// === impl Home ===

impl Home {
    pub(crate) fn new(contexts: Arc<Contexts>, context: &str) -> Self {
        Self {
            contexts,
            context: context.to_owned(),
            server: Mutex::default(),
            generation: AtomicU64::new(0),
        }
    }

    /// Waits until the kubeconfig is another than the watch was opened with. Cancel-safe.
    pub(crate) async fn changed(&self) {
        let opened_with = self.generation.load(Ordering::Relaxed);
        self.contexts.changed_since(opened_with).await;
    }

    pub(crate) fn context(&self) -> &str {
        &self.context
    }

    /// The cluster as it is now.
    pub(crate) async fn cluster(&self) -> Result<Cluster, ClusterError> {
        self.contexts.cluster(Some(&self.context)).await
    }

    /// A text as it may leave.
    pub(crate) fn clean(&self, text: &str) -> String {
        self.contexts.redactor().workload(text).into_owned()
    }

    /// Opens a watch, in the cluster that the versions are of.
    pub(crate) async fn open<T, F>(&self, watch: impl Fn(Cluster) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        self.hear_from_now_on()?;
        match watch(self.same_cluster().await?).await {
            Err(Fault::Failed(error)) if error.kind() == ErrorKind::Unauthorized => {
                watch(self.renewed().await.map_err(Fault::Failed)?).await
            }
            opened => opened,
        }
    }

    /// Looks at everything, before a watch is opened.
    pub(crate) async fn look<T, F>(&self, question: impl Fn(Cluster) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        self.hear_from_now_on()?;
        self.ask(question).await
    }

    /// Asks a question, beside a watch that is open.
    pub(crate) async fn ask<T, F>(&self, question: impl Fn(Cluster) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let answer = match question(self.same_cluster().await?).await {
            Err(error) if error.kind() == ErrorKind::Unauthorized => {
                question(self.renewed().await.map_err(Fault::Failed)?).await
            }
            answer => answer,
        };
        answer.map_err(Fault::Failed)
    }

    /// What changes in the kubeconfig from here on is heard of.
    fn hear_from_now_on(&self) -> Result<(), Fault> {
        // In this order: what has changed already is seen, and not heard of once more.
        let known = self.contexts.resolve(Some(&self.context));
        let generation = self.contexts.generation();
        self.generation.store(generation, Ordering::Relaxed);
        known.map(drop).map_err(Fault::Failed)
    }

    /// The cluster that the versions are of; said once if it is another from now on.
    async fn same_cluster(&self) -> Result<Cluster, Fault> {
        let cluster = self.cluster().await.map_err(Fault::Failed)?;
        let mut server = self.server.lock();
        let before = server.replace(cluster.server().clone());
        if before.is_some_and(|before| before != *cluster.server()) {
            return Err(Fault::Moved);
        }
        Ok(cluster)
    }

    /// A token may have been renewed since the client was made.
    async fn renewed(&self) -> Result<Cluster, ClusterError> {
        self.contexts.forget(&self.context);
        self.cluster().await
    }
}
