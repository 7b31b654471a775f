//! Several scopes that one subscription follows. A node can hurt two of them: each tells of it,
//! and the subscription is told once.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use kubecrier_incidents::Transition;
use kubecrier_k8s::{IncidentFollower, IncidentUpdate};
use parking_lot::Mutex;

/// Incidents whose end is remembered, so that it is told once.
const ENDED_MAX: usize = 1_000;

/// What the scopes of one subscription have told.
pub(super) struct Together {
    follower: Arc<dyn IncidentFollower>,
    /// By the id of an incident. Held for as long as it takes to look them up.
    told: Mutex<HashMap<String, Told>>,
}

/// What was told of an incident.
#[derive(Debug)]
enum Told {
    /// That it is open, in these scopes.
    Open(BTreeSet<usize>),
    /// That it is over.
    Ended,
}

/// One of several scopes.
struct OneOf {
    scope: usize,
    together: Arc<Together>,
}

// === impl Together ===

impl Together {
    pub(super) fn new(follower: &Arc<dyn IncidentFollower>) -> Arc<Self> {
        Arc::new(Self {
            follower: Arc::clone(follower),
            told: Mutex::default(),
        })
    }

    /// Who follows the scope of a number.
    pub(super) fn follower(self: &Arc<Self>, scope: usize) -> Arc<dyn IncidentFollower> {
        Arc::new(OneOf {
            scope,
            together: Arc::clone(self),
        })
    }

    /// Whether no other scope has told the same.
    fn is_news(&self, scope: usize, transition: &Transition) -> bool {
        let mut told = self.told.lock();
        match transition {
            Transition::Opened(incident) => match told.get_mut(&incident.id) {
                Some(Told::Open(scopes)) => {
                    scopes.insert(scope);
                    false
                }
                Some(Told::Ended) | None => {
                    told.insert(incident.id.clone(), Told::Open(BTreeSet::from([scope])));
                    true
                }
            },
            Transition::Changed(incident) => match told.get(&incident.id) {
                Some(Told::Open(scopes)) => scopes.first().is_none_or(|first| *first == scope),
                Some(Told::Ended) | None => true,
            },
            Transition::Resolved { incident, .. } => {
                let is_last = match told.get_mut(&incident.id) {
                    Some(Told::Open(scopes)) => {
                        scopes.remove(&scope);
                        scopes.is_empty()
                    }
                    Some(Told::Ended) => false,
                    None => true,
                };
                if is_last {
                    if told.len() >= ENDED_MAX {
                        told.retain(|_, one| matches!(one, Told::Open(_)));
                    }
                    told.insert(incident.id.clone(), Told::Ended);
                }
                is_last
            }
        }
    }
}

// === impl OneOf ===

impl IncidentFollower for OneOf {
    fn on_update(&self, update: &Arc<IncidentUpdate>) {
        let Self { scope, together } = self;
        let news: Vec<_> = update
            .transitions
            .iter()
            .filter(|transition| together.is_news(*scope, transition))
            .cloned()
            .collect();
        if news.len() == update.transitions.len() {
            together.follower.on_update(update);
        } else {
            together.follower.on_update(&Arc::new(IncidentUpdate {
                transitions: news,
                ..IncidentUpdate::clone(update)
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use kubecrier_incidents::Severity;

    use super::*;
    use crate::incidents::tests::crashing;

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl IncidentFollower for Heard {
        fn on_update(&self, update: &Arc<IncidentUpdate>) {
            let lines = update
                .transitions
                .iter()
                .map(|transition| match transition {
                    Transition::Opened(one) => format!("opened {}", one.id),
                    Transition::Changed(one) => format!("changed {}", one.id),
                    Transition::Resolved { incident, .. } => format!("resolved {}", incident.id),
                });
            self.0.lock().extend(lines);
        }
    }

    #[test]
    fn what_two_scopes_tell_of_is_told_once() {
        let heard = Arc::new(Heard::default());
        let together = Together::new(&(Arc::clone(&heard) as Arc<dyn IncidentFollower>));
        let scopes = [together.follower(0), together.follower(1)];
        let node = || crashing("node", Severity::Critical, 1);
        let over = |incident| Transition::Resolved {
            incident,
            after: SignedDuration::from_mins(1),
        };
        let tell = |scope: usize, transitions: Vec<Transition>| {
            scopes[scope].on_update(&Arc::new(IncidentUpdate {
                context: "dev".into(),
                seq: 2,
                at: Timestamp::now(),
                clearance: None,
                transitions,
            }));
            std::mem::take(&mut *heard.0.lock())
        };
        let web = || crashing("web", Severity::Critical, 1);
        let both = vec![Transition::Opened(node()), Transition::Opened(web())];
        assert_eq!(tell(0, both), ["opened i-node", "opened i-web"]);
        assert_eq!(tell(1, vec![Transition::Opened(node())]), [""; 0]);
        assert_eq!(
            tell(0, vec![Transition::Changed(node())]),
            ["changed i-node"]
        );
        assert_eq!(tell(1, vec![Transition::Changed(node())]), [""; 0]);
        // It is over when it is over everywhere.
        assert_eq!(tell(0, vec![over(node()), over(web())]), ["resolved i-web"]);
        assert_eq!(
            tell(1, vec![Transition::Changed(node())]),
            ["changed i-node"]
        );
        assert_eq!(tell(1, vec![over(node())]), ["resolved i-node"]);
        // And it can come again.
        assert_eq!(tell(1, vec![Transition::Opened(node())]), ["opened i-node"]);
        assert_eq!(tell(1, vec![over(node())]), ["resolved i-node"]);
        // What was there before the subscription ends once, too.
        let old = || crashing("old", Severity::Critical, 1);
        assert_eq!(tell(0, vec![over(old())]), ["resolved i-old"]);
        assert_eq!(tell(1, vec![over(old())]), [""; 0]);
    }

    #[test]
    fn the_memory_of_what_is_over_is_bounded() {
        let heard = Arc::new(Heard::default());
        let together = Together::new(&(Arc::clone(&heard) as Arc<dyn IncidentFollower>));
        for number in 0..3 * ENDED_MAX {
            let incident = crashing(&number.to_string(), Severity::Critical, 0);
            let after = SignedDuration::ZERO;
            assert!(together.is_news(0, &Transition::Resolved { incident, after }));
        }
        assert!(together.told.lock().len() <= ENDED_MAX);
    }
}
