//! Notifications for MCP servers: from a change in the server to its delivery to the
//! clients, with bounded memory and an account of every notification.
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
//!                   ObserverRegistry *                           | all that is
//!                   (weak, join policy)                          v pending, at once
//!                          |                       Delivery: deadline 2 s,
//!                          +---------------------> retry 100, 200, 400 ms ---> NotificationSink
//!                                                     | abandoned               (rmcp, or yours)
//!                                                     v
//!                                         one log record, one count, prune
//!
//!  inbound:  Heartbeat   RootsTracker *   InFlightRequests *      * with a feature
//! ```
//!
//! # Guarantees
//!
//! - **Publishing never waits.** [`Session::push`] is a synchronous function; a client
//!   that does not read costs a bounded outbox and does not slow down another.
//! - **No silent loss.** Every push ends as exactly one of delivered, merged, dropped or
//!   pending, and the counts of [`OutboxStats`] add up at every moment. A drop is
//!   announced in the stream, at the position where it happened.
//! - **One serialisation**, however many sessions get a notification: clones share the
//!   bytes of the whole frame.
//! - **One failure path.** Each abandoned notification makes one log record, and one
//!   count in [`mcp_notification_failures_total`](FAILURES_TOTAL) if it is about a
//!   resource.
//! - **Isolation of sessions.** A sink that hangs, panics, returns a wrong error or
//!   closes during a broadcast affects one session only.
//! - **Sessions are held weakly.** A closed session is removed from every registry at
//!   once; [`Session::on_close`] is the hook for deterministic teardown.
//!
//! # What is not guaranteed
//!
//! Delivery is best effort: nothing is persisted and nothing is acknowledged.
//! `Delivered` means that the transport accepted the bytes. A client that must not miss
//! a change polls.
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
//! /// The channel to one client; here it records the frames.
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
//! // Once per client: a session, and a task that drains its outbox.
//! let wire = Wire::default();
//! let session = Session::builder().channel(wire.clone()).build("client-1");
//! let mut tasks = tokio::task::JoinSet::new();
//! tasks.spawn(delivery.run(&session));
//!
//! // Requests of the client.
//! logging.set_level(&session, Level::Info);
//! subscriptions.subscribe(&session, "file:///notes.md")?;
//!
//! // Changes in the server, from any task and without waiting.
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
//! let stats = session.outbox().stats();
//! assert_eq!((stats.pushed, stats.delivered, stats.merged), (3, 2, 1));
//!
//! // Dropping the last handle closes the session and removes it from all registries.
//! drop(session);
//! assert!(logging.is_empty() && subscriptions.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! All are off by default, and each can be enabled alone.
//!
//! - `rmcp`: sinks over rmcp's `Peer` and `SubscriptionSink`, and its errors classified.
//! - `prometheus`: `Metrics::register` for a prometheus-client registry.
//! - `hyper`: hyper's errors classified exactly.
//! - `context`: `with_session` and `current_session`, a task-local session of a request.
//! - `observers`: `ObserverRegistry`, broadcasts to the sessions that joined.
//! - `debounce`: `Debouncer`, one trigger out of many.
//! - `batching`: `BatchedBroadcast`, one broadcast per window of time.
//! - `cancellation`: `InFlightRequests`, for inbound `notifications/cancelled`.
//! - `roots`: `RootsTracker`, for inbound `notifications/roots/list_changed`.
//! - `phi-accrual`: suspicion in the heartbeat, before a session is down.
//!
//! # Tasks
//!
//! The crate spawns no detached task. Loops such as [`Delivery::run`],
//! [`Heartbeat::run`] and [`ProgressPump::run`] are futures for you to spawn; a
//! broadcast keeps its pending sends in a set that is aborted with it. None keeps a
//! session alive, and all time is tokio's, so that tests can pause it.

#![warn(clippy::missing_errors_doc, missing_docs)]

#[cfg(any(feature = "batching", test))]
mod batching;
#[cfg(any(feature = "cancellation", test))]
mod cancellation;
mod catch;
mod classify;
mod content_hash;
#[cfg(any(feature = "context", test))]
mod context;
#[cfg(any(feature = "debounce", test))]
mod debounce;
mod delivery;
mod failure;
mod fan_out;
mod gate;
mod heartbeat;
mod list_changed;
mod logging;
mod method;
mod metrics;
mod notification;
#[cfg(any(feature = "observers", test))]
mod observers;
mod outbox;
#[cfg(any(feature = "phi-accrual", test))]
mod phi;
mod progress;
mod resources;
mod retry;
#[cfg(feature = "rmcp")]
pub mod rmcp;
#[cfg(any(feature = "roots", test))]
mod roots;
mod session;
mod sink;
mod teardown;
#[cfg(test)]
mod testing;
mod version;

#[cfg(any(feature = "batching", test))]
pub use batching::BatchedBroadcast;
#[cfg(any(feature = "cancellation", test))]
pub use cancellation::{CancelOutcome, InFlightRequest, InFlightRequests, RequestId};
pub use classify::FailureClass;
pub use content_hash::ContentHash;
#[cfg(any(feature = "context", test))]
pub use context::{current_session, with_session};
#[cfg(any(feature = "debounce", test))]
pub use debounce::{DEBOUNCE_KEYS_MAX, DebounceMode, Debounced, Debouncer};
pub use delivery::{Delivery, DeliveryOutcome, GapRenderer, SEND_DEADLINE};
pub use failure::FailureReport;
pub use fan_out::BroadcastOutcome;
pub use gate::{Admission, Gate};
pub use heartbeat::{Health, Heartbeat, HeartbeatConfig, HeartbeatEnd, Liveness};
pub use list_changed::{Emit, ListChangedTracker, ListKind};
pub use logging::{Level, LogMessage, LoggingService, MessageTemplate, UnknownLevel};
pub use method::{CustomMethod, METHOD_BYTES_MAX, Method, MethodError};
pub use metrics::{
    ErrorType, FAILURES_TOTAL, FailureCounter, Metrics, ResourceType, ResourceTypes,
};
pub use notification::{
    CoalesceKey, EncodeError, Mark, Notification, NotificationBuilder, Priority, ResourceRef,
    SharedMembers,
};
#[cfg(any(feature = "observers", test))]
pub use observers::{JoinPolicy, ObserverRegistry};
pub use outbox::{
    Gap, Outbox, OutboxBatch, OutboxConfig, OutboxItem, OutboxLimits, OutboxReader, OutboxStats,
    PushOutcome, ReadEnd,
};
pub use progress::{
    PROGRESS_INTERVAL, Progress, ProgressError, ProgressHooks, ProgressPump, ProgressToken,
};
pub use resources::{ResourceSubscriptions, ResourceUpdated, SubscribeError, SubscriptionLimits};
pub use retry::{RETRIES_MAX, RetryPolicy, RetryPolicyError, attempt_number};
#[cfg(any(feature = "roots", test))]
pub use roots::{
    ROOTS_DEBOUNCE, Root, RootsClient, RootsError, RootsFuture, RootsPage, RootsSnapshot,
    RootsTracker,
};
pub use session::{CloseReason, Session, SessionBuilder, SessionChannel, WeakSession};
pub use sink::{BoxError, DefaultSink, NotificationSink, OutboxSink, SendError, SendFuture};
pub use version::ProtocolVersion;
