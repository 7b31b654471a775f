//! What detectors look at: a state, the time, and what is found in it again and again.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    clock::Clock,
    incident::Change,
    objects::{EndpointSlice, Event, Meta, Node, Object, ObjectRef, Pod, ReplicaSet, selects},
    state::State,
};

/// The time that a new node gets (seconds).
const NODE_JOINS: i64 = 5 * 60;

/// Events of an object and its own times are written by different clocks.
const EVENT_SLACK: SignedDuration = SignedDuration::from_mins(1);

/// Objects by a label and its value.
type ByName<'a, T> = HashMap<&'a str, HashMap<&'a str, Vec<&'a T>>>;

/// What a detector looks at.
#[derive(Debug)]
pub struct Context<'a> {
    /// The objects.
    pub state: &'a State,
    /// The time, as the state has it.
    pub now: Timestamp,
    clock: Clock,
    spaces: HashMap<&'a str, Space<'a>>,
}

/// What belongs to what in a namespace, found out when somebody asks: of most namespaces nobody
/// does.
#[derive(Debug, Default)]
struct Space<'a> {
    /// By the object on top of their owners.
    pods_of: OnceCell<HashMap<ObjectRef, Vec<&'a Arc<Pod>>>>,
    /// By label and its value.
    pods_with: OnceCell<ByName<'a, Arc<Pod>>>,
    /// By Service.
    slices_of: OnceCell<HashMap<&'a str, Vec<&'a EndpointSlice>>>,
    /// By Deployment.
    replica_sets_of: OnceCell<HashMap<&'a str, Vec<&'a ReplicaSet>>>,
    /// What was rolled out, the newest first.
    rollouts: OnceCell<Vec<Change>>,
}

// === impl Context ===

impl<'a> Context<'a> {
    /// Looks through a state once.
    pub fn new(state: &'a State, now: Timestamp) -> Self {
        let clock = Clock::of(state, now);
        let pods = state.pods.namespaces();
        let slices = state.slices.namespaces();
        let sets = state.replica_sets.namespaces();
        let spaces = pods.chain(slices).chain(sets);
        Self {
            state,
            now: clock.now,
            clock,
            spaces: spaces.map(|space| (space, Space::default())).collect(),
        }
    }

    /// The pods that belong to a workload, directly or through its ReplicaSets or Jobs.
    pub fn pods_of(&self, workload: &ObjectRef) -> &[&'a Arc<Pod>] {
        let Some(space) = self.spaces.get(&*workload.namespace) else {
            return &[];
        };
        let pods_of = space.pods_of.get_or_init(|| {
            let mut pods_of: HashMap<_, Vec<_>> = HashMap::new();
            for pod in self.state.pods.in_namespace(&workload.namespace) {
                let top = self.state.top_owner(&pod.object_ref(), &pod.metadata);
                pods_of.entry(top).or_default().push(pod);
            }
            pods_of
        });
        pods_of.get(workload).map_or(&[], Vec::as_slice)
    }

    /// The slices with the addresses of a Service.
    pub(super) fn slices_of(&self, namespace: &str, service: &str) -> &[&'a EndpointSlice] {
        let Some(space) = self.spaces.get(namespace) else {
            return &[];
        };
        let slices_of = space.slices_of.get_or_init(|| {
            let mut slices_of: HashMap<_, Vec<_>> = HashMap::new();
            for slice in self.state.slices.in_namespace(namespace) {
                if let Some(service) = slice.service() {
                    slices_of.entry(service).or_default().push(&**slice);
                }
            }
            slices_of
        });
        slices_of.get(service).map_or(&[], Vec::as_slice)
    }

