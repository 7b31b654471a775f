//! A sink: what it is told waits here, and its task delivers it. Telling never waits.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use jiff::Timestamp;
use kubecrier_core::metrics::{SinkMetrics, SinkOutcome, SinksMetrics};
use kubecrier_incidents::{Incident, Options, Transition};
use kubecrier_redact::Redactor;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    alerts,
    board::{Batch, Board},
    config::{SinkConfig, TargetConfig},
    delivery,
    notice::Notice,
    queue::Queue,
    target::MessageTarget,
    tracker::Tracker,
    turns::Turns,
};

/// A sink. A clone is the same.
#[derive(Clone, Debug)]
pub struct Sink {
    shared: Arc<Shared>,
    config: Arc<SinkConfig>,
    redactor: Redactor,
}

/// What the task of a sink and those who tell it share.
#[derive(Debug)]
pub(crate) struct Shared {
    name: String,
    metrics: SinkMetrics,
    // Held for as long as it takes to note a few incidents.
    state: Mutex<State>,
    changed: Notify,
    /// That there is no room was said since the last time that nothing waited.
    has_warned: AtomicBool,
}

#[derive(Debug)]
struct State {
    tracker: Tracker,
    turns: Turns,
    outgoing: Outgoing,
}

/// What is to be delivered: messages, each once, or alerts, which are sent while they fire.
#[derive(Debug)]
enum Outgoing {
    Messages(Queue),
    Alerts(Board),
}

// === impl Sink ===

impl Sink {
    /// A sink that has been told nothing yet.
    pub fn new(
        config: SinkConfig,
        options: &Arc<Options>,
        metrics: &SinksMetrics,
        redactor: Redactor,
    ) -> Self {
        let max = config.queue_max;
        let outgoing = match &config.target {
            TargetConfig::Alertmanager { labels, .. } => {
                Outgoing::Alerts(Board::new(labels.clone(), Arc::clone(options), max))
            }
            TargetConfig::AlertmanagerWebhook { .. }
            | TargetConfig::CloudEvents { .. }
            | TargetConfig::A2a { .. }
            | TargetConfig::Exec(_) => {
                Outgoing::Messages(Queue::new(max, config.filter.transitions))
            }
        };
        let mut filter = config.filter.clone();
        if matches!(outgoing, Outgoing::Alerts(_)) {
            // Alerts are a state: each change of it counts.
            filter.transitions = crate::config::Transitions::ALL;
        }
        let shared = Shared {
            metrics: metrics.of(&config.name, config.target.kind()),
            name: config.name.clone(),
            state: Mutex::new(State {
                tracker: Tracker::new(filter),
                turns: Turns::new(max),
                outgoing,
            }),
            changed: Notify::new(),
            has_warned: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
            config: Arc::new(config),
            redactor,
        }
    }

    /// Its configuration.
    pub fn config(&self) -> &SinkConfig {
        &self.config
    }

    /// The same sink where other servers have it, too: it delivers nothing until it is its
    /// [turn](Self::set_turn).
    #[must_use]
    pub fn in_turns(self) -> Self {
        self.shared.state.lock().turns.share();
        self
    }

    /// From now on this server delivers what happens in a context, or another one does. `open` is
    /// what is there now. Whether that is a change.
    pub fn set_turn(&self, context: &Arc<str>, is_ours: bool, open: &[Arc<Incident>]) -> bool {
        let mut state = self.shared.state.lock();
        let State {
            tracker,
            turns,
            outgoing,
        } = &mut *state;
        if !is_ours {
            // Messages that wait are still delivered: nobody else has them.
            let is_change = turns.end(context);
            if is_change && let Outgoing::Alerts(board) = outgoing {
                board.leave(context);
            }
            self.shared.note_waiting(outgoing);
            return is_change;
        }
        if !turns.begin(context) {
            return false;
        }
        let held_back = turns.take_held_back(context);
        let dropped: usize = match outgoing {
            Outgoing::Messages(queue) => {
                let pushed = held_back.into_iter().map(|one| queue.push(one));
                pushed.map(usize::from).sum()
            }
            // What began is among what is open.
            Outgoing::Alerts(board) => {
                let ends = held_back.iter().filter(|one| one.is_resolved());
                let ended: usize = ends.map(|one| board.apply(one)).sum();
                let known = open.iter().filter(|one| tracker.knows(context, one));
                let firing = known.map(|incident| board.take_over(context, incident));
                ended + firing.sum::<usize>()
            }
        };
        self.shared.note_dropped(dropped);
        self.shared.note_waiting(outgoing);
        drop(state);
        self.shared.changed.notify_one();
        true
    }

