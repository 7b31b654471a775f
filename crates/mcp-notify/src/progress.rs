//! `notifications/progress`: at most eight per second and token, and only increasing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use crate::delivery::{Delivery, DeliveryOutcome};
use crate::method::Method;
use crate::notification::Notification;
use crate::session::{Session, WeakSession};
use crate::sink::SendError;

/// Minimum time between two updates of one token: eight per second.
pub const PROGRESS_INTERVAL: Duration = Duration::from_millis(125);

/// How long the end of a scope waits for the last update: the deadline of one send. The
/// response to the request matters more than the last update.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The progress token of a request: a number or a string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProgressToken {
    /// A number.
    Number(i64),
    /// A string.
    Text(Arc<str>),
}

/// Reports the progress of one request. Clones report for the same request.
///
/// Made by [`Progress::scope`], or by [`Progress::start`] together with the pump that
/// sends. Without a token, and after its scope has ended, all methods do nothing.
#[derive(Clone, Debug)]
pub struct Progress(Option<Arc<Handle>>);

/// Sends what a [`Progress`] reports, until all clones of it are dropped.
#[must_use = "nothing is sent unless the pump runs"]
#[derive(Debug)]
pub struct ProgressPump {
    shared: Arc<Shared>,
    session: WeakSession,
    delivery: Delivery,
}

/// Why a value was refused. The progress is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ProgressError {
    /// The value is less than the current one.
    #[error("progress went back from {current} to {given}")]
    WentBack {
        /// The current value.
        current: f64,
        /// The refused value.
        given: f64,
    },
    /// The value is NaN or infinite.
    #[error("{0} is not a number that progress can have")]
    NotFinite(f64),
}

/// Hooks for telemetry. Every method has an empty default and is called without a lock;
/// none may block.
pub trait ProgressHooks: Send + Sync {
    /// The scope began.
    fn started(&self, _: &ProgressToken) {}
    /// An update was sent.
    fn emitted(&self, _: &ProgressToken, _progress: f64) {}
    /// A value was reported too soon after the last update: it is pending, until a later
    /// one replaces it.
    fn throttled(&self, _: &ProgressToken, _progress: f64) {}
    /// An update was abandoned.
    fn failed(&self, _: &ProgressToken, _: &SendError) {}
    /// The scope ended.
    fn closed(&self, _: &ProgressToken) {}
}

impl ProgressHooks for () {}

/// Ends the pump when the last clone of a [`Progress`] is dropped.
#[derive(Debug)]
struct Handle(Arc<Shared>);

struct Shared {
    token: ProgressToken,
    hooks: Box<dyn ProgressHooks>,
    state: Mutex<State>,
    changed: Notify,
}

/// `current` is the only source of truth. A send copies it and never writes it back, so
/// that no value that is reported meanwhile is lost.
#[derive(Debug, Default)]
struct State {
    current: f64,
    total: Option<f64>,
    message: Option<String>,
    /// Whether a value was reported.
    reported: bool,
    /// The last value that was sent, successfully or not: the next one has to be
    /// greater.
    attempted: Option<f64>,
    /// The earliest time of the next update.
    not_before: Option<Instant>,
    closed: bool,
}

/// The next step of the pump.
enum Next {
    Send {
        progress: f64,
        notification: Notification,
    },
    WaitUntil(Instant),
    Wait,
    End,
}

// === impl Progress ===

impl Progress {
    /// For a request without a token: reports nothing and costs nothing.
    pub const fn disabled() -> Self {
        Self(None)
    }

    /// Starts reporting to the session that owns the token. Run the pump concurrently
    /// with the work, in a task or with [`scope`](Self::scope).
    pub fn start(
        session: &Session,
        token: ProgressToken,
        delivery: &Delivery,
        hooks: impl ProgressHooks + 'static,
    ) -> (Self, ProgressPump) {
        hooks.started(&token);
        let shared = Arc::new(Shared {
            token,
            hooks: Box::new(hooks),
            state: Mutex::default(),
            changed: Notify::new(),
        });
        let handle = Self(Some(Arc::new(Handle(Arc::clone(&shared)))));
        let pump = ProgressPump {
            shared,
            session: session.downgrade(),
            delivery: delivery.clone(),
        };
        (handle, pump)
    }

    /// Runs `work` and sends its progress concurrently, without a task. When the work is
    /// done, a pending value is sent within at most two seconds, whatever the client
    /// does.
    ///
    /// Dropping the future drops the work, and nothing more is sent.
    pub async fn scope<F: Future>(
        session: &Session,
        token: Option<ProgressToken>,
        delivery: &Delivery,
        work: impl FnOnce(Self) -> F,
    ) -> F::Output {
        let Some(token) = token else {
            return work(Self::disabled()).await;
        };
        let (progress, pump) = Self::start(session, token, delivery, ());
        let mut work = std::pin::pin!(work(progress));
        let shared = Arc::clone(&pump.shared);
        let mut pump = std::pin::pin!(pump.run());
        let done = tokio::select! {
            done = &mut work => done,
            // The work dropped its handles, or the session is closed.
            () = &mut pump => return work.await,
        };
        // Also if the work has leaked a handle.
        shared.close();
        let _ = timeout(CLOSE_TIMEOUT, pump).await;
        done
    }

