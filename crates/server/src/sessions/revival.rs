//! Sessions of another process that are continued here: a request of such a session finds its
//! record, and the session is made anew from it, without `initialize`.
//!
//! Where several servers share sessions, one of them has a session: its home, which the record
//! names. Its stream is there, and requests that come elsewhere are sent there (`home`). A stream
//! that is opened elsewhere moves the session, and so does a request if the home is gone.

use std::{fmt, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, Method, StatusCode, header::RETRY_AFTER};
use kubecrier_history::{Peers, RegistryError, Revision};
use tokio::time::{Duration, timeout};

use super::{
    answers::EventId,
    home::{self, Elsewhere},
    limiter::SessionRefused,
    manager::Sessions,
    record::SessionRecord,
    store::{Found, SessionStore},
    stream_id::StreamId,
};
use crate::{caller::Caller, server::Server, turns::Turns};

/// How often a record is read again that another server writes at the same time.
const TRIES_MAX: usize = 5;

/// How long another server may take to let go of a session.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a record is waited for.
const FIND_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes sessions anew.
pub(crate) struct Revival {
    server: Server,
    sessions: Arc<Sessions>,
    store: Arc<SessionStore>,
    /// The servers that share the sessions, if any do.
    peers: Option<Arc<dyn Peers>>,
    /// Those that are being made: of several requests one makes it, and the others wait.
    turns: Turns,
}

/// Where a session is.
enum Place {
    /// Here, or nowhere for this caller.
    Here,
    /// On another server.
    At(String),
}

/// What is looked for.
#[derive(Clone, Copy)]
struct Search<'a> {
    id: &'a str,
    /// Whether the session is to be here, wherever it was.
    moves: bool,
    /// A server that is gone.
    gone: Option<&'a str>,
}

/// A stream of a session that is opened.
struct OpenedStream {
    /// What its client has seen.
    seen: Option<StreamId>,
}

/// Why it is not known where a session is.
#[derive(Debug)]
pub(super) enum NotLocated {
    /// There is no room for it.
    Refused(SessionRefused),
    /// Where the servers keep their sessions cannot be reached.
    Unavailable,
}

// === impl Revival ===

impl Revival {
    pub(crate) fn new(
        server: Server,
        sessions: Arc<Sessions>,
        store: Arc<SessionStore>,
        peers: Option<Arc<dyn Peers>>,
    ) -> Self {
        Self {
            server,
            sessions,
            store,
            peers,
            turns: Turns::default(),
        }
    }

    /// The servers that share the sessions, if any do.
    pub(super) fn peers(&self) -> Option<&dyn Peers> {
        self.peers.as_deref()
    }

    /// Where the session of a request is that was sent to a server and not answered: the name of
    /// another one, or `None` if it is here now, or nowhere.
    pub(super) async fn find_home(
        &self,
        id: &str,
        gone: Option<&str>,
    ) -> Result<Option<String>, NotLocated> {
        let search = Search {
            id,
            moves: false,
            gone,
        };
        match self.locate(search).await? {
            Place::Here => Ok(None),
            Place::At(home) => Ok(Some(home)),
        }
    }

    /// Finds a session. One that is on no other server is made anew here if there is a record of
    /// it and it is the caller's; otherwise the request finds no session.
    async fn locate(&self, search: Search<'_>) -> Result<Place, NotLocated> {
        let id = search.id;
        // Ids are ours, so that no other text has a record.
        let is_id = uuid::Uuid::try_parse(id).is_ok_and(|uuid| uuid.to_string() == id);
        if !is_id {
            return Ok(Place::Here);
        }
        while self.sessions.get(id).is_none() {
            match self.turns.begin(id) {
                Ok(_turn) => return self.look(search).await,
                Err(other) => other.cancelled().await,
            }
        }
        Ok(Place::Here)
    }

    async fn look(&self, search: Search<'_>) -> Result<Place, NotLocated> {
        for _ in 0..TRIES_MAX {
            let (record, revision) = match timeout(FIND_TIMEOUT, self.store.find(search.id)).await {
                Ok(Ok(Found::Session(record, revision))) => (*record, revision),
                Ok(Ok(Found::Nothing)) if !self.store.is_settled() => {
                    return self.unknown(&"the store was away, and may lack records yet");
                }
                Ok(Ok(Found::Nothing)) if self.store.is_failing() => {
                    return self.unknown(&"the store takes no records now, and may lack this one");
                }
                Ok(Ok(Found::Nothing | Found::Ended)) => return Ok(Place::Here),
                Ok(Err(error)) => return self.unknown(&error),
                Err(elapsed) => return self.unknown(&elapsed),
            };
            if !record.is_of(&Caller::current()) {
                return Ok(Place::Here);
            }
            let other = self.other_home(&record, search.gone);
            if let Some(home) = other.filter(|_| !search.moves) {
                return Ok(Place::At(home.to_owned()));
            }
            match self.make(search, record, revision).await? {
                Ok(true) => return Ok(Place::Here),
                // Another server was faster.
                Ok(false) => {}
                Err(error) => return self.unknown(&error),
            }
        }
        // There is a record, and so a session.
        self.unknown(&"other servers take it at the same time")
    }

