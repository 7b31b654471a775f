//! Subscriptions of callers without a session, where servers share them: each request may come to
//! another server than the one before.
//!
//! ```text
//!  id ──▶ the record (the same caller? not ended?) ──▶ here? ──no──▶ made anew, asleep
//!                                                        │            │ page by page from the history
//!                                                        ▼            ▼
//!  cursor ─────────────────────────────────────────▶ its place in the feed of this server,
//!                                                     or in the history if it is before that
//! ```

mod sweep;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use kubecrier_history::Registry;
use parking_lot::Mutex;
use tokio::time::Duration;

use super::{
    CreatedSubscription, Reading, SubscriptionRecord, Subscriptions,
    kept::{Found, KeptSubscriptions},
    not_found, owner,
    polls::{BehindPoll, Polled, sorted, unreadable},
    revived::WakeFrom,
};
use crate::{
    doors::Door,
    history::{
        eyes,
        resume::{self, Backlog, ReadOrder, Resumption},
    },
    output::ToolError,
    resources::Requester,
    sessions,
    tool_filter::ToolFilter,
    turns::{Turn, Turns},
};
use kubecrier_core::{
    filters::Mode,
    subscriptions::{
        Cursor, CursorError, FeedLimits, Owner, Place, ResumePoint, Subscription, SubscriptionId,
        UnsubscribeOutcome,
    },
};

/// What servers that share subscriptions have of each other's.
#[derive(Debug)]
pub(super) struct Sharing {
    pub(super) kept: KeptSubscriptions,
    tool_filter: ToolFilter,
    pub(super) turns: Turns,
    /// Whose the subscriptions here are, as records have it.
    // A lock for one operation on the map.
    callers: Mutex<HashMap<SubscriptionId, Arc<str>>>,
    /// Callers whose tokens were revoked, and whose records are still there.
    revoked: Mutex<Vec<String>>,
}

/// The subscriptions of a requester, where they are shared.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    pub(super) sharing: &'a Sharing,
    requester: &'a Requester,
}

/// The subscriptions of a caller on all servers.
#[derive(Debug, Default)]
pub(crate) struct OwnSubscriptions {
    pub(crate) here: Vec<Arc<Subscription>>,
    pub(crate) elsewhere: Vec<SubscriptionRecord>,
}

// === impl Sharing ===

impl Sharing {
    pub(super) fn new(
        registry: Arc<dyn Registry>,
        idle_timeout: Duration,
        tool_filter: ToolFilter,
    ) -> Self {
        Self {
            kept: KeptSubscriptions::new(registry, idle_timeout),
            tool_filter,
            turns: Turns::default(),
            callers: Mutex::default(),
            revoked: Mutex::default(),
        }
    }

    fn note(&self, id: &SubscriptionId, caller: &str) {
        self.callers.lock().insert(id.clone(), caller.into());
    }
}

impl Shared<'_> {
    fn caller(&self) -> String {
        sessions::digest(&self.requester.caller)
    }

    fn owner(&self) -> Owner {
        owner(self.requester)
    }

    /// Keeps a subscription that was made here.
    pub(super) async fn keep(&self, one: &Subscription) -> Result<(), ToolError> {
        let caller = self.caller();
        self.sharing.note(one.id(), &caller);
        let record = SubscriptionRecord::new(one);
        self.sharing.kept.keep(&caller, record).await
    }
}

// === impl Subscriptions ===

impl Subscriptions {
    /// Shares the subscriptions of callers without a session with other servers.
    pub(crate) fn share(&self, registry: Arc<dyn Registry>, tool_filter: ToolFilter) {
        let sharing = Sharing::new(registry, self.inner.idle_timeout, tool_filter);
        let _only_once = self.inner.sharing.set(sharing);
    }

    /// Those of a requester, if they are shared: those of a session are where it is.
    pub(super) fn shared<'a>(&'a self, requester: &'a Requester) -> Option<Shared<'a>> {
        let sharing = self.inner.sharing.get()?;
        let is_callers = matches!(owner(requester), Owner::Caller(_));
        is_callers.then_some(Shared { sharing, requester })
    }

    /// Whether other servers have those of a requester too.
    pub(crate) fn are_shared(&self, requester: &Requester) -> bool {
        self.shared(requester).is_some()
    }

