//! Where a poll reads the feed of a subscription.

use kubecrier_core::{
    filters::Filters,
    subscriptions::{Cursor, CursorError, Disorder, Feed, Place, Subscription},
};
use tokio::time::Duration;
use tokio_util::sync::CancellationToken;

use super::Subscriptions;
use crate::{history::resume, resources::Requester};

/// Where the client of a subscription goes on that was found for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// After its cursor.
    Cursor,
    /// After its cursor, and there is nothing before the feed that it has not.
    Alone,
    /// In the history: the feed begins after the cursor, and what is between has not come yet, or
    /// is nothing. When something has come the history has it, and all that was before it.
    History,
    /// With the first entry: the feed begins after the cursor.
    Start,
}

/// Where a poll reads a feed.
#[derive(Debug)]
pub(crate) enum ReadFrom {
    /// After an entry.
    Entry(u64),
    /// After a cursor that another server may have given, so that its number says nothing.
    Place {
        cursor: Cursor,
        disorder: Disorder,
        is_alone: bool,
    },
}

impl Subscriptions {
    /// Where a poll with a cursor reads.
    pub(crate) fn read_from(
        &self,
        requester: &Requester,
        one: &Subscription,
        cursor: Option<&str>,
        reading: Reading,
    ) -> Result<ReadFrom, CursorError> {
        let Some(text) = cursor.filter(|_| reading != Reading::Start) else {
            return Ok(ReadFrom::Entry(0));
        };
        if self.shared(requester).is_some() {
            let (context, filters) = (one.cluster(), one.filters());
            let (cursor, disorder) = (Some(text.parse()?), self.disorder(filters));
            let is_alone = matches!(reading, Reading::Alone | Reading::History);
            if let Some(cursor) = self.as_own(requester, context, filters, cursor)
                && one.feed().find(&cursor, disorder, is_alone).is_some()
            {
                return Ok(ReadFrom::Place {
                    cursor,
                    disorder,
                    is_alone,
                });
            }
        }
        let seq = one.feed().resolve_cursor(one.id(), text)?;
        Ok(ReadFrom::Entry(seq))
    }

    /// How the feeds of a subscription on several servers may differ.
    pub(super) fn disorder(&self, filters: &Filters) -> Disorder {
        let contexts = self.inner.sources.incidents.shared_contexts();
        resume::disorder(contexts, filters)
    }
}

// === impl ReadFrom ===

impl ReadFrom {
    /// The entry after which is read now; `None` if something before the feed has to be read first.
    pub(crate) fn after(&self, feed: &Feed) -> Option<u64> {
        match self {
            Self::Entry(seq) => Some(*seq),
            Self::Place {
                cursor,
                disorder,
                is_alone,
            } => match feed.find(cursor, *disorder, *is_alone) {
                Some(Place::After(seq)) => Some(seq),
                Some(Place::Before) | None => None,
            },
        }
    }

    /// The cursor that is still right if nothing was read.
    pub(crate) fn unread(&self) -> Option<&Cursor> {
        match self {
            Self::Entry(_) => None,
            Self::Place { cursor, .. } => Some(cursor),
        }
    }

    /// Waits for something to read, for as long as it is worth it; for one who reads the history,
    /// that is anything new.
    pub(crate) async fn wait(
        &self,
        feed: &Feed,
        is_of_history: bool,
        patience: Duration,
        stop: &CancellationToken,
    ) {
        if patience.is_zero() {
            return;
        }
        let has_come = async {
            if is_of_history {
                feed.wait_past(feed.last()).await;
            } else {
                self.has_come(feed).await;
            }
        };
        tokio::select! {
            () = has_come => {}
            () = tokio::time::sleep(patience) => {}
            () = stop.cancelled() => {}
        }
    }

    /// What comes may have been delivered elsewhere before the cursor.
    async fn has_come(&self, feed: &Feed) {
        loop {
            let last = feed.last();
            match self.after(feed) {
                Some(seq) if seq >= last => feed.wait_past(last).await,
                Some(_) | None => return,
            }
        }
    }
}
