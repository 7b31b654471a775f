//! Log messages that begin alike.

use std::sync::Arc;

use serde::Serialize;

use super::{Level, LogMessage};
use crate::notification::{About, EncodeError, Notification, Opening, SharedMembers};

/// One who logs again and again: level, logger and the members that are in the data of
/// every message are serialised once, and kept once.
///
/// ```
/// use mcp_notify::{Level, SharedMembers, Voice};
///
/// let news = SharedMembers::new(&serde_json::json!({"price": 5}))?;
/// for cart in [7, 8] {
///     let voice = Voice::new(Level::Info, "shop", &serde_json::json!({"cart": cart}))?;
///     let message = voice.say(&serde_json::json!({"seq": 1}), news.clone());
///     let frame = message.frame().map_err(Clone::clone)?;
///     let data = format!(r#""data":{{"cart":{cart},"seq":1,"price":5}}}}}}"#);
///     assert!(frame.ends_with(data.as_bytes()));
/// }
/// # Ok::<(), mcp_notify::EncodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Voice {
    opening: Arc<Opening>,
}

// === impl Voice ===

impl Voice {
    /// A voice at that level, with members that every message begins with.
    ///
    /// # Errors
    /// [`EncodeError`] if they cannot be serialised, or are no object.
    pub fn new(level: Level, logger: &str, first: &impl Serialize) -> Result<Self, EncodeError> {
        let message = LogMessage::new(level, first).logger(logger);
        let opening = message.into_notification().opening()?;
        Ok(Self {
            opening: Arc::new(opening),
        })
    }

    /// Says which resource its messages are about, so that a failure is counted there.
    #[must_use]
    pub fn about(mut self, about: About) -> Self {
        Arc::make_mut(&mut self.opening).set_about(about);
        self
    }

    /// A message with more members: its own, which have to be an object, and those
    /// that the messages of others have, too.
    pub fn say(&self, own: &impl Serialize, shared: SharedMembers) -> Notification {
        Notification::spoken(&self.opening, own, shared)
    }
}
