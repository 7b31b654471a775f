//! Keeps what happens in every context that is allowed, whether a client subscribes or not. The
//! watches are those that clients share.

use std::{
    collections::{HashMap, hash_map::Entry},
    future::Future,
    sync::Arc,
};

use jiff::Timestamp;
use tokio::time::{Duration, sleep};
use tokio_util::sync::CancellationToken;

use super::{caught_up::CaughtUp, incidents::record_incidents, record};
use crate::incidents::Incidents;
use kubecrier_core::{
    Backoff, Event,
    faults::FaultQueue,
    filters::Filters,
    shares::ShareKey,
    subscriptions::{LabelUse, Listener, WatchStatus},
};
use kubecrier_history::{History, Record, SharedLogError, Stream};
use kubecrier_k8s::{
    Actor, BacklogGap, Cluster, ClusterError, Contexts, EventQuery, EventRow, SharedBacklog,
    WatchClaim, WatchLease, Watches,
};
use kubecrier_lifecycle::Lifecycle;

/// A cluster that cannot be read is asked again after two seconds, and each minute in the end.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_mins(1));

/// What is listed at the start. Within this time the history knows what it has already.
const LISTED_AGE: Duration = Duration::from_hours(2);

/// Events that are listed at the start: as many as one list reads.
const LISTED_MAX: usize = 20_000;

/// Events that are recorded at once, so that others fit into the queue.
const CHUNK: usize = 2000;

/// After this long without a server, events may have come and gone in the cluster.
const EVENT_LIFETIME: Duration = Duration::from_mins(30);

/// Keeps the events and incidents of all contexts.
#[derive(Clone)]
pub(crate) struct Recorder {
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) watches: Watches,
    /// None if the operator has switched incidents off.
    pub(crate) incidents: Option<Incidents>,
    pub(crate) faults: FaultQueue,
    pub(crate) history: History,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) caught_up: Arc<CaughtUp>,
}

/// Keeps the events of one context.
struct ContextRecorder {
    history: History,
    cluster: Arc<str>,
}

/// The contexts whose history is kept.
#[derive(Default)]
struct KeptContexts {
    running: HashMap<String, CancellationToken>,
    /// When those that were taken away were kept last, in milliseconds since 1970.
    kept_until: HashMap<String, i64>,
}

/// The watch of a context, for as long as it is held.
struct HeldWatch {
    /// The resourceVersion after which everything is delivered.
    version: Option<u64>,
    _lease: WatchLease,
    _claim: WatchClaim,
}

// === impl Recorder ===

impl Recorder {
    /// Keeps what happens in all contexts, also in those that the kubeconfig gets later.
    pub(crate) async fn run(self) {
        let mut kept = KeptContexts::default();
        loop {
            let generation = self.contexts.generation();
            // A kubeconfig that cannot be read right now takes no context away.
            if let Ok(contexts) = self.contexts.list() {
                let names: Vec<_> = contexts.into_iter().map(|context| context.name).collect();
                let now = Timestamp::now().as_millisecond();
                for name in kept.stop_others(&names, now) {
                    self.caught_up.forget(&name);
                }
                for name in names {
                    let before = self.history.alive_until();
                    kept.start(name, before, |name, since| self.start(name, since));
                }
            }
            tokio::select! {
                () = self.contexts.changed_since(generation) => {}
                () = self.lifecycle.draining().cancelled() => return,
            }
        }
    }

    /// Keeps what happens in a context, which was kept until then before.
    fn start(&self, context: &str, kept_until: Option<i64>) -> CancellationToken {
        let stop = self.lifecycle.draining().child_token();
        let context: Arc<str> = Arc::from(context);
        let (recorder, of, until) = (self.clone(), Arc::clone(&context), stop.clone());
        self.lifecycle.spawn("history-events", async move {
            let recording = Box::pin(recorder.record(of, kept_until));
            until.run_until_cancelled_owned(recording).await;
        });
        if self.incidents.is_some() {
            let (recorder, until) = (self.clone(), stop.clone());
            self.lifecycle.spawn("history-incidents", async move {
                let recording = Box::pin(record_incidents(recorder, context, kept_until));
                until.run_until_cancelled_owned(recording).await;
            });
        }
        stop
    }

