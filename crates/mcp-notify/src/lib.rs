//! Notifications for MCP servers: everything between "something changed" and
//! "the client was told", and an account of what happened in between.
//!
//! ```text
//!  your server                          this crate                        a client
//!
//!  tool list changed --> ListChangedTracker --+
//!  log message ------->  LoggingService ------+    Session
//!  resource changed -->  ResourceSubscriptions+--> +---------------------------+
//!  long request ------>  Progress ------------+    | Outbox: critical first,   |
//!  anything else ----->  Notification::custom-+    | newest per key, bounded,  |
//!                          |  serialised once      | gaps announced            |
//!                          v                       +-------------+-------------+
//!                   ObserverRegistry                             | everything that
//!                   (weak, join policy)                          v waits, at once
//!                          |                       Delivery: deadline 2 s,
//!                          +---------------------> retry 100, 200, 400 ms ---> NotificationSink
//!                                                     | given up                (rmcp, or yours)
//!                                                     v
//!                                         one record, one count, prune
//!
//!  inbound:  RootsTracker (debounced)   InFlight (cancelled)   Heartbeat (phi-accrual)
//! ```
//!
//! # What it promises
//!
//! - **Publishing never waits.** [`Session::push`] is a plain function; a client
//!   that does not read costs a bounded outbox and nobody else anything.
//! - **Nothing is lost in silence.** Every push ends as exactly one of delivered,
//!   merged, dropped or pending, and [`OutboxStats`] adds up at every moment. What
//!   was dropped is announced in the stream, at the place where it was dropped.
//! - **One serialisation** however many sessions get a notification: clones share
//!   the bytes of the whole frame.
//! - **One failure path.** Each abandoned notification makes one log record, and for
//!   resources one count in [`mcp_notification_failures_total`](FAILURES_TOTAL).
//! - **What a sink does to one session stays there**: to hang, to panic, to return
//!   nonsense or to close in the middle of a broadcast touches no other.
//! - **Sessions are held weakly.** One that ends is gone from every registry at
//!   once; [`Session::on_close`] is the hook for teardown that must not wait.
//!
//! # What it does not promise
//!
//! Delivery is best effort: nothing is stored, nothing is acknowledged. `Delivered`
//! means that the transport took the bytes. A client that needs to be sure polls.
//!
//! # A complete example
//!
//! ```
//! use mcp_notify::{
//!     Delivery, DefaultSink, Level, LogMessage, LoggingService, Notification,
//!     ResourceSubscriptions, ResourceUpdated, SendFuture, Session, SessionChannel,
//! };
//! use std::sync::Arc;
//! use parking_lot::Mutex;
//!
//! /// The way to one client; here it only remembers.
//! #[derive(Clone, Default)]
//! struct Wire(Arc<Mutex<Vec<String>>>);
//!
//! impl SessionChannel for Wire {
//!     fn send<'a>(&'a self, notification: &'a Notification) -> SendFuture<'a> {
//!         Box::pin(async move {
//!             let frame = notification.frame()?;
//!             self.0.lock().push(String::from_utf8_lossy(frame).into_owned());
//!             Ok(())
//!         })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Once per process.
//! let delivery = Delivery::new(DefaultSink);
//! let logging = LoggingService::new(delivery.clone());
//! let subscriptions = ResourceSubscriptions::default();
//!
//! // Once per client: a session, and a task that empties its outbox.
//! let wire = Wire::default();
//! let session = Session::builder().channel(wire.clone()).build("client-1");
//! let mut tasks = tokio::task::JoinSet::new();
//! tasks.spawn(delivery.run(&session));
//!
//! // What the client asks for.
//! logging.set_level(&session, Level::Info);
//! subscriptions.subscribe(&session, "file:///notes.md")?;
//!
//! // What happens, from anywhere and without waiting.
//! logging.publish(LogMessage::new(Level::Debug, &"below its level"));
//! logging.publish(LogMessage::new(Level::Warning, &"disk is filling").logger("disk"));
//! subscriptions.publish(&ResourceUpdated::new("file:///notes.md"));
//! subscriptions.publish(&ResourceUpdated::new("file:///notes.md"));
//!
//! tokio::time::sleep(std::time::Duration::from_millis(1)).await;
//! assert_eq!(
//!     *wire.0.lock(),
//!     [
//!         r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"disk","data":"disk is filling"}}"#,
//!         r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///notes.md"}}"#,
//!     ]
//! );
//! let account = session.outbox().stats();
//! assert_eq!((account.pushed, account.delivered, account.merged), (3, 2, 1));
//!
//! // The last handle ends the session: it is gone everywhere.
//! drop(session);
//! assert!(logging.is_empty() && subscriptions.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! All are off by default and each stands alone.
//!
//! - `rmcp`: sinks over rmcp's `Peer` and `SubscriptionSink`, and its errors classified.
//! - `prometheus`: `Metrics::register` for a prometheus-client registry.
//! - `hyper`: hyper's errors classified exactly.
//!
//! # Tasks
//!
//! The crate starts no task behind your back. Loops ([`Delivery::run`],
//! [`Heartbeat::run`], [`RootsTracker::run`], [`BatchedBroadcast::run`],
//! [`ProgressPump::run`]) are futures for you to spawn and to name; a broadcast
//! keeps the sends that wait in a set that ends with it. None keeps a session
//! alive, and all time is tokio's, so tests can pause it.