    /// Takes the incidents of a context that are open when the sink begins to follow it. For a
    /// target that keeps messages they are no news; Alertmanager has to have all that fire.
    pub fn on_start(&self, context: &Arc<str>, open: &[Arc<Incident>], at: Timestamp) {
        let mut state = self.shared.state.lock();
        let State {
            tracker,
            turns,
            outgoing,
        } = &mut *state;
        for incident in open {
            match outgoing {
                Outgoing::Messages(_) => tracker.note_open(context, incident),
                Outgoing::Alerts(_) => {
                    let opened = Transition::Opened(Incident::clone(incident));
                    let notice = tracker.observe(context, at, &opened, |_| false);
                    self.shared.put(turns, outgoing, notice);
                }
            }
        }
        self.shared.note_overflow(tracker);
        self.shared.note_waiting(outgoing);
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Takes what happened to incidents of a context, and those that are open now. Never waits.
    pub fn on_update(
        &self,
        context: &Arc<str>,
        at: Timestamp,
        transitions: &[Transition],
        open: &[Arc<Incident>],
    ) {
        let is_open = |id: &str| open.iter().any(|incident| incident.id == id);
        let mut state = self.shared.state.lock();
        let State {
            tracker,
            turns,
            outgoing,
        } = &mut *state;
        for transition in transitions {
            let notice = tracker.observe(context, at, transition, is_open);
            self.shared.put(turns, outgoing, notice);
        }
        if let Outgoing::Alerts(board) = outgoing {
            let open = open.iter().map(|incident| &**incident);
            board.refresh(context, open, at);
        }
        self.shared.note_overflow(tracker);
        let is_waiting = self.shared.note_waiting(outgoing);
        drop(state);
        if is_waiting {
            self.shared.changed.notify_one();
        }
    }

    /// What its task works on.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Delivers until the process ends.
    pub async fn run(self, stop: CancellationToken) {
        let Self {
            shared,
            config,
            redactor,
        } = self;
        match MessageTarget::new(&config, &redactor) {
            Some(target) => delivery::run(&shared, &target, &stop).await,
            None => {
                if let Some(target) = alerts::AlertTarget::new(&config, &redactor) {
                    alerts::run(&shared, &target, &stop).await;
                }
            }
        }
    }
}

// === impl Shared ===

impl Shared {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn metrics(&self) -> &SinkMetrics {
        &self.metrics
    }

    /// Waits for a message. Cancel-safe.
    pub(crate) async fn next(&self) -> Notice {
        loop {
            if let Some(notice) = self.try_next() {
                return notice;
            }
            self.changed.notified().await;
        }
    }

    /// The next message, if one waits.
    pub(crate) fn try_next(&self) -> Option<Notice> {
        let mut state = self.state.lock();
        let next = match &mut state.outgoing {
            Outgoing::Messages(queue) => queue.pop(),
            Outgoing::Alerts(_) => None,
        };
        self.note_waiting(&state.outgoing);
        next
    }

    /// Puts a message back that was not delivered.
    pub(crate) fn put_back(&self, notice: Notice) {
        let mut state = self.state.lock();
        if let Outgoing::Messages(queue) = &mut state.outgoing {
            let dropped = usize::from(queue.put_back(notice));
            self.note_dropped(dropped);
        }
        self.note_waiting(&state.outgoing);
    }

    /// Waits until there are alerts that Alertmanager does not know. Cancel-safe.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The alerts to send now.
    pub(crate) fn batch(&self, now: Timestamp) -> Batch {
        match &mut self.state.lock().outgoing {
            Outgoing::Messages(_) => Batch::default(),
            Outgoing::Alerts(board) => board.batch(now),
        }
    }

    /// Notes that alerts arrived; whether there is anything to send again.
    pub(crate) fn delivered(&self, batch: &Batch) -> bool {
        let mut state = self.state.lock();
        let Outgoing::Alerts(board) = &mut state.outgoing else {
            return false;
        };
        board.delivered(batch);
        let is_empty = board.is_empty();
        self.note_waiting(&state.outgoing);
        !is_empty
    }

    /// Drops the ends that Alertmanager does not take.
    pub(crate) fn reject(&self, batch: &Batch) {
        let mut state = self.state.lock();
        if let Outgoing::Alerts(board) = &mut state.outgoing {
            board.drop_over(batch);
        }
        self.note_waiting(&state.outgoing);
    }

    /// Drops what still waits when the process ends.
    pub(crate) fn drop_rest(&self) {
        let mut state = self.state.lock();
        if let Outgoing::Messages(queue) = &mut state.outgoing {
            let dropped = queue.clear();
            if dropped > 0 {
                self.metrics.count(SinkOutcome::Dropped, dropped);
                tracing::warn!(
                    sink = self.name,
                    dropped,
                    "incidents were not delivered before the end"
                );
            }
        }
        self.note_waiting(&state.outgoing);
    }

    fn put(&self, turns: &mut Turns, outgoing: &mut Outgoing, notice: Option<Notice>) {
        let Some(notice) = notice else { return };
        // What this server has begun to tell it tells to the end.
        let is_told_here = match &*outgoing {
            Outgoing::Messages(queue) => queue.has(&notice.key()),
            Outgoing::Alerts(_) => false,
        };
        if !is_told_here && !turns.is_ours(&notice.context) {
            turns.hold_back(notice);
            return;
        }
        let dropped = match outgoing {
            Outgoing::Messages(queue) => usize::from(queue.push(notice)),
            Outgoing::Alerts(board) => board.apply(&notice),
        };
        self.note_dropped(dropped);
    }

    fn note_overflow(&self, tracker: &mut Tracker) {
        self.note_dropped(tracker.take_overflow());
    }

    fn note_dropped(&self, dropped: usize) {
        if dropped > 0 {
            self.metrics.count(SinkOutcome::Dropped, dropped);
        }
        if dropped > 0 && !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                sink = self.name,
                "there is no room for all incidents that wait; the oldest are dropped and counted"
            );
        }
    }

    /// Whether anything waits.
    fn note_waiting(&self, outgoing: &Outgoing) -> bool {
        let waiting = match outgoing {
            Outgoing::Messages(queue) => queue.len(),
            Outgoing::Alerts(board) => board.waiting(),
        };
        self.metrics.waiting(waiting);
        if waiting == 0 {
            self.has_warned.store(false, Ordering::Relaxed);
        }
        waiting > 0
    }
}
