//! `notifications/message`: eight levels, and a threshold per session.

mod template;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use thiserror::Error;

pub use self::template::MessageTemplate;
use crate::delivery::Delivery;
use crate::fan_out::{BroadcastOutcome, fan_out};
use crate::method::Method;
use crate::notification::{Notification, ResourceRef};
use crate::session::{Session, SessionKey, WeakSession};
use crate::teardown::{Detach, DetachOn, shrink_sparse};

/// The severity of a log message, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// Normal, but significant.
    Notice,
    /// A warning condition.
    Warning,
    /// An error condition.
    Error,
    /// A component failed.
    Critical,
    /// Action is required immediately.
    Alert,
    /// The system is unusable.
    Emergency,
}

/// The text is not the name of a level. A server responds with the error code
/// [`UnknownLevel::CODE`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a log level")]
pub struct UnknownLevel(pub String);

/// A log message, to be made into a notification.
#[derive(Debug)]
#[must_use]
pub struct LogMessage<'a, D> {
    level: Level,
    logger: Option<&'a str>,
    data: &'a D,
    resource: Option<ResourceRef>,
}

/// Sends log messages to each session by its own level.
///
/// A session gets nothing until it sets a level. The level of a session changes
/// neither that of another session nor that of the process's log. Clones share the
/// service.
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
    /// All levels in ascending order.
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

    /// The name in the protocol.
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
    /// The JSON-RPC error code: invalid params.
    pub const CODE: i32 = -32602;
}

// === impl LogMessage ===

impl<'a, D: Serialize> LogMessage<'a, D> {
    /// A message of this level with this data.
    pub fn new(level: Level, data: &'a D) -> Self {
        Self {
            level,
            logger: None,
            data,
            resource: None,
        }
    }

    /// Sets the logger's name.
    pub fn logger(mut self, logger: &'a str) -> Self {
        self.logger = Some(logger);
        self
    }

    /// Sets the resource that the message is about, whose failures are counted.
    pub fn resource(mut self, resource: ResourceRef) -> Self {
        self.resource = Some(resource);
        self
    }

    /// The notification. It has no coalescing key, because no message replaces another.
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
            resource,
        } = self;
        let builder = Notification::builder(Method::MESSAGE).params(&Params {
            level,
            logger,
            data,
        });
        match resource {
            Some(resource) => builder.resource(resource).build(),
            None => builder.build(),
        }
    }
}

// === impl LoggingService ===

impl LoggingService {
    /// A service that sends through `delivery`.
    pub fn new(delivery: Delivery) -> Self {
        Self {
            delivery,
            targets: Arc::default(),
        }
    }

    /// Handles `logging/setLevel`: from now on the session gets messages of this level
    /// and above. False if the session is closed.
    pub fn set_level(&self, session: &Session, threshold: Level) -> bool {
        let key = session.key();
        session.set_log_level(Some(threshold));
        let target = Target {
            session: session.downgrade(),
            threshold,
        };
        self.targets.0.lock().insert(key, target);
        let registry: Arc<dyn Detach> = Arc::clone(&self.targets) as _;
        let attached = session.attach(&registry, DetachOn::Prune);
        if !attached {
            registry.detach(key);
        }
        attached
    }

    /// The level of the session; `None` until it sets one.
    pub fn level(&self, session: &Session) -> Option<Level> {
        self.targets
            .0
            .lock()
            .get(&session.key())
            .map(|target| target.threshold)
    }

    /// The number of sessions that have set a level.
    pub fn len(&self) -> usize {
        self.targets.0.lock().len()
    }

    /// Whether no session has set a level.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends the message to every session whose level admits it, and waits for each
    /// outcome. Without such a session nothing is serialised.
    ///
    /// A session whose connection failed is pruned afterwards and so loses its level.
    /// Dropping the future cancels the sends that are in flight.
    pub async fn log<D: Serialize>(&self, message: LogMessage<'_, D>) -> BroadcastOutcome {
        let targets = self.admitting(message.level);
        if targets.is_empty() {
            return BroadcastOutcome::default();
        }
        fan_out(&self.delivery, targets, &message.into_notification()).await
    }

    /// Pushes the message to the outbox of every session whose level admits it,
    /// without waiting. Returns the number of outboxes that took it.
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

    /// Pushes the message to the outbox of one session if its level admits it.
    pub fn publish_to<D: Serialize>(&self, session: &Session, message: LogMessage<'_, D>) -> bool {
        self.level(session)
            .is_some_and(|threshold| threshold <= message.level)
            && session
                .push(message.into_notification())
                .into_result()
                .is_ok()
    }

    /// The sessions whose level admits a message: copied under the lock, so that
    /// sending happens outside of it.
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
        shrink_sparse(&mut targets);
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
