//! `notifications/roots/list_changed`, inbound: fetching the roots once it is quiet.

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

use crate::debounce::{Debouncer, Timing};
use crate::session::{Session, SessionKey, WeakSession};
use crate::sink::SendError;
use crate::teardown::{Detach, Until, give_back};

/// How long a session must be quiet before its roots are fetched.
pub const ROOTS_QUIET: Duration = Duration::from_millis(250);

/// How long fetching all pages may take.
const FETCH_MAX: Duration = Duration::from_secs(30);

/// How many roots a client may have. More is a client at fault.
const ROOTS_MAX: usize = 10_000;

/// A root: a place the client lets the server work in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Root {
    /// Where it is.
    pub uri: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// One answer to `roots/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RootsPage {
    /// The roots on this page.
    pub roots: Vec<Root>,
    /// How to ask for the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// The roots of one session at one time: sorted by URI, each URI once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RootsSnapshot {
    /// Rises by one when the roots differ from the snapshot before.
    pub version: u64,
    /// The roots.
    pub roots: Vec<Root>,
}

/// Why roots were not fetched. The snapshot before stays.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RootsError {
    /// The client did not answer, or not with roots.
    #[error("roots/list failed: {0}")]
    Request(#[from] SendError),
    /// A cursor came twice, or there are too many roots.
    #[error("the client's pages do not end")]
    Endless,
    /// It took too long.
    #[error("no answer within {FETCH_MAX:?}")]
    Timeout,
}

/// What asking for a page resolves to.
pub type RootsFuture<'a> = Pin<Box<dyn Future<Output = Result<RootsPage, SendError>> + Send + 'a>>;

/// Asks a client for its roots.
pub trait RootsClient: Send + Sync + 'static {
    /// One `roots/list`, from the start or from a cursor.
    ///
    /// # Errors
    /// [`SendError`] if no answer came. It is not asked again until the client
    /// says that its roots changed. The future may be dropped at any await,
    /// when the fetch takes too long or the session ends.
    fn list<'a>(&'a self, session: &'a Session, cursor: Option<String>) -> RootsFuture<'a>;
}

/// Knows the roots of each session. A clone is the same tracker.
#[derive(Clone)]
pub struct RootsTracker(Arc<Shared>);

struct Shared {
    client: Box<dyn RootsClient>,
    changes: Debouncer<SessionKey, WeakSession>,
    known: Arc<Known>,
}

#[derive(Default)]
struct Known(Mutex<HashMap<SessionKey, State>>);

#[derive(Default)]
struct State {
    /// How many changes were announced; an answer to an older one is stale.
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

    /// What people call it.
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

    /// A page after which there is another one.
    pub fn followed_by(roots: Vec<Root>, next_cursor: impl Into<String>) -> Self {
        Self {
            roots,
            next_cursor: Some(next_cursor.into()),
        }
    }
}

impl RootsTracker {
    /// A tracker that asks through this client.
    pub fn new(client: impl RootsClient) -> Self {
        Self(Arc::new(Shared {
            client: Box::new(client),
            changes: Debouncer::new(Timing::Trailing(ROOTS_QUIET)),
            known: Arc::default(),
        }))
    }

    /// The session said `notifications/roots/list_changed`. Its roots are
    /// fetched when it has said nothing more for 250 ms.
    pub fn list_changed(&self, session: &Session) {
        let key = session.key();
        self.0.known.0.lock().entry(key).or_default().generation += 1;
        let part: Arc<dyn Detach> = Arc::clone(&self.0.known) as _;
        if !session.attach(&part, Until::Closed) {
            part.detach(key);
            return;
        }
        self.0.changes.trigger(key, session.downgrade());
    }

    /// The session's roots, as last fetched.
    pub fn snapshot(&self, session: &Session) -> Option<Arc<RootsSnapshot>> {
        self.0.known.0.lock().get(&session.key())?.snapshot.clone()
    }

    /// How many sessions are known.
    pub fn len(&self) -> usize {
        self.0.known.0.lock().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fetches roots when their time comes, for ever; a client that hangs
    /// delays no other. Spawn it once. `on_change` is called for each new
    /// snapshot.
    ///
    /// Dropping it ends the fetches that are under way.
    pub async fn run(&self, on_change: impl Fn(&Session, &Arc<RootsSnapshot>)) {
        let mut fetches = JoinSet::new();
        loop {
            tokio::select! {
                fired = self.0.changes.fired() => {
                    let Some(session) = fired.value.upgrade_unowned() else { continue };
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
        let generation = self.0.known.0.lock().get(&session.key())?.generation;
        let fetched = tokio::select! {
            () = session.closed() => return None,
            fetched = timeout(FETCH_MAX, self.fetch(&session)) => fetched,
        };
        match fetched.unwrap_or(Err(RootsError::Timeout)) {
            Ok(roots) => {
                let snapshot = self.0.known.store(session.key(), generation, roots)?;
                Some((session, snapshot))
            }
            Err(error) => {
                tracing::warn!(session = session.name(), %error, "roots were not fetched");
                None
            }
        }
    }

    /// All pages.
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

impl Known {
    /// Keeps the roots if nothing newer is on its way and they differ.
    fn store(
        &self,
        session: SessionKey,
        generation: u64,
        mut roots: Vec<Root>,
    ) -> Option<Arc<RootsSnapshot>> {
        roots.sort_by(|a, b| a.uri.cmp(&b.uri));
        roots.dedup_by(|later, first| later.uri == first.uri);
        let mut known = self.0.lock();
        let state = known.get_mut(&session)?;
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

impl Detach for Known {
    fn detach(&self, session: SessionKey) {
        let mut known = self.0.lock();
        known.remove(&session);
        give_back(&mut known);
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
