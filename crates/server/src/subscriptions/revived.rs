//! Subscriptions of a session that is continued: kept as records, made anew asleep, and woken when
//! it is known what the client has.
//!
//! ```text
//!  record ──▶ restore: in the ledger, watches nothing
//!                │ the stream is opened, with Last-Event-ID or without
//!                ▼
//!  wake: the history after the position, page by page ──▶ watch ──▶ the last moments ──▶ live
//! ```

use std::{
    any::Any,
    sync::{Arc, OnceLock, Weak},
};

use mcp_notify::{Mark, Session};
use tokio::time::{Duration, sleep};

use super::{
    SubscriptionRecord, Subscriptions,
    before::{Before, Pages, Rest},
    events,
    failure::{ended, is_passing},
    incidents, owner,
    polls::unreadable,
};
use crate::{
    history::resume::{self, Backlog, ReadOrder, Resumption},
    output::ToolError,
    resources::Requester,
};
use kubecrier_core::{
    Backoff,
    filters::Mode,
    subscriptions::{
        Cursor, Owner, ResumePoint, Subscription, SubscriptionDeps, SubscriptionId, WatchStatus,
    },
};
use kubecrier_history::LogError;

/// A cluster that cannot be watched now is tried again.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// What its client has of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeFrom {
    /// Everything up to an entry.
    Entry(Mark),
    /// Nothing.
    Beginning,
    /// Nothing, and it reads what happened last.
    Newest,
    /// It did not say.
    Unknown,
}

/// A subscription that watches nothing yet.
#[derive(Clone, Debug)]
pub(super) struct Asleep {
    subscription: Weak<Subscription>,
    lease: Lease,
}

/// What ends with the subscription, once there is something.
type Lease = Arc<OnceLock<Box<dyn Any + Send + Sync>>>;

/// Puts a subscription back that was not woken to the end.
struct Waking<'a> {
    subscriptions: &'a Subscriptions,
    id: &'a SubscriptionId,
    asleep: Option<Asleep>,
}

impl Subscriptions {
    /// The records of what is pushed to a session.
    pub(crate) fn records(&self, session: &Session) -> Vec<SubscriptionRecord> {
        let all = self
            .inner
            .ledger
            .list(&Owner::Session(Arc::clone(session.id())));
        let pushed = all.iter().filter(|one| !one.expires_idle());
        pushed.map(|one| SubscriptionRecord::new(one)).collect()
    }

    /// Makes a subscription anew, which delivers nothing before it is woken.
    pub(crate) fn restore(
        &self,
        requester: &Requester,
        session: Option<&Session>,
        kept: &SubscriptionRecord,
    ) -> Result<(), ToolError> {
        let inner = &*self.inner;
        let (id, filters) = kept.parse()?;
        let viewer = inner.viewers.of(&requester.caller)?;
        let (owner, caller) = (owner(requester), requester.share_key());
        let reserved = inner.ledger.reserve(&owner, &caller);
        let slot = reserved.map_err(|refused| ToolError::Limit(refused.to_string()))?;
        let context = inner.sources.watches.context(Some(&kept.context))?;
        let deps = SubscriptionDeps {
            session: session.map(Session::downgrade),
            updates: Arc::new(super::FeedNotifier(inner.updates.seen_by(&viewer))),
            faults: inner.sources.faults.clone(),
            viewer,
        };
        let mut one = Subscription::with_id(
            id.clone(),
            kept.created_at,
            filters.clone(),
            &context,
            deps,
            inner.feed,
        );
        if let Some(history) = &inner.sources.history {
            one = one.resumable(resume::tag(history, &requester.caller, &context, &filters));
        }
        let one = Arc::new(match session {
            Some(_) => one.holding(),
            None => one.holding().expiring_idle(),
        });
        one.feed().begin_after(kept.version);
        let lease = Lease::default();
        let asleep = Asleep {
            subscription: Arc::downgrade(&one),
            lease: Arc::clone(&lease),
        };
        inner.asleep.lock().insert(id, asleep);
        slot.insert_unless(|_| false, one, Box::new(lease));
        if let Some(session) = session {
            self.end_with(session, &owner);
        }
        Ok(())
    }

    /// Whether a subscription that is here is to be woken.
    pub(super) fn is_asleep(&self, id: &SubscriptionId) -> bool {
        self.inner.asleep.lock().contains_key(id)
    }

    /// The subscriptions of a session that are asleep.
    pub(crate) fn asleep(&self, session: &Session) -> Vec<Arc<Subscription>> {
        if self.inner.asleep.lock().is_empty() {
            return Vec::new();
        }
        let mut all = self
            .inner
            .ledger
            .list(&Owner::Session(Arc::clone(session.id())));
        let asleep = self.inner.asleep.lock();
        all.retain(|one| asleep.contains_key(one.id()));
        all
    }