    /// All of the client's own, wherever they were made.
    pub(crate) async fn list_all(
        &self,
        requester: &Requester,
    ) -> Result<OwnSubscriptions, ToolError> {
        let Some(shared) = self.shared(requester) else {
            let (here, elsewhere) = (self.list(requester)?, Vec::new());
            return Ok(OwnSubscriptions { here, elsewhere });
        };
        let (mut elsewhere, ended) = shared.sharing.kept.list(&shared.caller()).await?;
        for id in ended {
            self.inner.ledger.end(&shared.owner(), &id);
        }
        let here = self.list(requester)?;
        elsewhere.retain(|kept| here.iter().all(|one| one.id().as_str() != kept.id));
        Ok(OwnSubscriptions { here, elsewhere })
    }

    /// Ends one of the client's own, wherever it was made; once more does no harm.
    pub(crate) async fn unsubscribe_all(
        &self,
        requester: &Requester,
        id: &str,
    ) -> Result<UnsubscribeOutcome, ToolError> {
        let Some(shared) = self.shared(requester) else {
            let ended = self.unsubscribe(requester, id)?;
            return self.settle(requester).await.map(|_| ended);
        };
        let (kept, caller) = (&shared.sharing.kept, shared.caller());
        let found = kept.find(&caller, id).await?;
        let is_here = self.inner.ledger.get(&shared.owner(), id).is_some();
        if is_here || matches!(found, Found::Kept(_)) {
            kept.end(&caller, id).await?;
        }
        let here = self.unsubscribe(requester, id);
        match (found, here) {
            (Found::Kept(_), _) | (_, Ok(UnsubscribeOutcome::Ended)) => {
                Ok(UnsubscribeOutcome::Ended)
            }
            (Found::Ended, _) => Ok(UnsubscribeOutcome::AlreadyEnded),
            (Found::Nothing, here) => here,
        }
    }

    /// Has a subscription here that may have been made on another server, for a client that reads
    /// its resource or listens for it.
    pub(crate) async fn bring(&self, requester: &Requester, id: &str) -> Result<(), ToolError> {
        let Some(shared) = self.shared(requester) else {
            return Ok(());
        };
        if shared
            .sharing
            .tool_filter
            .check(Door::FeedResource)
            .is_err()
        {
            return Ok(());
        }
        let name = turn_name(shared, id);
        let (one, _turn) = self.find_in_turn(shared, id, &name).await?;
        self.wake_shared(requester, &one, WakeFrom::Newest).await
    }

    /// What a poll by an id reads from.
    pub(crate) async fn find_polled(
        &self,
        requester: &Requester,
        id: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Polled, ToolError> {
        let Some(shared) = self.shared(requester) else {
            let one = self.get(requester, id)?;
            self.wake_polled(requester, &one, cursor).await?;
            return Ok(Polled::Live(CreatedSubscription::there(one)));
        };
        let stale = |error: CursorError| ToolError::Arguments(error.to_string());
        let cursor = cursor
            .map(str::parse::<Cursor>)
            .transpose()
            .map_err(stale)?;
        let name = turn_name(shared, id);
        let (one, turn) = self.find_in_turn(shared, id, &name).await?;
        if let Some(cursor) = &cursor
            && cursor.subscription != *one.id()
        {
            return Err(stale(CursorError::Foreign(cursor.clone())));
        }
        let cursor = self.as_own(requester, one.cluster(), one.filters(), cursor);
        self.poll_shared(&turn, requester, one, cursor, limit).await
    }

    /// The subscription of an id, and the turn to wake it. What is here already is looked up
    /// without the turn: the store may take its time.
    async fn find_in_turn<'a>(
        &self,
        shared: Shared<'a>,
        id: &str,
        name: &'a str,
    ) -> Result<(Arc<Subscription>, Turn<'a>), ToolError> {
        let turns = &shared.sharing.turns;
        if self.inner.ledger.get(&shared.owner(), id).is_none() {
            let turn = turns.take(name).await;
            if self.inner.ledger.get(&shared.owner(), id).is_none() {
                return Ok((self.find_shared(shared, id).await?, turn));
            }
        }
        let one = self.find_shared(shared, id).await?;
        Ok((one, turns.take(name).await))
    }

