//! `list_changed`: exactly one notification per change and session.
//!
//! ```text
//!  scan of the project folder ─┐
//!  changed kubeconfig ─────────┴▶ watch ─▶ Server::publish_list_changes ─▶ ListChanges ─▶ outboxes
//!  call of a provider's tool ────────────▶┘
//! ```

use mcp_notify::{
    ContentHash, Emit, EncodeError, ListChangedTracker, ListKind, ProtocolVersion, Session,
    WeakSession,
};
use parking_lot::Mutex;
use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::Server;
use kubecrier_project::{ListHashes, Project};

/// The hashes of the lists that were announced, and the sessions to notify.
#[derive(Debug)]
pub(super) struct ListChanges {
    lists: ListChangedTracker,
    /// Weak: a session that ends is gone from here.
    subscribers: Mutex<Vec<ListSubscriber>>,
}

/// The lists that every client sees.
#[derive(Debug, Default)]
pub(super) struct ListSnapshot {
    pub(super) tools: Vec<Tool>,
    pub(super) resources: Vec<Resource>,
    pub(super) templates: Vec<ResourceTemplate>,
    pub(super) prompts: Vec<Prompt>,
    /// The hashes of what a project folder adds; empty before its first scan.
    pub(super) files: Option<ListHashes>,
}

/// Resources and templates: two lists to read, one `list_changed`.
#[derive(Serialize)]
#[serde(untagged)]
enum ResourceListEntry<'a> {
    Resource(&'a Resource),
    Template(&'a ResourceTemplate),
}

/// A session, and the lists that it subscribes to.
#[derive(Debug)]
struct ListSubscriber {
    session: WeakSession,
    lists: Vec<ListKind>,
}

/// Publishes changes of the lists until `stop`: after every scan of the project folder, and
/// when the kubeconfig has changed, whose contexts are part of the tools' definitions.
pub(super) async fn watch(server: Server, stop: CancellationToken) {
    let contexts = server.contexts();
    let mut generation = contexts.generation();
    let mut folder = server.project().map(Project::subscribe);
    loop {
        let scanned = async {
            match &mut folder {
                // The project is the server's, so it is never dropped before.
                Some(folder) => folder.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = contexts.changed_since(generation) => {
                generation = contexts.generation();
                server.publish_list_changes();
            }
            true = scanned => server.publish_list_changes(),
        }
    }
}

// === impl ListChanges ===

impl ListChanges {
    pub(super) fn new() -> Self {
        Self {
            lists: ListChangedTracker::new(ProtocolVersion::V_2025_11_25),
            subscribers: Mutex::default(),
        }
    }

    /// Subscribes a session that is ready for notifications, and notifies it once of each
    /// of these lists. A session that subscribes twice is notified once.
    pub(super) fn subscribe(&self, session: &Session, lists: &[ListKind], now: &ListSnapshot) {
        {
            let mut subscribers = self.subscribers.lock();
            subscribers.retain(|one| {
                one.session
                    .upgrade()
                    .is_some_and(|known| !known.same(session))
            });
            subscribers.push(ListSubscriber {
                session: session.downgrade(),
                lists: lists.to_vec(),
            });
        }
        self.record(now);
        self.notify(session, lists);
    }

    /// Notifies every subscriber of the lists that differ from what was announced to
    /// it.
    pub(super) fn publish(&self, now: &ListSnapshot) {
        self.record(now);
        let subscribers: Vec<_> = self
            .subscribers
            .lock()
            .iter()
            .filter_map(|one| Some((one.session.upgrade()?, one.lists.clone())))
            .collect();
        for (session, lists) in subscribers {
            self.notify(&session, &lists);
        }
    }

    pub(super) fn has_subscribers(&self) -> bool {
        let subscribers = self.subscribers.lock();
        subscribers
            .iter()
            .any(|one| one.session.upgrade().is_some())
    }

    fn record(&self, now: &ListSnapshot) {
        let resources: Vec<_> = now
            .resources
            .iter()
            .map(ResourceListEntry::Resource)
            .collect();
        let templates: Vec<_> = now
            .templates
            .iter()
            .map(ResourceListEntry::Template)
            .collect();
        let files = now.files.as_ref();
        for (registry, hash, files) in [
            (
                ListKind::Tools,
                ContentHash::of(&now.tools),
                files.map(|files| &files.tools),
            ),
            (
                ListKind::Resources,
                ContentHash::of_all(&[&resources, &templates]),
                files.map(|files| &files.resources),
            ),
            (
                ListKind::Prompts,
                ContentHash::of(&now.prompts),
                files.map(|files| &files.prompts),
            ),
        ] {
            match hash.and_then(|hash| with_files(hash, files)) {
                Ok(hash) => self.lists.update(registry, hash),
                Err(error) => tracing::error!(?registry, %error, "cannot tell what is in a list"),
            }
        }
    }

    fn notify(&self, session: &Session, lists: &[ListKind]) {
        // A version without `list_changed` consumes no change either.
        if !self.lists.allows(session) {
            return;
        }
        for registry in lists {
            if let Some(notification) = self.lists.consume(session, *registry, Emit::Yes) {
                let _accounted = session.push(notification);
            }
        }
    }
}

/// The hash of a list: of what is built in, and of what the folder adds. Before the
/// first scan of the folder the list has no hash.
fn with_files(hash: ContentHash, files: Option<&ContentHash>) -> Result<ContentHash, EncodeError> {
    match files {
        None => Ok(hash),
        Some(files) if files.is_empty() => Ok(ContentHash::from("")),
        Some(files) => ContentHash::of(&[("built in", hash.as_str()), ("files", files.as_str())]),
    }
}
