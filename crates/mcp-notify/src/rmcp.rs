//! Sinks over rmcp's [`Peer`] and [`SubscriptionSink`], pings and conversions (feature
//! `rmcp`).
//!
//! rmcp sends concurrent notifications of one peer in any order, and its send waits
//! without a limit for a client that does not read. The sinks here send one message at
//! a time per peer, within a deadline.
//!
//! A send that missed its deadline is still queued in rmcp and may be sent later. It is
//! therefore kept: a retry of the same notification awaits that send instead of
//! starting a second one, and the next notification is sent after it. If that next
//! notification completed the send, the retry gets its result. Nothing is sent twice or
//! out of order because of a slow client.
//!
//! ```no_run
//! use mcp_notify::rmcp::PeerSink;
//! use mcp_notify::{Delivery, Session};
//! use rmcp::{Peer, RoleServer};
//!
//! # fn example(peer: Peer<RoleServer>) {
//! let session = Session::builder().channel(PeerSink::new(peer)).build("session-1");
//! // Spawn this once; then push to `session` from anywhere.
//! let delivery_loop = Delivery::default().run(&session);
//! # drop(delivery_loop);
//! # }
//! ```

#[cfg(feature = "roots")]
mod roots;

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use rmcp::model::{
    ClientResult, CustomNotification, ErrorCode, PingRequest, ServerNotification, ServerRequest,
};
use rmcp::service::{ServiceError, SubscriptionSendError, SubscriptionSink};
use rmcp::{Peer, RoleServer};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::classify::Cause;
use crate::delivery::SEND_DEADLINE;
use crate::list_changed::ListKind;
use crate::notification::Notification;
use crate::session::{Session, SessionChannel};
use crate::sink::{NotificationSink, SendError, SendFuture};

#[cfg(feature = "roots")]
pub use self::roots::PeerRoots;

/// Sends to one client of a version with sessions (up to 2025-11-25), or on the stream
/// of one request.
///
/// Use it as the channel of a session, or as the sink of a server with one client
/// (stdio): it sends to that client, whatever the session.
///
/// `Ok` means that the transport accepted the message. rmcp's own HTTP sessions accept
/// it even if the client has no stream open.
pub struct PeerSink(SerialSender<Peer<RoleServer>>);

/// Sends on one `subscriptions/listen` stream (2026-07-28). rmcp adds the id of the
/// subscription, and refuses what the client did not subscribe to.
///
/// The stream carries `list_changed` and `resources/updated` only; anything else is
/// [`SendError::InvalidParams`].
pub struct ListenSink(SerialSender<SubscriptionSink>);

/// Pings the client, and returns whether it answered. For
/// [`Heartbeat`](crate::Heartbeat), which enforces the deadline; cancel-safe. Version
/// 2026-07-28 has no ping: the result is `false`.
pub async fn ping(peer: &Peer<RoleServer>) -> bool {
    let ping = PingRequest {
        method: <_>::default(),
        extensions: <_>::default(),
    };
    matches!(
        peer.send_request(ServerRequest::PingRequest(ping)).await,
        Ok(ClientResult::EmptyResult(_))
    )
}

type Sending = Pin<Box<dyn Future<Output = Result<(), SendError>> + Send>>;

/// A target of rmcp that messages can be sent to.
trait Target: Clone + Send + Sync + 'static {
    fn start(&self, notification: ServerNotification) -> Sending;
}

/// Sends one message at a time to a target.
struct SerialSender<T> {
    target: T,
    deadline: Duration,
    /// tokio's lock is fair, so that messages are sent in the order of the calls. It is
    /// held while sending, which is its purpose.
    sends: Mutex<Sends>,
}

#[derive(Default)]
struct Sends {
    in_flight: Option<InFlight>,
    /// Results of sends that another notification has completed, for a retry.
    completed: VecDeque<Completed>,
}

struct InFlight {
    notification: Notification,
    sending: Sending,
}

struct Completed {
    notification: Notification,
    result: Result<(), SendError>,
    at: Instant,
}

/// Maximum number of results that are kept for a retry: more than there are tasks that
/// send to one client.
const COMPLETED_MAX: usize = 16;

/// More than the longest delay before a retry.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

// === impl PeerSink ===

impl PeerSink {
    /// Sends to this peer, within the default deadline.
    pub fn new(peer: Peer<RoleServer>) -> Self {
        Self(SerialSender::new(peer))
    }

    /// Sets the deadline of one send.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.0.deadline = deadline;
        self
    }
}

// === impl ListenSink ===

impl ListenSink {
    /// Sends on this subscription's stream, within the default deadline.
    pub fn new(sink: SubscriptionSink) -> Self {
        Self(SerialSender::new(sink))
    }

    /// Sets the deadline of one send.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.0.deadline = deadline;
        self
    }
}

impl SessionChannel for PeerSink {
    fn send<'a>(&'a self, notification: &'a Notification) -> SendFuture<'a> {
        Box::pin(self.0.send(notification))
    }
}

impl SessionChannel for ListenSink {
    fn send<'a>(&'a self, notification: &'a Notification) -> SendFuture<'a> {
        Box::pin(self.0.send(notification))
    }
}

impl NotificationSink for PeerSink {
    fn send<'a>(&'a self, _: &'a Session, notification: &'a Notification) -> SendFuture<'a> {
        Box::pin(self.0.send(notification))
    }
}

impl NotificationSink for ListenSink {
    fn send<'a>(&'a self, _: &'a Session, notification: &'a Notification) -> SendFuture<'a> {
        Box::pin(self.0.send(notification))
    }
}

impl fmt::Debug for PeerSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerSink")
            .field("deadline", &self.0.deadline)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ListenSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenSink")
            .field("deadline", &self.0.deadline)
            .finish_non_exhaustive()
    }
}