    /// The subscription of an id: made anew from its record, asleep, if it is not here. One that
    /// has ended elsewhere ends here.
    async fn find_shared(
        &self,
        shared: Shared<'_>,
        id: &str,
    ) -> Result<Arc<Subscription>, ToolError> {
        let (requester, kept) = (shared.requester, &shared.sharing.kept);
        let (owner, caller) = (shared.owner(), shared.caller());
        let is_here = self.inner.ledger.get(&owner, id).is_some();
        match kept.find(&caller, id).await {
            // What is here goes on: most likely it has not ended.
            Err(_) if is_here => {}
            Err(error) => return Err(error),
            Ok(Found::Ended) => {
                self.inner.ledger.end(&owner, id);
                return Err(not_found(id));
            }
            // It could not be written before, or not for too long.
            Ok(Found::Nothing) => {
                let one = self.get(requester, id)?;
                let _tried_again = shared.keep(&one).await;
            }
            Ok(Found::Kept(record)) => {
                if !is_here {
                    let mode = match record.subscription.mode() {
                        Mode::Events => Ok(()),
                        Mode::Faults => shared.sharing.tool_filter.check(Door::FaultMode),
                        Mode::Incidents => shared.sharing.tool_filter.check(Door::IncidentMode),
                    };
                    mode?;
                    self.restore(requester, None, &record.subscription)?;
                    tracing::debug!(subscription = id, "subscription continued");
                }
                let one = self.get(requester, id)?;
                shared.sharing.note(one.id(), &caller);
                let _tried_again = kept.renew(&caller, record).await;
                return Ok(one);
            }
        }
        self.get(requester, id)
    }

    /// Whether a subscription that is here was ended elsewhere; then it ends here.
    pub(super) async fn has_ended(&self, shared: Shared<'_>, one: &Subscription) -> bool {
        let found = self.find_shared(shared, one.id().as_str()).await;
        matches!(found, Err(ToolError::NotFound(_)))
    }

