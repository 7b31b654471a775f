//! What a user needs to see of events and of their evidence, in one cluster.

use std::{collections::HashMap, fmt, sync::Arc};

use kubecrier_k8s_api::{BuiltinKind, names::split_group_version};
use parking_lot::Mutex;

use super::{gate::Gate, question::Action, right::Right, viewer::UserView};
use crate::{Event, InvolvedObject, LabelsOf};

/// Namespaces whose gates one subscriber keeps at hand; those of others are made again.
const NAMESPACES_MAX: usize = 256;

/// A user's view of one cluster, with what is needed of it again and again.
pub struct Sight {
    view: Arc<UserView>,
    context: Arc<str>,
    namespaces: Mutex<HashMap<String, NamespaceRights>>,
}

/// The rights that events of a namespace need, by whose labels they show.
type NamespaceRights = Vec<(LabelSource, EventRights)>;

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
        Self {
            view: Arc::clone(view),
            context: context.into(),
            namespaces: Mutex::default(),
        }
    }

    /// The user.
    pub fn view(&self) -> &Arc<UserView> {
        &self.view
    }

    /// The right to do something in a namespace.
    pub fn right(&self, action: Action, namespace: &str) -> Arc<Right> {
        self.view.right(&self.context, action, namespace)
    }

    /// What an event needs.
    pub fn of_event(&self, event: &Event) -> EventRights {
        let source = LabelSource::of(event);
        // The involved object may live in another namespace than its event.
        let is_usual = event.involved.namespace == event.namespace
            || !matches!(source, LabelSource::Object(_));
        if !is_usual {
            return self.rights(event, source);
        }
        let mut namespaces = self.namespaces.lock();
        let known = namespaces.get(&event.namespace);
        if let Some((_, rights)) =
            known.and_then(|some| some.iter().find(|(one, _)| *one == source))
        {
            return rights.clone();
        }
        if namespaces.len() >= NAMESPACES_MAX && known.is_none() {
            namespaces.clear();
        }
        let rights = self.rights(event, source);
        let known = namespaces.entry(event.namespace.clone()).or_default();
        known.push((source, rights.clone()));
        rights
    }

    fn rights(&self, event: &Event, source: LabelSource) -> EventRights {
        let own = self.right(Action::LIST_EVENTS, &event.namespace);
        let labels = match source {
            LabelSource::Event => LabelRight::None,
            LabelSource::Object(kind) => {
                LabelRight::Needs(self.right(Action::get(*kind), &event.involved.namespace))
            }
            LabelSource::Unknown => LabelRight::Hidden,
        };
        let both = [Some(&own), labels.right()].into_iter().flatten().cloned();
        EventRights {
            gate: Arc::new(Gate::new(both)),
            event: own,
            labels,
        }
    }
}

// === impl LabelRight ===

impl LabelRight {
    /// The right, if there is one that shows them.
    pub fn right(&self) -> Option<&Arc<Right>> {
        match self {
            Self::Needs(right) => Some(right),
            Self::None | Self::Hidden => None,
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

impl fmt::Debug for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sight")
            .field("view", &self.view)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}
