//! The store as one server reaches it, which can be cut off.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use kubecrier_history::{
    Appended, MemoryRegistry, MemorySharedLog, Message, Messages, ReadFrom, Registry,
    RegistryEntry, RegistryError, RegistryFuture, Revision, SetOutcome, SharedLog, SharedLogError,
    SharedLogFuture,
};
use tokio::time::Duration;

/// The store as one server reaches it.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) log: MemorySharedLog,
    pub(super) registry: Arc<MemoryRegistry>,
    pub(super) is_cut: Arc<AtomicBool>,
    /// Writes reach the store, and their answers do not come back.
    pub(super) is_deaf: Arc<AtomicBool>,
}

// === impl Link ===

impl Link {
    fn check(&self) -> Result<(), String> {
        if self.is_cut.load(Ordering::Relaxed) {
            return Err("it is cut off".to_owned());
        }
        Ok(())
    }

    fn hears<T, E>(&self, answer: Result<T, E>, lost: E) -> Result<T, E> {
        if self.is_deaf.swap(false, Ordering::Relaxed) {
            return Err(lost);
        }
        answer
    }
}

fn log_error(why: String) -> SharedLogError {
    let doing = "written";
    SharedLogError::Unavailable { doing, why }
}

impl SharedLog for Link {
    fn append<'a>(
        &'a self,
        topic: &'a str,
        after: u64,
        bytes: Bytes,
    ) -> SharedLogFuture<'a, Appended> {
        Box::pin(async move {
            self.check().map_err(log_error)?;
            let appended = self.log.append(topic, after, bytes).await;
            self.hears(appended, log_error("no answer".to_owned()))
        })
    }

    fn last<'a>(&'a self, topic: &'a str) -> SharedLogFuture<'a, Option<Message>> {
        Box::pin(async move {
            self.check().map_err(log_error)?;
            self.log.last(topic).await
        })
    }

    fn failure(&self) -> Option<String> {
        self.check().err()
    }

    /// One that is open when the server is cut off just falls silent.
    fn follow<'a>(&'a self, topic: &'a str, from: ReadFrom) -> SharedLogFuture<'a, Messages> {
        Box::pin(async move {
            self.check().map_err(log_error)?;
            let mut messages = self.log.follow(topic, from).await?;
            let (sender, heard) = tokio::sync::mpsc::channel(16);
            let is_cut = Arc::clone(&self.is_cut);
            let passing_on = async move {
                while let Some(message) = messages.recv().await {
                    if is_cut.load(Ordering::Relaxed) {
                        sender.closed().await;
                        return;
                    }
                    if sender.send(message).await.is_err() {
                        return;
                    }
                }
            };
            #[expect(clippy::disallowed_methods, reason = "it ends with its reader")]
            drop(tokio::spawn(passing_on));
            Ok(heard)
        })
    }
}

fn registry_error(why: String) -> RegistryError {
    let doing = "written";
    RegistryError::Unavailable { doing, why }
}

impl Registry for Link {
    fn get<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, Option<RegistryEntry>> {
        Box::pin(async move {
            self.check().map_err(registry_error)?;
            self.registry.get(key).await
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, Revision> {
        Box::pin(async move {
            self.check().map_err(registry_error)?;
            self.registry.put(key, value, time_to_live).await
        })
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, SetOutcome> {
        Box::pin(async move {
            self.check().map_err(registry_error)?;
            let set = self
                .registry
                .compare_and_set(key, expected, value, time_to_live);
            set.await
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, ()> {
        self.registry.delete(key)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> RegistryFuture<'a, Vec<(String, RegistryEntry)>> {
        self.registry.list(prefix)
    }
}
