//! `list_changed`: exactly one notification per change and session.
//!
//! ```text
//!  scan of the project folder ─┐
//!  changed kubeconfig ─────────┴▶ watch ─▶ Server::publish_list_changes ─▶ ListChanges ─▶ outboxes
//!  call of a provider's tool ────────────▶┘
//! ```
//!
//! A session is notified once of each list when it begins, as document 4 of the requirements
//! has it. A listen of 2026-07-28 is not if its client has the current list (`fetches`).

mod fetches;

use mcp_notify::{
    ContentHash, Delivery, Emit, EncodeError, JoinPolicy, ListChangedTracker, ListKind,
    Notification, ObserverRegistry, OutboxSink, ProtocolVersion, Session,
};
use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub(crate) use self::fetches::ClientKey;
use self::fetches::Fetches;
use crate::Server;
use kubecrier_project::{ListHashes, Project};

/// The hashes of the lists that were announced, and the sessions that observe them.
#[derive(Debug)]
pub(super) struct ListChanges {
    lists: ListChangedTracker,
    /// The observers of each list. A listen may observe some lists only.
    observers: [(ListKind, ObserverRegistry); 3],
    fetches: Fetches,
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
                server.publish_list_changes().await;
            }
            true = scanned => server.publish_list_changes().await,
        }
    }
}

// === impl ListChanges ===

impl ListChanges {
    pub(super) fn new() -> Self {
        // Into the outboxes: a broadcast waits for no client.
        let observers = || {
            ObserverRegistry::with_delivery(Delivery::new(OutboxSink), JoinPolicy::OnInitialized)
        };
        Self {
            lists: ListChangedTracker::new(ProtocolVersion::V_2025_11_25),
            observers: ListKind::ALL.map(|list| (list, observers())),
            fetches: Fetches::default(),
        }
    }

    /// Adds a session that is ready for notifications to the observers of every list, and
    /// notifies it once of each. A session that is added twice is notified once.
    pub(super) fn initialized(&self, session: &Session, now: &ListSnapshot) {
        for (_, observers) in &self.observers {
            observers.initialized(session);
        }
        self.record(now);
        self.notify(session, &ListKind::ALL);
    }

    /// The same for a session that is continued, which was notified of these contents before.
    pub(super) fn continued(&self, session: &Session, notified: &[String; 3], now: &ListSnapshot) {
        for (list, hash) in ListKind::ALL.into_iter().zip(notified) {
            if !hash.is_empty() {
                self.lists
                    .restore(session, list, ContentHash::from(hash.as_str()));
            }
        }
        self.initialized(session, now);
    }

    /// The content of each list that a session was last notified of; empty if it was not.
    pub(super) fn notified(&self, session: &Session) -> [String; 3] {
        ListKind::ALL.map(|list| {
            let hash = self.lists.last_notified(session, list);
            hash.map(|hash| hash.to_string()).unwrap_or_default()
        })
    }

    /// The same for a listen, which chooses its lists. Its client is notified only of those
    /// that it may have otherwise.
    pub(super) fn listen(
        &self,
        session: &Session,
        client: Option<&ClientKey>,
        lists: &[ListKind],
        now: &ListSnapshot,
    ) {
        for (list, observers) in &self.observers {
            if lists.contains(list) {
                observers.remember(session);
            }
        }
        self.record(now);
        let (known, others): (Vec<ListKind>, Vec<_>) = lists.iter().partition(|list| {
            let current = self.lists.current(**list);
            let pair = client.zip(current);
            pair.is_some_and(|(client, current)| self.fetches.has_only(client, **list, &current))
        });
        for list in known {
            // As if it had been notified.
            let _notification = self.consume(session, list);
        }
        self.notify(session, &others);
    }

    /// A client of 2026-07-28 has begun.
    pub(super) fn met(&self, client: ClientKey) {
        self.fetches.met(client);
    }

    /// The content of a list, to be taken before the list is made: what changes meanwhile is
    /// announced.
    pub(super) fn content(&self, list: ListKind, now: &ListSnapshot) -> Option<ContentHash> {
        self.record(now);
        self.lists.current(list)
    }

    /// A client of 2026-07-28 has fetched a list.
    pub(super) fn fetched(&self, client: ClientKey, list: ListKind, content: ContentHash) {
        self.fetches.fetched(client, list, content);
    }

    /// Notifies every observer of the lists that differ from what was announced to it.
    /// A dropped future leaves the rest to the next call.
    pub(super) async fn publish(&self, now: &ListSnapshot) {
        self.record(now);
        for (list, observers) in &self.observers {
            let changed = Notification::list_changed(*list);
            let is_due = |session: &Session| self.consume(session, *list).is_some();
            let _accounted = observers.broadcast_if(&changed, is_due).await;
        }
    }

