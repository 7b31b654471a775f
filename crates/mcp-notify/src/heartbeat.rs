//! Heartbeat: pings a session that has been inactive, and closes it when it no longer
//! answers.

#[cfg(any(feature = "phi-accrual", test))]
mod suspicion;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

#[cfg(any(feature = "phi-accrual", test))]
use self::suspicion::Suspicion;
use crate::session::{CloseReason, Session};
use crate::version::ProtocolVersion;

/// The configuration of a heartbeat. Start from the default:
///
/// ```
/// let mut config = mcp_notify::HeartbeatConfig::default();
/// config.failures_max = 5;
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct HeartbeatConfig {
    /// Time between the last activity and the next ping: 5 s.
    pub interval: Duration,
    /// The fraction of the interval that is random, so that a thousand sessions are not
    /// pinged at the same moment: 0.2, as in 20 %.
    pub jitter: f64,
    /// The deadline of a ping: 2 s.
    pub timeout: Duration,
    /// The suspicion above which a session is suspect: 5.0, as in a probability of one
    /// in a hundred thousand that it is still alive.
    #[cfg(any(feature = "phi-accrual", test))]
    pub phi_max: f64,
    /// Maximum number of pings that fail in a row: 3. One more, and the session is down.
    pub failures_max: u32,
}

/// The health of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Health {
    /// The session is active or answers its pings.
    Alive,
    /// The session has been silent for longer than its past intervals let expect.
    #[cfg(any(feature = "phi-accrual", test))]
    Suspect {
        /// The suspicion.
        phi: f64,
    },
    /// The session no longer answers.
    Down,
}

/// The liveness of one session. Clones share it.
///
/// Call [`record_activity`](Self::record_activity) for every inbound message: it
/// postpones the next ping and clears a suspicion. Outbound messages are not activity.
#[derive(Clone)]
pub struct Liveness(Arc<Mutex<LivenessState>>);

struct LivenessState {
    last_activity: Instant,
    failures: u32,
    health: Health,
    #[cfg(any(feature = "phi-accrual", test))]
    suspicion: Suspicion,
}

/// Why a heartbeat ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeartbeatEnd {
    /// The session did not answer and was closed.
    Down,
    /// The session was closed otherwise.
    SessionEnded,
}

type Callback = Arc<dyn Fn(&Session, Health) + Send + Sync>;

/// Pings one session until it is down or closed.
#[derive(Clone)]
#[must_use]
pub struct Heartbeat {
    config: HeartbeatConfig,
    #[cfg(any(feature = "phi-accrual", test))]
    on_suspect: Callback,
    on_down: Callback,
}

// === impl Heartbeat ===

impl Heartbeat {
    /// A heartbeat with this configuration. The jitter is clamped to the range from 0 to
    /// 1, and is 0 if it is not a number. Times are limited to a year.
    pub fn new(config: HeartbeatConfig) -> Self {
        Self {
            config: config.clamped(),
            #[cfg(any(feature = "phi-accrual", test))]
            on_suspect: Arc::new(|_, _| ()),
            on_down: Arc::new(|_, _| ()),
        }
    }

    /// Sets a hook that is called once when a session becomes suspect, and again only
    /// after it was active in between.
    #[cfg(any(feature = "phi-accrual", test))]
    pub fn on_suspect(mut self, hook: impl Fn(&Session, Health) + Send + Sync + 'static) -> Self {
        self.on_suspect = Arc::new(hook);
        self
    }

    /// Sets a hook that is called once when a session is down, before it is closed.
    pub fn on_down(mut self, hook: impl Fn(&Session, Health) + Send + Sync + 'static) -> Self {
        self.on_down = Arc::new(hook);
        self
    }

    /// Whether a session of this version can be pinged.
    pub fn applies_to(version: &ProtocolVersion) -> bool {
        version.has_ping()
    }

    /// The liveness of one session, with activity at the current time.
    pub fn liveness(&self) -> Liveness {
        Liveness(Arc::new(Mutex::new(LivenessState {
            last_activity: Instant::now(),
            failures: 0,
            health: Health::Alive,
            #[cfg(any(feature = "phi-accrual", test))]
            suspicion: Suspicion::new(&self.config),
        })))
    }

