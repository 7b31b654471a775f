//! Which incidents a sink knows, so that it is told of each beginning and each end once.

use std::{collections::HashSet, sync::Arc};

use jiff::Timestamp;
use kubecrier_incidents::{Incident, Transition};

use crate::{
    config::SinkFilter,
    notice::{IncidentKey, Notice},
};

/// Incidents that a sink knows at most. A cluster with more has one problem, not as many.
const KNOWN_MAX: usize = 10_000;

/// The incidents that a sink knows.
#[derive(Debug)]
pub(crate) struct Tracker {
    filter: SinkFilter,
    known: HashSet<IncidentKey>,
    /// Incidents that there was no room for.
    overflow: usize,
}

// === impl Tracker ===

impl Tracker {
    pub(crate) fn new(filter: SinkFilter) -> Self {
        Self {
            filter,
            known: HashSet::new(),
            overflow: 0,
        }
    }

    /// The number of incidents that there was no room for since this was last called.
    pub(crate) fn take_overflow(&mut self) -> usize {
        std::mem::take(&mut self.overflow)
    }

    /// Takes what was open before the sink began to follow: a target was told of it by the
    /// process before, so it is no news. Its end is.
    pub(crate) fn note_open(&mut self, context: &Arc<str>, incident: &Incident) {
        if self.filter.admits(incident) {
            self.learn(key(context, incident));
        }
    }

    /// Whether the sink was told of an incident, by whichever server.
    pub(crate) fn knows(&self, context: &Arc<str>, incident: &Incident) -> bool {
        self.known.contains(&key(context, incident))
    }

    /// Whether the sink is told of an incident from now on.
    fn learn(&mut self, key: IncidentKey) -> bool {
        let has_room = self.known.len() < KNOWN_MAX;
        if has_room {
            self.known.insert(key);
        } else {
            self.overflow += 1;
        }
        has_room
    }

    /// What a transition means for the sink, if anything. `is_still_open` says whether the
    /// incident is seen in another namespace that the sink follows.
    pub(crate) fn observe(
        &mut self,
        context: &Arc<str>,
        at: Timestamp,
        transition: &Transition,
        is_still_open: impl Fn(&str) -> bool,
    ) -> Option<Notice> {
        let transition = match transition {
            Transition::Opened(incident) | Transition::Changed(incident) => {
                let key = key(context, incident);
                let is_change = matches!(transition, Transition::Changed(_));
                if self.known.contains(&key) {
                    is_change.then(|| transition.clone())?
                } else if self.filter.admits(incident) && self.learn(key) {
                    // It may have become worse, and be new to this sink.
                    Transition::Opened(incident.clone())
                } else {
                    return None;
                }
            }
            Transition::Resolved { incident, .. } => {
                if is_still_open(&incident.id) || !self.known.remove(&key(context, incident)) {
                    return None;
                }
                transition.clone()
            }
        };
        let is_wanted = self.filter.transitions.admits(&transition);
        is_wanted.then(|| Notice {
            context: Arc::clone(context),
            at,
            transition,
        })
    }
}

fn key(context: &Arc<str>, incident: &Incident) -> IncidentKey {
    IncidentKey {
        context: Arc::clone(context),
        id: incident.id.clone(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use kubecrier_incidents::Severity;

    use super::*;
    use crate::testing::{filter, incident};

    fn opened(incident: &Incident) -> Transition {
        Transition::Opened(incident.clone())
    }

    fn resolved(incident: &Incident) -> Transition {
        Transition::Resolved {
            incident: incident.clone(),
            after: SignedDuration::ZERO,
        }
    }

    fn observe(tracker: &mut Tracker, transition: &Transition) -> Option<&'static str> {
        let at = "2026-11-15T10:00:00Z".parse().unwrap();
        let notice = tracker.observe(&"dev".into(), at, transition, |_| false);
        notice.map(|notice| notice.word())
    }

    #[test]
    fn each_beginning_and_each_end_is_told_once() {
        let web = incident("web");
        let mut tracker = Tracker::new(filter());
        assert_eq!(observe(&mut tracker, &resolved(&web)), None, "never told");
        assert_eq!(observe(&mut tracker, &opened(&web)), Some("opened"));
        assert_eq!(observe(&mut tracker, &opened(&web)), None, "another scope");
        assert_eq!(observe(&mut tracker, &resolved(&web)), Some("resolved"));
        assert_eq!(observe(&mut tracker, &resolved(&web)), None);
        assert_eq!(
            observe(&mut tracker, &opened(&web)),
            Some("opened"),
            "again"
        );
    }

    #[test]
    fn what_was_open_at_the_start_is_no_news_and_its_end_is() {
        let web = incident("web");
        let mut tracker = Tracker::new(filter());
        tracker.note_open(&"dev".into(), &web);
        assert_eq!(observe(&mut tracker, &opened(&web)), None);
        assert_eq!(observe(&mut tracker, &resolved(&web)), Some("resolved"));
    }

    #[test]
    fn what_becomes_bad_enough_is_opened_and_its_end_is_told_whatever_it_is_then() {
        let mut tracker = Tracker::new(SinkFilter {
            severity: Severity::Critical,
            ..filter()
        });
        let worse = incident("web");
        let slight = Incident {
            severity: Severity::Warning,
            ..worse.clone()
        };
        assert_eq!(observe(&mut tracker, &opened(&slight)), None);
        let changed = Transition::Changed(worse);
        assert_eq!(observe(&mut tracker, &changed), Some("opened"));
        assert_eq!(
            observe(&mut tracker, &changed),
            None,
            "no changes are asked for"
        );
        assert_eq!(observe(&mut tracker, &resolved(&slight)), Some("resolved"));
    }

    #[test]
    fn an_end_in_one_of_two_namespaces_is_no_end() {
        let (node, context) = (incident("node"), Arc::from("dev"));
        let mut tracker = Tracker::new(filter());
        observe(&mut tracker, &opened(&node));
        let end = resolved(&node);
        let mut seen = |open| tracker.observe(&context, node.since, &end, |_| open);
        assert_eq!(seen(true), None);
        assert!(seen(false).is_some());
    }

    #[test]
    fn a_detector_or_a_namespace_that_was_not_asked_for_is_not_told() {
        let mut others = filter();
        others.detectors = ["quota".to_owned()].into();
        assert_eq!(
            observe(&mut Tracker::new(others), &opened(&incident("web"))),
            None
        );
        let request = kubecrier_core::filters::FilterRequest {
            mode: kubecrier_core::filters::Mode::Incidents,
            namespaces: vec!["team-*".to_owned()],
            ..Default::default()
        };
        let others = SinkFilter {
            filters: request.try_into().unwrap(),
            ..filter()
        };
        assert_eq!(
            observe(&mut Tracker::new(others), &opened(&incident("web"))),
            None
        );
    }
}