    /// The pods of a namespace that a selector with at least one label matches, by name.
    pub(super) fn selected<'s>(
        &'s self,
        namespace: &str,
        selector: &'s BTreeMap<Box<str>, Box<str>>,
    ) -> impl Iterator<Item = &'a Arc<Pod>> + use<'s, 'a> {
        let space = self.spaces.get(namespace);
        let mine = space.map(|space| {
            space.pods_with.get_or_init(|| {
                let mut pods_with = ByName::new();
                for pod in self.state.pods.in_namespace(namespace) {
                    for (label, value) in &pod.metadata.labels {
                        note(&mut pods_with, label, value, pod);
                    }
                }
                pods_with
            })
        });
        // The label that the fewest have.
        let fewest = selector
            .iter()
            .map(|(label, value)| mine.map_or(&[][..], |mine| named(mine, label, value)))
            .min_by_key(|pods| pods.len());
        let fewest = fewest.unwrap_or_default().iter().copied();
        fewest.filter(|pod| selects(selector, &pod.metadata.labels))
    }

    /// Whether somebody is there to answer for a Service. One that nobody wrote addresses for is
    /// judged by its pods: a controller writes a slice even if there is none.
    pub(super) fn answers(&self, namespace: &str, service: &str) -> bool {
        match self.slices_of(namespace, service) {
            [] => {
                let service = self.state.services.get(namespace, service);
                service.is_some_and(|service| {
                    let mut pods = self.selected(namespace, &service.spec.selector);
                    service.is_selecting() && pods.any(|pod| pod.is_ready())
                })
            }
            slices => slices.iter().any(|slice| slice.ready() > 0),
        }
    }

    /// The revisions of a Deployment.
    pub(crate) fn replica_sets_of(&self, deployment: &Meta) -> &[&'a ReplicaSet] {
        let Some(space) = self.spaces.get(&*deployment.namespace) else {
            return &[];
        };
        let replica_sets_of = space.replica_sets_of.get_or_init(|| {
            let mut sets_of: HashMap<_, Vec<_>> = HashMap::new();
            let state = self.state;
            for set in state.replica_sets.in_namespace(&deployment.namespace) {
                let top = state.top_owner(&set.object_ref(), &set.metadata);
                let owner = state.deployments.get(&top.namespace, &top.name);
                if let Some(owner) = owner.filter(|_| &*top.kind == "Deployment") {
                    sets_of
                        .entry(&*owner.metadata.name)
                        .or_default()
                        .push(&**set);
                }
            }
            sets_of
        });
        (replica_sets_of.get(&*deployment.name)).map_or(&[], Vec::as_slice)
    }

    /// What was rolled out in a namespace, found out once.
    pub(crate) fn rollouts(
        &self,
        namespace: &str,
        find: impl FnOnce() -> Vec<Change>,
    ) -> &[Change] {
        let space = self.spaces.get(namespace);
        space.map_or(&[], |space| space.rollouts.get_or_init(find))
    }

    /// Whether times of creation say nothing.
    pub(crate) fn is_copy(&self) -> bool {
        self.clock.is_copy
    }

    /// The events of an object, the newest last. Those of an earlier object of the same name
    /// are left out: they have another uid, and in a copy, where uids say nothing, they are
    /// older than all that the object tells.
    pub fn events<T: Object>(
        &self,
        object: &T,
    ) -> impl DoubleEndedIterator<Item = &'a Event> + Clone + use<'a, T> {
        let Meta { uid, name, .. } = object.meta();
        // Kubelets name nodes where a uid should be.
        let (uid, name) = (uid.clone(), Arc::clone(name));
        let copied_at = self.clock.is_copied(object).then(|| object.times().min());
        let events = self.state.events(&object.object_ref()).iter();
        events.map(|event| &**event).filter(move |event| {
            let about = &*event.involved_object.uid;
            let is_later = copied_at.is_some_and(|oldest| {
                let seen = event
                    .last_seen()
                    .map(|seen| seen.saturating_add(EVENT_SLACK));
                seen.and_then(Result::ok) >= oldest
            });
            let is_own = *about == *uid || *about == *name;
            about.is_empty() || uid.is_empty() || is_own || is_later
        })
    }

    /// The newest warning of an object with one of these reasons.
    pub fn warning(&self, object: &impl Object, reasons: &[&str]) -> Option<&'a Event> {
        let events = self.events(object).rev();
        let mut warnings = events.filter(|event| event.is_warning());
        warnings.find(|event| reasons.contains(&&*event.reason))
    }

    /// How long ago something was; zero if it is in the future.
    pub(super) fn ago(&self, time: Timestamp) -> SignedDuration {
        self.now.duration_since(time).max(SignedDuration::ZERO)
    }

    /// Whether something was within the last seconds.
    pub(super) fn within(&self, time: Option<Timestamp>, seconds: i64) -> bool {
        let sane = time.filter(|time| self.clock.is_sane(*time));
        sane.is_some_and(|time| self.ago(time) <= SignedDuration::from_secs(seconds))
    }

    /// Since when an object is there, by all that is told of it.
    pub fn born(&self, object: &impl Object) -> Timestamp {
        let events = self.events(object).filter_map(Event::first_seen);
        let told = object.times().chain(events);
        self.clock.born(object.meta(), told)
    }

    /// Since when an object is there that tells nothing.
    pub(super) fn created(&self, meta: &Meta) -> Timestamp {
        self.clock.born(meta, std::iter::empty())
    }

    /// Since when something is so, by the time that is told of it; otherwise since the object
    /// is there.
    pub(super) fn since(&self, told: Option<Timestamp>, object: &impl Object) -> Timestamp {
        self.clock.since(told, || self.born(object))
    }

    /// Whether a node has just joined: its network and its own pods take a while. One that fell
    /// silent had joined before.
    pub(super) fn is_new(&self, node: &Node) -> bool {
        let ready = node.condition("Ready");
        let was_heard = ready.is_some_and(|one| &*one.reason == "NodeStatusUnknown");
        !was_heard && self.within(Some(self.born(node)), NODE_JOINS)
    }

    /// A node that is short of something, and evicts pods for that.
    pub(super) fn pressed_node(&self, name: &str) -> Option<ObjectRef> {
        let node = self.state.nodes.get("", name)?;
        let mut conditions = node.status.conditions.iter();
        let is_pressed = conditions.any(|one| one.kind.ends_with("Pressure") && one.is_true());
        is_pressed.then(|| node.object_ref())
    }

    /// A node that explains the state of what runs on it.
    pub(super) fn failed_node(&self, name: &str) -> Option<ObjectRef> {
        let node = self.state.nodes.get("", name)?;
        (!node.is_ready()).then(|| node.object_ref())
    }
}

fn note<'a, T>(all: &mut ByName<'a, T>, label: &'a str, value: &'a str, object: &'a T) {
    let objects = all.entry(label).or_default();
    objects.entry(value).or_default().push(object);
}

fn named<'s, 'a, T>(all: &'s ByName<'a, T>, label: &str, value: &str) -> &'s [&'a T] {
    let objects = all.get(label).and_then(|objects| objects.get(value));
    objects.map_or(&[], Vec::as_slice)
}