    /// Forgets those whose sessions have ended before they were woken.
    pub(super) fn forget_asleep(&self) {
        let mut asleep = self.inner.asleep.lock();
        asleep.retain(|_, one| one.subscription.strong_count() > 0);
    }

    /// Wakes a subscription for the stream of its session. A cluster that cannot be watched now
    /// is tried again, until the session ends.
    pub(crate) async fn wake(
        &self,
        requester: &Requester,
        session: &Session,
        one: &Arc<Subscription>,
        from: WakeFrom,
    ) {
        let waking = async {
            let Some(mut waking) = self.take_asleep(one.id()) else {
                return;
            };
            let mut from = from;
            let mut failures = 0;
            loop {
                let delivered =
                    self.deliver_from(requester, one, &waking, from, Pages::All(one, session));
                match delivered.await {
                    Ok(()) => break,
                    Err((at, error)) if is_passing(&error) => {
                        from = at;
                        if failures == 0 {
                            let error = error.to_string();
                            let degraded = WatchStatus::Degraded { error };
                            one.notice(degraded.seen_by(one.viewer()));
                        }
                        failures += 1;
                        sleep(BACKOFF.delay(failures)).await;
                    }
                    Err((_, error)) => {
                        one.notice(ended(one.viewer(), &error));
                        self.inner.ledger.end(&owner(requester), one.id().as_str());
                        break;
                    }
                }
            }
            if failures > 0 {
                one.notice(WatchStatus::Recovered);
            }
            waking.asleep = None;
        };
        tokio::select! {
            () = waking => {}
            () = session.closed() => {}
        }
    }

    /// Wakes a subscription for a client that polls it after a cursor.
    pub(crate) async fn wake_polled(
        &self,
        requester: &Requester,
        one: &Arc<Subscription>,
        cursor: Option<&str>,
    ) -> Result<(), ToolError> {
        let Some(mut waking) = self.take_asleep(one.id()) else {
            return Ok(());
        };
        let cursor: Option<Cursor> = cursor.and_then(|cursor| cursor.parse().ok());
        let cursor = cursor.filter(|cursor| cursor.subscription == *one.id());
        let mark = cursor.and_then(|cursor| Some(cursor.resume?.mark(one.id(), cursor.seq)));
        let from = mark.map_or(WakeFrom::Unknown, WakeFrom::Entry);
        let delivered = self.deliver_from(requester, one, &waking, from, Pages::First);
        delivered.await.map_err(|(_, error)| error)?;
        waking.asleep = None;
        Ok(())
    }

    /// Wakes a subscription of a caller without a session, if it is asleep.
    pub(super) async fn wake_shared(
        &self,
        requester: &Requester,
        one: &Arc<Subscription>,
        from: WakeFrom,
    ) -> Result<(), ToolError> {
        let Some(mut waking) = self.take_asleep(one.id()) else {
            return Ok(());
        };
        let delivered = self.deliver_from(requester, one, &waking, from, Pages::First);
        delivered.await.map_err(|(_, error)| error)?;
        waking.asleep = None;
        Ok(())
    }

    fn take_asleep<'a>(&'a self, id: &'a SubscriptionId) -> Option<Waking<'a>> {
        let asleep = self.inner.asleep.lock().remove(id)?;
        Some(Waking {
            subscriptions: self,
            id,
            asleep: Some(asleep),
        })
    }

