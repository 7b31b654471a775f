//! Through whose eyes what is shared is seen.

use std::{
    collections::HashMap,
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use super::{
    asked::Questions,
    decisions::Inner,
    question::{AccessQuestion, Action},
    right::Right,
    sight::OpenSight,
    turns::{TurnLimits, Turns},
};
use crate::KubernetesUser;

/// Through whose eyes something that is shared is seen. Two that are equal may see the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Viewer {
    /// Everything that the server may read: callers act with its rights.
    #[default]
    Everything,
    /// What a user may read.
    User(Arc<UserView>),
}

/// A user, with what is known of its rights. There is one for equal users.
pub struct UserView {
    id: u64,
    user: Arc<KubernetesUser>,
    decisions: Weak<Inner>,
    // Held to look for one of a few.
    contexts: Mutex<Contexts>,
}

/// What a user has in each context. Nearly all have one, and there are many users: lists take
/// less than maps.
#[derive(Default)]
struct Contexts {
    /// Reviews for this user.
    turns: Vec<(Arc<str>, Arc<Turns>)>,
    /// What its events need, for as long as anybody looks at them.
    sights: Vec<Weak<OpenSight>>,
}

/// All views, by user.
#[derive(Default)]
pub(super) struct Views(Mutex<Known>);

#[derive(Default)]
struct Known {
    last_id: u64,
    by_user: HashMap<Arc<KubernetesUser>, Weak<UserView>>,
    /// Entries after which those that nobody holds are removed.
    clean_at: usize,
}

// === impl Viewer ===

impl Viewer {
    /// The user, if it is one.
    pub fn user(&self) -> Option<&Arc<UserView>> {
        match self {
            Self::Everything => None,
            Self::User(view) => Some(view),
        }
    }
}

// === impl UserView ===

/// Reviews of one user that a cluster is asked for; all users share a larger number. The events of a
/// namespace cost one or two in half a minute, its incidents and its graph about forty.
const LIMITS: TurnLimits = TurnLimits {
    running_max: 4,
    per_second: 50,
    burst: 300,
};

impl UserView {
    /// The user.
    pub fn user(&self) -> &KubernetesUser {
        &self.user
    }

    /// The right of this user to do something in a namespace (empty: without one).
    pub fn right(self: &Arc<Self>, context: &str, action: Action, namespace: &str) -> Arc<Right> {
        let question = AccessQuestion::within(action, namespace);
        match self.decisions.upgrade() {
            Some(decisions) => decisions.right(self, context, question),
            None => {
                let asked = Questions::default().of(context, question);
                Arc::new(Right::new(self, asked, None))
            }
        }
    }

    /// Runs something that waits for an answer.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(decisions) = self.decisions.upgrade() {
            decisions.spawn(task);
        }
    }

    /// The turns of this user in a context.
    pub(super) fn turns(&self, context: &Arc<str>) -> Arc<Turns> {
        let mut contexts = self.contexts.lock();
        let known = contexts.turns.iter().find(|(name, _)| name == context);
        if let Some((_, turns)) = known {
            return Arc::clone(turns);
        }
        let turns = Arc::new(Turns::new(&LIMITS));
        contexts.turns.reserve_exact(1);
        contexts
            .turns
            .push((Arc::clone(context), Arc::clone(&turns)));
        turns
    }

    /// The view of a context: the one that somebody has, or a new one.
    pub(super) fn sight(self: &Arc<Self>, context: &str) -> Arc<OpenSight> {
        let mut contexts = self.contexts.lock();
        let mut open = contexts.sights.iter().filter_map(Weak::upgrade);
        if let Some(sight) = open.find(|sight| sight.context() == context) {
            return sight;
        }
        let sight = Arc::new(OpenSight::new(self, context));
        contexts.sights.retain(|sight| sight.strong_count() > 0);
        contexts.sights.reserve_exact(1);
        contexts.sights.push(Arc::downgrade(&sight));
        sight
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn decisions(&self) -> Option<Arc<Inner>> {
        self.decisions.upgrade()
    }
}

impl PartialEq for UserView {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for UserView {}

impl Hash for UserView {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Debug for UserView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UserView").field(&self.user.name()).finish()
    }
}

// === impl Views ===

impl Views {
    /// The view of a user.
    pub(super) fn of(&self, user: &Arc<KubernetesUser>, decisions: &Weak<Inner>) -> Arc<UserView> {
        let mut known = self.0.lock();
        if let Some(view) = known.by_user.get(user).and_then(Weak::upgrade) {
            return view;
        }
        if known.by_user.len() >= known.clean_at {
            known.by_user.retain(|_, view| view.strong_count() > 0);
            known.clean_at = known.by_user.len() * 2 + 16;
        }
        known.last_id += 1;
        let view = Arc::new(UserView {
            id: known.last_id,
            user: Arc::clone(user),
            decisions: Weak::clone(decisions),
            contexts: Mutex::default(),
        });
        known
            .by_user
            .insert(Arc::clone(user), Arc::downgrade(&view));
        view
    }

    pub(super) fn len(&self) -> usize {
        let known = self.0.lock();
        let held = |view: &&Weak<UserView>| view.strong_count() > 0;
        known.by_user.values().filter(held).count()
    }
}
