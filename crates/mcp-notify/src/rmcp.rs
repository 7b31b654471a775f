//! Sinks over rmcp's [`Peer`] and [`SubscriptionSink`], and what else a server
//! on rmcp needs (feature `rmcp`).
//!
//! rmcp sends concurrent notifications of one peer in any order, and its send
//! waits for ever on a client that does not read. The sinks here send one
//! message at a time per peer, within a deadline.
//!
//! A send that outlived its deadline is still in rmcp's hands and may yet go
//! out. It is therefore kept: a retry of the same notification waits for that
//! very send instead of making a second one, and the next notification goes
//! after it. If that next one saw the send end, the retry is told how it ended.
//! Nothing is sent twice or out of order because of a slow client.
//!
//! ```no_run
//! use mcp_notify::rmcp::PeerSink;
//! use mcp_notify::{Delivery, Session};
//! use rmcp::{Peer, RoleServer};
//!
//! # fn example(peer: Peer<RoleServer>) {
//! let session = Session::builder().channel(PeerSink::new(peer)).build("session-1");
//! // Spawn this once; then push to `session` from anywhere.
//! let loop_of_session = Delivery::default().run(&session);
//! # drop(loop_of_session);
//! # }
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use rmcp::model::{ClientResult, ErrorCode, PingRequest, ServerNotification, ServerRequest};
use rmcp::service::{ServiceError, SubscriptionSendError, SubscriptionSink};
use rmcp::{Peer, RoleServer};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::classify::Kind;
use crate::delivery::SEND_DEADLINE;
use crate::notification::Notification;
use crate::session::{Session, SessionChannel};
use crate::sink::{NotificationSink, SendError, SendFuture};

pub use self::legacy::PeerRoots;

/// Sends to one client of a version with sessions (up to 2025-11-25), or over
/// the stream of one request.
///
/// Give it to a session as its channel, or use it as the sink of a server that
/// has one client (stdio); then it sends to that client whatever the session.
///
/// `Ok` means that the transport took the message. Over rmcp's own HTTP
/// sessions that is also so when the client has no stream open.
pub struct PeerSink(OneAtATime<Peer<RoleServer>>);

/// Sends on one `subscriptions/listen` stream (2026-07-28). rmcp adds the
/// subscription's id, and refuses what the client did not ask for.
///
/// Only `list_changed` and `resources/updated` can go there; anything else is
/// [`SendError::InvalidParams`].
pub struct ListenSink(OneAtATime<SubscriptionSink>);

/// Asks the client for a sign of life. For [`Heartbeat`](crate::Heartbeat),
/// which keeps the timeout; cancel-safe. Fails, as in `false`, with 2026-07-28,
/// which has no ping.
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

/// Where rmcp takes messages.
trait Target: Clone + Send + Sync + 'static {
    fn start(&self, notification: ServerNotification) -> Sending;
}

struct OneAtATime<T> {
    target: T,
    deadline: Duration,
    /// tokio's lock is fair: who comes first sends first. It is held while
    /// sending, which is its purpose.
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    under_way: Option<InFlight>,
    /// Sends that ended while another notification waited for its turn, until
    /// whoever sent them asks again.
    ended: VecDeque<Ended>,
}

struct InFlight {
    notification: Notification,
    sending: Sending,
}

struct Ended {
    notification: Notification,
    result: Result<(), SendError>,
    at: Instant,
}

/// How many results wait for a retry: more than there are tasks that send to
/// one client.
const ENDED_MAX: usize = 16;

/// The longest pause before a retry, with room to spare.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);

// === impl PeerSink ===

impl PeerSink {
    /// Sends to this peer, within the default deadline.
    pub fn new(peer: Peer<RoleServer>) -> Self {
        Self(OneAtATime::new(peer))
    }

    /// Another deadline for one send.
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
        Self(OneAtATime::new(sink))
    }

    /// Another deadline for one send.
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

// === impl OneAtATime ===

