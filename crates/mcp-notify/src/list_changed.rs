//! `list_changed`: one notification per change and session.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::content_hash::ContentHash;
use crate::method::Method;
use crate::notification::Notification;
use crate::session::{Session, SessionKey};
use crate::teardown::{Detach, DetachOn, shrink_sparse};
use crate::version::ProtocolVersion;

/// A list of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// `tools/list`
    Tools,
    /// `resources/list` and `resources/templates/list`
    Resources,
    /// `prompts/list`
    Prompts,
}

/// Whether a due notification is emitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emit {
    /// Emit it, and record that the session was notified.
    #[default]
    Yes,
    /// Suppress it, because of the protocol version or otherwise, and record nothing.
    No,
}

/// Tracks the content of each list that a session was last notified of.
///
/// There is no "changed" flag that could be set twice: a notification is due if the
/// current hash is known and differs from the one that the session was last notified
/// of. Refreshing a list with the same content, any number of times and from any number
/// of tasks, therefore notifies of nothing; content that changes from A to B and back
/// makes two notifications. The state is in memory only: a new session is notified once
/// of each list. Clones share the tracker.
#[derive(Clone)]
pub struct ListChangedTracker {
    default_version: ProtocolVersion,
    state: Arc<Mutex<State>>,
    registry: Arc<dyn Detach>,
}

#[derive(Default)]
struct State {
    current: [Option<Current>; 3],
    notified: HashMap<SessionKey, [Option<ContentHash>; 3]>,
}

/// The content of a list, and the notification of it, which is the same for all sessions: each may
/// keep it for as long as it lives.
struct Current {
    content: ContentHash,
    notification: Notification,
}

/// The state as a registry that sessions detach from.
struct Notified(Arc<Mutex<State>>);

// === impl ListKind ===

impl ListKind {
    /// All lists.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];

    /// The method of the notification.
    pub const fn method(self) -> Method {
        match self {
            Self::Tools => Method::TOOLS_LIST_CHANGED,
            Self::Resources => Method::RESOURCES_LIST_CHANGED,
            Self::Prompts => Method::PROMPTS_LIST_CHANGED,
        }
    }
}

impl Notification {
    /// `notifications/<kind>/list_changed`, with empty parameters. A newer one of the
    /// same list replaces it while it is pending.
    pub fn list_changed(kind: ListKind) -> Self {
        Self::builder(kind.method())
            .params(&serde_json::json!({}))
            .coalesce("")
            .build()
    }
}

// === impl ListChangedTracker ===

impl ListChangedTracker {
    /// A tracker that assumes this version for a session without a negotiated one.
    pub fn new(default_version: ProtocolVersion) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let registry = Arc::new(Notified(Arc::clone(&state)));
        Self {
            default_version,
            state,
            registry,
        }
    }

    /// Sets the current content of the list. An empty hash means that it is unknown,
    /// and nothing is due.
    pub fn update(&self, kind: ListKind, hash: ContentHash) {
        let mut state = self.state.lock();
        let current = &mut state.current[kind as usize];
        if current.as_ref().map(|current| &current.content) == Some(&hash) {
            return;
        }
        *current = (!hash.is_empty()).then(|| Current {
            content: hash,
            notification: Notification::list_changed(kind),
        });
    }

    /// The current content of the list, if it is known.
    pub fn current(&self, kind: ListKind) -> Option<ContentHash> {
        let state = self.state.lock();
        let current = state.current[kind as usize].as_ref();
        current.map(|current| current.content.clone())
    }

    /// The content that the session was last notified of.
    pub fn last_notified(&self, session: &Session, kind: ListKind) -> Option<ContentHash> {
        self.state.lock().notified.get(&session.key())?[kind as usize].clone()
    }

    /// Records what a session was last notified of before this process had it. False if the
    /// session is closed.
    pub fn restore(&self, session: &Session, kind: ListKind, hash: ContentHash) -> bool {
        let key = session.key();
        self.state.lock().notified.entry(key).or_default()[kind as usize] =
            (!hash.is_empty()).then_some(hash);
        let attached = session.attach(&self.registry, DetachOn::Close);
        if !attached {
            self.registry.detach(key);
        }
        attached
    }

    /// The notification that is due for this session, if there is one and `emit`
    /// permits it. The state changes only if a notification is returned, so that
    /// exactly one of several concurrent callers gets it.
    pub fn consume(&self, session: &Session, kind: ListKind, emit: Emit) -> Option<Notification> {
        if emit == Emit::No {
            return None;
        }
        let key = session.key();
        let notification = {
            let mut state = self.state.lock();
            let State { current, notified } = &mut *state;
            let current = current[kind as usize].as_ref()?;
            let last = &mut notified.entry(key).or_default()[kind as usize];
            if last.as_ref() == Some(&current.content) {
                return None;
            }
            *last = Some(current.content.clone());
            current.notification.clone()
        };
        if !session.attach(&self.registry, DetachOn::Close) {
            self.registry.detach(key);
            return None;
        }
        Some(notification)
    }

    /// All notifications that are due for this session. At a version without
    /// `list_changed` nothing is consumed.
    pub fn due(&self, session: &Session) -> Vec<Notification> {
        if !self.allows(session) {
            return Vec::new();
        }
        ListKind::ALL
            .iter()
            .filter_map(|r| self.consume(session, *r, Emit::Yes))
            .collect()
    }

    /// Whether the session gets `list_changed`, and the server may declare
    /// `listChanged` to it: by the negotiated version, else by the default one.
    pub fn allows(&self, session: &Session) -> bool {
        match session.protocol_version() {
            Some(version) => version.allows_list_changed(),
            None => self.default_version.allows_list_changed(),
        }
    }

    /// Makes the list due again for this session, after a notification was consumed and
    /// could not be delivered.
    pub fn rearm(&self, session: &Session, kind: ListKind) {
        if let Some(notified) = self.state.lock().notified.get_mut(&session.key()) {
            notified[kind as usize] = None;
        }
    }

    /// The number of sessions that have been notified.
    pub fn len(&self) -> usize {
        self.state.lock().notified.len()
    }

    /// Whether no session has been notified.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Detach for Notified {
    fn detach(&self, session: SessionKey) {
        let mut state = self.0.lock();
        state.notified.remove(&session);
        shrink_sparse(&mut state.notified);
    }
}

impl fmt::Debug for ListChangedTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListChangedTracker")
            .field("default_version", &self.default_version)
            .field("sessions", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
impl ListChangedTracker {
    pub(crate) fn capacity(&self) -> usize {
        self.state.lock().notified.capacity()
    }
}

#[cfg(test)]
mod tests;
