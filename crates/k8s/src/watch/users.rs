//! The subscribers of one user on a watch: what they may see is decided once for all of them.
//!
//! An event whose decision is under way is parked, in order within its namespace, so that a
//! namespace that nobody can decide about holds up no other. The watch's task never waits.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
};

use futures_util::future::join;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    task::yield_now,
    time::{Duration, sleep},
};

use super::subscribers::{Cohort, Subscriber, Subscribers};
use kubecrier_core::{
    Event,
    access::{
        Action, Answer, EventRights, LabelRight, NotedNamespaces, Right, Sight, UserView, Verdict,
    },
    subscriptions::WatchStatus,
};

/// Events that wait for the decisions about one user. What comes then is not told, which is.
const PARKED_MAX: usize = 1024;

/// How often rights are looked at though nothing happens. What is remembered is asked for again at
/// half of its age, and the answer is seen the next time.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Namespaces whose rights are looked at each time though nothing happens there: less than may be
/// asked about one user in that time. Of more, the next ones are looked at the next time.
const FOLLOWED_MAX: usize = 64;

/// Users whose rights are looked at before other tasks have a turn.
const CHECKED_AT_ONCE: usize = 64;

/// Namespaces whose last decision is remembered, to tell of its change.
const NAMESPACES_MAX: usize = 4096;

/// The subscribers of one user.
pub(super) struct UserGroup {
    sight: Sight,
    subscribers: Weak<Subscribers>,
    // Held for map operations only.
    state: Mutex<GroupState>,
}

#[derive(Default)]
struct GroupState {
    /// Namespaces whose events were allowed when they were last decided about.
    allowed: NotedNamespaces,
    /// The last namespace whose rights were looked at.
    followed: String,
    /// Events that wait, by namespace. A namespace that is being worked on has an entry.
    parked: HashMap<String, VecDeque<(Arc<Event>, Cohort)>>,
    count: usize,
    /// Events that were not parked because too many were.
    lost: usize,
}

/// What a user sees of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// All of it.
    Whole,
    /// Without the labels of the involved object.
    Unlabelled,
    /// Nothing.
    Nothing,
    /// It waits.
    Parked,
}

/// Looks at the rights of all users from time to time, for as long as there are any: who loses one
/// is told so, also if nothing happens any more. One task for all: they may be thousands.
pub(super) async fn follow_rights(subscribers: Weak<Subscribers>) {
    loop {
        sleep(CHECK_INTERVAL).await;
        let groups = match subscribers.upgrade() {
            Some(subscribers) => subscribers.followed_groups(),
            None => return,
        };
        if groups.is_empty() {
            return;
        }
        for some in groups.chunks(CHECKED_AT_ONCE) {
            for group in some {
                group.check_rights();
            }
            yield_now().await;
        }
    }
}

// === impl UserGroup ===

impl UserGroup {
    pub(super) fn new(view: &Arc<UserView>, context: &str, subscribers: Weak<Subscribers>) -> Self {
        Self {
            sight: Sight::new(view, context),
            subscribers,
            state: Mutex::default(),
        }
    }

    pub(super) fn view(&self) -> &Arc<UserView> {
        self.sight.view()
    }

    /// Tells of rights that were there and are gone. What is not known any more is asked for.
    fn check_rights(&self) {
        let namespaces = {
            let mut state = self.state.lock();
            let next = state.next_followed();
            if let Some(last) = next.last() {
                state.followed.clone_from(last);
            }
            next
        };
        for namespace in namespaces {
            let right = self.sight.right(Action::LIST_EVENTS, &namespace);
            let is_denied = matches!(right.check(), Verdict::Denied);
            if is_denied
                && self.state.lock().note(&namespace, false)
                && let Some(subscribers) = self.subscribers.upgrade()
            {
                withdraw(&subscribers.members(self), &namespace);
            }
        }
    }

    /// Delivers to each member the events that it wants and may see. Returns how many got any.
    pub(super) fn deliver(
        self: &Arc<Self>,
        events: &[(Arc<Event>, Cohort)],
        members: &[Subscriber],
    ) -> usize {
        let mut seen: Vec<Option<Seen>> = vec![None; events.len()];
        let mut wanted = Vec::new();
        let mut reached = 0;
        for member in members {
            wanted.clear();
            for (at, (event, cohort)) in events.iter().enumerate() {
                if !member.gets(event, *cohort) {
                    continue;
                }
                // Decided for the first member that wants it, then known for all.
                let seen = *seen[at].get_or_insert_with(|| self.look_at(event, *cohort, members));
                match seen {
                    Seen::Whole => wanted.push(event),
                    Seen::Unlabelled => wanted.push(event.without_labels()),
                    Seen::Nothing | Seen::Parked => {}
                }
            }
            if !wanted.is_empty() {
                Arc::clone(&member.listener).on_events(&wanted);
                reached += 1;
            }
        }
        reached
    }

    /// What the user sees of an event; one about which that is not known is parked.
    fn look_at(
        self: &Arc<Self>,
        event: &Arc<Event>,
        cohort: Cohort,
        members: &[Subscriber],
    ) -> Seen {
        let mut state = self.state.lock();
        if state.parked.contains_key(&event.namespace) {
            // Behind the others of its namespace.
            state.park(event, cohort);
            return Seen::Parked;
        }
        let rights = self.sight.of_event(event);
        match check(&rights) {
            Some(seen) => {
                let is_withdrawn = state.note(&event.namespace, seen != Seen::Nothing);
                drop(state);
                if is_withdrawn {
                    withdraw(members, &event.namespace);
                }
                seen
            }
            None => {
                state
                    .parked
                    .insert(event.namespace.clone(), VecDeque::new());
                state.park(event, cohort);
                drop(state);
                let (group, namespace) = (Arc::clone(self), event.namespace.clone());
                self.view()
                    .spawn(async move { group.work_off(namespace).await });
                Seen::Parked
            }
        }
    }