    /// What is answered if a record cannot be read or written. A session that is not found is
    /// given up by its client, so one that another server may have is not said to be missing.
    fn unknown(&self, error: &dyn fmt::Display) -> Result<Place, NotLocated> {
        tracing::warn!(%error, "a session that is not here cannot be looked for");
        if self.peers.is_some() {
            return Err(NotLocated::Unavailable);
        }
        Ok(Place::Here)
    }

    /// The other server that has a session.
    fn other_home<'a>(&self, record: &'a SessionRecord, gone: Option<&str>) -> Option<&'a str> {
        let peers = self.peers.as_ref()?;
        let home = record.home.as_deref()?;
        (home != peers.name() && Some(home) != gone).then_some(home)
    }

    /// Makes a session anew, here. False if another server has it by now.
    async fn make(
        &self,
        search: Search<'_>,
        mut record: SessionRecord,
        revision: Revision,
    ) -> Result<Result<bool, RegistryError>, SessionRefused> {
        let id = search.id;
        let entry = self.sessions.restore(id, &record)?;
        if let Some(peers) = &self.peers {
            let before = self.other_home(&record, search.gone).map(str::to_owned);
            record.home = Some(peers.name().to_owned());
            match self.store.claim(id, &record, revision).await {
                Ok(Some(revision)) => entry.kept.lock().revision = Some(revision),
                Ok(None) => return Ok(Ok(false)),
                Err(error) => return Ok(Err(error)),
            }
            if let Some(before) = before {
                let released = home::release(&**peers, &before, id);
                let _is_released = timeout(RELEASE_TIMEOUT, released).await;
            }
        }
        let is_initialized = record.is_initialized;
        self.server.restore_session(&entry, record).await;
        if self.sessions.insert(entry).is_ok() && is_initialized {
            self.sessions.start_heartbeat(id);
        }
        tracing::debug!(session = id, "session continued");
        Ok(Ok(true))
    }
}

// === impl NotLocated ===

impl From<SessionRefused> for NotLocated {
    fn from(refused: SessionRefused) -> Self {
        Self::Refused(refused)
    }
}

impl IntoResponse for NotLocated {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(refused) => refused.into_response(),
            Self::Unavailable => {
                let wait = [(RETRY_AFTER, "2")];
                let text = "the store that the servers share cannot be reached, so it is not known where \
                            this session is; it goes on when the store is back: try again\n";
                (StatusCode::SERVICE_UNAVAILABLE, wait, text).into_response()
            }
        }
    }
}

/// Middleware: continues the session of a request, and what is pushed to it when its stream is
/// opened.
pub(crate) async fn revive(
    State(revival): State<Arc<Revival>>,
    mut request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let Some(id) = text(headers, "mcp-session-id").filter(|_| is_of_sessions(headers)) else {
        return next.run(request).await;
    };
    let id = id.to_owned();
    let opened = opened_stream(&request);
    let search = Search {
        id: &id,
        moves: opened.is_some(),
        gone: None,
    };
    match revival.locate(search).await {
        Ok(Place::Here) => {}
        Ok(Place::At(home)) => {
            let session = id.clone();
            request.extensions_mut().insert(Elsewhere { session, home });
        }
        Err(refused) => return refused.into_response(),
    }
    if let Some(OpenedStream { seen }) = opened
        && let Some(entry) = revival.sessions.find(&id)
    {
        let seen = seen.and_then(|seen| seen.at);
        revival.server.wake_session(&entry, seen.as_ref());
    }
    next.run(request).await
}

/// What a request opens; a stream that resumes the answer to a request is none of a session.
fn opened_stream(request: &Request) -> Option<OpenedStream> {
    if request.method() != Method::GET {
        return None;
    }
    let seen = match text(request.headers(), "last-event-id") {
        None => None,
        Some(seen) if seen.parse::<EventId>().is_ok() => return None,
        Some(seen) => StreamId::parse(seen),
    };
    Some(OpenedStream { seen })
}

/// Whether a request is of a protocol version with sessions.
fn is_of_sessions(headers: &HeaderMap) -> bool {
    text(headers, "mcp-protocol-version").is_none_or(|version| version < "2026-07-28")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
