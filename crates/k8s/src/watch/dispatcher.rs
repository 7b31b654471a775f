//! Dispatches the events of a watch to its subscribers: labelled, in order, each once, and
//! together what came while the events before were being written.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesOrdered};
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Duration, Instant, timeout};

use super::{
    health::WatchHealth,
    labels::{ACQUIRE_TIMEOUT, FoundLabels},
    rounds::Rounds,
    source::{LabelLookup, RelistedEvents, WatchSource},
    subscribers::{Cohort, Interest, Subscribers},
    watch_loop::{RelistContext, WatchHandler},
};
use kubecrier_core::{
    Event, LabelsOf,
    subscriptions::{LabelUse, WatchStatus},
    ttl_cache::Lookup,
};

/// Events whose labels are being looked up; at this number no more are received.
const PENDING_MAX: usize = 256;

/// The same event with the same count is delivered once within this time.
const REPEAT_WINDOW: Duration = Duration::from_secs(5);

/// Events that are remembered to find repeats.
const REPEATS_MAX: usize = 10_000;

/// Events of a round. While so many wait for the next one no more are received: subscribers that
/// read get what was missed for a while in pieces that they can take.
const BATCH_MAX: usize = 256;

/// Events live an hour in most clusters, and less in some.
const EVENT_LIFETIME: SignedDuration = SignedDuration::from_mins(30);

/// Events on their way to the subscribers, in order.
pub(super) struct Dispatcher {
    subscribers: Arc<Subscribers>,
    /// Events that wait for labels, and everything behind them.
    pending: FuturesOrdered<BoxFuture<'static, Dispatch>>,
    repeats: Repeats,
    /// Labelled events, delivered with the next round.
    batch: Vec<(Arc<Event>, Cohort)>,
    rounds: Rounds,
    /// Replacements of the cluster that have not been dispatched.
    replacements: usize,
    /// The number of the last event that was received.
    received: u64,
    /// That of the last one in the batch, or before it.
    batched: u64,
}

/// What is dispatched next.
enum Dispatch {
    Event(Event, Received),
    Status(WatchStatus),
    /// The cluster is another one from here on, at this version.
    Replaced(Cohort, u64, WatchStatus),
}

/// The moment in which an event was received.
#[derive(Clone, Copy)]
struct Received {
    /// The subscribers that it is for.
    cohort: Cohort,
    number: u64,
}

#[derive(Default)]
struct Repeats {
    seen: HashSet<(String, i32)>,
    order: VecDeque<(Instant, (String, i32))>,
}

// === impl Dispatcher ===

impl Dispatcher {
    pub(super) fn new(subscribers: Arc<Subscribers>) -> Self {
        Self {
            subscribers,
            pending: FuturesOrdered::new(),
            repeats: Repeats::default(),
            batch: Vec::new(),
            rounds: Rounds::default(),
            replacements: 0,
            received: 0,
            batched: 0,
        }
    }

    /// Counts an event.
    fn receive(&mut self) -> Received {
        self.received = self.subscribers.progress().receive();
        Received {
            cohort: self.subscribers.cohort(),
            number: self.received,
        }
    }

    fn enqueue(&mut self, next: Dispatch) {
        if self.pending.is_empty() {
            self.dispatch(next);
        } else {
            self.pending.push_back(async { next }.boxed());
        }
    }

    /// Adds an event to the next round. What is told of the watch itself comes behind
    /// everything before it.
    fn dispatch(&mut self, next: Dispatch) {
        match next {
            Dispatch::Event(event, Received { cohort, number }) => {
                self.batch.push((Arc::new(event), cohort));
                self.batched = number;
            }
            Dispatch::Status(status) => {
                self.deliver();
                self.subscribers.notify_status(&status);
            }
            Dispatch::Replaced(cohort, version, status) => {
                self.deliver();
                self.replacements -= 1;
                self.subscribers.rebase(cohort, version);
                self.subscribers.notify_status(&status);
            }
        }
    }

    fn deliver(&mut self) {
        if !self.batch.is_empty() {
            self.rounds.begin(|| self.subscribers.deliver(&self.batch));
            self.batch.clear();
        }
        self.note_progress();
    }

    /// Notes up to which event everything was delivered, or is for nobody; nothing is in the batch.
    fn note_progress(&self) {
        let number = if self.pending.is_empty() {
            self.received
        } else {
            self.batched
        };
        self.subscribers.progress().deliver(number);
    }

    /// Waits for the next labels, or for the next round if there is something to deliver.
    async fn deliver_next(&mut self) {
        let Self { rounds, batch, .. } = self;
        let next_round = async {
            rounds.written().await;
            if batch.is_empty() {
                std::future::pending::<()>().await;
            }
            rounds.rested().await;
        };
        tokio::select! {
            biased;
            Some(next) = self.pending.next() => self.dispatch(next),
            () = next_round => self.deliver(),
        }
    }

