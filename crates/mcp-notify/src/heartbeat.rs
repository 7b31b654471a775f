//! Is the client still there? Asking now and then, and listening to everything.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

use crate::phi::PhiEstimate;
use crate::session::{CloseReason, Session};
use crate::version::ProtocolVersion;

/// How often to ask, and when to worry. Start from the default:
///
/// ```
/// let mut config = mcp_notify::HeartbeatConfig::default();
/// config.failures_max = 5;
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct HeartbeatConfig {
    /// Time between a sign of life and the next ping: 5 s.
    pub interval: Duration,
    /// How much of the interval is left to chance, so that a thousand sessions
    /// are not asked in one moment: 0.2, as in 20 %.
    pub jitter: f64,
    /// How long a ping may take: 2 s.
    pub timeout: Duration,
    /// The suspicion above which a session is suspect: 5.0, as in one in a
    /// hundred thousand.
    pub phi_max: f64,
    /// How many pings in a row may fail: 3. One more, and the session is down.
    pub failures_max: u32,
}

/// Whether a session is there.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Health {
    /// Nothing is wrong.
    Alive,
    /// It has been silent for longer than its past lets one expect.
    Suspect {
        /// How much longer.
        phi: f64,
    },
    /// It is gone.
    Down,
}

/// Signs of life of one session. A clone is the same pulse.
///
/// Call [`beat`](Self::beat) for every message that comes in: it spares a ping
/// and clears suspicion. What goes *out* is no sign of life.
#[derive(Clone)]
pub struct Pulse(Arc<Mutex<Signs>>);

struct Signs {
    last: Instant,
    /// The pong before, if nothing else came since: only then is the time to
    /// the next one an interval of the estimate.
    last_pong: Option<Instant>,
    estimate: PhiEstimate,
    failures: u32,
    health: Health,
}

/// Why a heartbeat ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeartbeatEnd {
    /// The session did not answer and was closed.
    Down,
    /// The session ended otherwise.
    SessionEnded,
}

type Callback = Arc<dyn Fn(&Session, Health) + Send + Sync>;

/// Pings one session until it is down or ends.
#[derive(Clone)]
#[must_use]
pub struct Heartbeat {
    config: HeartbeatConfig,
    on_suspect: Callback,
    on_down: Callback,
}

// === impl Heartbeat ===

impl Heartbeat {
    /// A heartbeat with this rhythm. A jitter that is no share becomes the
    /// nearest that is, none at all if it is no number; no time is longer than
    /// a year.
    pub fn new(config: HeartbeatConfig) -> Self {
        Self {
            config: config.within_reason(),
            on_suspect: Arc::new(|_, _| ()),
            on_down: Arc::new(|_, _| ()),
        }
    }

    /// Called once when a session becomes suspect, and again only after it
    /// was heard of in between.
    pub fn on_suspect(mut self, call: impl Fn(&Session, Health) + Send + Sync + 'static) -> Self {
        self.on_suspect = Arc::new(call);
        self
    }

    /// Called once when a session is down, before it is closed.
    pub fn on_down(mut self, call: impl Fn(&Session, Health) + Send + Sync + 'static) -> Self {
        self.on_down = Arc::new(call);
        self
    }

    /// Whether a session of this version can be pinged at all.
    pub fn applies_to(version: &ProtocolVersion) -> bool {
        version.has_ping()
    }

    /// A pulse for one session, as if just heard of.
    pub fn pulse(&self) -> Pulse {
        let HeartbeatConfig {
            interval,
            jitter,
            timeout,
            ..
        } = self.config;
        let estimate = PhiEstimate::new(interval.as_secs_f64(), jitter, timeout.as_secs_f64());
        Pulse(Arc::new(Mutex::new(Signs {
            last: Instant::now(),
            last_pong: None,
            estimate,
            failures: 0,
            health: Health::Alive,
        })))
    }

