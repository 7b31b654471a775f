//! Sinks: where notifications are sent to, with a typed result per session.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::notification::{EncodeError, Notification};
use crate::outbox::PushOutcome;
use crate::session::Session;

/// The future of a send, boxed so that a sink can be a trait object.
///
/// Boxing costs one allocation per send, and none per session of a publish: the hot
/// path pushes to outboxes and makes no such future.
pub type SendFuture<'a> = Pin<Box<dyn Future<Output = Result<(), SendError>> + Send + 'a>>;

/// An error of another library, kept for the log record.
pub type BoxError = Box<dyn Error + Send + Sync + 'static>;

/// Sends one notification to one session.
///
/// Implement it for a transport of your own. A sink does not retry, does not log and
/// has no deadline: [`Delivery`](crate::Delivery) does all three, and catches a panic.
/// The future of a send may be dropped at any await, when the deadline passes or the
/// session is closed.
///
/// ```
/// use mcp_notify::{Notification, NotificationSink, SendError, SendFuture, Session};
///
/// struct Discard;
///
/// impl NotificationSink for Discard {
///     fn send<'a>(&'a self, _: &'a Session, notification: &'a Notification) -> SendFuture<'a> {
///         Box::pin(async move {
///             notification.frame().map_err(SendError::from)?;
///             Ok(())
///         })
///     }
/// }
/// ```
pub trait NotificationSink: Send + Sync + 'static {
    /// Sends one notification to one session.
    ///
    /// # Errors
    /// The [`SendError`] decides whether the send is retried, how it is counted, and
    /// whether the session is pruned.
    fn send<'a>(&'a self, session: &'a Session, notification: &'a Notification) -> SendFuture<'a>;

    /// Sends without waiting, for a sink that can: a broadcast then makes no future
    /// per session. The default, `None`, means that the sink cannot and that
    /// [`send`](Self::send) is to be used. A failure here counts as the first send of
    /// the notification; retries go through `send`.
    fn try_send(
        &self,
        _session: &Session,
        _notification: &Notification,
    ) -> Option<Result<(), SendError>> {
        None
    }

    /// Whether the sink pushes to the session's outbox, as [`OutboxSink`] does.
    /// [`Delivery::run`](crate::Delivery::run) drains the outbox and refuses such a
    /// sink, which would be an endless loop.
    fn queues(&self, _session: &Session) -> bool {
        false
    }
}

/// The default sink: sends over the session's own channel, see [`Session::send`].
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultSink;

/// A sink that pushes to the session's outbox. It never waits, and fails only if the
/// outbox is closed or refuses the notification.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutboxSink;

/// Why a send failed.
///
/// [`SendError::classify`](crate::SendError::classify) maps an error of another
/// library to a variant.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The connection failed. Retried; prunes the session when abandoned.
    #[error("network: {0}")]
    Network(#[source] Arc<dyn Error + Send + Sync>),
    /// The deadline of the send passed. Retried; prunes the session when abandoned.
    #[error("not sent within {0:?}")]
    Deadline(Duration),
    /// The transport timed out. Retried; prunes the session when abandoned.
    #[error("timeout: {0}")]
    Timeout(#[source] Arc<dyn Error + Send + Sync>),
    /// The peer is closed. Not retried; prunes the session.
    #[error("the session is closed")]
    Closed,
    /// The payload cannot be serialised. Not retried; the payload is at fault, so the
    /// session is not pruned.
    #[error("{0}")]
    Serialization(#[source] Arc<dyn Error + Send + Sync>),
    /// The peer or the transport refuses these parameters. Not retried; the session is
    /// not pruned.
    #[error("invalid parameters: {0}")]
    InvalidParams(String),
    /// The send was cancelled. Not retried.
    #[error("cancelled")]
    Cancelled,
    /// The outbox had no room for it. Not retried.
    #[error("the outbox is full")]
    Full,
    /// The sink panicked. Not retried.
    #[error("the sink panicked: {0}")]
    Panicked(String),
    /// Any other error. Not retried, because it may not be temporary.
    #[error("{0}")]
    Other(#[source] Arc<dyn Error + Send + Sync>),
}

// === impl SendError ===

impl SendError {
    /// A failed connection, with its cause.
    pub fn network(error: impl Into<BoxError>) -> Self {
        Self::Network(Arc::from(error.into()))
    }

    /// Any other error, with its cause.
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::Other(Arc::from(error.into()))
    }
}

impl From<EncodeError> for SendError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::Json(_) => Self::Serialization(Arc::new(error)),
            EncodeError::NotAnObject => Self::InvalidParams(error.to_string()),
        }
    }
}

