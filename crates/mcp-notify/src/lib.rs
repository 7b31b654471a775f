//! Notifications for MCP servers.
#![warn(clippy::missing_errors_doc)]

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
pub use logging::{Level, LogMessage, LoggingService, UnknownLevel};
pub use method::{CustomMethod, METHOD_BYTES_MAX, Method, MethodError};
pub use metrics::{ErrorType, FAILURES_TOTAL, FailureCounter, Metrics, ResourceType};
pub use notification::{About, CoalesceKey, EncodeError, Notification, NotificationBuilder, Tier};
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