    /// Pings with `ping` until the session is down, which closes it and so removes it
    /// from every registry, or is closed otherwise. `ping` returns whether an answer
    /// came; the deadline is enforced here. The future does not keep the session alive.
    ///
    /// A session that falls silent is down at the latest
    /// `(failures_max + 1) * (interval * (1 + jitter) + timeout)` after its last
    /// activity: 32 s. Dropping the future stops the heartbeat and has no other effect.
    pub fn run<P, F>(
        &self,
        session: &Session,
        liveness: &Liveness,
        ping: P,
    ) -> impl Future<Output = HeartbeatEnd> + Send + 'static
    where
        P: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send,
    {
        let Self {
            config,
            #[cfg(any(feature = "phi-accrual", test))]
            on_suspect,
            on_down,
        } = self.clone();
        let (session, liveness) = (session.unowned(), liveness.clone());
        async move {
            let mut jitter = Jitter::new();
            let mut last_ping = Instant::now();
            loop {
                let wait = jitter.apply(config.interval, config.jitter);
                // Activity postpones the ping, by the interval from that activity.
                loop {
                    let due = liveness.last_activity().max(last_ping) + wait;
                    if due <= Instant::now() {
                        break;
                    }
                    tokio::select! {
                        () = session.closed() => return HeartbeatEnd::SessionEnded,
                        () = sleep_until(due) => {}
                    }
                }
                let answered = tokio::select! {
                    () = session.closed() => return HeartbeatEnd::SessionEnded,
                    answer = timeout(config.timeout, ping()) => answer == Ok(true),
                };
                last_ping = Instant::now();
                if answered {
                    liveness.record_pong();
                    continue;
                }
                let Some(health) = liveness.record_failure(&config) else {
                    continue;
                };
                if health == Health::Down {
                    on_down(&session, health);
                    session.close(CloseReason::Down);
                    return HeartbeatEnd::Down;
                }
                #[cfg(any(feature = "phi-accrual", test))]
                on_suspect(&session, health);
            }
        }
    }
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Heartbeat").field(&self.config).finish()
    }
}

// === impl HeartbeatConfig ===

impl HeartbeatConfig {
    /// Within limits in which no sum overflows.
    fn clamped(self) -> Self {
        const YEAR: Duration = Duration::from_hours(365 * 24);
        let jitter = if self.jitter.is_nan() {
            0.0
        } else {
            self.jitter.clamp(0.0, 1.0)
        };
        Self {
            interval: self.interval.min(YEAR),
            timeout: self.timeout.min(YEAR),
            jitter,
            ..self
        }
    }
}

impl Default for HeartbeatConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            jitter: 0.2,
            timeout: Duration::from_secs(2),
            #[cfg(any(feature = "phi-accrual", test))]
            phi_max: 5.0,
            failures_max: 3,
        }
    }
}

// === impl Liveness ===

impl Liveness {
    /// Records an inbound message of the session.
    ///
    /// It does not enter the estimate of intervals: a client that sends many requests
    /// and then falls silent is healthy.
    pub fn record_activity(&self) {
        let mut state = self.0.lock();
        state.alive_at(Instant::now());
        #[cfg(any(feature = "phi-accrual", test))]
        state.suspicion.interrupt();
    }

    /// The health as of the last ping or activity.
    pub fn health(&self) -> Health {
        self.0.lock().health
    }

    fn last_activity(&self) -> Instant {
        self.0.lock().last_activity
    }

    fn record_pong(&self) {
        let mut state = self.0.lock();
        let now = Instant::now();
        #[cfg(any(feature = "phi-accrual", test))]
        state.suspicion.record_pong(now);
        state.alive_at(now);
    }

    /// Records a failed ping. Returns the new health if it changed.
    fn record_failure(&self, config: &HeartbeatConfig) -> Option<Health> {
        let mut state = self.0.lock();
        state.failures += 1;
        let down = (state.failures > config.failures_max).then_some(Health::Down);
        #[cfg(any(feature = "phi-accrual", test))]
        let suspect = {
            let silence = state.last_activity.elapsed();
            let phi = state.suspicion.record_failure(silence);
            (phi > config.phi_max).then_some(Health::Suspect { phi })
        };
        #[cfg(not(any(feature = "phi-accrual", test)))]
        let suspect = None;
        let health = down.or(suspect)?;
        let before = std::mem::replace(&mut state.health, health);
        (discriminant(&before) != discriminant(&health)).then_some(health)
    }
}

impl LivenessState {
    fn alive_at(&mut self, now: Instant) {
        self.last_activity = now;
        self.failures = 0;
        self.health = Health::Alive;
    }
}

impl fmt::Debug for Liveness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Liveness").field(&self.health()).finish()
    }
}

/// Random jitter from the process's hash seed, which is good enough to spread pings.
struct Jitter {
    seed: RandomState,
    drawn: u64,
}

impl Jitter {
    fn new() -> Self {
        Self {
            seed: RandomState::new(),
            drawn: 0,
        }
    }

    /// A duration between `(1 - share) * mean` and `(1 + share) * mean`.
    fn apply(&mut self, mean: Duration, share: f64) -> Duration {
        self.drawn += 1;
        #[expect(
            clippy::cast_precision_loss,
            reason = "jitter needs no more than 52 bits"
        )]
        let unit = self.seed.hash_one(self.drawn) as f64 / u64::MAX as f64;
        mean.mul_f64(share.mul_add(2.0 * unit - 1.0, 1.0))
    }
}

#[cfg(test)]
mod tests;
