//! Log messages that begin alike.

use serde::Serialize;

use super::{Level, LogMessage};
use crate::notification::{About, EncodeError, Head, Notification, SharedMembers};

/// One who logs again and again: level, logger and the members that are in the data of
/// every message are serialised once.
///
/// ```
/// use mcp_notify::{Level, SharedMembers, Voice};
///
/// let voice = Voice::new(Level::Info, "shop", &serde_json::json!({"cart": 7}))?;
/// let news = SharedMembers::new(&serde_json::json!({"pod": "web-0"}))?;
/// let message = voice.say(&serde_json::json!({"seq": 1}), Some(news));
/// let frame = message.frame().map_err(Clone::clone)?;
/// assert!(frame.ends_with(br#""data":{"cart":7,"seq":1,"pod":"web-0"}}}"#));
/// # Ok::<(), mcp_notify::EncodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Voice {
    level: Level,
    head: Head,
    about: Option<About>,
}

// === impl Voice ===

impl Voice {
    /// A voice at that level, with members that every message begins with.
    ///
    /// # Errors
    /// [`EncodeError`] if they cannot be serialised, or are no object.
    pub fn new(level: Level, logger: &str, first: &impl Serialize) -> Result<Self, EncodeError> {
        let message = LogMessage::new(level, first).logger(logger);
        Ok(Self {
            level,
            head: message.into_notification().into_head()?,
            about: None,
        })
    }

    /// Says which resource its messages are about, so that a failure is counted there.
    #[must_use]
    pub fn about(mut self, about: About) -> Self {
        self.about = Some(about);
        self
    }

    /// How loud it is.
    pub fn level(&self) -> Level {
        self.level
    }

    /// A message with more members: its own, which have to be an object, and those
    /// that others have, too.
    pub fn say(&self, own: &impl Serialize, shared: Option<SharedMembers>) -> Notification {
        self.head.followed_by(own, shared, self.about.clone())
    }
}
