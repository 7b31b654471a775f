//! Polls: the subscription that a client polls by its filters, or the history if the one of its
//! cursor is gone.

use std::{collections::HashSet, sync::Arc};

use jiff::Timestamp;

use super::{
    CreatedSubscription, Reading, SubscriptionUse, Subscriptions,
    before::{Before, Pages, Rest},
    owner,
    shared::Shared,
};
use crate::{
    history::resume::{self, Backlog, BacklogItem, ReadOrder, Resumption},
    output::ToolError,
    resources::Requester,
};
use kubecrier_core::{
    Event,
    filters::{Filters, Mode},
    subscriptions::{Cursor, Owner, Subscription, SubscriptionId, WatchStatus},
};
use kubecrier_history::LogError;

/// Faults of before a cursor that are delivered; older ones are told as a gap.
pub(super) const RESUMED_FAULTS_MAX: usize = 200;

/// What a poll reads from.
#[derive(Debug)]
pub(crate) enum Polled {
    /// A subscription that delivers.
    Live(CreatedSubscription),
    /// The history: the client is behind.
    Behind(Box<BehindPoll>),
}

/// What a client that is behind reads.
#[derive(Debug)]
pub(crate) struct BehindPoll {
    pub(crate) context: String,
    pub(crate) filters: Filters,
    /// The cursor that it has.
    pub(crate) cursor: Cursor,
    pub(crate) backlog: Backlog,
}

/// Ends a subscription when it is dropped that has not got what happened before.
struct Unfinished<'a> {
    subscriptions: &'a Subscriptions,
    owner: Owner,
    id: Option<SubscriptionId>,
}

// === impl Subscriptions ===

impl Subscriptions {
    /// Returns the subscription that this client polls with these filters, and creates
    /// it if there is none. A client that continues with a cursor must have the
    /// cursor's, or goes on in the history, up to a number of events at a time.
    pub(crate) async fn find_or_create_polled(
        &self,
        requester: &Requester,
        context: Option<&str>,
        filters: Filters,
        continues: Option<Cursor>,
        limit: usize,
    ) -> Result<Polled, ToolError> {
        let context = self.watches().context(context)?;
        let continues = self.as_own(requester, &context, &filters, continues);
        if let Some(shared) = self.shared(requester) {
            return self
                .poll_filters_shared(shared, requester, &context, filters, continues, limit)
                .await;
        }
        let same = self.list(requester)?.into_iter().find(|one| {
            let is_same = |cursor: &Cursor| cursor.subscription == *one.id();
            continues.as_ref().is_none_or(is_same) && is_polled(one, &context, &filters)
        });
        if same.is_none()
            && let Some(cursor) = &continues
            && let Some(resumed) = self
                .resume(requester, &context, &filters, cursor, limit)
                .await?
        {
            return Ok(resumed);
        }
        match same {
            Some(subscription) => Ok(Polled::Live(CreatedSubscription::there(subscription))),
            // Before anything is watched: a cursor that leads nowhere leaves nothing.
            None if continues.is_some() => Err(leads_nowhere()),
            None => {
                let created =
                    self.create(requester, Some(&context), filters, SubscriptionUse::Polled);
                created.await.map(Polled::Live)
            }
        }
    }

    /// The same where servers share subscriptions: the cursor may be of another server's, which
    /// means the same in the feed of this one.
    async fn poll_filters_shared(
        &self,
        shared: Shared<'_>,
        requester: &Requester,
        context: &str,
        filters: Filters,
        continues: Option<Cursor>,
        limit: usize,
    ) -> Result<Polled, ToolError> {
        let history = self.inner.sources.history.as_ref();
        let tag = history.map(|it| resume::tag(it, &requester.caller, context, &filters));
        let point = continues.as_ref().and_then(|cursor| cursor.resume);
        let is_own = point.is_some_and(|point| Some(point.tag) == tag);
        let find = || -> Result<_, ToolError> {
            let is_same =
                |cursor: &Cursor, one: &Subscription| cursor.subscription == *one.id() || is_own;
            Ok(self.list(requester)?.into_iter().find(|one| {
                continues.as_ref().is_none_or(|it| is_same(it, one))
                    && is_polled(one, context, &filters)
            }))
        };
        // Of requests that come at once, one makes what is not there. Whether what is there was
        // ended elsewhere they find out side by side: the store may take its time.
        let name = format!("{}.{context}.{tag:?}", requester.caller);
        let turn = loop {
            if let Some(one) = find()? {
                if !self.has_ended(shared, &one).await {
                    let turn = shared.sharing.turns.take(&name).await;
                    return self
                        .poll_shared(&turn, requester, one, continues, limit)
                        .await;
                }
                continue;
            }
            let turn = shared.sharing.turns.take(&name).await;
            if find()?.is_none() {
                break turn;
            }
        };
        let created = match &continues {
            Some(cursor) => {
                let resumed = self.resume(requester, context, &filters, cursor, limit);
                match resumed.await? {
                    Some(Polled::Live(created)) => created,
                    Some(behind) => return Ok(behind),
                    None if is_own => {
                        let created = self.create_polled(requester, context, filters).await?;
                        let since = point.map_or(0, |point| point.time);
                        created.subscription.notice(unseen(since));
                        let reading = Reading::Start;
                        CreatedSubscription { reading, ..created }
                    }
                    None => return Err(leads_nowhere()),
                }
            }
            None => self.create_polled(requester, context, filters).await?,
        };
        drop(turn);
        // Without a record it is found by its filters all the same.
        let _is_kept = shared.keep(&created.subscription).await;
        Ok(Polled::Live(created))
    }

