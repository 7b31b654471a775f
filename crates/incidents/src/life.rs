//! The life of incidents: opened once it has held, changed rarely, resolved once it is gone.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::{detectors::detector, incident::Incident, symptom::Severity};

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
}

#[derive(Clone, Debug)]
struct Known {
    /// As it is now.
    incident: Incident,
    /// As it was announced; none if it was not.
    announced: Option<Incident>,
    announced_at: Timestamp,
    gone_since: Option<Timestamp>,
}

// === impl Life ===

impl Life {
    /// Takes the incidents of now, and tells what is to be announced. Those of the first time
    /// are not new.
    pub fn update(&mut self, incidents: &[Incident], now: Timestamp) -> Vec<Transition> {
        let mut transitions = Vec::new();
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        for incident in incidents {
            self.present(incident, now, is_first, &mut transitions);
        }
        self.known.retain(|id, known| {
            let is_there = incidents.iter().any(|incident| incident.id == *id);
            is_there || !known.absent(now, &mut transitions)
        });
        transitions
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
                Some(gone) => gone.checked_add(close(&known.incident)).ok(),
                None if known.announced.is_none() => opens_at(&known.incident),
                None => None,
            });
        times.min()
    }

    fn present(
        &mut self,
        incident: &Incident,
        now: Timestamp,
        is_first: bool,
        transitions: &mut Vec<Transition>,
    ) {
        let known = self
            .known
            .entry(incident.id.clone())
            .or_insert_with(|| Known {
                incident: incident.clone(),
                announced: is_first.then(|| incident.clone()),
                announced_at: now,
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
            None if opens_at(&known.incident).is_none_or(|at| at <= now) => {
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

    /// Notes that the incident is not there; true once it is over.
    fn absent(&mut self, now: Timestamp, transitions: &mut Vec<Transition>) -> bool {
        let gone = *self.gone_since.get_or_insert(now);
        if self.announced.is_none() {
            return true;
        }
        if now.duration_since(gone) < close(&self.incident) {
            return false;
        }
        transitions.push(Transition::Resolved {
            incident: self.incident.clone(),
            after: gone.duration_since(self.incident.since),
        });
        true
    }
}

fn close(incident: &Incident) -> SignedDuration {
    detector(incident.detector).map_or(SignedDuration::ZERO, |detector| detector.hold.close)
}

fn opens_at(incident: &Incident) -> Option<Timestamp> {
    let open = detector(incident.detector)?.hold.open;
    incident.since.checked_add(open).ok()
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
    worse
        || before.detector != after.detector
        || before.object != after.object
        || large >= 2 * small.max(1) && large - small >= 3
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::objects::ObjectRef;

    fn incident(name: &str, since: Timestamp, severity: Severity) -> Incident {
        Incident {
            id: name.to_owned(),
            detector: "crash-loop",
            object: ObjectRef::new("Deployment", "shop", name),
            severity,
            since,
            headline: String::new(),
            why: String::new(),
            effects: Vec::new(),
            changes: Vec::new(),
            symptoms: Vec::new(),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    #[test]
    fn a_crash_loop_that_is_well_between_its_crashes_opens_once_and_resolves_once() {
        let mut life = Life::default();
        assert_eq!(life.update(&[], at(0)), []);
        let mut seen = Vec::new();
        for second in 0..600 {
            // Well for twenty seconds of every minute.
            let is_sick = second % 60 < 40;
            let now = [incident("web", at(second), Severity::Critical)];
            let now = if is_sick { &now[..] } else { &[] };
            seen.extend(life.update(now, at(second)));
        }
        for second in 600..700 {
            seen.extend(life.update(&[], at(second)));
        }
        assert!(
            matches!(
                seen.as_slice(),
                [Transition::Opened(_), Transition::Resolved { after, .. }]
                    if *after == SignedDuration::from_secs(580)
            ),
            "{seen:?}"
        );
    }

    #[test]
    fn what_is_there_at_the_start_is_not_new_and_its_end_is_announced() {
        let mut life = Life::default();
        let old = incident("web", at(-3600), Severity::Warning);
        assert_eq!(life.update(std::slice::from_ref(&old), at(0)), []);
        assert_eq!(life.open().count(), 1);
        assert_eq!(life.update(&[], at(1)), []);
        assert!(matches!(
            life.update(&[], at(31)).as_slice(),
            [Transition::Resolved { .. }]
        ));
        assert_eq!(life.open().count(), 0);
    }

    #[test]
    fn a_change_is_announced_once_a_minute_at_most() {
        let mut life = Life::default();
        life.update(&[], at(0));
        let mut changes = 0;
        for second in 0..600 {
            let severity = if second % 2 == 0 {
                Severity::Warning
            } else {
                Severity::Critical
            };
            let found = life.update(&[incident("web", at(0), severity)], at(second));
            changes += found
                .iter()
                .filter(|one| matches!(one, Transition::Changed(_)))
                .count();
        }
        assert!((1..=10).contains(&changes), "{changes}");
    }

    proptest! {
        /// Whatever comes and goes: opened, then changed, then resolved, and never twice.
        #[test]
        fn transitions_are_in_order(steps in prop::collection::vec((prop::collection::btree_set(0..4_u8, 0..4), 0..90_i64), 0..60)) {
            let mut life = Life::default();
            life.update(&[], at(0));
            let (mut open, mut time) = (BTreeSet::new(), 0);
            for (names, pause) in steps {
                time += pause;
                let now: Vec<_> = names
                    .iter()
                    .map(|name| incident(&name.to_string(), at(time), Severity::Critical))
                    .collect();
                for transition in life.update(&now, at(time)) {
                    match transition {
                        Transition::Opened(one) => prop_assert!(open.insert(one.id)),
                        Transition::Changed(one) => prop_assert!(open.contains(&one.id)),
                        Transition::Resolved { incident, .. } => prop_assert!(open.remove(&incident.id)),
                    }
                }
                let told: BTreeSet<_> = life.open().map(|one| one.id.clone()).collect();
                prop_assert_eq!(&told, &open);
            }
        }
    }
}