    /// Keeps the events of a context for ever. It watches first and lists then, so that nothing
    /// falls between; what is in both is kept once.
    async fn record(self, context: Arc<str>, kept_until: Option<i64>) {
        let held = again_and_again(&context, "events", || self.watch(&context)).await;
        note_absence(
            &self.history,
            (&context, Stream::Events),
            kept_until,
            EVENT_LIFETIME,
        );
        let read = self.read_shared(&context, held.version, kept_until);
        if let Err(error) = read.await {
            tracing::warn!(%context, %error, "the history may lack events of before its start");
        }
        again_and_again(&context, "events", || self.list(&context)).await;
        self.caught_up.note(&context);
        tracing::info!(%context, "the history has the events of a context from now on");
        std::future::pending::<()>().await;
    }

    async fn watch(&self, context: &Arc<str>) -> Result<HeldWatch, ClusterError> {
        let filters = Filters::default();
        let claim = self.watches.claim(&ShareKey::Process, context, &filters);
        let claim = claim.map_err(|reached| {
            ClusterError::limit("cannot keep the history of events", &reached)
        })?;
        let listener = Arc::new(ContextRecorder {
            history: self.history.clone(),
            cluster: Arc::clone(context),
        });
        let joined = self.watches.join(context, &filters, listener).await?;
        Ok(HeldWatch {
            version: joined.version,
            _lease: joined.lease,
            _claim: claim,
        })
    }

    /// Keeps what happened before the watch began, as far as other servers have seen it: the API
    /// server has only the newest occurrence of each event. What others lack of the time until
    /// which this history was kept is no gap.
    async fn read_shared(
        &self,
        context: &Arc<str>,
        until: Option<u64>,
        kept_until: Option<i64>,
    ) -> Result<(), SharedLogError> {
        let since = Timestamp::now() - LISTED_AGE;
        let backlog = self.watches.shared_backlog(context, since, until);
        let mut backlog = match backlog.await {
            Ok(Some(backlog)) => backlog,
            Ok(None) => return Ok(()),
            Err(error) => {
                let gap = BacklogGap {
                    since: since.as_millisecond(),
                    until: Timestamp::now().as_millisecond(),
                    why: format!("what other servers have seen cannot be read: {error}"),
                };
                self.keep_gap(context, gap, kept_until);
                return Err(error);
            }
        };
        let read = self.keep_backlog(context, &mut backlog).await;
        for gap in backlog.take_gaps() {
            self.keep_gap(context, gap, kept_until);
        }
        self.history.flush().await;
        read
    }

    async fn keep_backlog(
        &self,
        context: &Arc<str>,
        backlog: &mut SharedBacklog,
    ) -> Result<(), SharedLogError> {
        // A message has few events, and each commit takes as long as one of many.
        let mut waiting = 0;
        while let Some(events) = backlog.next().await? {
            waiting += events.len();
            for event in events {
                self.history
                    .record(context, Stream::Events, move || record::of_event(&event));
            }
            if waiting >= CHUNK {
                self.history.flush().await;
                waiting = 0;
            }
        }
        Ok(())
    }

    /// Keeps that events of a time may be missing. The list that follows has the newest occurrence
    /// of each that the cluster still has, and not those before.
    fn keep_gap(&self, context: &Arc<str>, gap: BacklogGap, kept_until: Option<i64>) {
        let Some(BacklogGap { since, until, why }) = after(gap, kept_until) else {
            return;
        };
        let gap = move || Record::gap(since, until, None, &why);
        self.history.record(context, Stream::Events, gap);
    }