    /// A cursor as this server would have made it: one of a server with another secret means the
    /// same.
    pub(super) fn as_own(
        &self,
        requester: &Requester,
        context: &str,
        filters: &Filters,
        mut cursor: Option<Cursor>,
    ) -> Option<Cursor> {
        let history = self.inner.sources.history.as_ref();
        let point = cursor.as_mut().and_then(|cursor| cursor.resume.as_mut());
        if let (Some(history), Some(point)) = (history, point)
            && resume::is_own(history, &requester.caller, context, filters, point.tag)
        {
            point.tag = resume::tag(history, &requester.caller, context, filters);
        }
        cursor
    }

    async fn create_polled(
        &self,
        requester: &Requester,
        context: &str,
        filters: Filters,
    ) -> Result<CreatedSubscription, ToolError> {
        let used = SubscriptionUse::Polled;
        self.create(requester, Some(context), filters, used).await
    }

    /// In which order the history is read. Where servers share it, a position in the log of one
    /// means nothing to the others, also to a caller with a session: its cursor may be of another.
    pub(crate) fn read_order(&self) -> ReadOrder {
        match self.inner.sharing.get() {
            Some(_) => ReadOrder::Oldest,
            None => ReadOrder::Log,
        }
    }

    /// Goes on after a cursor whose subscription is gone; `None` if it cannot.
    async fn resume(
        &self,
        requester: &Requester,
        context: &str,
        filters: &Filters,
        cursor: &Cursor,
        limit: usize,
    ) -> Result<Option<Polled>, ToolError> {
        let (Some(history), Some(point)) = (&self.inner.sources.history, cursor.resume) else {
            return Ok(None);
        };
        let is_own = resume::tag(history, &requester.caller, context, filters) == point.tag;
        if !is_own || !resume::is_resumable(filters.mode()) {
            return Ok(None);
        }
        let order = self.read_order();
        let resumption = Resumption {
            history,
            caught_up: &self.inner.sources.caught_up,
            contexts: self.inner.sources.incidents.shared_contexts(),
            context,
            filters,
            point,
            order,
        };
        let mode = filters.mode();
        let mut room = self.page_room(mode, Pages::First);
        if mode == Mode::Events {
            room.entries_max = limit.min(room.entries_max);
        }
        let viewer = self.inner.viewers.of(&requester.caller)?;
        let mut before = Before {
            viewer: &viewer,
            resumption,
            pages: Pages::First,
            room,
            late: self.disorder(filters).milliseconds,
        };
        let backlog = before.last_page(None).await.map_err(unreadable)?;
        if !backlog.is_whole && mode == Mode::Events {
            let behind = BehindPoll {
                context: context.to_owned(),
                filters: filters.clone(),
                cursor: cursor.clone(),
                backlog,
            };
            return Ok(Some(Polled::Behind(Box::new(behind))));
        }
        let watches = before.watches();
        let beside = watches.as_deref().map(|watches| (watches, point.version));
        let used = SubscriptionUse::Resumed(beside);
        let created = self
            .create(requester, Some(context), filters.clone(), used)
            .await?;
        // Also if the caller goes away now: its cursor still leads to what it has not read.
        let mut unfinished = Unfinished {
            subscriptions: self,
            owner: owner(requester),
            id: Some(created.subscription.id().clone()),
        };
        let one = &created.subscription;
        let Rest {
            gaps,
            events,
            delivered,
        } = if created.is_beside_history {
            before
                .until_joined(one, backlog.is_whole)
                .await
                .map_err(unreadable)?
        } else {
            before.until_listed(one, backlog).await
        };
        one.resume(gaps, &events, &delivered);
        unfinished.id = None;
        Ok(Some(Polled::Live(CreatedSubscription {
            reading: Reading::Start,
            ..created
        })))
    }
}

pub(super) fn unreadable(error: LogError) -> ToolError {
    match error {
        LogError::Behind(_) => ToolError::Unavailable(format!("{error}: try again")),
        error => ToolError::Unsupported(format!("{error}: call again without the cursor")),
    }
}

fn leads_nowhere() -> ToolError {
    ToolError::Arguments(
        "the cursor is of another subscription than these filters have, or of one that was not \
         polled for so long that it has ended: call again without it to begin anew; \
         what happened in between is in events_list"
            .to_owned(),
    )
}

/// What is said of incidents where they are followed anew.
fn unseen(since: i64) -> WatchStatus {
    WatchStatus::Gap {
        since: Timestamp::from_millisecond(since).unwrap_or_default(),
        detail: "another server goes on with this: incidents that were opened or resolved meanwhile are \
                 not told; faults_list has what is open"
            .to_owned(),
    }
}

/// The gaps, and the events in the order of their versions, each once.
pub(super) fn sorted(
    backlog: Backlog,
    newest: Vec<Option<BacklogItem>>,
) -> (Vec<WatchStatus>, Vec<Arc<Event>>) {
    let items = backlog.items.into_iter().map(|(_, item)| item);
    let (mut gaps, mut events) = (Vec::new(), Vec::<Arc<Event>>::new());
    let mut known = HashSet::new();
    for item in items.chain(newest.into_iter().flatten()) {
        match item {
            BacklogItem::Gap(gap) => gaps.push(gap),
            BacklogItem::Event(event) => {
                if known.insert(event.id().to_owned()) {
                    events.push(event);
                }
            }
        }
    }
    events.sort_by_key(|event| event.version);
    (gaps, events)
}

/// Whether a poll with these filters is for this subscription.
pub(super) fn is_polled(one: &Subscription, context: &str, filters: &Filters) -> bool {
    one.expires_idle() && one.cluster() == context && one.filters() == filters
}

// === impl Unfinished ===

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            let ledger = &self.subscriptions.inner.ledger;
            ledger.end(&self.owner, id.as_str());
        }
    }
}
