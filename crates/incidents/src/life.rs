//! The life of incidents: opened once it has held, changed rarely, resolved once it is gone.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    incident::{Incident, is_timeless},
    options::Options,
    symptom::Severity,
};

/// An incident is announced as changed at most this often.
const CHANGE_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// What happened to an incident.
#[derive(Clone, Debug, PartialEq)]
pub enum Transition {
    /// It is there, and has been for long enough.
    Opened(Incident),
    /// Its severity, its cause or its extent is another.
    Changed(Incident),
    /// It is gone, and has been for long enough.
    Resolved {
        /// As it was last.
        incident: Incident,
        /// From its first symptom to the end of its last one.
        after: SignedDuration,
    },
}

/// Compares incidents with those that were announced.
#[derive(Clone, Debug, Default)]
pub struct Life {
    known: BTreeMap<String, Known>,
    has_begun: bool,
    options: Arc<Options>,
}

#[derive(Clone, Debug)]
struct Known {
    /// As it is now.
    incident: Incident,
    /// As it was announced; none if it was not.
    announced: Option<Incident>,
    announced_at: Timestamp,
    /// When it was seen first.
    seen_since: Timestamp,
    gone_since: Option<Timestamp>,
}

// === impl Life ===

impl Life {
    /// Nothing was announced yet; holds are those that an operator chose.
    pub fn new(options: Arc<Options>) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// Takes the incidents of now, and tells what is to be announced. Those of the first time
    /// are not new.
    pub fn update(&mut self, incidents: &[Incident], now: Timestamp) -> Vec<Transition> {
        self.update_unless(incidents, now, |_| false)
    }

    /// The same, but does not announce yet what is held back. Whoever does so looks again soon.
    pub fn update_unless(
        &mut self,
        incidents: &[Incident],
        now: Timestamp,
        is_held_back: impl Fn(&Incident) -> bool,
    ) -> Vec<Transition> {
        let mut transitions = Vec::new();
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        for incident in incidents {
            let is_held_back = is_held_back(incident);
            self.present(incident, now, (is_first, is_held_back), &mut transitions);
        }
        let there: HashSet<_> = incidents.iter().map(|incident| &*incident.id).collect();
        let options = &self.options;
        self.known.retain(|id, known| {
            there.contains(&**id) || !known.absent(now, options, &mut transitions)
        });
        transitions
    }

    /// Drops what is not among the incidents of now, without a word: nobody can see any more
    /// whether it is over.
    pub fn forget_absent(&mut self, incidents: &[Incident]) {
        let is_there = |id: &String| incidents.iter().any(|incident| incident.id == *id);
        self.known.retain(|id, _| is_there(id));
    }

    /// Incidents that are open: announced, and not over.
    pub fn open(&self) -> impl Iterator<Item = &Incident> {
        let known = self.known.values();
        known
            .filter(|known| known.announced.is_some())
            .map(|known| &known.incident)
    }

    /// When to look again though nothing changes: an incident may have held by then.
    pub fn next(&self) -> Option<Timestamp> {
        let times = self
            .known
            .values()
            .filter_map(|known| match known.gone_since {
                Some(gone) => gone.checked_add(close(&self.options, &known.incident)).ok(),
                None if known.announced.is_none() => known.opens_at(&self.options),
                None => None,
            });
        times.min()
    }

    fn present(
        &mut self,
        incident: &Incident,
        now: Timestamp,
        (is_first, is_held_back): (bool, bool),
        transitions: &mut Vec<Transition>,
    ) {
        let known = self
            .known
            .entry(incident.id.clone())
            .or_insert_with(|| Known {
                incident: incident.clone(),
                announced: is_first.then(|| incident.clone()),
                announced_at: now,
                seen_since: now,
                gone_since: None,
            });
        known.gone_since = None;
        // The oldest symptom may be gone; the incident is as old as it was.
        let since = known.incident.since.min(incident.since);
        known.incident = Incident {
            since,
            ..incident.clone()
        };
        match &known.announced {
            None if is_held_back => {}
            None if known.opens_at(&self.options).is_none_or(|at| at <= now) => {
                known.announce(now);
                transitions.push(Transition::Opened(known.incident.clone()));
            }
            Some(announced)
                if is_material(announced, &known.incident)
                    && now.duration_since(known.announced_at) >= CHANGE_INTERVAL =>
            {
                known.announce(now);
                transitions.push(Transition::Changed(known.incident.clone()));
            }
            _ => {}
        }
    }
}

// === impl Known ===

impl Known {
    fn announce(&mut self, now: Timestamp) {
        self.announced = Some(self.incident.clone());
        self.announced_at = now;
    }

    /// When it will have held. If nothing tells when it began, it has to be seen for so long.
    fn opens_at(&self, options: &Options) -> Option<Timestamp> {
        let open = options.hold(self.incident.detector).open;
        let symptoms = &self.incident.symptoms;
        let is_timeless = !symptoms.is_empty() && symptoms.iter().all(is_timeless);
        let since = if is_timeless {
            self.seen_since.max(self.incident.since)
        } else {
            self.incident.since
        };
        since.checked_add(open).ok()
    }

    /// Notes that the incident is not there; true once it is over.
    fn absent(
        &mut self,
        now: Timestamp,
        options: &Options,
        transitions: &mut Vec<Transition>,
    ) -> bool {
        let gone = *self.gone_since.get_or_insert(now);
        if self.announced.is_none() {
            return true;
        }
        if now.duration_since(gone) < close(options, &self.incident) {
            return false;
        }
        transitions.push(Transition::Resolved {
            incident: self.incident.clone(),
            after: gone
                .duration_since(self.incident.since)
                .max(SignedDuration::ZERO),
        });
        true
    }
}

fn close(options: &Options, incident: &Incident) -> SignedDuration {
    options.hold(incident.detector).close
}

/// Whether a reader would want to know of the difference.
fn is_material(before: &Incident, after: &Incident) -> bool {
    let worse = before.severity != after.severity
        && (before.severity > Severity::Info || after.severity > Severity::Info);
    let extent = |incident: &Incident| incident.symptoms.len();
    let (small, large) = (
        extent(before).min(extent(after)),
        extent(before).max(extent(after)),
    );
    let has_words = before.why.is_empty() && !after.why.is_empty();
    worse
        || has_words
        || before.detector != after.detector
        || before.object != after.object
        || large >= 2 * small.max(1) && large - small >= 3
}

#[cfg(test)]
mod tests;
