//! Event subscriptions, without a word of kube or of rmcp: what is asked for, what
//! matches, what was seen in which order, whose it is, and how it is told.
//!
//! ```text
//!   watch ──Event──▶ Subscription: filter ▶ feed (seq, cursor) ─┬─▶ message to its session
//!                                                               ├─▶ resources/updated
//!                                                               └─▶ whoever polls
//! ```

mod event;
mod feed;
mod filter;
mod glob;
mod ledger;
mod listener;
mod payload;
mod selector;
mod subscription;

pub use self::{
    event::{Event, InvolvedObject, Labels},
    feed::{Cursor, Entry, Feed, FeedLimits, Item, Read, StaleCursor},
    filter::{EventType, Filters, Mode, NotAFilter, Request},
    glob::Glob,
    ledger::{Caps, Ledger, Owner, Refused, Slot, SubscriptionId, Unsubscribed},
    listener::{Change, Listener},
    payload::Payload,
    selector::{NotASelector, Selector},
    subscription::{Outlet, Subscription, Update, Updates},
};