impl<T: Target> OneAtATime<T> {
    fn new(target: T) -> Self {
        Self {
            target,
            deadline: SEND_DEADLINE,
            line: Mutex::default(),
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
        let mut line = self.line.lock().await;
        if let Some(earlier) = &mut line.under_way {
            let result = earlier.sending.as_mut().await;
            if let Some(earlier) = line.under_way.take() {
                if earlier.notification.same(notification) {
                    return result;
                }
                line.keep(earlier.notification, result);
            }
        }
        // A retry comes within its pause and the wait for its turn. Who asks
        // later means another send, not that one.
        if let Some(result) = line.result_of(notification, self.deadline + RETRY_PAUSE_MAX) {
            return result;
        }
        let under_way = InFlight {
            notification: notification.clone(),
            sending: self.target.start(message),
        };
        let result = line.under_way.insert(under_way).sending.as_mut().await;
        line.under_way = None;
        result
    }
}

impl Line {
    fn keep(&mut self, notification: Notification, result: Result<(), SendError>) {
        if self.ended.len() == ENDED_MAX {
            self.ended.pop_front();
        }
        let at = Instant::now();
        self.ended.push_back(Ended {
            notification,
            result,
            at,
        });
    }

    /// How the send of this notification ended, once, if that was lately.
    fn result_of(
        &mut self,
        notification: &Notification,
        lately: Duration,
    ) -> Option<Result<(), SendError>> {
        self.ended.retain(|ended| ended.at.elapsed() <= lately);
        let mut ended = self.ended.iter();
        let at = ended.position(|ended| ended.notification.same(notification))?;
        self.ended.remove(at).map(|ended| ended.result)
    }
}

impl Target for Peer<RoleServer> {
    fn start(&self, notification: ServerNotification) -> Sending {
        let peer = self.clone();
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

// === errors ===

/// What an error of rmcp is; `None` if it is none.
pub(crate) fn known(error: &(dyn Error + 'static)) -> Option<Kind> {
    if let Some(error) = error.downcast_ref::<SubscriptionSendError>() {
        return Some(match error {
            SubscriptionSendError::SubscriptionClosed => Kind::Known(SendError::Closed),
            SubscriptionSendError::UnsupportedNotification(_)
            | SubscriptionSendError::NotificationNotAccepted(_) => Kind::InvalidParams,
            SubscriptionSendError::Service(error) => of_service(error),
            _ => Kind::Other,
        });
    }
    error.downcast_ref::<ServiceError>().map(of_service)
}

fn of_service(error: &ServiceError) -> Kind {
    match error {
        ServiceError::TransportClosed => Kind::Known(SendError::Closed),
        // rmcp does not name it as a source; it is one.
        ServiceError::TransportSend(error) => {
            Kind::of_chain(error.error.as_ref()).unwrap_or(Kind::Other)
        }
        ServiceError::Timeout { .. } => Kind::Timeout,
        ServiceError::Cancelled { .. } => Kind::Cancelled,
        ServiceError::McpError(error) if error.code == ErrorCode::INVALID_PARAMS => {
            Kind::InvalidParams
        }
        _ => Kind::Other,
    }
}

/// What rmcp marks as deprecated because 2026-07-28 no longer has it.
mod legacy {
    #![expect(
        deprecated,
        reason = "clients up to 2025-11-25 have roots and log levels"
    )]

    use std::fmt;

    use rmcp::model::LoggingLevel;
    use rmcp::{Peer, RoleServer};

    use crate::logging::Level;
    use crate::roots::{Root, RootsClient, RootsFuture, RootsPage};
    use crate::session::Session;
    use crate::sink::SendError;

    /// Asks one client for its roots. rmcp knows no pages of roots, so there
    /// is one.
    pub struct PeerRoots(Peer<RoleServer>);

    impl PeerRoots {
        /// Asks this peer.
        pub fn new(peer: Peer<RoleServer>) -> Self {
            Self(peer)
        }
    }

    impl RootsClient for PeerRoots {
        fn list<'a>(&'a self, _: &'a Session, _: Option<String>) -> RootsFuture<'a> {
            Box::pin(async move {
                let result = self.0.list_roots().await.map_err(SendError::classify)?;
                let roots = result.roots.into_iter();
                let roots = roots
                    .map(|root| Root {
                        uri: root.uri,
                        name: root.name,
                    })
                    .collect();
                Ok(RootsPage {
                    roots,
                    next_cursor: None,
                })
            })
        }
    }

    impl fmt::Debug for PeerRoots {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("PeerRoots").finish_non_exhaustive()
        }
    }

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
