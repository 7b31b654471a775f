//! Limits on sessions: in all, per caller and per second. A session beyond them is
//! refused before anything is allocated for it.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header::RETRY_AFTER};
use parking_lot::Mutex;
use tokio::time::Duration;

use super::{
    manager::{SessionLimits, Sessions},
    store::NotKept,
};
use crate::{body::IsInitialize, caller::Caller, share};
use kubecrier_core::shares::{LimitName, LimitReached, Permit, SharedLimit, SharedRate};

tokio::task_local! {
    /// The permit that a request has acquired, for the session it may begin.
    static RESERVED: Mutex<Option<SessionPermit>>;
    /// Why the session that a request begins cannot be kept.
    static NOT_KEPT: Arc<Mutex<Option<NotKept>>>;
}

/// The words of the limits.
const SESSIONS: LimitName = LimitName {
    what: "sessions",
    flag: "--max-sessions",
    share_flag: "--max-sessions-per-caller",
};
const RATE: LimitName = LimitName::new("new sessions a second", "--max-session-rate");

/// Counts sessions.
#[derive(Debug)]
pub(super) struct SessionLimiter {
    sessions: SharedLimit,
    rate: SharedRate,
}

/// The permit of a session; released when dropped.
#[derive(Debug)]
pub(crate) struct SessionPermit {
    caller: Caller,
    _permit: Permit,
}

/// The limit that refused a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SessionRefused(LimitReached);

// === impl SessionLimiter ===

impl SessionLimiter {
    pub(super) fn new(limits: SessionLimits) -> Self {
        let SessionLimits {
            sessions_max,
            sessions_per_caller_max,
            rate_per_second,
            share,
            ..
        } = limits;
        Self {
            sessions: SharedLimit::with_per_caller(SESSIONS, sessions_max, sessions_per_caller_max),
            rate: SharedRate::new(RATE, rate_per_second, share),
        }
    }

    /// Acquires a permit for the caller of the request under way, which counts by its name
    /// or its address.
    pub(super) fn acquire(
        &self,
        caller: &Caller,
        peer: Option<IpAddr>,
    ) -> Result<SessionPermit, SessionRefused> {
        let key = share::key(caller, peer, None);
        let permit = self.sessions.acquire(&key).map_err(SessionRefused)?;
        self.rate.take(&key).map_err(SessionRefused)?;
        Ok(SessionPermit {
            caller: caller.clone(),
            _permit: permit,
        })
    }

