//! What the server says by itself: log messages by each session's level, and
//! `list_changed` exactly once per change and session.

use mcp_notify::{
    ContentHash, Delivery, Emit, EncodeError, Level, ListChangedTracker, LoggingService,
    OutboxSink, ProtocolVersion, Registry, Session, WeakSession,
};
use parking_lot::Mutex;
use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde::Serialize;

use kubecrier_project::Hashes;

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
    /// What a project folder adds; not known before it has been looked at.
    pub(super) files: Option<Hashes>,
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
        let files = now.files.as_ref();
        for (registry, hash, files) in [
            (
                Registry::Tools,
                ContentHash::of(&now.tools),
                files.map(|files| &files.tools),
            ),
            (
                Registry::Resources,
                ContentHash::of_all(&[&resources, &templates]),
                files.map(|files| &files.resources),
            ),
            (
                Registry::Prompts,
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

/// A list is what is built in and what the folder adds. While nobody has looked into
/// the folder, nobody knows the list.
fn with_files(hash: ContentHash, files: Option<&ContentHash>) -> Result<ContentHash, EncodeError> {
    match files {
        None => Ok(hash),
        Some(files) if files.is_empty() => Ok(ContentHash::from("")),
        Some(files) => ContentHash::of(&[("built in", hash.as_str()), ("files", files.as_str())]),
    }
}