// === impl SerialSender ===

impl<T: Target> SerialSender<T> {
    fn new(target: T) -> Self {
        Self {
            target,
            deadline: SEND_DEADLINE,
            sends: Mutex::default(),
        }
    }

    async fn send(&self, notification: &Notification) -> Result<(), SendError> {
        let message: ServerNotification =
            serde_json::from_slice(notification.frame()?).map_err(SendError::classify)?;
        match timeout(self.deadline, self.send_next(notification, message)).await {
            Ok(result) => result,
            Err(_) => Err(SendError::Deadline(self.deadline)),
        }
    }

    async fn send_next(
        &self,
        notification: &Notification,
        message: ServerNotification,
    ) -> Result<(), SendError> {
        let mut sends = self.sends.lock().await;
        if let Some(earlier) = &mut sends.in_flight {
            let result = earlier.sending.as_mut().await;
            if let Some(earlier) = sends.in_flight.take() {
                if earlier.notification.same(notification) {
                    return result;
                }
                sends.keep(earlier.notification, result);
            }
        }
        // A retry comes within its delay and the wait for the lock. A later call for the
        // same notification is a new send.
        if let Some(result) = sends.result_of(notification, self.deadline + RETRY_DELAY_MAX) {
            return result;
        }
        let send = InFlight {
            notification: notification.clone(),
            sending: self.target.start(message),
        };
        let result = sends.in_flight.insert(send).sending.as_mut().await;
        sends.in_flight = None;
        result
    }
}

impl Sends {
    fn keep(&mut self, notification: Notification, result: Result<(), SendError>) {
        if self.completed.len() == COMPLETED_MAX {
            self.completed.pop_front();
        }
        let at = Instant::now();
        self.completed.push_back(Completed {
            notification,
            result,
            at,
        });
    }

    /// Takes the result of the send of this notification, if it is not older than
    /// `age_max`.
    fn result_of(
        &mut self,
        notification: &Notification,
        age_max: Duration,
    ) -> Option<Result<(), SendError>> {
        self.completed.retain(|one| one.at.elapsed() <= age_max);
        let mut completed = self.completed.iter();
        let at = completed.position(|one| one.notification.same(notification))?;
        self.completed.remove(at).map(|one| one.result)
    }
}

impl Target for Peer<RoleServer> {
    fn start(&self, notification: ServerNotification) -> Sending {
        let peer = self.clone();
        let notification = with_params(notification);
        Box::pin(async move {
            peer.send_notification(notification)
                .await
                .map_err(SendError::classify)
        })
    }
}

impl Target for SubscriptionSink {
    fn start(&self, notification: ServerNotification) -> Sending {
        let sink = self.clone();
        Box::pin(async move { sink.send(notification).await.map_err(SendError::classify) })
    }
}

/// rmcp's own type for `list_changed` leaves empty parameters out. A custom notification
/// of the same method is written with them, as [`Notification::frame`] has them. A
/// subscription's stream needs no such step: its parameters hold the subscription's id.
fn with_params(notification: ServerNotification) -> ServerNotification {
    let (kind, extensions) = match notification {
        ServerNotification::ToolListChangedNotification(one) => (ListKind::Tools, one.extensions),
        ServerNotification::ResourceListChangedNotification(one) => {
            (ListKind::Resources, one.extensions)
        }
        ServerNotification::PromptListChangedNotification(one) => {
            (ListKind::Prompts, one.extensions)
        }
        other => return other,
    };
    ServerNotification::CustomNotification(CustomNotification {
        method: kind.method().as_str().to_owned(),
        params: Some(serde_json::json!({})),
        extensions,
    })
}

// === errors ===

/// The cause of an error of rmcp; `None` for another error.
pub(crate) fn cause_of(error: &(dyn Error + 'static)) -> Option<Cause> {
    if let Some(error) = error.downcast_ref::<SubscriptionSendError>() {
        return Some(match error {
            SubscriptionSendError::SubscriptionClosed => Cause::Known(SendError::Closed),
            SubscriptionSendError::UnsupportedNotification(_)
            | SubscriptionSendError::NotificationNotAccepted(_) => Cause::InvalidParams,
            SubscriptionSendError::Service(error) => cause_of_service(error),
            _ => Cause::Other,
        });
    }
    error.downcast_ref::<ServiceError>().map(cause_of_service)
}

fn cause_of_service(error: &ServiceError) -> Cause {
    match error {
        ServiceError::TransportClosed => Cause::Known(SendError::Closed),
        // rmcp does not expose it through `source`.
        ServiceError::TransportSend(error) => {
            Cause::of_chain(error.error.as_ref()).unwrap_or(Cause::Other)
        }
        ServiceError::Timeout { .. } => Cause::Timeout,
        ServiceError::Cancelled { .. } => Cause::Cancelled,
        ServiceError::McpError(error) if error.code == ErrorCode::INVALID_PARAMS => {
            Cause::InvalidParams
        }
        _ => Cause::Other,
    }
}

#[expect(
    deprecated,
    reason = "2026-07-28 removed log levels, and rmcp deprecates them"
)]
mod level {
    use rmcp::model::LoggingLevel;

    use crate::logging::Level;

    impl From<LoggingLevel> for Level {
        fn from(level: LoggingLevel) -> Self {
            match level {
                LoggingLevel::Debug => Self::Debug,
                LoggingLevel::Info => Self::Info,
                LoggingLevel::Notice => Self::Notice,
                LoggingLevel::Warning => Self::Warning,
                LoggingLevel::Error => Self::Error,
                LoggingLevel::Critical => Self::Critical,
                LoggingLevel::Alert => Self::Alert,
                LoggingLevel::Emergency => Self::Emergency,
            }
        }
    }
}

#[cfg(test)]
mod tests;
