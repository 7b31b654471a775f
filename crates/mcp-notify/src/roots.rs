//! `notifications/roots/list_changed`, inbound: debounced, then the roots are fetched.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::debounce::{DebounceMode, Debouncer};
use crate::session::{Session, SessionKey, WeakSession};
use crate::sink::SendError;
use crate::teardown::{Detach, DetachOn, shrink_sparse};

/// The debounce delay: roots are fetched this long after the last change.
pub const ROOTS_DEBOUNCE: Duration = Duration::from_millis(250);

/// The deadline for fetching all pages.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of roots of a client. More are treated as an error of the client.
const ROOTS_MAX: usize = 10_000;

/// A root: a location that the client lets the server operate in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Root {
    /// The location.
    pub uri: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// One page of the result of `roots/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RootsPage {
    /// The roots on this page.
    pub roots: Vec<Root>,
    /// The cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// A snapshot of the roots of one session: sorted by URI, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RootsSnapshot {
    /// Increases by one with each snapshot that differs from the one before.
    pub version: u64,
    /// The roots.
    pub roots: Vec<Root>,
}

/// Why roots were not fetched. The last snapshot is kept.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RootsError {
    /// The request failed.
    #[error("roots/list failed: {0}")]
    Request(#[from] SendError),
    /// A cursor was repeated, or there are too many roots.
    #[error("the client's pages do not end")]
    Endless,
    /// The deadline passed.
    #[error("no answer within {FETCH_TIMEOUT:?}")]
    Timeout,
}

/// The future of a request for one page.
pub type RootsFuture<'a> = Pin<Box<dyn Future<Output = Result<RootsPage, SendError>> + Send + 'a>>;

/// Requests roots from a client.
pub trait RootsClient: Send + Sync + 'static {
    /// One `roots/list`, from the start or from a cursor.
    ///
    /// # Errors
    /// [`SendError`] if there is no result. There is no retry until the client's roots
    /// change again. The future may be dropped at any await, when the deadline passes
    /// or the session is closed.
    fn list<'a>(&'a self, session: &'a Session, cursor: Option<String>) -> RootsFuture<'a>;
}

/// Tracks the roots of each session. Clones share the tracker.
#[derive(Clone)]
pub struct RootsTracker(Arc<Shared>);

struct Shared {
    client: Box<dyn RootsClient>,
    changes: Debouncer<SessionKey, WeakSession>,
    sessions: Arc<Sessions>,
}

#[derive(Default)]
struct Sessions(Mutex<HashMap<SessionKey, State>>);

#[derive(Default)]
struct State {
    /// The number of changes so far; the result of a fetch for an older one is stale.
    generation: u64,
    snapshot: Option<Arc<RootsSnapshot>>,
}

impl Root {
    /// A root without a name.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: None,
        }
    }

    /// Sets the display name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl RootsPage {
    /// The last page, or the only one.
    pub fn last(roots: Vec<Root>) -> Self {
        Self {
            roots,
            next_cursor: None,
        }
    }

    /// A page that is followed by another one.
    pub fn followed_by(roots: Vec<Root>, next_cursor: impl Into<String>) -> Self {
        Self {
            roots,
            next_cursor: Some(next_cursor.into()),
        }
    }
}

impl RootsTracker {
    /// A tracker that sends its requests through this client.
    pub fn new(client: impl RootsClient) -> Self {
        Self(Arc::new(Shared {
            client: Box::new(client),
            changes: Debouncer::new(DebounceMode::Trailing(ROOTS_DEBOUNCE)),
            sessions: Arc::default(),
        }))
    }

    /// Handles `notifications/roots/list_changed` of the session. Its roots are fetched
    /// 250 ms after the last one.
    pub fn list_changed(&self, session: &Session) {
        let key = session.key();
        self.0.sessions.0.lock().entry(key).or_default().generation += 1;
        let registry: Arc<dyn Detach> = Arc::clone(&self.0.sessions) as _;
        if !session.attach(&registry, DetachOn::Close) {
            registry.detach(key);
            return;
        }
        self.0.changes.trigger(key, session.downgrade());
    }

