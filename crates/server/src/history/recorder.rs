//! Keeps what happens in every context that is allowed, whether a client subscribes or not. The
//! watches are those that clients share.

use std::{collections::HashMap, future::Future, sync::Arc};

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
    Actor, Cluster, ClusterError, Contexts, EventQuery, EventRow, WatchClaim, WatchLease, Watches,
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
        let mut running: HashMap<String, CancellationToken> = HashMap::new();
        loop {
            let generation = self.contexts.generation();
            // A kubeconfig that cannot be read right now takes no context away.
            if let Ok(contexts) = self.contexts.list() {
                let names: Vec<_> = contexts.into_iter().map(|context| context.name).collect();
                running.retain(|name, stop| {
                    let is_there = names.contains(name);
                    if !is_there {
                        stop.cancel();
                    }
                    is_there
                });
                for name in names {
                    running
                        .entry(name)
                        .or_insert_with_key(|name| self.start(name));
                }
            }
            tokio::select! {
                () = self.contexts.changed_since(generation) => {}
                () = self.lifecycle.draining().cancelled() => return,
            }
        }
    }

    fn start(&self, context: &str) -> CancellationToken {
        let stop = self.lifecycle.draining().child_token();
        let context: Arc<str> = Arc::from(context);
        let (recorder, of, until) = (self.clone(), Arc::clone(&context), stop.clone());
        self.lifecycle.spawn("history-events", async move {
            let recording = Box::pin(recorder.record(of));
            until.run_until_cancelled_owned(recording).await;
        });
        if self.incidents.is_some() {
            let (recorder, until) = (self.clone(), stop.clone());
            self.lifecycle.spawn("history-incidents", async move {
                let recording = Box::pin(record_incidents(recorder, context));
                until.run_until_cancelled_owned(recording).await;
            });
        }
        stop
    }

    /// Keeps the events of a context for ever. It watches first and lists then, so that nothing
    /// falls between; what is in both is kept once.
    async fn record(self, context: Arc<str>) {
        let held = again_and_again(&context, "events", || self.watch(&context)).await;
        self.note_absence(&context, Stream::Events, EVENT_LIFETIME);
        if let Err(error) = self.read_shared(&context, held.version).await {
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

    /// Keeps as a gap that no server ran for longer than what happens can be seen afterwards.
    pub(super) fn note_absence(&self, context: &Arc<str>, stream: Stream, lifetime: Duration) {
        let now = Timestamp::now().as_millisecond();
        let lifetime = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
        let known = self.history.oldest(context, stream);
        if let (Some(until), Ok(Some(_))) = (self.history.alive_until(), known)
            && now - until > lifetime
        {
            let gap = Record::gap(until, now, None, "no server kept the history");
            self.history.record(context, stream, move || gap);
        }
    }

    /// Keeps what happened before the watch began, as far as other servers have seen it: the API
    /// server has only the newest occurrence of each event.
    async fn read_shared(
        &self,
        context: &Arc<str>,
        until: Option<u64>,
    ) -> Result<(), SharedLogError> {
        let since = Timestamp::now() - LISTED_AGE;
        let backlog = self.watches.shared_backlog(context, since, until);
        let Some(mut backlog) = backlog.await? else {
            return Ok(());
        };
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
        self.history.flush().await;
        Ok(())
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
