//! Event subscriptions: filters, a numbered feed, an owner, and delivery.
//!
//! ```text
//!   watch ──Event──▶ Subscription: filter ─┬─ mode events ────────────────▶ Feed (seq, cursor)
//!                                          └─ mode faults ─▶ FaultQueue ─▶   │
//!   incidents ──IncidentNotice──▶ Subscription: filter ───────────────────▶   │
//!                                                                           ├─▶ message to its session
//!                                                                           ├─▶ resources/updated
//!                                                                           └─▶ polls and reads
//! ```
//!
//! The [`Ledger`] has all subscriptions by owner, within limits.

mod cursor;
mod feed;
mod ledger;
mod listener;
mod payload;
mod place;
mod sighted;
mod subscription;

pub use self::{
    cursor::{Cursor, CursorError, ResumePoint, ResumeTag},
    feed::{Feed, FeedEntry, FeedItem, FeedLimits, FeedPage},
    ledger::{
        Ledger, LimitReached, Owner, Reservation, SubscriptionId, SubscriptionLimits,
        UnsubscribeOutcome,
    },
    listener::{LabelUse, Listener, WatchStatus},
    payload::Payload,
    place::{Disorder, Place},
    subscription::{Subscription, SubscriptionDeps, UpdateSink},
};