    /// Pings with `ping` until the session is down, which closes it and so
    /// removes it everywhere, or ends otherwise. `ping` returns whether an
    /// answer came; its timeout is kept here. Does not keep the session alive.
    ///
    /// A session that falls silent is down at the latest
    /// `(failures_max + 1) * (interval * (1 + jitter) + timeout)` after its last
    /// sign of life: 32 s.
    /// Dropping the future ends the heartbeat and nothing else.
    pub fn run<P, F>(
        &self,
        session: &Session,
        pulse: &Pulse,
        ping: P,
    ) -> impl Future<Output = HeartbeatEnd> + Send + 'static
    where
        P: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send,
    {
        let Self {
            config,
            on_suspect,
            on_down,
        } = self.clone();
        let (session, pulse) = (session.unowned(), pulse.clone());
        async move {
            let mut chance = Chance::new();
            let mut asked = Instant::now();
            loop {
                let wait = chance.around(config.interval, config.jitter);
                // Each sign of life puts the ping off, counted from that sign.
                loop {
                    let due = pulse.last().max(asked) + wait;
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
                asked = Instant::now();
                if answered {
                    pulse.pong();
                    continue;
                }
                match pulse.missed(&config) {
                    None => {}
                    Some(Health::Down) => {
                        on_down(&session, Health::Down);
                        session.close(CloseReason::Down);
                        return HeartbeatEnd::Down;
                    }
                    Some(suspect) => on_suspect(&session, suspect),
                }
            }
        }
    }
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Heartbeat").field(&self.config).finish()
    }
}

impl HeartbeatConfig {
    /// Such that no sum of it overflows.
    fn within_reason(self) -> Self {
        const LONG: Duration = Duration::from_hours(365 * 24);
        let jitter = if self.jitter.is_nan() {
            0.0
        } else {
            self.jitter.clamp(0.0, 1.0)
        };
        Self {
            interval: self.interval.min(LONG),
            timeout: self.timeout.min(LONG),
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
            phi_max: 5.0,
            failures_max: 3,
        }
    }
}

// === impl Pulse ===

impl Pulse {
    /// Something came in from the session.
    ///
    /// It does not enter the estimate: a client that talks a lot and then falls
    /// quiet is not sick.
    pub fn beat(&self) {
        let mut signs = self.0.lock();
        signs.alive_at(Instant::now());
        signs.last_pong = None;
    }

    /// How the session is, as far as was seen.
    pub fn health(&self) -> Health {
        self.0.lock().health
    }

    fn last(&self) -> Instant {
        self.0.lock().last
    }

    fn pong(&self) {
        let mut signs = self.0.lock();
        let now = Instant::now();
        if let Some(before) = signs.last_pong.replace(now) {
            signs.estimate.observe((now - before).as_secs_f64());
        }
        signs.alive_at(now);
    }

    /// A ping failed. The new state, if it changed.
    fn missed(&self, config: &HeartbeatConfig) -> Option<Health> {
        let mut signs = self.0.lock();
        signs.failures += 1;
        // A silence is not an interval.
        signs.last_pong = None;
        let phi = signs.estimate.phi(signs.last.elapsed().as_secs_f64());
        let health = if signs.failures > config.failures_max {
            Health::Down
        } else if phi > config.phi_max {
            Health::Suspect { phi }
        } else {
            return None;
        };
        let was = std::mem::replace(&mut signs.health, health);
        (!matches!(
            (was, health),
            (Health::Suspect { .. }, Health::Suspect { .. })
        ))
        .then_some(health)
    }
}

impl Signs {
    fn alive_at(&mut self, now: Instant) {
        self.last = now;
        self.failures = 0;
        self.health = Health::Alive;
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pulse").field(&self.health()).finish()
    }
}

/// Enough chance to spread pings, from the process's own hash seed.
struct Chance {
    seed: RandomState,
    drawn: u64,
}

impl Chance {
    fn new() -> Self {
        Self {
            seed: RandomState::new(),
            drawn: 0,
        }
    }

    /// Something between `(1 - share) * mean` and `(1 + share) * mean`.
    fn around(&mut self, mean: Duration, share: f64) -> Duration {
        self.drawn += 1;
        #[expect(clippy::cast_precision_loss, reason = "a little less chance is enough")]
        let unit = self.seed.hash_one(self.drawn) as f64 / u64::MAX as f64;
        mean.mul_f64(share.mul_add(2.0 * unit - 1.0, 1.0))
    }
}

#[cfg(test)]
mod tests;