    /// The same for a session that is continued: it is not a new one, and after a restart they
    /// all come at once.
    pub(super) fn acquire_again(
        &self,
        caller: &Caller,
        peer: Option<IpAddr>,
    ) -> Result<SessionPermit, SessionRefused> {
        let key = share::key(caller, peer, None);
        let permit = self.sessions.acquire(&key).map_err(SessionRefused)?;
        Ok(SessionPermit {
            caller: caller.clone(),
            _permit: permit,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.sessions.used()
    }
}

// === impl SessionPermit ===

impl SessionPermit {
    /// The caller of the session.
    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Takes the permit that the current request has acquired.
    pub(super) fn reserved() -> Option<Self> {
        RESERVED
            .try_with(|permit| permit.lock().take())
            .ok()
            .flatten()
    }
}

// === impl SessionRefused ===

impl IntoResponse for SessionRefused {
    fn into_response(self) -> Response {
        let (status, wait) = match self.0 {
            LimitReached::Caller { name, .. } | LimitReached::Total { name, .. }
                if name == RATE =>
            {
                (StatusCode::TOO_MANY_REQUESTS, Duration::from_secs(1))
            }
            LimitReached::Total { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(30))
            }
            LimitReached::Caller { .. } => (StatusCode::TOO_MANY_REQUESTS, Duration::from_secs(30)),
        };
        let text = format!("{self}; try again later, or end sessions with DELETE\n");
        (status, [(RETRY_AFTER, wait.as_secs().to_string())], text).into_response()
    }
}

/// Notes that the session of the current request cannot be kept, and why.
pub(super) fn note_not_kept(error: NotKept) {
    // Without the middleware the error is the answer.
    let _noted = NOT_KEPT.try_with(|noted| *noted.lock() = Some(error));
}

/// The answer to a client whose session other servers would not find.
fn cannot_be_kept(error: &NotKept) -> Response {
    tracing::warn!(%error, caller = %Caller::current(), "no new session");
    let wait = [(RETRY_AFTER, "2")];
    let text =
        "no new session: the store that the servers share takes no record of it now; try again\n";
    (StatusCode::SERVICE_UNAVAILABLE, wait, text).into_response()
}

/// Middleware: a POST that begins a session needs a permit first, and one that other servers share
/// a record.
pub(crate) async fn admit(
    State(sessions): State<Arc<Sessions>>,
    request: Request,
    next: Next,
) -> Response {
    if request.extensions().get() != Some(&IsInitialize(true)) {
        return next.run(request).await;
    }
    match sessions.acquire_current() {
        Ok(permit) => {
            let not_kept = Arc::default();
            let begins = RESERVED.scope(Mutex::new(Some(permit)), next.run(request));
            let response = NOT_KEPT.scope(Arc::clone(&not_kept), begins).await;
            let error = not_kept.lock().take();
            error.map_or(response, |error| cannot_be_kept(&error))
        }
        Err(refused) => {
            tracing::debug!(%refused, caller = %Caller::current(), "no new session");
            refused.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubecrier_core::shares::CallerShare;

    fn limiter(sessions_max: usize, per_caller: usize, rate: usize) -> SessionLimiter {
        SessionLimiter::new(SessionLimits {
            sessions_max,
            sessions_per_caller_max: per_caller,
            rate_per_second: rate,
            share: CallerShare::HALF,
            ..SessionLimits::default()
        })
    }

    fn text(refused: Result<SessionPermit, SessionRefused>) -> String {
        refused.unwrap_err().to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_given_back_when_its_session_ends() {
        let limiter = limiter(2, 2, 100);
        let caller = Caller::current();
        let acquire = || limiter.acquire(&caller, None);
        let (one, _two) = (acquire().unwrap(), acquire().unwrap());
        assert!(text(acquire()).contains("has 2 sessions, and may have 2 (--max-sessions)"));
        drop(one);
        let _three = acquire().unwrap();
        assert_eq!(limiter.count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_cannot_take_all_places() {
        let limiter = limiter(10, 1, 100);
        let (ann, bob) = (Caller::named("ann"), Caller::named("bob"));
        let _ann = limiter.acquire(&ann, None).unwrap();
        assert!(text(limiter.acquire(&ann, None)).contains("--max-sessions-per-caller"));
        let _bob = limiter.acquire(&bob, None).unwrap();
        // Callers without a name count by their address.
        let (near, far) = ("192.0.2.1".parse().ok(), "192.0.2.2".parse().ok());
        let anonymous = Caller::ANONYMOUS;
        let _near = limiter.acquire(&anonymous, near).unwrap();
        assert!(limiter.acquire(&anonymous, near).is_err());
        let _far = limiter.acquire(&anonymous, far).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_gets_half_of_the_rate_and_a_refusal_takes_no_place() {
        let limiter = limiter(1000, 1000, 10);
        let (ann, bob) = (Caller::named("ann"), Caller::named("bob"));
        let acquired = |caller: &Caller| -> Vec<_> {
            (0..20)
                .map_while(|_| limiter.acquire(caller, None).ok())
                .collect()
        };
        let (of_ann, of_bob) = (acquired(&ann), acquired(&bob));
        assert_eq!((of_ann.len(), of_bob.len()), (5, 5));
        assert!(text(limiter.acquire(&ann, None)).contains("--max-session-rate"));
        assert_eq!(limiter.count(), 10);
        tokio::time::advance(Duration::from_millis(200)).await;
        assert_eq!(acquired(&ann).len(), 1);
    }
}
