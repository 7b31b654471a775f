//! Evaluates the state of a scope when it has changed, and when time alone may change the
//! result; publishes what is open and tells followers what was opened, changed and resolved.

use std::{collections::HashMap, convert::Infallible, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use kubecrier_incidents::{
    Evaluation, Incident, Life, State, Transition, detectors::detector, evaluate,
};
use kubecrier_k8s_api::BuiltinKind;
use tokio::time::{Duration, Instant, sleep_until, timeout};

use super::{
    IncidentSnapshot, IncidentUpdate, ResolvedIncident, crash_words,
    eyes::UserEyes,
    shown::{concerns, hide_denied, hide_unreadable},
    watcher::{IncidentWatcher, Input},
};
use crate::scope_rights::{self, Freshness, RIGHTS_INTERVAL};
use kubecrier_core::access::{Clearance, Undecided};

/// Changes within this time are evaluated together: a rollout changes several kinds.
const BATCH_DELAY: Duration = Duration::from_millis(50);

/// The shortest time between two evaluations.
const MIN_INTERVAL: Duration = Duration::from_millis(500);

/// The longest time between two evaluations: some detectors count time by themselves.
const MAX_INTERVAL: Duration = Duration::from_secs(15);

/// After an outage, kinds are listed one after the other, and do not fit together for a
/// moment. Nothing is announced meanwhile, for so long after the last one came back.
const SETTLE_TIME: Duration = Duration::from_secs(35);

/// The first readers wait for the logs of so many incidents, and for so long.
const FIRST_WORDS: usize = 8;
const FIRST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// An incident is announced with the words of its logs if they can be had within this time.
const WORDS_PATIENCE: Duration = Duration::from_secs(2);

/// More objects than this are evaluated on a thread for such work.
const OBJECTS_INLINE_MAX: usize = 500;

/// What a user may read is asked for again after this time if there was no answer.
const UNDECIDED_RETRY: Duration = Duration::from_secs(2);

/// Resolved incidents that are kept, and for how long.
const RESOLVED_MAX: usize = 50;
const RESOLVED_KEPT: SignedDuration = SignedDuration::from_hours(1);

/// What is known between two evaluations.
struct Evaluator {
    life: Life,
    open: Vec<Arc<Incident>>,
    resolved: Vec<Arc<ResolvedIncident>>,
    notes: Vec<String>,
    seq: u64,
    /// Incidents that are announced as soon as their logs are read, and since when.
    held_back: HashMap<String, Instant>,
    /// Kinds whose watches are broken, and since when just those.
    behind: (Vec<&'static BuiltinKind>, Instant),
    /// How often a kind was left out until the last evaluation.
    losses: u64,
    /// What the user could read whose view it is.
    clearance: Option<Arc<Clearance>>,
}

/// Evaluates for ever.
pub(super) async fn run(watcher: &IncidentWatcher) -> Infallible {
    let mut evaluator = Evaluator {
        life: Life::new(Arc::clone(&watcher.options)),
        open: Vec::new(),
        resolved: Vec::new(),
        notes: Vec::new(),
        seq: 1,
        held_back: HashMap::new(),
        behind: (Vec::new(), Instant::now()),
        losses: 0,
        clearance: None,
    };
    while !watcher.is_listed() {
        watcher.changed().await;
    }
    // The view of a user begins when its scope has its words already.
    let max_interval = if watcher.eyes.is_some() {
        RIGHTS_INTERVAL
    } else {
        read_first_words(watcher).await;
        MAX_INTERVAL
    };
    loop {
        let last = Instant::now();
        let next = evaluator.step(watcher).await;
        tokio::select! {
            () = watcher.changed() => {}
            () = sleep_until(last + next.min(max_interval)) => {}
        }
        sleep_until((Instant::now() + BATCH_DELAY).max(last + MIN_INTERVAL)).await;
    }
}

/// Waits a moment for what the logs tell of the worst incidents.
async fn read_first_words(watcher: &IncidentWatcher) {
    let now = (watcher.clock)();
    let (state, Evaluation { incidents, .. }) =
        evaluated(watcher, watcher.input().state, now).await;
    let worst = incidents.iter().take(FIRST_WORDS);
    let wanted = crash_words::wanted(&state, worst);
    if watcher.words().enqueue(wanted, &state) {
        // Whatever is read later is in a later list.
        let _ = timeout(FIRST_WORDS_TIMEOUT, watcher.words().idle()).await;
    }
}

// === impl Evaluator ===

impl Evaluator {
    /// Evaluates once. Returns when the result may be another though nothing changes.
    async fn step(&mut self, watcher: &IncidentWatcher) -> Duration {
        let clearance = match &watcher.eyes {
            None => None,
            Some(eyes) => match eyes.decide(Freshness::Remembered).await {
                Ok(clearance) => Some(Arc::new(clearance)),
                // What is there was allowed; it is asked about when it is sent or read.
                Err(Undecided) => return UNDECIDED_RETRY,
            },
        };
        let now = (watcher.clock)();
        let Seen {
            state,
            incidents,
            next,
            notes,
            losses,
        } = seen(watcher, clearance.as_deref(), now).await;
        let mut incidents = incidents;
        let is_revoked = self.take_clearance(clearance);
        let lost = std::mem::replace(&mut self.losses, losses) != losses || is_revoked;
        let wanted = crash_words::wanted(&state, &incidents);
        watcher.words().enqueue(wanted, &state);
        let is_settling = self.is_settling(watcher);
        self.keep_unseen(&mut incidents);
        if lost {
            self.life.forget_absent(&incidents);
        }
        let transitions = if is_settling {
            Vec::new()
        } else {
            self.hold_back(watcher, &state, &incidents);
            let held_back = &self.held_back;
            let is_held_back = |incident: &Incident| held_back.contains_key(&incident.id);
            self.life.update_unless(&incidents, now, is_held_back)
        };
        let next = next.into_iter().chain(self.life.next()).min();
        self.note_resolved(&transitions, now);
        let is_another = !self.is_same(&incidents) || notes != self.notes;
        self.open = incidents.into_iter().map(Arc::new).collect();
        self.notes = notes;
        let is_news = !watcher.is_starting() && (is_another || !transitions.is_empty());
        self.seq += u64::from(is_news);
        watcher.publish(self.snapshot(watcher, now));
        if is_news {
            watcher.notify_followers(&Arc::new(IncidentUpdate {
                context: watcher.scope.context.as_str().into(),
                seq: self.seq,
                at: now,
                clearance: self.clearance.clone(),
                transitions,
            }));
        }
        let wait = next.map(|next| next.duration_since(now).max(SignedDuration::ZERO));
        wait.and_then(|wait| wait.try_into().ok())
            .unwrap_or(MAX_INTERVAL)
    }

    /// Notes which incidents wait for their logs, for a short time each.
    fn hold_back(&mut self, watcher: &IncidentWatcher, state: &State, incidents: &[Incident]) {
        let now = Instant::now();
        let waiting = incidents.iter().filter(|incident| {
            let ends = || crash_words::of_incident(state, incident);
            incident.why.is_empty() && watcher.words().are_unread(&ends())
        });
        let waiting = waiting.map(|incident| {
            let since = self.held_back.get(&incident.id).copied();
            (incident.id.clone(), since.unwrap_or(now))
        });
        let mut held_back: HashMap<_, _> = waiting.collect();
        held_back.retain(|_, since| now.duration_since(*since) < WORDS_PATIENCE);
        self.held_back = held_back;
    }

    fn snapshot(&self, watcher: &IncidentWatcher, at: Timestamp) -> IncidentSnapshot {
        IncidentSnapshot {
            context: watcher.scope.context.clone(),
            namespace: watcher.scope.namespace.clone(),
            at,
            open: self.open.clone(),
            resolved: self.resolved.clone(),
            notes: self.notes.clone(),
            seq: self.seq,
            clearance: self.clearance.clone(),
        }
    }

    /// Takes what the user may read now. If that is less than before, nothing is left of what
    /// was derived from the rest: nobody can say to this user how it ended. Answers whether it
    /// is less.
    fn take_clearance(&mut self, clearance: Option<Arc<Clearance>>) -> bool {
        let before = std::mem::replace(&mut self.clearance, clearance);
        let is_revoked = match (&before, &self.clearance) {
            (Some(before), Some(now)) => !now.covers(before),
            _ => false,
        };
        if is_revoked {
            self.open.clear();
            self.resolved.clear();
        }
        is_revoked
    }

    /// Whether kinds do not fit together, because watches broke and came back just now.
    fn is_settling(&mut self, watcher: &IncidentWatcher) -> bool {
        let (behind, now) = (watcher.behind(), Instant::now());
        if behind != self.behind.0 {
            if behind.len() < self.behind.0.len() {
                watcher.wake_watches();
            }
            self.behind = (behind, now);
        }
        let (behind, since) = &self.behind;
        !behind.is_empty() && now < *since + SETTLE_TIME
    }

    /// Keeps what was open and cannot be seen: a kind that is out of date ends nothing.
    fn keep_unseen(&self, incidents: &mut Vec<Incident>) {
        let (behind, _) = &self.behind;
        if behind.is_empty() {
            return;
        }
        for known in &self.open {
            let is_there = incidents.iter().any(|incident| incident.id == known.id);
            if !is_there && needs(known, behind) {
                incidents.push(Incident::clone(known));
            }
        }
    }

    /// Whether a reader would see the same list. Headlines tell the age, which always changes.
    fn is_same(&self, incidents: &[Incident]) -> bool {
        let same = |(known, now): (&Arc<Incident>, &Incident)| {
            known.id == now.id
                && known.detector == now.detector
                && known.object == now.object
                && known.severity == now.severity
                && known.why == now.why
                && known.effects == now.effects
                && known.changes == now.changes
        };
        self.open.len() == incidents.len() && self.open.iter().zip(incidents).all(same)
    }

    fn note_resolved(&mut self, transitions: &[Transition], now: Timestamp) {
        for transition in transitions {
            if let Transition::Resolved { incident, after } = transition {
                let resolved = ResolvedIncident {
                    incident: incident.clone(),
                    at: now,
                    after: *after,
                };
                self.resolved.insert(0, Arc::new(resolved));
            }
        }
        self.resolved.truncate(RESOLVED_MAX);
        self.resolved
            .retain(|resolved| now.duration_since(resolved.at) <= RESOLVED_KEPT);
    }
}

/// What is wrong now, as far as a user may see it; with the rights of the moment, and without
/// what was before.
pub(super) async fn snapshot_as(
    watcher: &IncidentWatcher,
    clearance: Arc<Clearance>,
) -> IncidentSnapshot {
    let at = (watcher.clock)();
    let seen = seen(watcher, Some(&clearance), at).await;
    IncidentSnapshot {
        context: watcher.scope.context.clone(),
        namespace: watcher.scope.namespace.clone(),
        at,
        open: seen.incidents.into_iter().map(Arc::new).collect(),
        resolved: Vec::new(),
        notes: seen.notes,
        seq: watcher.snapshot().seq,
        clearance: Some(clearance),
    }
}

/// What an evaluation shows.
struct Seen {
    state: State,
    incidents: Vec<Incident>,
    next: Option<Timestamp>,
    notes: Vec<String>,
    losses: u64,
}

/// Evaluates what may be read.
async fn seen(watcher: &IncidentWatcher, clearance: Option<&Clearance>, now: Timestamp) -> Seen {
    let Input { mut state, losses } = watcher.input();
    let eyes = clearance.map(UserEyes);
    if let Some(eyes) = &eyes {
        state = state.seen_by(eyes);
    }
    let mut notes = watcher.notes(&state);
    notes.extend(clearance.into_iter().flat_map(scope_rights::notes));
    let (state, evaluation) = evaluated(watcher, state, now).await;
    let Evaluation {
        mut incidents,
        next,
    } = evaluation;
    if let Some(namespace) = &watcher.scope.namespace {
        incidents.retain(|incident| concerns(incident, namespace));
    }
    if watcher.shown.hides_some() {
        incidents.retain_mut(|incident| hide_denied(incident, &watcher.shown));
    }
    if let Some(eyes) = &eyes {
        incidents.retain_mut(|incident| hide_unreadable(incident, eyes));
    }
    Seen {
        state,
        incidents,
        next,
        notes,
        losses,
    }
}

/// Evaluates a state: a large one off the task, which the watches share.
async fn evaluated(watcher: &IncidentWatcher, state: State, now: Timestamp) -> (State, Evaluation) {
    let is_small = state.objects_len() <= OBJECTS_INLINE_MAX;
    let (options, metrics) = (Arc::clone(&watcher.options), watcher.metrics.clone());
    let work = move || {
        let began = Instant::now();
        let evaluation = evaluate(&state, now, &options);
        if let Some(metrics) = metrics {
            metrics.evaluated(began.elapsed());
        }
        (state, evaluation)
    };
    if is_small {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(evaluated) => evaluated,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends.
            Err(_cancelled) => std::future::pending().await,
        },
    }
}

/// Whether one of these kinds is needed to see that an incident is over.
fn needs(incident: &Incident, kinds: &[&'static BuiltinKind]) -> bool {
    let mut symptoms = incident.symptoms.iter();
    symptoms.any(|symptom| {
        let needed = detector(symptom.detector).map_or(&[][..], |detector| detector.kinds);
        kinds.iter().any(|kind| needed.contains(&kind.kind))
    })
}
