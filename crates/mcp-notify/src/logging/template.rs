//! Log messages that share a prefix.

use std::sync::Arc;

use serde::Serialize;

use super::{Level, LogMessage};
use crate::notification::{EncodeError, Notification, Prefix, ResourceRef, SharedMembers};

/// A template of log messages: level, logger and the leading members of the data are
/// serialised and stored once for all messages.
///
/// ```
/// use mcp_notify::{Level, SharedMembers, MessageTemplate};
///
/// let shared = SharedMembers::new(&serde_json::json!({"price": 5}))?;
/// for cart in [7, 8] {
///     let first = serde_json::json!({"cart": cart});
///     let template = MessageTemplate::new(Level::Info, "shop", &first)?;
///     let message = template.render(&serde_json::json!({"seq": 1}), shared.clone());
///     let frame = message.frame().map_err(Clone::clone)?;
///     let data = format!(r#""data":{{"cart":{cart},"seq":1,"price":5}}}}}}"#);
///     assert!(frame.ends_with(data.as_bytes()));
/// }
/// # Ok::<(), mcp_notify::EncodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MessageTemplate {
    prefix: Arc<Prefix>,
}

// === impl MessageTemplate ===

impl MessageTemplate {
    /// A template for messages of this level and logger whose data begins with the
    /// members of `first`.
    ///
    /// # Errors
    /// [`EncodeError`] if `first` cannot be serialised or is not an object.
    pub fn new(level: Level, logger: &str, first: &impl Serialize) -> Result<Self, EncodeError> {
        let message = LogMessage::new(level, first).logger(logger);
        let prefix = message.into_notification().prefix()?;
        Ok(Self {
            prefix: Arc::new(prefix),
        })
    }

    /// Sets the resource that the messages are about, whose failures are counted.
    #[must_use]
    pub fn resource(mut self, resource: ResourceRef) -> Self {
        Arc::make_mut(&mut self.prefix).set_resource(resource);
        self
    }

    /// Renders a message: after the members of the template come the members of `own`,
    /// which has to be an object, and then the shared ones.
    pub fn render(&self, own: &impl Serialize, shared: SharedMembers) -> Notification {
        Notification::templated(&self.prefix, own, shared)
    }
}