#![warn(clippy::missing_errors_doc, missing_docs)]

mod batching;
mod cancellation;
mod catch;
mod classify;
mod content_hash;
mod context;
mod debounce;
mod delivery;
mod failure;
mod fan_out;
mod heartbeat;
mod list_changed;
mod logging;
mod method;
mod metrics;
mod notification;
mod observers;
mod outbox;
mod phi;
mod progress;
mod resources;
mod retry;
#[cfg(feature = "rmcp")]
pub mod rmcp;
mod roots;
mod session;
mod sink;
mod teardown;
#[cfg(test)]
mod testing;
mod version;

pub use batching::BatchedBroadcast;
pub use cancellation::{CancelOutcome, InFlight, Request, RequestId};
pub use classify::FailureClass;
pub use content_hash::ContentHash;
pub use context::{current_session, with_session};
pub use debounce::{Debouncer, Fired, KEYS_MAX, Timing};
pub use delivery::{Delivery, GapRenderer, Outcome, SEND_DEADLINE};
pub use failure::FailureReport;
pub use fan_out::Broadcast;
pub use heartbeat::{Health, Heartbeat, HeartbeatConfig, HeartbeatEnd, Pulse};
pub use list_changed::{Emit, ListChangedTracker, Registry};
pub use logging::{Level, LogMessage, LoggingService, UnknownLevel, Voice};
pub use method::{CustomMethod, METHOD_BYTES_MAX, Method, MethodError};
pub use metrics::{ErrorType, FAILURES_TOTAL, FailureCounter, Metrics, ResourceType};
pub use notification::{
    About, CoalesceKey, EncodeError, Notification, NotificationBuilder, SharedMembers, Tier,
};
pub use observers::{JoinPolicy, ObserverRegistry};
pub use outbox::{
    Batch, Gap, Item, Outbox, OutboxConfig, OutboxLimits, OutboxStats, PushOutcome, ReadEnd, Reader,
};
pub use progress::{
    PROGRESS_INTERVAL, Progress, ProgressError, ProgressHooks, ProgressPump, ProgressToken,
};
pub use resources::{ResourceSubscriptions, ResourceUpdated, SubscribeError, SubscriptionLimits};
pub use retry::{RETRIES_MAX, RetryPolicy, RetryPolicyError, attempt_number};
pub use roots::{
    ROOTS_QUIET, Root, RootsClient, RootsError, RootsFuture, RootsPage, RootsSnapshot, RootsTracker,
};
pub use session::{CloseReason, Session, SessionBuilder, SessionChannel, WeakSession};
pub use sink::{BoxError, DefaultSink, NotificationSink, OutboxSink, SendError, SendFuture};
pub use version::ProtocolVersion;
