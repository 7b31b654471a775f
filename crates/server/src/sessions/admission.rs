//! Who comes in, and how many: caps on sessions, in all, per caller and per
//! second, refused before anything is made.

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
use crate::{caller::Caller, intake::BeginsSession};

tokio::task_local! {
    /// The place a request has taken under the caps, for the session it may make.
    static RESERVED: Mutex<Option<Admission>>;
}

/// Counts sessions.
#[derive(Debug)]
pub(super) struct Gate {
    limits: SessionLimits,
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    all: usize,
    by_caller: HashMap<Caller, usize>,
    /// A bucket that fills at the rate and holds a second's worth.
    tokens: f64,
    filled: Instant,
}

/// A session's place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Admission {
    gate: Arc<Gate>,
    caller: Caller,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("the server has {0} sessions, which is all it may have (--max-sessions)")]
    Full(usize),
    #[error("this caller has {0} sessions, which is all it may have (--max-sessions-per-caller)")]
    CallerFull(usize),
    #[error("more than {0} sessions a second are asked for (--max-session-rate)")]
    TooFast(usize),
}

// === impl Gate ===

impl Gate {
    pub(super) fn new(limits: SessionLimits) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a rate is small")]
        let tokens = limits.rate_per_second as f64;
        let counts = Counts {
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

    /// Takes a place.
    pub(super) fn enter(self: &Arc<Self>, caller: &Caller) -> Result<Admission, Refused> {
        let mut counts = self.counts.lock();
        let SessionLimits {
            sessions_max,
            sessions_per_caller_max,
            rate_per_second,
            ..
        } = self.limits;
        if counts.all >= sessions_max {
            return Err(Refused::Full(sessions_max));
        }
        if counts
            .by_caller
            .get(caller)
            .is_some_and(|count| *count >= sessions_per_caller_max)
        {
            return Err(Refused::CallerFull(sessions_per_caller_max));
        }
        if !counts.take_token(rate_per_second) {
            return Err(Refused::TooFast(rate_per_second));
        }
        counts.all += 1;
        *counts.by_caller.entry(caller.clone()).or_default() += 1;
        Ok(Admission {
            gate: Arc::clone(self),
            caller: caller.clone(),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.counts.lock().all
    }
}

// === impl Counts ===

impl Counts {
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

// === impl Admission ===

impl Admission {
    /// Whose session it is.
    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The place that the request under way has taken.
    pub(super) fn reserved() -> Option<Self> {
        RESERVED
            .try_with(|place| place.lock().take())
            .ok()
            .flatten()
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut counts = self.gate.counts.lock();
        counts.all -= 1;
        if let Some(count) = counts.by_caller.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                counts.by_caller.remove(&self.caller);
            }
        }
    }
}

// === impl Refused ===

impl IntoResponse for Refused {
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

/// Middleware: a POST that begins a session needs a place for it first.
pub(crate) async fn admit(
    State(sessions): State<Arc<Sessions>>,
    request: Request,
    next: Next,
) -> Response {
    if request.extensions().get() != Some(&BeginsSession(true)) {
        return next.run(request).await;
    }
    match sessions.gate().enter(&Caller::current()) {
        Ok(place) => {
            RESERVED
                .scope(Mutex::new(Some(place)), next.run(request))
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

    fn gate(sessions_max: usize, per_caller: usize, rate: usize) -> Arc<Gate> {
        Arc::new(Gate::new(SessionLimits {
            sessions_max,
            sessions_per_caller_max: per_caller,
            rate_per_second: rate,
            ..SessionLimits::default()
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_given_back_when_its_session_ends() {
        let gate = gate(2, 2, 100);
        let caller = Caller::current();
        let (one, _two) = (gate.enter(&caller).unwrap(), gate.enter(&caller).unwrap());
        assert_eq!(gate.enter(&caller).unwrap_err(), Refused::Full(2));
        drop(one);
        let _three = gate.enter(&caller).unwrap();
        assert_eq!(gate.count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_cannot_take_all_places() {
        let gate = gate(10, 1, 100);
        let _ann = gate.enter(&Caller::named("ann")).unwrap();
        assert_eq!(
            gate.enter(&Caller::named("ann")).unwrap_err(),
            Refused::CallerFull(1)
        );
        let _bob = gate.enter(&Caller::named("bob")).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_made_no_faster_than_the_rate() {
        let gate = gate(1000, 1000, 5);
        let caller = Caller::current();
        let first: Vec<_> = (0..5).map(|_| gate.enter(&caller).unwrap()).collect();
        assert_eq!(gate.enter(&caller).unwrap_err(), Refused::TooFast(5));
        tokio::time::advance(Duration::from_millis(200)).await;
        let _sixth = gate.enter(&caller).unwrap();
        assert!(gate.enter(&caller).is_err());
        tokio::time::advance(Duration::from_hours(1)).await;
        let later: Vec<_> = (0..10).map_while(|_| gate.enter(&caller).ok()).collect();
        assert_eq!(
            later.len(),
            5,
            "a long silence earns no more than a second's worth"
        );
        drop(first);
    }
}