    /// Delivers what happened after a position, and then what happens. An error comes with how
    /// far it was.
    async fn deliver_from(
        &self,
        requester: &Requester,
        one: &Arc<Subscription>,
        waking: &Waking<'_>,
        from: WakeFrom,
        pages: Pages<'_>,
    ) -> Result<(), (WakeFrom, ToolError)> {
        let sources = &self.inner.sources;
        let filters = one.filters();
        let viewer = self.inner.viewers.of(&requester.caller);
        let viewer = viewer.map_err(|error| (from, ToolError::from(error)))?;
        // Of an attempt before this.
        one.forget_held();
        let is_shared = self.inner.sharing.get().is_some();
        let mut point = point(one, from);
        if let Some(point) = point.as_mut().filter(|_| is_shared) {
            // It may be one in the history of another server.
            point.position = 0;
        }
        let order = match (from, pages) {
            (WakeFrom::Newest, _) => ReadOrder::Newest,
            _ if is_shared => ReadOrder::Oldest,
            _ => ReadOrder::Log,
        };
        let mut rest = Rest::of_gaps(gaps(one, from, point.is_some()));
        let mut before = sources
            .history
            .as_ref()
            .zip(point)
            .map(|(history, point)| Before {
                viewer: &viewer,
                resumption: Resumption {
                    history,
                    caught_up: &sources.caught_up,
                    contexts: sources.incidents.shared_contexts(),
                    context: one.cluster(),
                    filters,
                    point,
                    order,
                },
                pages,
                room: self.page_room(filters.mode(), pages),
                late: self.disorder(filters).milliseconds,
            });
        let mut last = Backlog::whole();
        let mut beside = None;
        if let Some(before) = &mut before {
            match before.last_page(None).await {
                Ok(backlog) => last = backlog,
                Err(error @ LogError::Behind(_)) => {
                    return Err((before.position(one), unreadable(error)));
                }
                Err(error) => rest.gaps.push(before.unread(&error)),
            }
            let after = before.resumption.point.version;
            beside = before.watches().map(|watches| (watches, after));
        }
        let beside = beside.as_ref().map(|(watches, after)| (&**watches, *after));
        let caller = requester.share_key();
        let joined = match filters.mode() {
            Mode::Events | Mode::Faults => {
                events::join(sources, &caller, filters, one, beside).await
            }
            Mode::Incidents => incidents::join(&sources.incidents, &caller, filters, one)
                .await
                .map_err(ToolError::from),
        };
        let joined = joined.map_err(|error| match &before {
            // What was delivered is not delivered again.
            Some(before) => (before.position(one), error),
            None => (from, error),
        })?;
        if let Some(before) = &mut before {
            let read = if joined.is_beside_history {
                before.until_joined(one, last.is_whole).await
            } else {
                Ok(before.until_listed(one, last).await)
            };
            match read {
                Ok(read) => rest.extend(read),
                Err(error @ LogError::Behind(_)) => {
                    return Err((before.position(one), unreadable(error)));
                }
                Err(error) => rest.gaps.push(before.unread(&error)),
            }
        }
        // Nothing is waited for from here on, so that all of it is done or none.
        if let Some(asleep) = &waking.asleep {
            let _only_once = asleep.lease.set(joined.lease);
        }
        one.resume(rest.gaps, &rest.events, &rest.delivered);
        Ok(())
    }
}

/// Where to go on in the history, if that is known.
fn point(one: &Subscription, from: WakeFrom) -> Option<ResumePoint> {
    let tag = one
        .feed()
        .tag()
        .filter(|_| resume::is_resumable(one.filters().mode()))?;
    match from {
        WakeFrom::Entry(mark) => {
            let (seq, point) = ResumePoint::from_mark(&mark, tag);
            one.feed().continue_after(seq);
            Some(point)
        }
        WakeFrom::Beginning | WakeFrom::Newest => beginning(one),
        WakeFrom::Unknown => None,
    }
}

/// The point before everything of a subscription, if it is known.
pub(super) fn beginning(one: &Subscription) -> Option<ResumePoint> {
    let (tag, version) = (one.feed().tag()?, one.feed().first_version());
    (version > 0).then(|| ResumePoint {
        version,
        time: one.created_at().as_millisecond(),
        position: 0,
        tag,
    })
}

/// What is said where nothing can be delivered of the time before.
fn gaps(one: &Subscription, from: WakeFrom, is_resumed: bool) -> Vec<WatchStatus> {
    if is_resumed {
        return Vec::new();
    }
    let since = match (from, one.feed().tag()) {
        (WakeFrom::Entry(mark), Some(tag)) => {
            let (seq, point) = ResumePoint::from_mark(&mark, tag);
            one.feed().continue_after(seq);
            resume::missing_since(point)
        }
        (WakeFrom::Entry(_) | WakeFrom::Beginning | WakeFrom::Newest | WakeFrom::Unknown, _) => {
            one.created_at()
        }
    };
    let detail = match one.filters().mode() {
        Mode::Incidents => {
            "the session goes on in another process: incidents that were opened or resolved meanwhile are not \
             told; faults_list has what is open"
        }
        Mode::Events | Mode::Faults if from == WakeFrom::Unknown => {
            "the session goes on in another process, and the client did not say which event it \
             had last (Last-Event-ID): see events_list with since"
        }
        Mode::Events | Mode::Faults => {
            "the session goes on in another process, and what happened in between is not kept: \
             see events_list"
        }
    };
    vec![WatchStatus::Gap {
        since,
        detail: detail.to_owned(),
    }]
}

impl Drop for Waking<'_> {
    fn drop(&mut self) {
        if let Some(asleep) = self.asleep.take().filter(|one| one.lease.get().is_none()) {
            let mut all = self.subscriptions.inner.asleep.lock();
            all.insert(self.id.clone(), asleep);
        }
    }
}
