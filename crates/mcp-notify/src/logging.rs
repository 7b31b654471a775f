//! `notifications/message`: eight levels, and a threshold per session.

mod voice;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use thiserror::Error;

pub use self::voice::Voice;
use crate::delivery::Delivery;
use crate::fan_out::{Broadcast, fan_out};
use crate::method::Method;
use crate::notification::{About, Notification};
use crate::session::{Session, SessionKey, WeakSession};
use crate::teardown::{Detach, Until, give_back};

/// How severe a log message is, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// For whoever looks for a fault.
    Debug,
    /// The ordinary course of things.
    Info,
    /// Ordinary, and worth a look.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something failed.
    Error,
    /// A part of the system failed.
    Critical,
    /// Somebody has to act at once.
    Alert,
    /// The system is unusable.
    Emergency,
}

/// The text is not the name of a level. A server answers it with
/// [`UnknownLevel::CODE`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a log level")]
pub struct UnknownLevel(pub String);

/// A log message on its way to become a notification.
#[derive(Debug)]
#[must_use]
pub struct LogMessage<'a, D> {
    level: Level,
    logger: Option<&'a str>,
    data: &'a D,
    about: Option<About>,
}

/// Sends log messages to the sessions that asked for them.
///
/// Nothing goes to a session that has not set a level. A session's level is
/// its own: it changes neither another session's nor that of the process. A
/// clone is the same service.
#[derive(Clone)]
pub struct LoggingService {
    delivery: Delivery,
    targets: Arc<Targets>,
}

#[derive(Default)]
struct Targets(Mutex<HashMap<SessionKey, Target>>);

struct Target {
    session: WeakSession,
    threshold: Level,
}

// === impl Level ===

impl Level {
    /// All of them, from the least severe to the most.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The name as the protocol spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    pub(crate) const fn number(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        let found = Self::ALL.into_iter().find(|level| level.as_str() == text);
        found.ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}

impl UnknownLevel {
    /// The JSON-RPC error code for it: invalid params.
    pub const CODE: i32 = -32602;
}

// === impl LogMessage ===

impl<'a, D: Serialize> LogMessage<'a, D> {
    /// A message of this level that carries `data`.
    pub fn new(level: Level, data: &'a D) -> Self {
        Self {
            level,
            logger: None,
            data,
            about: None,
        }
    }

    /// Says who logs.
    pub fn logger(mut self, logger: &'a str) -> Self {
        self.logger = Some(logger);
        self
    }

    /// Says which resource it is about, so that a failure is counted there.
    pub fn about(mut self, about: About) -> Self {
        self.about = Some(about);
        self
    }

    /// The notification. Every message counts, so it has no coalescing key.
    pub fn into_notification(self) -> Notification {
        #[derive(Serialize)]
        struct Params<'a, D> {
            level: Level,
            #[serde(skip_serializing_if = "Option::is_none")]
            logger: Option<&'a str>,
            data: &'a D,
        }
        let Self {
            level,
            logger,
            data,
            about,
        } = self;
        let builder = Notification::builder(Method::MESSAGE).params(&Params {
            level,
            logger,
            data,
        });
        match about {
            Some(about) => builder.about(about).build(),
            None => builder.build(),
        }
    }
}

// === impl LoggingService ===

impl LoggingService {
    /// A service that sends through this delivery.
    pub fn new(delivery: Delivery) -> Self {
        Self {
            delivery,
            targets: Arc::default(),
        }
    }

    /// What `logging/setLevel` does: from now on the session gets messages of
    /// this level and above. False if it has ended.
    pub fn set_level(&self, session: &Session, threshold: Level) -> bool {
        let key = session.key();
        session.set_log_level(Some(threshold));
        let target = Target {
            session: session.downgrade(),
            threshold,
        };
        self.targets.0.lock().insert(key, target);
        let part: Arc<dyn Detach> = Arc::clone(&self.targets) as _;
        let attached = session.attach(&part, Until::Pruned);
        if !attached {
            part.detach(key);
        }
        attached
    }

    /// The session's threshold; `None` until it sets one.
    pub fn level(&self, session: &Session) -> Option<Level> {
        self.targets
            .0
            .lock()
            .get(&session.key())
            .map(|target| target.threshold)
    }

    /// How many sessions have set a level.
    pub fn len(&self) -> usize {
        self.targets.0.lock().len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends the message to every session whose threshold admits it, and
    /// waits for each outcome. Without any it serialises nothing.
    ///
    /// Sessions whose connection failed have no level afterwards. Dropping the
    /// future ends what is still being sent.
    pub async fn log<D: Serialize>(&self, message: LogMessage<'_, D>) -> Broadcast {
        let targets = self.admitting(message.level);
        if targets.is_empty() {
            return Broadcast::default();
        }
        fan_out(&self.delivery, targets, &message.into_notification()).await
    }

    /// Pushes the message to the outboxes of those sessions, without waiting
    /// for any. Returns to how many.
    pub fn publish<D: Serialize>(&self, message: LogMessage<'_, D>) -> usize {
        let targets = self.admitting(message.level);
        if targets.is_empty() {
            return 0;
        }
        let notification = message.into_notification();
        targets
            .iter()
            .filter(|s| s.push(notification.clone()).into_result().is_ok())
            .count()
    }

    /// Pushes the message to one session if its threshold admits it.
    pub fn publish_to<D: Serialize>(&self, session: &Session, message: LogMessage<'_, D>) -> bool {
        self.level(session)
            .is_some_and(|threshold| threshold <= message.level)
            && session
                .push(message.into_notification())
                .into_result()
                .is_ok()
    }

    /// Copied under the lock, so that sending happens outside it.
    fn admitting(&self, level: Level) -> Vec<Session> {
        let targets = self.targets.0.lock();
        targets
            .values()
            .filter(|target| target.threshold <= level)
            .filter_map(|target| target.session.upgrade_unowned())
            .collect()
    }
}

impl Detach for Targets {
    fn detach(&self, session: SessionKey) {
        let mut targets = self.0.lock();
        targets.remove(&session);
        give_back(&mut targets);
    }
}

impl fmt::Debug for LoggingService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggingService")
            .field("targets", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
impl LoggingService {
    pub(crate) fn capacity(&self) -> usize {
        self.targets.0.lock().capacity()
    }
}

#[cfg(test)]
mod tests;