impl From<&EncodeError> for SendError {
    fn from(error: &EncodeError) -> Self {
        error.clone().into()
    }
}

// === impl sinks ===

impl NotificationSink for DefaultSink {
    fn send<'a>(&'a self, session: &'a Session, notification: &'a Notification) -> SendFuture<'a> {
        Box::pin(session.send(notification))
    }

    fn try_send(
        &self,
        session: &Session,
        notification: &Notification,
    ) -> Option<Result<(), SendError>> {
        let queues = self.queues(session);
        queues.then(|| session.push(notification.clone()).into_result())
    }

    fn queues(&self, session: &Session) -> bool {
        !session.has_channel()
    }
}

impl NotificationSink for OutboxSink {
    fn send<'a>(&'a self, session: &'a Session, notification: &'a Notification) -> SendFuture<'a> {
        let outcome = session.push(notification.clone());
        Box::pin(std::future::ready(outcome.into_result()))
    }

    fn try_send(
        &self,
        session: &Session,
        notification: &Notification,
    ) -> Option<Result<(), SendError>> {
        Some(session.push(notification.clone()).into_result())
    }

    fn queues(&self, _: &Session) -> bool {
        true
    }
}

impl<S: NotificationSink + ?Sized> NotificationSink for Arc<S> {
    fn send<'a>(&'a self, session: &'a Session, notification: &'a Notification) -> SendFuture<'a> {
        (**self).send(session, notification)
    }

    fn try_send(
        &self,
        session: &Session,
        notification: &Notification,
    ) -> Option<Result<(), SendError>> {
        (**self).try_send(session, notification)
    }

    fn queues(&self, session: &Session) -> bool {
        (**self).queues(session)
    }
}

impl PushOutcome {
    /// The outcome as the result of a send.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::Full`] if the notification itself was
    /// dropped. Evicting others to make room is not an error.
    pub fn into_result(self) -> Result<(), SendError> {
        match self {
            Self::Queued { .. } | Self::Merged { .. } => Ok(()),
            Self::Closed => Err(SendError::Closed),
            Self::Refused => Err(SendError::Full),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{CloseReason, SessionChannel};
    use crate::testing::numbered;

    struct Refuses;

    impl SessionChannel for Refuses {
        fn send<'a>(&'a self, _: &'a Notification) -> SendFuture<'a> {
            Box::pin(async { Err(SendError::InvalidParams("no".into())) })
        }
    }

    #[tokio::test]
    async fn the_default_sink_forwards_to_the_sessions_own_send() {
        let session = Session::builder().channel(Refuses).build("s");
        let result = DefaultSink.send(&session, &numbered(1)).await;
        assert!(
            matches!(result, Err(SendError::InvalidParams(_))),
            "its result comes back"
        );
        assert!(DefaultSink.try_send(&session, &numbered(1)).is_none());
        assert_eq!(session.outbox().stats().pushed, 0);
    }

    #[tokio::test]
    async fn a_sink_that_queues_pushes_and_says_when_it_cannot() {
        let session = Session::new("s");
        assert!(OutboxSink.send(&session, &numbered(1)).await.is_ok());
        assert!(matches!(
            DefaultSink.try_send(&session, &numbered(2)),
            Some(Ok(()))
        ));
        assert_eq!(session.outbox().stats().pending, 2);
        session.close(CloseReason::Requested);
        let result = OutboxSink.send(&session, &numbered(3)).await;
        assert!(matches!(result, Err(SendError::Closed)));
    }
}
