//! Events on their way to those who share a watch: labelled, in order, each once, and
//! together with what comes closely.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesOrdered};
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Duration, Instant, sleep_until, timeout};

use super::{
    labels::PATIENCE,
    machine::{Looked, Outlet},
    members::{Interest, Members, Present},
    memo::Said,
    source::{CaughtUp, Labelled, Source},
    status::Status,
};
use kubecrier_core::{Event, Labels, slices::Slices, subscriptions::Change};

/// Events whose labels are being looked up; while there are so many, none is read.
const PENDING_MAX: usize = 256;

/// The same event with the same count is not told twice within this.
const REPEAT: Duration = Duration::from_secs(5);

/// Events that may be repeats.
const REPEATS_MAX: usize = 10_000;

/// Events that wait for the end of a slice; more are handed out before it.
const GATHERED_MAX: usize = 256;

/// Fewer than this wait one slice longer: so few are not worth touching everybody.
const FEW: usize = 10;

/// Events live an hour where nobody said otherwise; some say less.
const EVENTS_LIVE: SignedDuration = SignedDuration::from_mins(30);

/// Events on their way to the members, in order.
pub(super) struct Outgoing {
    members: Arc<Members>,
    pending: FuturesOrdered<BoxFuture<'static, Ready>>,
    repeats: Repeats,
    slices: Slices,
    /// Labelled, and handed out when the slice is over.
    gathered: Vec<(Arc<Event>, Present)>,
    /// The end of the slice in which something was last handed out.
    slice_ends: Option<Instant>,
    /// What was gathered has waited for a slice, and was too little.
    waited: bool,
    /// Moves to another cluster that have not been handed out.
    moving: usize,
}

/// What the members hear next.
enum Ready {
    /// It goes to those who were there when it was read.
    Event(Box<Event>, Present),
    Change(Change),
    /// It is another cluster from here on, at that version.
    Moved(Present, u64, Change),
}

#[derive(Default)]
struct Repeats {
    seen: HashSet<(String, i32)>,
    order: VecDeque<(Instant, (String, i32))>,
}

// === impl Outgoing ===

impl Outgoing {
    pub(super) fn new(members: Arc<Members>, slices: Slices) -> Self {
        Self {
            members,
            pending: FuturesOrdered::new(),
            repeats: Repeats::default(),
            slices,
            gathered: Vec::new(),
            slice_ends: None,
            waited: false,
            moving: 0,
        }
    }

    fn next(&mut self, ready: Ready) {
        if self.pending.is_empty() {
            self.deliver(ready);
        } else {
            self.pending.push_back(async { ready }.boxed());
        }
    }

    /// An event that comes alone is handed out at once; those that follow it closely
    /// come together, at the end of the slice or, if they are few, of the next.
    fn deliver(&mut self, ready: Ready) {
        match ready {
            Ready::Event(event, present) => {
                let alone = self.gathered.is_empty();
                self.gathered.push((Arc::new(*event), present));
                let over = self.slice_ends.is_none_or(|ends| Instant::now() >= ends);
                if over && alone || self.gathered.len() >= GATHERED_MAX {
                    self.give();
                } else if over {
                    // Before the clock could say so.
                    self.slice_over();
                }
            }
            Ready::Change(change) => {
                self.give();
                self.members.tell(&change);
            }
            Ready::Moved(present, version, change) => {
                self.give();
                self.moving -= 1;
                self.members.rebase(present, version);
                self.members.tell(&change);
            }
        }
    }

    fn slice_over(&mut self) {
        if self.gathered.len() < FEW && !self.waited {
            self.waited = true;
            self.slice_ends = Some(self.slices.handed_out(Instant::now()));
        } else {
            self.give();
        }
    }

    fn give(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        self.members.give(&self.gathered);
        self.gathered.clear();
        self.waited = false;
        self.slice_ends = Some(self.slices.handed_out(Instant::now()));
    }

    /// Goes on with what waits for its labels, or for the end of the slice.
    async fn next_due(&mut self) {
        let ends = self.slice_ends.filter(|_| !self.gathered.is_empty());
        let over = async {
            match ends {
                Some(ends) => sleep_until(ends).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(ready) = self.pending.next() => self.deliver(ready),
            () = over => self.slice_over(),
        }
    }

    /// Begins anew, in another cluster.
    fn arrive(&mut self, version: &str, how: &Looked<'_>) {
        let version = version.parse().unwrap_or_default();
        let detail = "the context now stands for another cluster, or for one made anew: its events are told from here on";
        tracing::info!(watch = how.watch, detail, "the cluster has changed");
        let gap = Change::Gap {
            since: how.since,
            detail: detail.to_owned(),
        };
        self.moving += 1;
        let present = self.members.present();
        self.next(Ready::Moved(present, version, gap));
    }

    /// The history was gone. Whatever still exists has been looked at, so something
    /// is missing only if not all was seen, if what was seen several times counts once,
    /// or if it was so long that events came and went.
    fn declare_gap(&mut self, recovered: usize, complete: bool, how: &Looked<'_>) {
        let away = Timestamp::now().duration_since(how.since);
        let all_live = away < EVENTS_LIVE;
        if complete && recovered == 0 && all_live {
            tracing::debug!(watch = how.watch, "nothing has happened since");
            return;
        }
        let detail = if complete && !all_live {
            format!(
                "the API server's history was gone, after {} minutes; {recovered} events were recovered by \
                 a list, those that have lived their time since are missing",
                away.as_mins()
            )
        } else if complete {
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
        let present = self.members.present();
        let interest = self.members.interest(&event, self.moving > 0);
        status.counted(interest != Interest::None);
        let said = match interest {
            Interest::None => return,
            Interest::Plain => Said::Now(None),
            Interest::Labelled => source.labels(&event.involved),
        };
        match said {
            Said::Now(labels) => {
                set_labels(&mut event, labels);
                self.next(Ready::Event(event, present));
            }
            Said::Later(answer, before) => {
                let labelled = async move {
                    let labels = timeout(PATIENCE, answer).await.ok().flatten().or(before);
                    set_labels(&mut event, labels);
                    Ready::Event(event, present)
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
        self.next_due().await;
    }
}

fn set_labels(event: &mut Event, labels: Option<Labels>) {
    if let Some(labels) = labels {
        event.labels = labels;
    }
}

impl Drop for Outgoing {
    /// What was read is told, also when the server stops.
    fn drop(&mut self) {
        self.give();
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

#[cfg(test)]
mod tests;