    /// Keeps what happened before the watch began, as far as the API server has it.
    async fn list(&self, context: &Arc<str>) -> Result<(), ClusterError> {
        let query = &EventQuery {
            since: Some(LISTED_AGE),
            limit: LISTED_MAX,
            ..EventQuery::default()
        };
        let list = |cluster: Cluster| async move { cluster.events(query).await };
        let page = (self.contexts)
            .with_cluster(&Actor::Server, Some(context), list)
            .await?;
        if let Some(caveat) = page.caveat {
            tracing::warn!(%context, caveat, "the history may lack events of before its start");
        }
        let mut events: Vec<_> = page
            .items
            .into_iter()
            .map(|EventRow(event)| event)
            .collect();
        events.sort_by_key(|event| event.version);
        while !events.is_empty() {
            let rest = events.split_off(events.len().min(CHUNK));
            for event in events {
                self.history
                    .record(context, Stream::Events, move || record::of_event(&event));
            }
            self.history.flush().await;
            events = rest;
        }
        Ok(())
    }
}

/// What is left of a gap in what others have seen, where the own history was kept until then.
fn after(gap: BacklogGap, kept_until: Option<i64>) -> Option<BacklogGap> {
    let since = kept_until.map_or(gap.since, |kept| kept.max(gap.since));
    (since < gap.until).then_some(BacklogGap { since, ..gap })
}

/// Keeps as a gap that nothing was kept for longer than what happens can be seen afterwards.
pub(super) fn note_absence(
    history: &History,
    (context, stream): (&Arc<str>, Stream),
    kept_until: Option<i64>,
    lifetime: Duration,
) {
    let now = Timestamp::now().as_millisecond();
    let lifetime = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
    // A history that begins says so itself.
    let known = history.oldest(context, stream);
    if let (Some(until), Ok(Some(_))) = (kept_until, known)
        && now - until > lifetime
    {
        let why = "no server kept the history of the context";
        let gap = Record::gap(until, now, None, why);
        history.record(context, stream, move || gap);
    }
}

/// Asks until it works: a cluster that cannot be read may be back later.
pub(super) async fn again_and_again<T, F>(context: &str, what: &str, ask: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, ClusterError>>,
{
    let mut failures = 0;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => {
                failures += 1;
                let hint = error.hint().unwrap_or_default();
                if failures == 1 {
                    tracing::warn!(%context, %error, hint, "the history has no {what} of a context yet; it is tried again");
                } else {
                    tracing::debug!(%context, %error, failures, "the history still has no {what} of a context");
                }
                sleep(BACKOFF.delay(failures)).await;
            }
        }
    }
}

// === impl KeptContexts ===

impl KeptContexts {
    /// Stops those that are not among these; returns their names.
    fn stop_others(&mut self, names: &[String], now: i64) -> Vec<String> {
        let gone = (self.running).extract_if(|name, _| !names.contains(name));
        let gone: Vec<_> = gone.collect();
        let stop = |(name, stop): (String, CancellationToken)| {
            stop.cancel();
            self.kept_until.insert(name.clone(), now);
            name
        };
        gone.into_iter().map(stop).collect()
    }

    /// Starts one that does not run; it was kept until then, or by the process before.
    fn start(
        &mut self,
        name: String,
        before: Option<i64>,
        start: impl FnOnce(&str, Option<i64>) -> CancellationToken,
    ) {
        if let Entry::Vacant(free) = self.running.entry(name) {
            let kept_until = self.kept_until.remove(free.key()).or(before);
            let stop = start(free.key(), kept_until);
            free.insert(stop);
        }
    }
}

impl Listener for ContextRecorder {
    fn wants(&self, _event: &Event) -> bool {
        true
    }

    /// Labels cost requests, and are kept if a subscriber has them looked up.
    fn label_use(&self) -> LabelUse {
        LabelUse::None
    }

    fn on_events(self: Arc<Self>, events: &[&Arc<Event>]) {
        for event in events {
            let event = Arc::clone(event);
            self.history.record(&self.cluster, Stream::Events, move || {
                record::of_event(&event)
            });
        }
    }