    /// The token, if there is one.
    pub fn token(&self) -> Option<&ProgressToken> {
        self.0.as_ref().map(|handle| &handle.0.token)
    }

    /// The current value; zero before the first report.
    pub fn current(&self) -> f64 {
        self.0
            .as_ref()
            .map_or(0.0, |handle| handle.0.state.lock().current)
    }

    /// Adds to the progress.
    ///
    /// # Errors
    /// [`ProgressError`] if the amount is negative or the sum is not a finite number.
    pub fn advance(&self, amount: f64, message: Option<&str>) -> Result<(), ProgressError> {
        self.report(|current| current + amount, message, None)
    }

    /// Sets the progress. An equal value with another message is allowed; the message is
    /// sent with the next increase.
    ///
    /// # Errors
    /// [`ProgressError`] if the value is less than the current one, or if the value or
    /// the total is not a finite number.
    pub fn set(
        &self,
        value: f64,
        message: Option<&str>,
        total: Option<f64>,
    ) -> Result<(), ProgressError> {
        self.report(|_| value, message, total)
    }

    fn report(
        &self,
        next: impl FnOnce(f64) -> f64,
        message: Option<&str>,
        total: Option<f64>,
    ) -> Result<(), ProgressError> {
        let Some(handle) = &self.0 else { return Ok(()) };
        let shared = &handle.0;
        let mut state = shared.state.lock();
        // The request may have been answered, and its token is no longer valid then.
        if state.closed {
            return Ok(());
        }
        let given = next(state.current);
        if let Some(bad) = [Some(given), total]
            .into_iter()
            .flatten()
            .find(|n| !n.is_finite())
        {
            return Err(ProgressError::NotFinite(bad));
        }
        if state.reported && given < state.current || !state.reported && given < 0.0 {
            return Err(ProgressError::WentBack {
                current: state.current,
                given,
            });
        }
        state.reported = true;
        state.current = given;
        state.total = total.or(state.total);
        if let Some(message) = message {
            state.message = Some(message.to_owned());
        }
        let throttled = state.not_before.is_some_and(|at| at > Instant::now());
        drop(state);
        if throttled {
            shared.hooks.throttled(&shared.token, given);
        }
        shared.changed.notify_one();
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

// === impl ProgressPump ===

impl ProgressPump {
    /// Sends until the last [`Progress`] is dropped, then once more if a value is
    /// pending. Ends at once when the session is closed.
    ///
    /// A value that is abandoned after its retries is not sent again. Dropping the
    /// future stops the pump, and nothing more is sent.
    pub async fn run(self) {
        let Self {
            shared,
            session,
            delivery,
        } = self;
        loop {
            match shared.next() {
                Next::Send {
                    progress,
                    notification,
                } => {
                    let Some(session) = session.upgrade_unowned() else {
                        break;
                    };
                    match delivery.deliver(&session, &notification).await {
                        DeliveryOutcome::Delivered { .. } => {
                            shared.hooks.emitted(&shared.token, progress);
                        }
                        DeliveryOutcome::Abandoned { error, .. } => {
                            shared.hooks.failed(&shared.token, &error);
                        }
                        DeliveryOutcome::SessionEnded => break,
                    }
                }
                Next::WaitUntil(at) => tokio::select! {
                    () = sleep_until(at) => {}
                    // Before that time only the end of the scope makes a difference.
                    () = shared.changed.notified() => {}
                },
                Next::Wait => shared.changed.notified().await,
                Next::End => break,
            }
        }
        shared.hooks.closed(&shared.token);
    }
}

// === impl Shared ===

impl Shared {
    fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_one();
    }

    fn next(&self) -> Next {
        let mut state = self.state.lock();
        let pending = state.reported && state.attempted.is_none_or(|sent| state.current > sent);
        match (pending, state.closed, state.not_before) {
            (false, true, _) => Next::End,
            (false, false, _) => Next::Wait,
            (true, false, Some(at)) if at > Instant::now() => Next::WaitUntil(at),
            (true, _, _) => {
                let progress = state.current;
                state.attempted = Some(progress);
                state.not_before = Some(Instant::now() + PROGRESS_INTERVAL);
                let message = state.message.take();
                let total = state.total;
                drop(state);
                let notification =
                    Notification::progress(&self.token, progress, total, message.as_deref());
                Next::Send {
                    progress,
                    notification,
                }
            }
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("token", &self.token)
            .field("state", &*self.state.lock())
            .finish_non_exhaustive()
    }
}

impl Notification {
    /// `notifications/progress`. A newer one of the same token replaces it while it is
    /// pending. To be sent by [`Progress`] only, which keeps the rules of the protocol.
    pub(crate) fn progress(
        token: &ProgressToken,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Self {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            progress_token: &'a ProgressToken,
            progress: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            total: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<&'a str>,
        }
        // A number and a string with the same digits are different tokens.
        let key = match token {
            ProgressToken::Number(number) => format!("n{number}"),
            ProgressToken::Text(text) => format!("t{text}"),
        };
        let params = Params {
            progress_token: token,
            progress,
            total,
            message,
        };
        Self::builder(Method::PROGRESS)
            .params(&params)
            .coalesce(&key)
            .build()
    }
}

#[cfg(test)]
mod tests;
