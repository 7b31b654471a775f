//! What a user needs to see of events and of their evidence, in one cluster.

use std::{fmt, sync::Arc};

use kubecrier_k8s_api::{BuiltinKind, names::split_group_version};
use parking_lot::Mutex;

use super::{gate::Gate, question::Action, right::Right, viewer::UserView};
use crate::{Event, InvolvedObject, LabelsOf};

/// Gates that one user keeps at hand; others are made again.
const GATES_MAX: usize = 512;

/// The gate of the events of a namespace that show the labels of this source.
type KnownGate = (Arc<str>, LabelSource, Arc<Gate>);

/// A user's view of one cluster, with what is needed of it again and again. All that a user has
/// open there share one.
#[derive(Clone)]
pub struct Sight(Arc<OpenSight>);

/// The view of one user.
pub(super) struct OpenSight {
    view: Arc<UserView>,
    context: Arc<str>,
    /// What the events of a namespace need, in its order and by whose labels they show.
    // Held for list operations only.
    gates: Mutex<Vec<KnownGate>>,
}

/// Where the labels that an event shows were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelSource {
    /// Nowhere else than in the event.
    Event,
    /// In an object of this kind.
    Object(&'static BuiltinKind),
    /// In an object of a kind that is not known here.
    Unknown,
}

/// The rights that an event needs.
#[derive(Clone, Debug)]
pub struct EventRights {
    /// To see it.
    pub event: Arc<Right>,
    /// To see the labels that its involved object has.
    pub labels: LabelRight,
    /// To see both.
    pub gate: Arc<Gate>,
}

/// What the labels of an event need.
#[derive(Clone, Debug)]
pub enum LabelRight {
    /// Nothing: they are its own, or there are none.
    None,
    /// To read the involved object.
    Needs(Arc<Right>),
    /// It is not known what they are read from, so nobody may see them.
    Hidden,
}

// === impl Sight ===

impl Sight {
    /// The view of this user on a context.
    pub fn new(view: &Arc<UserView>, context: &str) -> Self {
        Self(view.sight(context))
    }

    /// The user.
    pub fn view(&self) -> &Arc<UserView> {
        &self.0.view
    }

    /// The right to do something in a namespace.
    pub fn right(&self, action: Action, namespace: &str) -> Arc<Right> {
        self.0.right(action, namespace)
    }

    /// What an event needs.
    pub fn of_event(&self, event: &Event) -> EventRights {
        let source = LabelSource::of(event);
        EventRights::new(self.0.gate(event, source), source)
    }
}

impl fmt::Debug for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sight")
            .field("view", &self.0.view)
            .field("context", &self.0.context)
            .finish_non_exhaustive()
    }
}

// === impl OpenSight ===

impl OpenSight {
    pub(super) fn new(view: &Arc<UserView>, context: &str) -> Self {
        Self {
            view: Arc::clone(view),
            context: context.into(),
            gates: Mutex::default(),
        }
    }

    pub(super) fn context(&self) -> &str {
        &self.context
    }

    fn right(&self, action: Action, namespace: &str) -> Arc<Right> {
        self.view.right(&self.context, action, namespace)
    }

    fn gate(&self, event: &Event, source: LabelSource) -> Arc<Gate> {
        // The involved object may live in another namespace than its event.
        let is_usual = event.involved.namespace == event.namespace
            || !matches!(source, LabelSource::Object(_));
        if !is_usual {
            return Arc::new(self.new_gate(event, source));
        }
        let mut gates = self.gates.lock();
        let namespace = event.namespace.as_str();
        let start = gates.partition_point(|(name, ..)| &**name < namespace);
        let mut known = gates[start..]
            .iter()
            .take_while(|(name, ..)| **name == *namespace);
        if let Some((_, _, gate)) = known.find(|(_, one, _)| *one == source) {
            return Arc::clone(gate);
        }
        let gate = Arc::new(self.new_gate(event, source));
        let start = if gates.len() < GATES_MAX {
            start
        } else {
            gates.clear();
            0
        };
        // Of the namespace there are as many names as kinds whose objects have events.
        let name = match gates.get(start) {
            Some((name, ..)) if **name == *namespace => Arc::clone(name),
            _ => namespace.into(),
        };
        if gates.len() < 4 {
            gates.reserve_exact(1);
        }
        gates.insert(start, (name, source, Arc::clone(&gate)));
        gate
    }

    fn new_gate(&self, event: &Event, source: LabelSource) -> Gate {
        let own = self.right(Action::LIST_EVENTS, &event.namespace);
        let labels = match source {
            LabelSource::Object(kind) => {
                Some(self.right(Action::get(*kind), &event.involved.namespace))
            }
            LabelSource::Event | LabelSource::Unknown => None,
        };
        Gate::new([Some(own), labels].into_iter().flatten())
    }
}

// === impl EventRights ===

impl EventRights {
    /// What a gate is made of that was made for events with this source of labels.
    fn new(gate: Arc<Gate>, source: LabelSource) -> Self {
        let mut rights = gate.rights().iter().cloned();
        let event = rights.next().expect("the gate of an event has its right");
        let labels = match (source, rights.next()) {
            (LabelSource::Event, _) => LabelRight::None,
            (LabelSource::Object(_), Some(right)) => LabelRight::Needs(right),
            (LabelSource::Object(_), None) | (LabelSource::Unknown, _) => LabelRight::Hidden,
        };
        Self {
            event,
            labels,
            gate,
        }
    }
}

// === impl LabelSource ===

impl LabelSource {
    fn of(event: &Event) -> Self {
        if event.labels_of != LabelsOf::Involved || event.labels.is_empty() {
            return Self::Event;
        }
        let InvolvedObject {
            kind, api_version, ..
        } = &event.involved;
        // An event names its API version itself: a kind of another group may have the same name.
        let (group, _version) = split_group_version(api_version);
        let known = BuiltinKind::of_kind(kind);
        let known = known.filter(|kind| api_version.is_empty() || kind.group == group);
        known.map_or(Self::Unknown, Self::Object)
    }
}
