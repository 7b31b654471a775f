//! What the server says by itself: log messages by each session's level, and
//! `list_changed` exactly once per change and session.

use mcp_notify::{
    ContentHash, Delivery, Emit, Level, ListChangedTracker, LoggingService, OutboxSink,
    ProtocolVersion, Registry, Session, WeakSession,
};
use parking_lot::Mutex;
use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde::Serialize;

/// Everything that pushes to sessions.
#[derive(Debug)]
pub(super) struct Push {
    logging: LoggingService,
    lists: ListChangedTracker,
    /// Who hears of changed lists. Weak: a session that ends is gone from here.
    joined: Mutex<Vec<Listener>>,
}

/// The lists as everybody sees them.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) tools: Vec<Tool>,
    pub(super) resources: Vec<Resource>,
    pub(super) templates: Vec<ResourceTemplate>,
    pub(super) prompts: Vec<Prompt>,
}

/// One list to a client, two to us.
#[derive(Serialize)]
#[serde(untagged)]
enum Listed<'a> {
    Resource(&'a Resource),
    Template(&'a ResourceTemplate),
}

/// A session and the lists it wants to hear of.
#[derive(Debug)]
struct Listener {
    session: WeakSession,
    lists: Vec<Registry>,
}

// === impl Push ===

impl Push {
    pub(super) fn new() -> Self {
        // Publishing only ever puts into outboxes; each transport empties its own.
        let delivery = Delivery::new(OutboxSink);
        Self {
            logging: LoggingService::new(delivery),
            lists: ListChangedTracker::new(ProtocolVersion::V_2025_11_25),
            joined: Mutex::default(),
        }
    }

    /// The client is ready to hear: it is told once of each of these lists. A client
    /// that says so twice is told once.
    pub(super) fn join(&self, session: &Session, lists: &[Registry], now: &Lists) {
        {
            let mut joined = self.joined.lock();
            joined.retain(|one| {
                one.session
                    .upgrade()
                    .is_some_and(|known| !known.same(session))
            });
            joined.push(Listener {
                session: session.downgrade(),
                lists: lists.to_vec(),
            });
        }
        self.know(now);
        self.tell(session, lists);
    }

    /// The lists as they are now; whoever was last told something else is told.
    pub(super) fn refresh(&self, now: &Lists) {
        self.know(now);
        let joined: Vec<_> = self
            .joined
            .lock()
            .iter()
            .filter_map(|one| Some((one.session.upgrade()?, one.lists.clone())))
            .collect();
        for (session, lists) in joined {
            self.tell(&session, &lists);
        }
    }

    /// How many hear of changed lists.
    pub(super) fn joined(&self) -> usize {
        self.joined
            .lock()
            .iter()
            .filter(|one| one.session.upgrade().is_some())
            .count()
    }

    /// What the session wants to be told. Nothing is sent to one that never said.
    pub(super) fn set_level(&self, session: &Session, level: Level) {
        self.logging.set_level(session, level);
    }

    /// Log messages, by each session's level.
    pub(super) fn logging(&self) -> LoggingService {
        self.logging.clone()
    }

    fn know(&self, now: &Lists) {
        let resources: Vec<_> = now.resources.iter().map(Listed::Resource).collect();
        let templates: Vec<_> = now.templates.iter().map(Listed::Template).collect();
        for (registry, hash) in [
            (Registry::Tools, ContentHash::of(&now.tools)),
            (
                Registry::Resources,
                ContentHash::of_all(&[&resources, &templates]),
            ),
            (Registry::Prompts, ContentHash::of(&now.prompts)),
        ] {
            match hash {
                Ok(hash) => self.lists.update(registry, hash),
                Err(error) => tracing::error!(?registry, %error, "cannot tell what is in a list"),
            }
        }
    }

    fn tell(&self, session: &Session, lists: &[Registry]) {
        // At a version that is not told, nothing is consumed either.
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