    /// Starts over in another cluster.
    fn on_replaced(&mut self, version: &str, relist: &RelistContext<'_>) {
        let version = version.parse().unwrap_or_default();
        let detail = "the context now stands for another cluster, or for one made anew: its events are told from here on";
        tracing::info!(watch = relist.watch, detail, "the cluster has changed");
        let gap = WatchStatus::Gap {
            since: relist.since,
            detail: detail.to_owned(),
        };
        self.replacements += 1;
        let cohort = self.subscribers.cohort();
        self.enqueue(Dispatch::Replaced(cohort, version, gap));
    }

    /// Reports a gap after the history has expired. The relist has read what still
    /// exists, so events are missing only if it was cut short, if an event repeated in
    /// between, or if the watch was away for so long that events came and went.
    fn report_gap(&mut self, recovered: usize, complete: bool, relist: &RelistContext<'_>) {
        let away = Timestamp::now().duration_since(relist.since);
        let all_live = away < EVENT_LIFETIME;
        if complete && recovered == 0 && all_live {
            tracing::debug!(watch = relist.watch, "nothing has happened since");
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
        tracing::debug!(watch = relist.watch, detail, "a gap");
        self.enqueue(Dispatch::Status(WatchStatus::Gap {
            since: relist.since,
            detail,
        }));
    }
}

impl<S> WatchHandler<S> for Dispatcher
where
    S: WatchSource<Item = Event, Relisted = RelistedEvents> + LabelLookup,
{
    /// Dispatches an event as soon as its labels are known, and never before one that
    /// was received earlier.
    fn on_item(&mut self, mut event: Event, source: &S, health: &WatchHealth) {
        if self.repeats.is_repeat(&event) {
            return;
        }
        let received = self.receive();
        let interest = self.subscribers.interest(&event, self.replacements > 0);
        health.count_event(interest != Interest::None);
        let found = match interest {
            Interest::None => {
                if self.batch.is_empty() {
                    self.note_progress();
                }
                return;
            }
            Interest::Event(LabelUse::None) => Lookup::Ready(None),
            Interest::Event(needed) => source.labels(&event.involved, needed),
        };
        match found {
            Lookup::Ready(labels) => {
                set_labels(&mut event, labels);
                self.enqueue(Dispatch::Event(event, received));
            }
            Lookup::Pending(request, stale) => {
                let labelled = async move {
                    let found = match timeout(ACQUIRE_TIMEOUT, request).await {
                        Ok(found) => found,
                        Err(_elapsed) => Some(FoundLabels::Unreadable),
                    };
                    // The labels that it had are better than none.
                    let found = match (found, stale) {
                        (Some(FoundLabels::Unreadable) | None, Some(stale)) => Some(stale),
                        (found, _) => found,
                    };
                    set_labels(&mut event, found);
                    Dispatch::Event(event, received)
                };
                self.pending.push_back(labelled.boxed());
            }
        }
    }

    fn on_relist(
        &mut self,
        listed: RelistedEvents,
        relist: &RelistContext<'_>,
        source: &S,
        health: &WatchHealth,
    ) -> String {
        if relist.replaced {
            self.on_replaced(&listed.version, relist);
            return listed.version;
        }
        let recovered = listed.events.len();
        for (event, _) in listed.events {
            self.on_item(event, source, health);
        }
        self.report_gap(recovered, listed.complete, relist);
        listed.version
    }

    /// Behind the events that were received before.
    fn on_status(&mut self, status: WatchStatus) {
        self.enqueue(Dispatch::Status(status));
    }

    fn has_capacity(&self) -> bool {
        self.pending.len() < PENDING_MAX && self.batch.len() < BATCH_MAX
    }

    async fn flush(&mut self) {
        self.deliver_next().await;
    }
}

fn set_labels(event: &mut Event, found: Option<FoundLabels>) {
    event.labels_of = match found {
        Some(FoundLabels::Known(labels)) => {
            event.labels = labels;
            LabelsOf::Involved
        }
        Some(FoundLabels::Unreadable) => LabelsOf::Unreadable,
        None => LabelsOf::Gone,
    };
}

impl Drop for Dispatcher {
    /// What was received is delivered, also when the server stops.
    fn drop(&mut self) {
        self.deliver();
        self.subscribers.progress().end();
    }
}

// === impl Repeats ===

impl Repeats {
    fn is_repeat(&mut self, event: &Event) -> bool {
        let now = Instant::now();
        while let Some((seen, key)) = self.order.front()
            && (now.duration_since(*seen) >= REPEAT_WINDOW || self.order.len() >= REPEATS_MAX)
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
