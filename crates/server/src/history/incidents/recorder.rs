//! Keeps what happens to the incidents of a context, whether a client asks or not. The watches
//! are those that clients share.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::{Duration, sleep};

use super::{
    super::{
        faults::keep_evidence,
        recorder::{Recorder, again_and_again, note_absence},
    },
    past,
    record::{self, Moment},
};
use crate::incidents::{IncidentRead, Incidents};
use kubecrier_core::{access::Viewer, filters::Filters, shares::ShareKey};
use kubecrier_history::{History, Stream};
use kubecrier_incidents::{Incident, Transition};
use kubecrier_k8s::{ClusterError, Contexts, IncidentFollower, IncidentUpdate};

/// How often it is checked that what is open in the history is open in the cluster, and in how
/// many checks in a row it has to be absent: what is over is held for a while before that is
/// announced, and only what can never be announced is looked for here.
const CHECKED_EVERY: Duration = Duration::from_mins(1);
const ABSENT_CHECKS: u32 = 30;

/// An incident may open and be over while no server runs for so long. That a server runs is
/// noted once a minute.
const INCIDENT_LIFETIME: Duration = Duration::from_mins(2);

/// Incidents of one update whose evidence is captured: more at once have one cause as a rule,
/// and captures are shared with those who ask.
const CAPTURED_MAX: usize = 5;

/// Keeps the incidents of one context.
struct IncidentRecorder {
    recorder: Recorder,
    context: Arc<str>,
    /// What is open in the history, as it was last kept. A lock because the follower is called on
    /// the task of the watches; held for map operations.
    open: Mutex<HashMap<String, KeptOpen>>,
}

/// An incident that is open in the history.
struct KeptOpen {
    incident: Incident,
    /// In how many checks in a row it was not open in the cluster.
    absent: u32,
}

/// Keeps the incidents of a context for ever.
pub(in super::super) async fn record_incidents(
    recorder: Recorder,
    context: Arc<str>,
    kept_until: Option<i64>,
) {
    let Some(incidents) = recorder.incidents.clone() else {
        return;
    };
    let keeper = Arc::new(IncidentRecorder {
        open: Mutex::new(HashMap::new()),
        recorder,
        context,
    });
    let context = &keeper.context;
    let read = again_and_again(context, "incidents", || keeper.follow(&incidents)).await;
    let log = (context, Stream::Incidents);
    note_absence(keeper.history(), log, kept_until, INCIDENT_LIFETIME);
    tracing::info!(%context, "the history has the incidents of a context from now on");
    loop {
        sleep(CHECKED_EVERY).await;
        keeper.end_absent(&read, ABSENT_CHECKS);
    }
}

// === impl IncidentRecorder ===

impl IncidentRecorder {
    fn history(&self) -> &History {
        &self.recorder.history
    }

    fn contexts(&self) -> &Arc<Contexts> {
        &self.recorder.contexts
    }

    /// Follows what happens from now on, and keeps what happened while nobody looked.
    async fn follow(self: &Arc<Self>, incidents: &Incidents) -> Result<IncidentRead, ClusterError> {
        let follower: Arc<dyn IncidentFollower> = Arc::clone(self) as _;
        let filters = Filters::default();
        let read = incidents
            .follow(
                (&ShareKey::Process, &Viewer::Everything),
                &self.context,
                &filters,
                &follower,
            )
            .await?;
        let known = past::open(self.history(), self.contexts(), &self.context).await;
        {
            // What was kept since the follower is there is newer.
            let mut open = self.open.lock();
            for (id, incident) in known {
                open.entry(id).or_insert_with(|| KeptOpen::new(incident));
            }
        }
        for incident in read.open_now() {
            let is_new = {
                let mut open = self.open.lock();
                let now = KeptOpen::new(Incident::clone(&incident));
                let known = open.insert(incident.id.clone(), now);
                known.is_none_or(|known| is_another(&known.incident, &incident))
            };
            if is_new {
                self.keep(&incident, Moment::Open);
            }
        }
        // Nothing is held that nobody has seen.
        self.end_absent(&read, 1);
        Ok(read)
    }

    /// Keeps the end of what is open in the history and not in the cluster: it ended while
    /// nobody could see it.
    fn end_absent(&self, read: &IncidentRead, checks: u32) {
        let there = read.open_now();
        let mut gone = Vec::new();
        self.open.lock().retain(|id, known| {
            let is_there = there.iter().any(|one| one.id == *id);
            known.absent = if is_there { 0 } else { known.absent + 1 };
            let is_gone = known.absent >= checks;
            if is_gone {
                gone.push(known.incident.clone());
            }
            !is_gone
        });
        for incident in gone {
            self.keep(&incident, Moment::Gone);
        }
    }

    fn keep(&self, incident: &Incident, moment: Moment) {
        let (incident, words) = (incident.clone(), self.contexts().stored_words());
        let at = Timestamp::now();
        self.history()
            .record(&self.context, Stream::Incidents, move || {
                record::of_incident(&incident, moment, at, None, words)
            });
    }
}

impl KeptOpen {
    fn new(incident: Incident) -> Self {
        Self {
            incident,
            absent: 0,
        }
    }
}

impl IncidentFollower for IncidentRecorder {
    fn on_update(&self, update: &Arc<IncidentUpdate>) {
        let mut captured = 0;
        for (number, transition) in update.transitions.iter().enumerate() {
            {
                let mut open = self.open.lock();
                match transition {
                    Transition::Opened(incident) | Transition::Changed(incident) => {
                        open.insert(incident.id.clone(), KeptOpen::new(incident.clone()));
                    }
                    Transition::Resolved { incident, .. } => drop(open.remove(&incident.id)),
                }
            }
            let (update, words) = (Arc::clone(update), self.contexts().stored_words());
            self.history()
                .record(&self.context, Stream::Incidents, move || {
                    record::of_transition(&update.transitions[number], update.at, words)
                });
            if let Transition::Opened(incident) = transition
                && captured < CAPTURED_MAX
            {
                captured += usize::from(keep_evidence(&self.recorder, &self.context, incident));
            }
        }
    }
}

/// Whether an incident is told in other words than before. Headlines tell the age, which always
/// changes.
fn is_another(before: &Incident, now: &Incident) -> bool {
    before.severity != now.severity
        || before.detector != now.detector
        || before.object != now.object
        || before.why != now.why
}
