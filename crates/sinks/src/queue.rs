//! What waits for a sink: one message per incident, as many incidents as there is room for.

use std::collections::{HashMap, VecDeque};

use kubecrier_incidents::Transition;

use crate::{
    config::Transitions,
    notice::{IncidentKey, Notice},
};

/// Messages in the order of their incidents.
#[derive(Debug)]
pub(crate) struct Queue {
    order: VecDeque<IncidentKey>,
    waiting: HashMap<IncidentKey, Notice>,
    max: usize,
    transitions: Transitions,
}

// === impl Queue ===

impl Queue {
    pub(crate) fn new(max: usize, transitions: Transitions) -> Self {
        Self {
            order: VecDeque::new(),
            waiting: HashMap::new(),
            max: max.max(1),
            transitions,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a message of an incident waits.
    pub(crate) fn has(&self, key: &IncidentKey) -> bool {
        self.waiting.contains_key(key)
    }

    /// Adds a message behind the others, or merges it with the one of its incident. Returns
    /// whether the oldest had to make room.
    pub(crate) fn push(&mut self, notice: Notice) -> bool {
        let key = notice.key();
        match self.waiting.remove(&key) {
            Some(older) => self.put_merged(key, older, notice),
            None => {
                self.order.push_back(key.clone());
                self.waiting.insert(key, notice);
            }
        }
        self.make_room()
    }

    /// Takes the first message.
    pub(crate) fn pop(&mut self) -> Option<Notice> {
        let key = self.order.pop_front()?;
        self.waiting.remove(&key)
    }

    /// Puts a message back that was taken: before the others, merged with what came meanwhile.
    /// Returns whether a message had to make room.
    pub(crate) fn put_back(&mut self, notice: Notice) -> bool {
        let key = notice.key();
        match self.waiting.remove(&key) {
            Some(newer) => {
                self.order.retain(|one| *one != key);
                self.order.push_front(key.clone());
                self.put_merged(key, notice, newer);
            }
            None => {
                self.order.push_front(key.clone());
                self.waiting.insert(key, notice);
            }
        }
        self.make_room()
    }

    /// Drops everything; how much that was.
    pub(crate) fn clear(&mut self) -> usize {
        let number = self.len();
        self.order.clear();
        self.waiting.clear();
        number
    }

    fn put_merged(&mut self, key: IncidentKey, older: Notice, newer: Notice) {
        match merge(older, newer, self.transitions) {
            Some(merged) => drop(self.waiting.insert(key, merged)),
            None => self.order.retain(|one| *one != key),
        }
    }

    fn make_room(&mut self) -> bool {
        let is_full = self.len() > self.max;
        if is_full {
            self.pop();
        }
        is_full
    }
}

/// What is told of an incident of which two messages wait. The last word counts, and a target
/// that was not told of the beginning is told of it: a change of what was not told yet is the
/// beginning. What came and went meanwhile is told as `resolved`, if the sink takes these.
fn merge(older: Notice, newer: Notice, transitions: Transitions) -> Option<Notice> {
    match (&older.transition, &newer.transition) {
        (Transition::Opened(_), Transition::Changed(incident)) => Some(Notice {
            transition: Transition::Opened(incident.clone()),
            ..newer
        }),
        (_, Transition::Resolved { .. }) if !transitions.resolved => None,
        _ => Some(newer),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::incident;

    const ALL: Transitions = Transitions {
        opened: true,
        changed: true,
        resolved: true,
    };

    fn notice(word: u8, name: u8) -> Notice {
        let incident = incident(&format!("n{name}"));
        Notice {
            context: "dev".into(),
            at: incident.since,
            transition: match word {
                0 => Transition::Opened(incident),
                1 => Transition::Changed(incident),
                _ => Transition::Resolved {
                    incident,
                    after: SignedDuration::from_secs(1),
                },
            },
        }
    }

    fn words(queue: &mut Queue) -> Vec<String> {
        let popped = std::iter::from_fn(|| queue.pop());
        popped
            .map(|one| format!("{} {}", one.word(), one.incident().id))
            .collect()
    }

    fn check(transitions: Transitions, pushed: &[u8], expected: &[&str]) {
        let mut queue = Queue::new(10, transitions);
        for word in pushed {
            queue.push(notice(*word, 1));
        }
        assert_eq!(words(&mut queue), expected, "{pushed:?}");
    }

    #[test]
    fn of_an_incident_the_last_word_is_told() {
        check(ALL, &[0, 1], &["opened i-n1"]);
        check(ALL, &[0, 1, 1], &["opened i-n1"]);
        check(ALL, &[0, 2], &["resolved i-n1"]);
        check(ALL, &[2, 0], &["opened i-n1"]);
        check(ALL, &[1, 2], &["resolved i-n1"]);
        let openings = Transitions {
            resolved: false,
            ..ALL
        };
        check(openings, &[0, 2], &[]);
    }

    #[test]
    fn what_failed_comes_first_again_with_what_came_meanwhile() {
        let mut queue = Queue::new(10, ALL);
        queue.push(notice(0, 1));
        queue.push(notice(0, 2));
        let taken = queue.pop().unwrap();
        queue.push(notice(1, 1));
        queue.put_back(taken);
        assert_eq!(words(&mut queue), ["opened i-n1", "opened i-n2"]);
    }

    proptest! {
        /// However it is used, there is one message per incident, never more than there is
        /// room for, and what is dropped is reported.
        #[test]
        fn a_queue_is_bounded_and_counts_what_it_drops(
            pushes in prop::collection::vec((0..3_u8, 0..20_u8, any::<bool>()), 0..200),
            max in 1..8_usize,
        ) {
            let mut queue = Queue::new(max, ALL);
            let (mut dropped, mut taken, mut merged) = (0, 0, 0);
            for (word, name, pops) in &pushes {
                let before = queue.len();
                let drops = queue.push(notice(*word, *name));
                dropped += usize::from(drops);
                merged += usize::from(queue.len() == before && !drops);
                prop_assert!(queue.len() <= max);
                prop_assert_eq!(queue.order.len(), queue.waiting.len());
                if *pops && let Some(one) = queue.pop() {
                    if *word == 0 {
                        let drops = queue.put_back(one);
                        prop_assert!(!drops);
                    } else {
                        taken += 1;
                    }
                }
            }
            prop_assert_eq!(dropped + taken + merged + queue.clear(), pushes.len());
        }
    }
}
