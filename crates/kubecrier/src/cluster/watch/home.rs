//! The cluster that a watch is of: while it runs, credentials may be renewed, and the
//! context may come to stand for another cluster.

use std::sync::Arc;

use parking_lot::Mutex;

use super::source::Fault;
use crate::cluster::{
    Contexts,
    error::{ClusterError, ErrorKind},
    target::Cluster,
};

/// Where a watch is at home.
pub(in crate::cluster) struct Home {
    contexts: Arc<Contexts>,
    context: String,
    /// Where the versions that we have are from.
    server: Mutex<Option<Arc<str>>>,
}

// === impl Home ===

impl Home {
    pub(in crate::cluster) fn new(contexts: Arc<Contexts>, context: &str) -> Self {
        Self {
            contexts,
            context: context.to_owned(),
            server: Mutex::default(),
        }
    }

    pub(in crate::cluster) fn context(&self) -> &str {
        &self.context
    }

    /// The cluster as it is now.
    pub(in crate::cluster) async fn cluster(&self) -> Result<Cluster, ClusterError> {
        self.contexts.cluster(Some(&self.context)).await
    }

    /// A text as it may leave.
    pub(in crate::cluster) fn clean(&self, text: &str) -> String {
        self.contexts.redactor().workload(text).into_owned()
    }

    /// Opens a watch, in the cluster that the versions are of.
    pub(in crate::cluster) async fn open<T, F>(
        &self,
        watch: impl Fn(Cluster) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let cluster = self.cluster().await.map_err(Fault::Failed)?;
        {
            let mut server = self.server.lock();
            let moved = (server.as_ref()).is_some_and(|known| known != cluster.server());
            *server = Some(cluster.server().clone());
            if moved {
                return Err(Fault::Moved);
            }
        }
        match watch(cluster).await {
            Err(Fault::Failed(error)) if error.kind() == ErrorKind::Unauthorized => {
                watch(self.renewed().await.map_err(Fault::Failed)?).await
            }
            opened => opened,
        }
    }

    /// Asks a question.
    pub(in crate::cluster) async fn ask<T, F>(
        &self,
        question: impl Fn(Cluster) -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let cluster = self.cluster().await?;
        // What is answered has versions, too.
        (self.server.lock()).get_or_insert_with(|| cluster.server().clone());
        match question(cluster).await {
            Err(error) if error.kind() == ErrorKind::Unauthorized => {
                question(self.renewed().await?).await
            }
            answer => answer,
        }
    }

    /// A token may have been renewed since the client was made.
    async fn renewed(&self) -> Result<Cluster, ClusterError> {
        self.contexts.forget(&self.context);
        self.cluster().await
    }
}
