//! What was announced lately in a scope, for those who come back and ask what they missed.
//!
//! All scopes count their announcements together, so that one position says where somebody
//! stopped, however many scopes it follows.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kubecrier_core::access::UserView;
use parking_lot::Mutex;

use super::IncidentUpdate;

/// Updates that are kept. Somebody who misses more is told so, and has the list.
const UPDATES_MAX: usize = 256;

/// The number of the last announcement in all scopes. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Announcements(Arc<AtomicU64>);

/// The last announcements of one scope.
#[derive(Debug)]
pub(super) struct Journal {
    all: Announcements,
    // One task writes, readers copy; the number is taken under it, so that a reader who knows
    // a number finds everything up to it.
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// Nothing is missing after this number.
    complete_after: u64,
    updates: VecDeque<(u64, Arc<IncidentUpdate>)>,
}

/// What was announced since a position.
#[derive(Clone, Debug, Default)]
pub struct Announced {
    /// With the number of each, the oldest first.
    pub updates: Vec<(u64, Arc<IncidentUpdate>)>,
    /// There may have been more: nobody watched, or it is not kept any more.
    pub gap: bool,
}

/// Counts announcements for each user by itself, so that a position does not tell of what others
/// were told.
#[derive(Debug, Default)]
pub(super) struct UserAnnouncements(Mutex<HashMap<Arc<UserView>, Announcements>>);

/// Users whose positions are kept; beyond that, those that nobody watches for are dropped.
const USERS_MAX: usize = 4096;

// === impl UserAnnouncements ===

impl UserAnnouncements {
    /// The announcements to a user.
    pub(super) fn of(&self, user: &Arc<UserView>) -> Announcements {
        let mut users = self.0.lock();
        if users.len() >= USERS_MAX {
            users.retain(|_, all| Arc::strong_count(&all.0) > 1);
        }
        users.entry(Arc::clone(user)).or_default().clone()
    }
}

// === impl Announcements ===

impl Announcements {
    /// The number of the last one.
    pub(super) fn last(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

// === impl Journal ===

impl Journal {
    /// A journal that begins now. That counts as an announcement: a position of before is one
    /// at which nobody watched this scope.
    pub(super) fn new(all: Announcements) -> Self {
        let complete_after = all.next();
        Self {
            all,
            kept: Mutex::new(Kept {
                complete_after,
                updates: VecDeque::new(),
            }),
        }
    }

    /// Adds an update in which something was announced.
    pub(super) fn add(&self, update: &Arc<IncidentUpdate>) {
        if update.transitions.is_empty() {
            return;
        }
        let mut kept = self.kept.lock();
        let number = self.all.next();
        kept.updates.push_back((number, Arc::clone(update)));
        if kept.updates.len() > UPDATES_MAX
            && let Some((dropped, _)) = kept.updates.pop_front()
        {
            kept.complete_after = dropped;
        }
    }

    /// What was announced after a position.
    pub(super) fn after(&self, position: u64) -> Announced {
        let kept = self.kept.lock();
        let updates = kept.updates.iter();
        Announced {
            updates: updates
                .filter(|(number, _)| *number > position)
                .cloned()
                .collect(),
            gap: position < kept.complete_after,
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kubecrier_incidents::{Incident, Severity, Transition, objects::ObjectRef};
    use proptest::prelude::*;

    use super::*;

    fn update(transitions: usize) -> Arc<IncidentUpdate> {
        let incident = Incident {
            id: "i-1".to_owned(),
            detector: "node",
            object: ObjectRef::new("Node", "", "worker-1"),
            severity: Severity::Critical,
            since: Timestamp::UNIX_EPOCH,
            headline: String::new(),
            reason: "".into(),
            why: String::new(),
            effects: Vec::new(),
            changes: Vec::new(),
            symptoms: Vec::new(),
        };
        Arc::new(IncidentUpdate {
            context: "dev".into(),
            seq: 0,
            at: Timestamp::UNIX_EPOCH,
            clearance: None,
            transitions: vec![Transition::Opened(incident); transitions],
        })
    }

    #[test]
    fn a_position_of_before_the_journal_has_a_gap() {
        let all = Announcements::default();
        let before = all.last();
        let journal = Journal::new(all.clone());
        assert!(journal.after(before).gap);
        let now = all.last();
        journal.add(&update(0));
        assert_eq!(all.last(), now, "nothing was announced");
        journal.add(&update(1));
        let announced = journal.after(now);
        assert!(!announced.gap);
        assert_eq!(announced.updates.len(), 1);
        assert!(journal.after(all.last()).updates.is_empty());
    }

    proptest! {
        /// Whatever is asked for is complete, or said not to be.
        #[test]
        fn nothing_is_missing_without_a_gap(
            scopes in prop::collection::vec(0..2usize, 0..700),
            asked in 0..700u64,
        ) {
            let all = Announcements::default();
            let journals = [Journal::new(all.clone()), Journal::new(all.clone())];
            let mut added = [Vec::new(), Vec::new()];
            for scope in scopes {
                journals[scope].add(&update(1));
                added[scope].push(all.last());
            }
            for (journal, added) in journals.iter().zip(added) {
                let announced = journal.after(asked);
                let numbers: Vec<_> = announced.updates.iter().map(|(number, _)| *number).collect();
                let wanted: Vec<_> = added.into_iter().filter(|number| *number > asked).collect();
                prop_assert!(wanted.ends_with(&numbers));
                prop_assert!(announced.gap || numbers == wanted);
                prop_assert!(numbers.len() <= UPDATES_MAX);
            }
        }
    }
}
