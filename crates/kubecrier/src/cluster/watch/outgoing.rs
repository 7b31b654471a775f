//! Events on their way to those who share a watch: labelled, in order, each once.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesOrdered};
use tokio::time::{Duration, Instant, timeout};

use super::{
    labels::PATIENCE,
    machine::{Looked, Outlet},
    members::Members,
    memo::Said,
    source::{CaughtUp, Labelled, Source},
    status::Status,
};
use crate::subscriptions::{Change, Event, Labels, Listener};

/// Events whose labels are being looked up; while there are so many, none is read.
const PENDING_MAX: usize = 256;

/// The same event with the same count is not told twice within this.
const REPEAT: Duration = Duration::from_secs(5);

/// Events that may be repeats.
const REPEATS_MAX: usize = 10_000;

/// Events on their way to the members, in order.
pub(super) struct Outgoing {
    members: Arc<Members>,
    pending: FuturesOrdered<BoxFuture<'static, Ready>>,
    repeats: Repeats,
}

/// What the members hear next.
enum Ready {
    Event(Box<Event>, Vec<Arc<dyn Listener>>),
    Change(Change),
}

#[derive(Default)]
struct Repeats {
    seen: HashSet<(String, i32)>,
    order: VecDeque<(Instant, (String, i32))>,
}

// === impl Outgoing ===

impl Outgoing {
    pub(super) fn new(members: Arc<Members>) -> Self {
        Self {
            members,
            pending: FuturesOrdered::new(),
            repeats: Repeats::default(),
        }
    }

    fn next(&mut self, ready: Ready) {
        if self.pending.is_empty() {
            hand_out(&self.members, ready);
        } else {
            self.pending.push_back(async { ready }.boxed());
        }
    }

    /// Begins anew, in another cluster.
    fn arrive(&mut self, version: &str, how: &Looked<'_>) {
        self.members.rebase(version.parse().unwrap_or_default());
        let detail = "the context now stands for another cluster: its events are told from here on";
        tracing::info!(watch = how.watch, detail, "the cluster has changed");
        self.next(Ready::Change(Change::Gap {
            since: how.since,
            detail: detail.to_owned(),
        }));
    }

    /// The history was gone. Whatever still exists has been looked at, so something
    /// is missing only if not all was seen, or if what was seen several times counts
    /// once.
    fn declare_gap(&mut self, recovered: usize, complete: bool, how: &Looked<'_>) {
        if complete && recovered == 0 {
            tracing::debug!(watch = how.watch, "nothing has happened since");
            return;
        }
        let detail = if complete {
            format!(
                "the API server's history was gone; {recovered} events were recovered by a list, but \
                 repeats in between count once"
            )
        } else {
            format!(
                "the API server's history was gone and there are too many events to list; {recovered} \
                 were recovered, others may be missing: see events_list"
            )
        };
        tracing::debug!(watch = how.watch, detail, "a gap");
        self.next(Ready::Change(Change::Gap {
            since: how.since,
            detail,
        }));
    }
}

impl<S> Outlet<S> for Outgoing
where
    S: Source<Item = Box<Event>, Look = CaughtUp> + Labelled,
{
    /// An event was seen: who wants it gets it when its labels are known, and never
    /// before the event that came first.
    fn take(&mut self, mut event: Box<Event>, source: &S, status: &Status) {
        if self.repeats.is_repeat(&event) {
            return;
        }
        let interested = self.members.interested(&event);
        status.counted(!interested.is_empty());
        if interested.is_empty() {
            return;
        }
        let said = if interested.iter().any(|one| one.needs_labels()) {
            source.labels(&event.involved)
        } else {
            Said::Now(None)
        };
        match said {
            Said::Now(labels) => {
                set_labels(&mut event, labels);
                self.next(Ready::Event(event, interested));
            }
            Said::Later(answer, before) => {
                let labelled = async move {
                    let labels = timeout(PATIENCE, answer).await.ok().flatten().or(before);
                    set_labels(&mut event, labels);
                    Ready::Event(event, interested)
                };
                self.pending.push_back(labelled.boxed());
            }
        }
    }

    fn looked(
        &mut self,
        caught: CaughtUp,
        how: &Looked<'_>,
        source: &S,
        status: &Status,
    ) -> String {
        if how.moved {
            self.arrive(&caught.version, how);
            return caught.version;
        }
        let recovered = caught.events.len();
        for (event, _) in caught.events {
            self.take(event, source, status);
        }
        self.declare_gap(recovered, caught.complete, how);
        caught.version
    }

    /// The members hear of it, after what came before.
    fn tell(&mut self, change: Change) {
        self.next(Ready::Change(change));
    }

    fn has_room(&self) -> bool {
        self.pending.len() < PENDING_MAX
    }

    async fn hand_out(&mut self) {
        match self.pending.next().await {
            Some(ready) => hand_out(&self.members, ready),
            None => std::future::pending().await,
        }
    }
}

fn set_labels(event: &mut Event, labels: Option<Labels>) {
    if let Some(labels) = labels {
        event.labels = labels;
    }
}

fn hand_out(members: &Members, ready: Ready) {
    match ready {
        Ready::Event(event, interested) => {
            let event = Arc::new(*event);
            for listener in interested {
                listener.take(&event);
            }
        }
        Ready::Change(change) => members.tell(&change),
    }
}

// === impl Repeats ===

impl Repeats {
    fn is_repeat(&mut self, event: &Event) -> bool {
        let now = Instant::now();
        while let Some((seen, key)) = self.order.front()
            && (now.duration_since(*seen) >= REPEAT || self.order.len() >= REPEATS_MAX)
        {
            self.seen.remove(key);
            self.order.pop_front();
        }
        let key = (event.uid.clone(), event.count);
        if !self.seen.insert(key.clone()) {
            return true;
        }
        self.order.push_back((now, key));
        false
    }
}
