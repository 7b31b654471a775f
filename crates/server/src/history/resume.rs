//! What happened after a cursor whose feed is gone: the server was restarted, or the
//! subscription has ended.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::time::{Duration, timeout};

pub(crate) use super::by_version::ReadOrder;
use super::{
    caught_up::CaughtUp,
    reader::{RECORDS_MAX, Reading},
};
use crate::caller::Caller;
use kubecrier_core::{
    Event,
    filters::{Filters, Mode},
    subscriptions::{Disorder, FeedLimits, ResumePoint, ResumeTag, WatchStatus},
};
use kubecrier_history::{Health, History, LogError, Position, Record};
use kubecrier_k8s::{Actor, Cluster, Contexts, EventQuery, EventRow, Remaining};

/// How long what was just received may take to be on the disk.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(4);

/// How long the history may take after a start to list what happened before it.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// The same where servers share what they have seen: it has every occurrence of an event, of which
/// the API server has the newest alone. A client that waits for an answer waits longer than that.
const SHARED_CATCH_UP_TIMEOUT: Duration = Duration::from_secs(25);

/// Where several watches deliver, their events are not in the order of their versions: those of
/// this long before the cursor are delivered again.
pub(super) const OVERLAP_MILLISECONDS: i64 = 10_000;

/// Faults are delivered when their evidence is there, so one may be before another that happened
/// earlier: those of this long before the cursor are delivered again.
pub(super) const EVIDENCE_MILLISECONDS: i64 = 60_000;

/// How late an event can be delivered that happened before the cursor: a watch that was away
/// lists what it missed.
pub(super) const LATE_MILLISECONDS: i64 = 2 * 60 * 60 * 1000;

/// How late something may be delivered, where everything takes long. The time of a cursor is when
/// what is before it was delivered; what is after it may have happened earlier by this.
const LAG: SignedDuration = SignedDuration::from_mins(1);

/// Events that the API server has and the history has not yet, at most.
const LISTED_MAX: usize = 1000;

/// What happened after a cursor, as far as one call reads.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// What happened, in the order in which it was kept, with the position of each.
    pub(crate) items: Vec<(Position, BacklogItem)>,
    /// How far it was read.
    pub(crate) position: Position,
    /// Whether it was read to its end.
    pub(crate) is_whole: bool,
    /// Highest resourceVersion that was read.
    pub(super) version: u64,
    /// Where to go on after it on any server, if it was read by versions.
    pub(crate) next: Option<ResumePoint>,
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub(crate) enum BacklogItem {
    Event(Arc<Event>),
    Gap(WatchStatus),
}

/// Reads the history after cursors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resumption<'a> {
    pub(crate) history: &'a History,
    pub(crate) caught_up: &'a CaughtUp,
    pub(crate) contexts: &'a Arc<Contexts>,
    pub(crate) context: &'a str,
    pub(crate) filters: &'a Filters,
    pub(crate) point: ResumePoint,
    /// Which part is read, if it does not all fit.
    pub(crate) order: ReadOrder,
}

/// A gap as it is kept.
#[derive(Deserialize)]
pub(super) struct KeptGap {
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    pub(super) count: Option<u64>,
    pub(super) why: String,
}

/// Whose cursors are: a hash of who may use them, for what, with the secret of the history. It
/// is the same after a restart, and wherever the history is the same.
pub(crate) fn tag(
    history: &History,
    caller: &Caller,
    context: &str,
    filters: &Filters,
) -> ResumeTag {
    tag_with(history.secret(), caller, context, filters)
}

/// Whether a tag is that, or what it is on a server with another secret.
pub(crate) fn is_own(
    history: &History,
    caller: &Caller,
    context: &str,
    filters: &Filters,
    tag: ResumeTag,
) -> bool {
    let is_with = |secret: &[u8; 32]| tag_with(secret, caller, context, filters) == tag;
    is_with(history.secret()) || history.other_secrets().iter().any(is_with)
}