    /// The roots of the session as last fetched.
    pub fn snapshot(&self, session: &Session) -> Option<Arc<RootsSnapshot>> {
        self.0
            .sessions
            .0
            .lock()
            .get(&session.key())?
            .snapshot
            .clone()
    }

    /// The number of sessions whose roots have changed.
    pub fn len(&self) -> usize {
        self.0.sessions.0.lock().len()
    }

    /// Whether there is no such session.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fetches roots when they are due, in an endless loop, and calls `on_change` for
    /// each new snapshot. Spawn it once. A client that hangs does not delay another.
    ///
    /// Dropping the future cancels the fetches in flight.
    pub async fn run(&self, on_change: impl Fn(&Session, &Arc<RootsSnapshot>)) {
        let mut fetches = JoinSet::new();
        loop {
            tokio::select! {
                due = self.0.changes.next() => {
                    let Some(session) = due.value.upgrade_unowned() else { continue };
                    let tracker = self.clone();
                    fetches.spawn(async move { tracker.refresh(session).await });
                }
                Some(fetched) = fetches.join_next() => match fetched {
                    Ok(Some((session, snapshot))) => on_change(&session, &snapshot),
                    Ok(None) => {}
                    Err(error) => tracing::error!(%error, "fetching roots ended with a panic"),
                },
            }
        }
    }

    async fn refresh(&self, session: Session) -> Option<(Session, Arc<RootsSnapshot>)> {
        let generation = self.0.sessions.0.lock().get(&session.key())?.generation;
        let fetched = tokio::select! {
            () = session.closed() => return None,
            fetched = timeout(FETCH_TIMEOUT, self.fetch(&session)) => fetched,
        };
        match fetched.unwrap_or(Err(RootsError::Timeout)) {
            Ok(roots) => {
                let snapshot = self.0.sessions.store(session.key(), generation, roots)?;
                Some((session, snapshot))
            }
            Err(error) => {
                tracing::warn!(session = session.name(), %error, "roots were not fetched");
                None
            }
        }
    }

    /// Fetches all pages.
    async fn fetch(&self, session: &Session) -> Result<Vec<Root>, RootsError> {
        let mut roots = Vec::new();
        let mut cursors = HashSet::new();
        let mut cursor = None;
        loop {
            let page = self.0.client.list(session, cursor).await?;
            roots.extend(page.roots);
            if roots.len() > ROOTS_MAX {
                return Err(RootsError::Endless);
            }
            match page.next_cursor {
                None => return Ok(roots),
                Some(next) if !cursors.insert(next.clone()) => return Err(RootsError::Endless),
                Some(next) => cursor = Some(next),
            }
        }
    }
}

impl Sessions {
    /// Stores the roots if they differ and no newer change is pending.
    fn store(
        &self,
        session: SessionKey,
        generation: u64,
        mut roots: Vec<Root>,
    ) -> Option<Arc<RootsSnapshot>> {
        roots.sort_by(|a, b| a.uri.cmp(&b.uri));
        roots.dedup_by(|later, first| later.uri == first.uri);
        let mut sessions = self.0.lock();
        let state = sessions.get_mut(&session)?;
        if state.generation != generation {
            return None;
        }
        let before = state.snapshot.as_ref();
        if before.is_some_and(|snapshot| snapshot.roots == roots) {
            return None;
        }
        let version = before.map_or(1, |snapshot| snapshot.version + 1);
        let snapshot = Arc::new(RootsSnapshot { version, roots });
        state.snapshot = Some(Arc::clone(&snapshot));
        Some(snapshot)
    }
}

impl Detach for Sessions {
    fn detach(&self, session: SessionKey) {
        let mut sessions = self.0.lock();
        sessions.remove(&session);
        shrink_sparse(&mut sessions);
    }
}

impl fmt::Debug for RootsTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootsTracker")
            .field("sessions", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
