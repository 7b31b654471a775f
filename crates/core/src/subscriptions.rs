//! Event subscriptions, without a word of kube or of rmcp: what is asked for, what
//! matches, what was seen in which order, whose it is, and how it is told.
//!
//! ```text
//!   watch ──Event──▶ Subscription: filter ▶ feed (seq, cursor) ─┬─▶ message to its session
//!                                                               ├─▶ resources/updated
//!                                                               └─▶ whoever polls
//! ```

mod feed;
mod ledger;
mod listener;
mod payload;
mod subscription;

pub use self::{
    feed::{Cursor, Entry, Feed, FeedLimits, Item, Read, StaleCursor},
    ledger::{Caps, Ledger, Owner, Refused, Slot, SubscriptionId, Unsubscribed},
    listener::{Change, Listener},
    payload::Payload,
    subscription::{Outlet, Subscription, Update, Updates},
};
