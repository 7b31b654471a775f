//! Where a notification is in the feed that it comes from.

use std::sync::Arc;

use super::{Inner, Notification};

/// A position in a feed, attached to a notification: a transport whose streams can be resumed
/// elsewhere puts it into the id of the event that it writes. The library only carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The feed, as the server numbers the feeds of a session.
    pub feed: u32,
    /// The position in the feed; what the numbers mean is the server's matter.
    pub position: [u64; 4],
}

impl Notification {
    /// The same notification with a mark. To be called before it is cloned: one that is shared
    /// already stays as it is.
    #[must_use]
    pub fn marked(mut self, mark: Mark) -> Self {
        match Arc::get_mut(&mut self.0) {
            Some(Inner::Built(built)) => built.mark = Some(Box::new(mark)),
            Some(Inner::Templated(templated)) => templated.mark = Some(Box::new(mark)),
            Some(Inner::Gated(..)) | None => {}
        }
        self
    }

    /// The mark, if it has one.
    pub fn mark(&self) -> Option<&Mark> {
        match &*self.0 {
            Inner::Built(built) => built.mark.as_deref(),
            Inner::Templated(templated) => templated.mark.as_deref(),
            Inner::Gated(inner, _) => inner.mark(),
        }
    }
}
