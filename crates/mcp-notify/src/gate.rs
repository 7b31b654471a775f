//! A condition that holds when a notification is pushed, and that has to hold when it is sent.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// Decides, at the moment in which a notification would be sent, whether it may be: its
/// receiver may have lost the right to read it while it was pending.
///
/// A notification with a gate is made by [`Notification::gated`](crate::Notification::gated).
/// [`Delivery::run`](crate::Delivery::run) asks the gate; a stream of your own asks it with
/// [`Notification::admit`](crate::Notification::admit) before it writes, and again before it
/// replays. What is not admitted is [abandoned](crate::OutboxBatch::abandon): a gap takes its
/// place.
pub trait Gate: Send + Sync + 'static {
    /// Whether the notification may be sent now. Must not block.
    fn admit(&self) -> Admission;
}

/// The answer of a [`Gate`].
#[non_exhaustive]
pub enum Admission {
    /// It may be sent.
    Open,
    /// It must not be sent.
    Shut,
    /// It is not known yet: wait for the answer, whether it may be sent.
    Pending(Pin<Box<dyn Future<Output = bool> + Send>>),
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "Open",
            Self::Shut => "Shut",
            Self::Pending(_) => "Pending",
        })
    }
}