    /// Delivers or drops the parked events of a namespace, in order, until there are none.
    async fn work_off(self: Arc<Self>, namespace: String) {
        let mut dropped = 0;
        loop {
            let next = {
                let mut state = self.state.lock();
                let next = state
                    .parked
                    .get_mut(&namespace)
                    .and_then(VecDeque::pop_front);
                if next.is_none() {
                    state.parked.remove(&namespace);
                    if state.parked.is_empty() {
                        // Seldom needed, and there is one for each user.
                        state.parked = HashMap::new();
                    }
                    dropped += std::mem::take(&mut state.lost);
                } else {
                    state.count -= 1;
                }
                next
            };
            let Some((event, cohort)) = next else {
                break;
            };
            let rights = self.sight.of_event(&event);
            let seen = decide(&rights).await;
            let Some(subscribers) = self.subscribers.upgrade() else {
                return;
            };
            let members = subscribers.members(&self);
            let Some(seen) = seen else {
                // Those behind it have waited for the same answer.
                dropped += 1 + self.state.lock().drop_parked(&namespace);
                continue;
            };
            if self.state.lock().note(&namespace, seen != Seen::Nothing) {
                withdraw(&members, &namespace);
            }
            let shown = match seen {
                Seen::Whole => event,
                Seen::Unlabelled => Arc::clone(event.without_labels()),
                Seen::Nothing | Seen::Parked => continue,
            };
            for member in members {
                if member.gets(&shown, cohort) {
                    member.listener.on_events(&[&shown]);
                }
            }
        }
        if dropped > 0 {
            self.announce_gap(&namespace, dropped);
        }
    }

    /// Tells that events are missing because nobody could say in time whether they may be read.
    fn announce_gap(&self, namespace: &str, dropped: usize) {
        let Some(subscribers) = self.subscribers.upgrade() else {
            return;
        };
        tracing::warn!(
            namespace,
            dropped,
            user = self.view().user().name(),
            "events are left out"
        );
        let gap = WatchStatus::Gap {
            since: Timestamp::now(),
            // How many they are is for who may read them.
            detail:
                "events are left out: the cluster did not say in time whether you may read them; \
                     see events_list"
                    .to_owned(),
        };
        for member in subscribers.members(self) {
            member.notify_status(&gap);
        }
    }
}

/// What the rights let a user see, if that is known.
fn check(rights: &EventRights) -> Option<Seen> {
    let known = |right: &Arc<Right>| match right.check() {
        Verdict::Allowed => Some(true),
        Verdict::Denied => Some(false),
        Verdict::Pending(_) => None,
    };
    // Both are looked up, so that both are asked for at the same time.
    let (event, labels) = (known(&rights.event), sees_labels(&rights.labels, known));
    if event? {
        labels.map(of_labels)
    } else {
        Some(Seen::Nothing)
    }
}

fn sees_labels(labels: &LabelRight, known: impl Fn(&Arc<Right>) -> Option<bool>) -> Option<bool> {
    match labels {
        LabelRight::None => Some(true),
        LabelRight::Needs(right) => known(right),
        LabelRight::Hidden => Some(false),
    }
}

fn of_labels(sees_labels: bool) -> Seen {
    if sees_labels {
        Seen::Whole
    } else {
        Seen::Unlabelled
    }
}

/// The same when it is known; `None` if it cannot be found out. Labels that nobody can decide
/// about are not shown.
async fn decide(rights: &EventRights) -> Option<Seen> {
    let labels = async {
        match &rights.labels {
            LabelRight::None => true,
            LabelRight::Needs(right) => right.decide().await.is_allowed(),
            LabelRight::Hidden => false,
        }
    };
    let (event, sees_labels) = join(rights.event.decide(), labels).await;
    match event {
        Answer::Allowed => Some(of_labels(sees_labels)),
        Answer::Denied => Some(Seen::Nothing),
        Answer::Unknown => None,
    }
}

fn withdraw(members: &[Subscriber], namespace: &str) {
    for member in members {
        member.listener.on_withdrawn(namespace);
    }
}

// === impl GroupState ===

impl GroupState {
    fn park(&mut self, event: &Arc<Event>, cohort: Cohort) {
        if self.count >= PARKED_MAX {
            self.lost += 1;
            return;
        }
        self.count += 1;
        let queue = self.parked.entry(event.namespace.clone()).or_default();
        queue.push_back((Arc::clone(event), cohort));
    }

    /// Drops what is parked of a namespace; returns how much that was.
    fn drop_parked(&mut self, namespace: &str) -> usize {
        let Some(queue) = self.parked.get_mut(namespace) else {
            return 0;
        };
        let dropped = queue.len();
        queue.clear();
        self.count -= dropped;
        dropped
    }

    /// The namespaces whose rights are to be looked at: those behind the last one, and then the
    /// first ones.
    fn next_followed(&self) -> Vec<String> {
        let allowed = self.allowed.all_behind(&self.followed);
        let allowed = allowed.filter(|(_, is_allowed)| *is_allowed);
        let names = allowed.map(|(name, _)| name.to_owned());
        names.take(FOLLOWED_MAX).collect()
    }

    /// Notes a decision; true if it is the end of a right that there was.
    fn note(&mut self, namespace: &str, is_allowed: bool) -> bool {
        let before = self.allowed.note(namespace, is_allowed, NAMESPACES_MAX);
        before == Some(true) && !is_allowed
    }
}

#[cfg(test)]
mod tests;