    fn on_status(&self, _watch: u64, status: &WatchStatus) {
        match status {
            WatchStatus::Gap { since, detail } => {
                let now = Timestamp::now().as_millisecond();
                let gap = Record::gap(since.as_millisecond(), now, None, detail);
                self.history
                    .record(&self.cluster, Stream::Events, move || gap);
            }
            // What was missed meanwhile is told when the watch works again.
            WatchStatus::Degraded { .. }
            | WatchStatus::Recovered
            | WatchStatus::Unlabelled { .. }
            | WatchStatus::Withdrawn { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use kubecrier_history::{Position, Retention};
    use tokio::task::JoinSet;

    use super::*;

    const HOUR: i64 = 60 * 60 * 1000;

    /// What the own folder has is not missing, whatever other servers lack of that time.
    #[test]
    fn a_gap_begins_where_the_own_history_ends() {
        let gap = |since, until| BacklogGap {
            since,
            until,
            why: "the log begins later".to_owned(),
        };
        assert_eq!(after(gap(10, 20), None), Some(gap(10, 20)));
        assert_eq!(after(gap(10, 20), Some(5)), Some(gap(10, 20)));
        assert_eq!(after(gap(10, 20), Some(15)), Some(gap(15, 20)));
        assert_eq!(after(gap(10, 20), Some(20)), None);
        assert_eq!(after(gap(10, 20), Some(30)), None);
    }

    /// What a context lacks began when it was taken away, whenever this process was started.
    #[test]
    fn a_context_that_comes_back_is_known_to_have_been_away() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        let mut kept = KeptContexts::default();
        let mut started = Vec::new();
        let mut see = |there: &[&str], before, now| {
            let stopped = kept.stop_others(&names(there), now);
            for name in names(there) {
                kept.start(name, before, |name, since| {
                    started.push((name.to_owned(), since));
                    CancellationToken::new()
                });
            }
            (stopped, std::mem::take(&mut started))
        };
        let one = |name: &str, since| vec![(name.to_owned(), since)];
        // The first process of a folder, and of a later one a context that it had not before.
        assert_eq!(see(&["a"], None, 1), (vec![], one("a", None)));
        assert_eq!(see(&["a", "b"], Some(0), 2), (vec![], one("b", Some(0))));
        assert_eq!(see(&["b"], Some(0), 3), (names(&["a"]), vec![]));
        assert_eq!(see(&["b"], Some(0), 4), (vec![], vec![]));
        assert_eq!(see(&["a", "b"], Some(0), 9), (vec![], one("a", Some(3))));
    }

    #[tokio::test]
    async fn only_an_absence_in_which_something_is_lost_is_kept_as_a_gap() {
        let (history, writer) = History::in_memory(Retention::default()).unwrap();
        let mut running = JoinSet::new();
        running.spawn(writer.run(std::future::pending()));
        let (known, new): (Arc<str>, Arc<str>) = ("known".into(), "new".into());
        let now = Timestamp::now().as_millisecond();
        history.record(&known, Stream::Events, move || Record {
            time: now - 2 * HOUR,
            id: "uid:1".to_owned(),
            version: 1,
            ..Record::default()
        });
        assert!(history.flush().await);
        for (context, since) in [
            (&known, None),
            (&known, Some(now - HOUR / 4)),
            (&new, Some(now - HOUR)),
            (&known, Some(now - HOUR)),
        ] {
            note_absence(&history, (context, Stream::Events), since, EVENT_LIFETIME);
        }
        assert!(history.flush().await);
        let read = |context| {
            let page = history.read_from(context, Stream::Events, Position::default(), 10);
            page.unwrap().records
        };
        assert_eq!(read("new").len(), 0, "it begins now");
        let [_, (_, gap)] = &read("known")[..] else {
            panic!("one gap: {:?}", read("known"));
        };
        let since = Timestamp::from_millisecond(now - HOUR).unwrap();
        let text = std::str::from_utf8(&gap.value).unwrap();
        assert!(
            gap.is_gap() && text.contains(&format!("\"since\":\"{since}\"")),
            "{text}"
        );
        assert!(gap.time >= now);
        running.shutdown().await;
    }
}
