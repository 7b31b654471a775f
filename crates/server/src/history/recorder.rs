//! Keeps what happens in every context that is allowed, whether a client subscribes or not. The
//! watches are those that clients share.

use std::{
    collections::{HashMap, hash_map::Entry},
    future::Future,
    sync::Arc,
};

use futures_util::future::join_all;
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

/// The watches of a context, for as long as they are held.
struct HeldWatch {
    lease: Arc<WatchLease>,
    /// The highest resourceVersion that one of them began after, if that is a number.
    began_after: Option<u64>,
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
                    let before = self.kept_before(&name);
                    kept.start(name, before, |name, since| self.start(name, since));
                }
            }
            tokio::select! {
                () = self.contexts.changed_since(generation) => {}
                () = self.lifecycle.draining().cancelled() => return,
            }
        }
    }

    /// Until when the process before kept a context, if it did.
    fn kept_before(&self, context: &str) -> Option<i64> {
        let alive_until = self.history.alive_until()?;
        // That is of the whole history, which may never have had this context.
        let known = self.history.oldest(context, Stream::Events);
        matches!(known, Ok(Some(_))).then_some(alive_until)
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
        let is_shared = self.read_shared(&context, &held.lease, kept_until).await;
        // What others have seen meanwhile is not missing, and what they lack was said.
        if !is_shared {
            let log = (&context, Stream::Events);
            note_absence(&self.history, log, kept_until, EVENT_LIFETIME);
        }
        let began_after = held.began_after;
        again_and_again(&context, "events", || self.list(&context, began_after)).await;
        self.caught_up.note(&context, Arc::clone(&held.lease));
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
        let began_after = joined.lease.began_after();
        Ok(HeldWatch {
            lease: Arc::new(joined.lease),
            began_after,
            _claim: claim,
        })
    }

    /// Keeps what happened before the watches began, as far as other servers have seen it: the API
    /// server has only the newest occurrence of each event. What others lack of the time until
    /// which this history was kept is no gap. False if no servers share what they see.
    async fn read_shared(
        &self,
        context: &Arc<str>,
        lease: &WatchLease,
        kept_until: Option<i64>,
    ) -> bool {
        let listed = Timestamp::now() - LISTED_AGE;
        let kept = kept_until.and_then(|kept| Timestamp::from_millisecond(kept).ok());
        let since = kept.map_or(listed, |kept| kept.min(listed));
        let backlogs = self.watches.shared_backlogs(lease, since).await;
        let is_shared = !backlogs.is_empty();
        let read = backlogs
            .into_iter()
            .map(|opened| self.keep_backlog(context, opened, since));
        let gaps = join_all(read).await.into_iter().flatten().collect();
        for gap in merged(gaps) {
            self.keep_gap(context, gap, kept_until);
        }
        self.history.flush().await;
        is_shared
    }

    /// Returns what may be missing.
    async fn keep_backlog(
        &self,
        context: &Arc<str>,
        opened: Result<SharedBacklog, SharedLogError>,
        since: Timestamp,
    ) -> Vec<BacklogGap> {
        let told = |error: &SharedLogError| {
            tracing::warn!(%context, %error, "the history may lack events of before its start");
        };
        let mut backlog = match opened {
            Ok(backlog) => backlog,
            Err(error) => {
                told(&error);
                return vec![BacklogGap {
                    since: since.as_millisecond(),
                    until: Timestamp::now().as_millisecond(),
                    why: format!("what other servers have seen cannot be read: {error}"),
                }];
            }
        };
        if let Err(error) = self.keep_seen(context, &mut backlog).await {
            told(&error);
        }
        backlog.take_gaps()
    }

    async fn keep_seen(
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

    /// Keeps what happened before the watches began, as far as the API server has it. What happened
    /// later comes from them, in order: who reads by versions takes what it has read up to a
    /// version for everything.
    async fn list(&self, context: &Arc<str>, began_after: Option<u64>) -> Result<(), ClusterError> {
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
        events.retain(|event| {
            event
                .version
                .is_none_or(|is| began_after.is_none_or(|began| is <= began))
        });
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

/// The gaps of several backlogs of one context, those that overlap as one.
fn merged(mut gaps: Vec<BacklogGap>) -> Vec<BacklogGap> {
    gaps.sort_by_key(|gap| gap.since);
    let mut all: Vec<BacklogGap> = Vec::new();
    for gap in gaps {
        match all.last_mut() {
            Some(last) if gap.since <= last.until => last.until = last.until.max(gap.until),
            Some(_) | None => all.push(gap),
        }
    }
    all
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
mod tests;
