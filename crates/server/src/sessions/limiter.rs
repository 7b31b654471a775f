//! Limits on sessions: in all, per caller and per second. A session beyond them is
//! refused before anything is allocated for it.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header::RETRY_AFTER};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use super::{manager::SessionLimits, manager::Sessions};
use crate::{body::IsInitialize, caller::Caller};

tokio::task_local! {
    /// The permit that a request has acquired, for the session it may begin.
    static RESERVED: Mutex<Option<SessionPermit>>;
}

/// Counts sessions.
#[derive(Debug)]
pub(super) struct SessionLimiter {
    limits: SessionLimits,
    counts: Mutex<SessionCounts>,
}

#[derive(Debug)]
struct SessionCounts {
    all: usize,
    by_caller: HashMap<Caller, usize>,
    /// A bucket that fills at the rate and holds a second's worth.
    tokens: f64,
    filled: Instant,
}

/// The permit of a session; released when dropped.
#[derive(Debug)]
pub(crate) struct SessionPermit {
    limiter: Arc<SessionLimiter>,
    caller: Caller,
}

/// The limit that refused a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionRefused {
    #[error("the server has {0} sessions, which is all it may have (--max-sessions)")]
    Full(usize),
    #[error("this caller has {0} sessions, which is all it may have (--max-sessions-per-caller)")]
    CallerFull(usize),
    #[error("more than {0} sessions a second are asked for (--max-session-rate)")]
    TooFast(usize),
}

// === impl SessionLimiter ===

impl SessionLimiter {
    pub(super) fn new(limits: SessionLimits) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a rate is small")]
        let tokens = limits.rate_per_second as f64;
        let counts = SessionCounts {
            all: 0,
            by_caller: HashMap::new(),
            tokens,
            filled: Instant::now(),
        };
        Self {
            limits,
            counts: Mutex::new(counts),
        }
    }

    /// Acquires a permit.
    pub(super) fn acquire(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<SessionPermit, SessionRefused> {
        let mut counts = self.counts.lock();
        let SessionLimits {
            sessions_max,
            sessions_per_caller_max,
            rate_per_second,
            ..
        } = self.limits;
        if counts.all >= sessions_max {
            return Err(SessionRefused::Full(sessions_max));
        }
        if counts
            .by_caller
            .get(caller)
            .is_some_and(|count| *count >= sessions_per_caller_max)
        {
            return Err(SessionRefused::CallerFull(sessions_per_caller_max));
        }
        if !counts.take_token(rate_per_second) {
            return Err(SessionRefused::TooFast(rate_per_second));
        }
        counts.all += 1;
        *counts.by_caller.entry(caller.clone()).or_default() += 1;
        Ok(SessionPermit {
            limiter: Arc::clone(self),
            caller: caller.clone(),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.counts.lock().all
    }
}

// === impl SessionCounts ===

impl SessionCounts {
    #[expect(clippy::cast_precision_loss, reason = "a rate is small")]
    fn take_token(&mut self, rate: usize) -> bool {
        let now = Instant::now();
        let earned = now.duration_since(self.filled).as_secs_f64() * rate as f64;
        self.tokens = (self.tokens + earned).min(rate as f64);
        self.filled = now;
        let granted = self.tokens >= 1.0;
        if granted {
            self.tokens -= 1.0;
        }
        granted
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

impl Drop for SessionPermit {
    fn drop(&mut self) {
        let mut counts = self.limiter.counts.lock();
        counts.all -= 1;
        if let Some(count) = counts.by_caller.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                counts.by_caller.remove(&self.caller);
            }
        }
    }
}

// === impl SessionRefused ===

impl IntoResponse for SessionRefused {
    fn into_response(self) -> Response {
        let (status, wait) = match self {
            Self::Full(_) => (StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(30)),
            Self::CallerFull(_) => (StatusCode::TOO_MANY_REQUESTS, Duration::from_secs(30)),
            Self::TooFast(_) => (StatusCode::TOO_MANY_REQUESTS, Duration::from_secs(1)),
        };
        let text = format!("{self}; try again later, or end sessions with DELETE\n");
        (status, [(RETRY_AFTER, wait.as_secs().to_string())], text).into_response()
    }
}

/// Middleware: a POST that begins a session needs a permit first.
pub(crate) async fn admit(
    State(sessions): State<Arc<Sessions>>,
    request: Request,
    next: Next,
) -> Response {
    if request.extensions().get() != Some(&IsInitialize(true)) {
        return next.run(request).await;
    }
    match sessions.limiter().acquire(&Caller::current()) {
        Ok(permit) => {
            RESERVED
                .scope(Mutex::new(Some(permit)), next.run(request))
                .await
        }
        Err(refused) => {
            tracing::warn!(%refused, caller = %Caller::current(), "no new session");
            refused.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(sessions_max: usize, per_caller: usize, rate: usize) -> Arc<SessionLimiter> {
        Arc::new(SessionLimiter::new(SessionLimits {
            sessions_max,
            sessions_per_caller_max: per_caller,
            rate_per_second: rate,
            ..SessionLimits::default()
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_given_back_when_its_session_ends() {
        let limiter = limiter(2, 2, 100);
        let caller = Caller::current();
        let (one, _two) = (
            limiter.acquire(&caller).unwrap(),
            limiter.acquire(&caller).unwrap(),
        );
        assert_eq!(
            limiter.acquire(&caller).unwrap_err(),
            SessionRefused::Full(2)
        );
        drop(one);
        let _three = limiter.acquire(&caller).unwrap();
        assert_eq!(limiter.count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_cannot_take_all_places() {
        let limiter = limiter(10, 1, 100);
        let _ann = limiter.acquire(&Caller::named("ann")).unwrap();
        assert_eq!(
            limiter.acquire(&Caller::named("ann")).unwrap_err(),
            SessionRefused::CallerFull(1)
        );
        let _bob = limiter.acquire(&Caller::named("bob")).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_made_no_faster_than_the_rate() {
        let limiter = limiter(1000, 1000, 5);
        let caller = Caller::current();
        let first: Vec<_> = (0..5).map(|_| limiter.acquire(&caller).unwrap()).collect();
        assert_eq!(
            limiter.acquire(&caller).unwrap_err(),
            SessionRefused::TooFast(5)
        );
        tokio::time::advance(Duration::from_millis(200)).await;
        let _sixth = limiter.acquire(&caller).unwrap();
        assert!(limiter.acquire(&caller).is_err());
        tokio::time::advance(Duration::from_hours(1)).await;
        let later: Vec<_> = (0..10)
            .map_while(|_| limiter.acquire(&caller).ok())
            .collect();
        assert_eq!(
            later.len(),
            5,
            "a long silence earns no more than a second's worth"
        );
        drop(first);
    }
}
