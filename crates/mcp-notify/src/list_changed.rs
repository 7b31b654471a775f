//! `list_changed`, once per change and session.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::content_hash::ContentHash;
use crate::method::Method;
use crate::notification::Notification;
use crate::session::{Session, SessionKey};
use crate::teardown::{Detach, Until, give_back};
use crate::version::ProtocolVersion;

/// A list that clients can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Registry {
    /// `tools/list`
    Tools,
    /// `resources/list` and `resources/templates/list`
    Resources,
    /// `prompts/list`
    Prompts,
}

/// Whether a due notification is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emit {
    /// It is: remember that it was.
    #[default]
    Yes,
    /// It is held back, by the protocol's version or otherwise: remember nothing.
    No,
}

/// Knows what each session was last told of each registry.
///
/// There is no "changed" flag that could be set twice: a notification is due
/// when the current hash is known and differs from the one the session was
/// last notified of. Refreshing a registry any number of times, from any
/// number of tasks, with the same content is therefore silent; content that
/// goes from A to B and back is told twice. The state is in memory only: a new
/// session is told once of each registry. A clone is the same tracker.
#[derive(Clone)]
pub struct ListChangedTracker {
    default_version: ProtocolVersion,
    state: Arc<Mutex<State>>,
    part: Arc<dyn Detach>,
}

#[derive(Default)]
struct State {
    current: [Option<ContentHash>; 3],
    notified: HashMap<SessionKey, [Option<ContentHash>; 3]>,
}

struct Part(Arc<Mutex<State>>);

// === impl Registry ===

impl Registry {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];

    /// The notification's name.
    pub const fn method(self) -> Method {
        match self {
            Self::Tools => Method::TOOLS_LIST_CHANGED,
            Self::Resources => Method::RESOURCES_LIST_CHANGED,
            Self::Prompts => Method::PROMPTS_LIST_CHANGED,
        }
    }
}

impl Notification {
    /// `notifications/<registry>/list_changed`, with empty parameters. One
    /// that waits is replaced by the next of the same registry.
    pub fn list_changed(registry: Registry) -> Self {
        Self::builder(registry.method())
            .params(&serde_json::json!({}))
            .coalesce("")
            .build()
    }
}

// === impl ListChangedTracker ===

impl ListChangedTracker {
    /// A tracker for a server that speaks this version unless another is negotiated.
    pub fn new(default_version: ProtocolVersion) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let part = Arc::new(Part(Arc::clone(&state)));
        Self {
            default_version,
            state,
            part,
        }
    }

    /// Says what the registry's content is now. An empty hash means that it is
    /// not known, and nothing is due.
    pub fn update(&self, registry: Registry, hash: ContentHash) {
        self.state.lock().current[registry as usize] = (!hash.is_empty()).then_some(hash);
    }

    /// The registry's content, if it is known.
    pub fn current(&self, registry: Registry) -> Option<ContentHash> {
        self.state.lock().current[registry as usize].clone()
    }

    /// What the session was last notified of.
    pub fn last_notified(&self, session: &Session, registry: Registry) -> Option<ContentHash> {
        self.state.lock().notified.get(&session.key())?[registry as usize].clone()
    }

    /// The notification that is due for this session, if one is and `emit`
    /// lets it. The state moves only when a notification is returned, so of
    /// several callers at once exactly one gets it.
    pub fn consume(
        &self,
        session: &Session,
        registry: Registry,
        emit: Emit,
    ) -> Option<Notification> {
        if emit == Emit::No {
            return None;
        }
        let key = session.key();
        {
            let mut state = self.state.lock();
            let current = state.current[registry as usize].clone()?;
            let last = &mut state.notified.entry(key).or_default()[registry as usize];
            if last.as_ref() == Some(&current) {
                return None;
            }
            *last = Some(current);
        }
        if !session.attach(&self.part, Until::Closed) {
            self.part.detach(key);
            return None;
        }
        Some(Notification::list_changed(registry))
    }

    /// Everything that is due for this session. At a version that has no
    /// `list_changed` nothing is consumed at all.
    pub fn due(&self, session: &Session) -> Vec<Notification> {
        if !self.allows(session) {
            return Vec::new();
        }
        Registry::ALL
            .iter()
            .filter_map(|r| self.consume(session, *r, Emit::Yes))
            .collect()
    }

    /// Whether the session is told of changes, and whether the server may
    /// declare `listChanged` to it: by the negotiated version, else the default.
    pub fn allows(&self, session: &Session) -> bool {
        match session.protocol_version() {
            Some(version) => version.allows_list_changed(),
            None => self.default_version.allows_list_changed(),
        }
    }

    /// Makes the registry due again for this session: for a notification that
    /// was consumed and then could not be delivered.
    pub fn rearm(&self, session: &Session, registry: Registry) {
        if let Some(notified) = self.state.lock().notified.get_mut(&session.key()) {
            notified[registry as usize] = None;
        }
    }

    /// How many sessions have been told of anything.
    pub fn len(&self) -> usize {
        self.state.lock().notified.len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Detach for Part {
    fn detach(&self, session: SessionKey) {
        let mut state = self.0.lock();
        state.notified.remove(&session);
        give_back(&mut state.notified);
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