    pub(super) fn has_observers(&self) -> bool {
        self.observers.iter().any(|(_, one)| !one.is_empty())
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
        for list in lists {
            if let Some(notification) = self.consume(session, *list) {
                let _accounted = session.push(notification);
            }
        }
    }

    /// The notification that is due. A version without `list_changed` consumes no change
    /// either.
    fn consume(&self, session: &Session, list: ListKind) -> Option<Notification> {
        if !self.lists.allows(session) {
            return None;
        }
        self.lists.consume(session, list, Emit::Yes)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Caller;

    fn session(version: ProtocolVersion) -> Session {
        Session::builder().protocol_version(version).build("s")
    }

    fn pending(session: &Session) -> u64 {
        session.outbox().stats().pending
    }

    fn with_prompt(name: &str) -> ListSnapshot {
        ListSnapshot {
            prompts: vec![Prompt::new(name, None::<String>, None)],
            ..ListSnapshot::default()
        }
    }

    /// S4-35: what is suppressed is not consumed, so it is due once it may be sent.
    #[tokio::test]
    async fn a_session_of_an_old_version_consumes_nothing() {
        let lists = ListChanges::new();
        let old = session(ProtocolVersion::V_2025_03_26);
        lists.initialized(&old, &with_prompt("a"));
        lists.publish(&with_prompt("b")).await;
        assert_eq!(pending(&old), 0);
        assert!(lists.lists.is_empty(), "no session has consumed anything");
        old.set_protocol_version(ProtocolVersion::V_2025_11_25);
        lists.publish(&with_prompt("b")).await;
        assert_eq!(pending(&old), 3);
    }

    /// S2-18, S2-25; C9.
    #[tokio::test]
    async fn a_change_is_broadcast_to_those_who_observe_the_list() {
        let lists = ListChanges::new();
        let [all, tools, pruned, closed] = [(); 4].map(|()| session(ProtocolVersion::V_2025_11_25));
        for one in [&all, &pruned, &closed] {
            lists.initialized(one, &with_prompt("a"));
        }
        lists.listen(&tools, None, &[ListKind::Tools], &with_prompt("a"));
        assert_eq!((pending(&all), pending(&tools)), (3, 1), "each list once");
        let drain = |session: &Session| session.outbox().reader();
        for one in [&all, &tools, &pruned] {
            let mut reader = drain(one);
            reader.next().await.unwrap().deliver_first(usize::MAX);
        }
        pruned.prune();
        closed.close(mcp_notify::CloseReason::Requested);
        lists.publish(&with_prompt("b")).await;
        lists.publish(&with_prompt("b")).await;
        assert_eq!(pending(&all), 1, "of the prompts, once");
        assert_eq!(pending(&tools), 0, "it does not observe prompts");
        assert_eq!(pending(&pruned), 0, "it was removed");
        drop((all, tools));
        assert!(!lists.has_observers(), "nor is any left");
    }

    /// Every connect made clients fetch their lists twice.
    #[tokio::test]
    async fn a_listen_is_not_told_of_what_its_client_has() {
        let lists = ListChanges::new();
        let client = |name: &str| ClientKey::new(&Caller::ANONYMOUS, None, name, "1").unwrap();
        let (first, second) = (with_prompt("a"), with_prompt("b"));
        let listen = |client: Option<&ClientKey>, now: &ListSnapshot| {
            let one = session(ProtocolVersion::V_2026_07_28);
            lists.listen(&one, client, &ListKind::ALL, now);
            one
        };
        let content = lists.content(ListKind::Prompts, &first).unwrap();
        lists.met(client("known"));
        lists.fetched(client("known"), ListKind::Prompts, content);
        let known = listen(Some(&client("known")), &first);
        assert_eq!(pending(&known), 0);
        assert_eq!(pending(&listen(Some(&client("stranger")), &first)), 3);
        assert_eq!(
            pending(&listen(None, &first)),
            3,
            "it does not say who it is"
        );
        lists.publish(&second).await;
        assert_eq!(pending(&known), 1, "the prompts are others now");
        let late = listen(Some(&client("known")), &second);
        assert_eq!(pending(&late), 1, "and it has not fetched them since");
        let content = lists.content(ListKind::Prompts, &first).unwrap();
        lists.fetched(client("known"), ListKind::Prompts, content);
        let back = listen(Some(&client("known")), &first);
        assert_eq!(pending(&back), 0, "it has these again, and no others");
    }
}