    /// Finds where a client goes on that polls a subscription which is here, maybe asleep.
    pub(super) async fn poll_shared(
        &self,
        _turn: &Turn<'_>,
        requester: &Requester,
        one: Arc<Subscription>,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Polled, ToolError> {
        let there = |reading| CreatedSubscription {
            reading,
            ..CreatedSubscription::there(Arc::clone(&one))
        };
        if self.is_asleep(one.id()) {
            return self.wake_for_poll(requester, &one, cursor, limit).await;
        }
        let (mode, disorder) = (one.filters().mode(), self.disorder(one.filters()));
        let place = cursor
            .as_ref()
            .and_then(|cursor| one.feed().find(cursor, disorder, false));
        let (Some(Place::Before), Some(cursor)) = (place, &cursor) else {
            return Ok(Polled::Live(there(Reading::Cursor)));
        };
        let Some((resumption, point)) = self.resumption(&one, cursor.resume) else {
            return Ok(Polled::Live(there(Reading::Alone)));
        };
        let backlog = self.read_behind(resumption, requester, &one, limit).await?;
        match mode {
            Mode::Events if backlog.items.is_empty() && backlog.is_whole => {
                return Ok(Polled::Live(there(Reading::History)));
            }
            Mode::Events => return Ok(behind(&one, cursor, backlog)),
            // They are captured, and come when that is done.
            Mode::Faults | Mode::Incidents => {
                let newest = backlog.next.map_or(point.version, |next| next.version);
                let (gaps, events) = sorted(backlog, Vec::new());
                one.feed()
                    .cover_from(point.version, point.time - disorder.milliseconds);
                tracing::debug!(newest, "faults of before a feed are captured");
                one.resume(gaps, &events, &HashSet::new());
            }
        }
        Ok(Polled::Live(there(Reading::Alone)))
    }

    /// Wakes a subscription for a client, once what it has not read fits into the feed.
    async fn wake_for_poll(
        &self,
        requester: &Requester,
        one: &Arc<Subscription>,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Polled, ToolError> {
        let tag = one.feed().tag();
        let point = cursor.as_ref().and_then(|cursor| cursor.resume);
        if let (Some(cursor), Some(point)) = (&cursor, point)
            && tag.is_some_and(|tag| tag != point.tag)
        {
            let foreign = CursorError::Foreign(cursor.clone());
            return Err(ToolError::Arguments(foreign.to_string()));
        }
        let point = point.filter(|_| tag.is_some());
        let from = match (&cursor, point) {
            (None, _) => WakeFrom::Beginning,
            (Some(cursor), Some(point)) => WakeFrom::Entry(point.mark(one.id(), cursor.seq)),
            (Some(_), None) => WakeFrom::Unknown,
        };
        let page = || self.page_behind(requester, one, cursor.as_ref(), point, limit);
        if let Some(behind) = page().await? {
            return Ok(behind);
        }
        if let Err(error) = self.wake_shared(requester, one, from).await {
            // More may have happened since than fits.
            let is_behind = matches!(error, ToolError::Unavailable(_));
            return match page().await? {
                Some(behind) if is_behind => Ok(behind),
                _ => Err(error),
            };
        }
        let mut woken = CreatedSubscription::there(Arc::clone(one));
        if point.is_none() {
            woken.reading = Reading::Start;
        }
        Ok(Polled::Live(woken))
    }

    /// What a client reads of the history after a point, if it does not fit into one page.
    async fn page_behind(
        &self,
        requester: &Requester,
        one: &Subscription,
        cursor: Option<&Cursor>,
        point: Option<ResumePoint>,
        limit: usize,
    ) -> Result<Option<Polled>, ToolError> {
        let resumption = self.resumption(one, point);
        let is_of_events = one.filters().mode() == Mode::Events;
        let Some((resumption, point)) = resumption.filter(|_| is_of_events) else {
            return Ok(None);
        };
        let backlog = self.read_behind(resumption, requester, one, limit).await?;
        let beginning = || Cursor {
            subscription: one.id().clone(),
            seq: 0,
            resume: Some(point),
        };
        let cursor = cursor.cloned().unwrap_or_else(beginning);
        Ok((!backlog.is_whole).then(|| behind(one, &cursor, backlog)))
    }

    /// How a client that is behind is served from the history, if it can be: after a point, or
    /// from the beginning of the subscription.
    fn resumption<'a>(
        &'a self,
        one: &'a Subscription,
        point: Option<ResumePoint>,
    ) -> Option<(Resumption<'a>, ResumePoint)> {
        let sources = &self.inner.sources;
        let history = sources.history.as_ref()?;
        if !resume::is_resumable(one.filters().mode()) {
            return None;
        }
        let point = match point {
            Some(point) => point,
            None => super::revived::beginning(one)?,
        };
        let resumption = Resumption {
            history,
            caught_up: &sources.caught_up,
            contexts: sources.incidents.shared_contexts(),
            context: one.cluster(),
            filters: one.filters(),
            point,
            order: ReadOrder::Oldest,
        };
        Some((resumption, point))
    }

    async fn read_behind(
        &self,
        resumption: Resumption<'_>,
        requester: &Requester,
        one: &Subscription,
        limit: usize,
    ) -> Result<Backlog, ToolError> {
        let FeedLimits {
            entries_max,
            bytes_max,
        } = self.inner.feed;
        let room = FeedLimits {
            entries_max: limit.min(entries_max.div_ceil(2)),
            bytes_max: bytes_max / 2,
        };
        let mut backlog = resumption.read(room).await.map_err(unreadable)?;
        let viewer = self.inner.viewers.of(&requester.caller)?;
        eyes::narrow(&viewer, one.cluster(), one.filters(), &mut backlog).await;
        Ok(backlog)
    }
}

/// What a client that is behind reads.
fn behind(one: &Subscription, cursor: &Cursor, backlog: Backlog) -> Polled {
    Polled::Behind(Box::new(BehindPoll {
        context: one.cluster().to_owned(),
        filters: one.filters().clone(),
        cursor: cursor.clone(),
        backlog,
    }))
}

/// The name of the turn of a caller to make a subscription here.
fn turn_name(shared: Shared<'_>, id: &str) -> String {
    let id: String = id.chars().take(80).collect();
    format!("{}.{id}", shared.caller())
}