fn tag_with(secret: &[u8; 32], caller: &Caller, context: &str, filters: &Filters) -> ResumeTag {
    let mut hash = Sha256::new();
    hash.update(secret);
    let filters_text = serde_json::to_string(filters).unwrap_or_default();
    let caller = caller.to_string();
    for part in [&*caller, context, filters.mode().as_str(), &*filters_text] {
        // With its length, so that no two lists of parts are one text.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut tag = ResumeTag::default();
    tag.copy_from_slice(&hash.finalize()[..8]);
    tag
}

// === impl Backlog ===

impl Backlog {
    /// One without anything.
    pub(crate) fn whole() -> Self {
        Self {
            is_whole: true,
            ..Self::default()
        }
    }

    /// Whether an event that was listed may have happened once more since a time than is known: a
    /// list has the newest occurrence of each event alone.
    fn lacks_occurrence_before(&self, event: &Event, since: Timestamp) -> bool {
        let is_before = |known: &Event| known.uid == event.uid && known.count + 1 == event.count;
        let is_known = self.items.iter().any(|(_, item)| match item {
            BacklogItem::Event(known) => is_before(known),
            BacklogItem::Gap(_) => false,
        });
        let was_first_before =
            event.count == 2 && event.first_seen.is_some_and(|first| first < since);
        event.count > 1 && !is_known && !was_first_before
    }

    /// Ends a backlog that goes on: what is not read is told as a gap.
    pub(crate) fn cut(&mut self, point: ResumePoint, limit: usize, mode: Mode) {
        let since = missing_since(point);
        let mode = mode.as_str();
        let detail = format!(
            "more happened meanwhile than is read at once ({limit} {mode}), and the later part is \
             left out: see events_list with since"
        );
        let gap = BacklogItem::Gap(WatchStatus::Gap { since, detail });
        self.items.push((self.position, gap));
    }
}

// === impl Resumption ===

impl Resumption<'_> {
    /// Reads what happened after the cursor, as far as there is room for it.
    pub(crate) async fn read(self, room: FeedLimits) -> Result<Backlog, LogError> {
        let caught_up = self.caught_up.wait(self.context);
        let is_shared = self.order != ReadOrder::Log;
        let patience = if is_shared {
            SHARED_CATCH_UP_TIMEOUT
        } else {
            CATCH_UP_TIMEOUT
        };
        // If it takes longer, the API server is asked for everything since the cursor.
        let is_complete = timeout(patience, caught_up).await.is_ok();
        if !is_complete && is_shared {
            // A page in the order of versions would lead past what is not there yet.
            return Err(LogError::Behind(
                "what happened before its start is not there yet",
            ));
        }
        let flushed = timeout(FLUSH_TIMEOUT, self.history.flush()).await;
        // One that cannot be written has what it has, and says so elsewhere.
        if flushed.is_err() && matches!(self.history.health(), Health::Ok) {
            return Err(LogError::Behind(
                "what was just received takes long to write",
            ));
        }
        let (history, contexts) = (self.history.clone(), Arc::clone(self.contexts));
        let (context, filters) = (self.context.to_owned(), self.filters.clone());
        let (mut point, order) = (self.point, self.order);
        if order != ReadOrder::Log {
            // It may be another server's.
            point.position = 0;
        }
        let reading = tokio::task::spawn_blocking(move || {
            let reading = Reading {
                history: &history,
                contexts: &contexts,
                context: &context,
                filters: &filters,
                point,
                order,
                room,
                records_max: RECORDS_MAX,
            };
            reading.read()
        });
        reading.await.unwrap_or_else(|_cancelled| {
            Err(LogError::Closed("reading it was cancelled".to_owned()))
        })
    }

    /// What the API server has and the history has not yet: the last moments.
    pub(crate) async fn list_newest(self, backlog: &Backlog) -> Vec<BacklogItem> {
        let known = if self.caught_up.has(self.context) {
            backlog.version.max(self.point.version)
        } else {
            self.point.version
        };
        let query = &EventQuery {
            after: Some(known),
            limit: LISTED_MAX,
            ..EventQuery::default()
        };
        let since = missing_since(self.point);
        let gap = |detail: String| vec![BacklogItem::Gap(WatchStatus::Gap { since, detail })];
        let list = |cluster: Cluster| async move { cluster.events(query).await };
        match self
            .contexts
            .with_cluster(&Actor::Server, Some(self.context), list)
            .await
        {
            Err(error) => gap(format!(
                "what happened right before this could not be listed: {error}"
            )),
            Ok(page) => {
                let is_cut = page.caveat.is_some() || page.more != Remaining::Exactly(0);
                let mut events: Vec<_> = page.items.into_iter().map(|EventRow(one)| one).collect();
                events.retain(|event| self.filters.admits(event));
                events.sort_by_key(|event| event.version);
                // The list has no labels.
                let unlabelled = self.filters.selects_labels() && !events.is_empty();
                let mut items = Vec::new();
                if is_cut || unlabelled {
                    items = gap(
                        "some of what happened right before this may be missing: see events_list"
                            .to_owned(),
                    );
                } else if self.filters.mode() == Mode::Events
                    && (events.iter()).any(|event| backlog.lacks_occurrence_before(event, since))
                {
                    items = gap(
                        "of events that were repeated right before this, only the newest occurrence \
                         is known"
                            .to_owned(),
                    );
                }
                if !unlabelled {
                    items.extend(events.into_iter().map(BacklogItem::Event));
                }
                items
            }
        }
    }
}

/// Since when something may be missing of what is after a point.
pub(crate) fn missing_since(point: ResumePoint) -> Timestamp {
    let delivered = Timestamp::from_millisecond(point.time).unwrap_or_default();
    delivered.checked_sub(LAG).unwrap_or(delivered)
}

/// Whether several watches deliver to a subscription.
pub(super) fn is_split(contexts: &Contexts, filters: &Filters) -> bool {
    let names = || filters.exact_namespaces();
    contexts.is_confined() || names().is_some_and(|names| names.len() > 1)
}

/// How the feeds of a subscription on several servers may differ.
pub(crate) fn disorder(contexts: &Contexts, filters: &Filters) -> Disorder {
    let milliseconds = match filters.mode() {
        Mode::Events if is_split(contexts, filters) => OVERLAP_MILLISECONDS,
        Mode::Events => 0,
        Mode::Faults => EVIDENCE_MILLISECONDS,
        Mode::Incidents => OVERLAP_MILLISECONDS,
    };
    Disorder {
        has_versions: is_resumable(filters.mode()),
        milliseconds,
    }
}

/// The status that a gap is told with.
pub(super) fn kept_gap(kept: &Record) -> Option<WatchStatus> {
    let KeptGap {
        since,
        until,
        count,
        why,
    } = serde_json::from_slice(&kept.value).ok()?;
    let what = match count {
        Some(count) => format!("{count} events are missing"),
        None => "events may be missing".to_owned(),
    };
    Some(WatchStatus::Gap {
        since,
        detail: format!("from {since} to {until} {what}: {why}"),
    })
}

/// Whether an old cursor can be resumed in this mode: of incidents, what is open is told anew, and
/// `faults_list` with `since` has what was.
pub(crate) fn is_resumable(mode: Mode) -> bool {
    match mode {
        Mode::Events | Mode::Faults => true,
        Mode::Incidents => false,
    }
}
