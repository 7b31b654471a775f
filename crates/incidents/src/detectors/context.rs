//! What detectors look at: a state, the time, and what is found in it again and again.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    clock::Clock,
    objects::{EndpointSlice, Event, Meta, Node, Object, ObjectRef, Pod, ReplicaSet, selects},
    state::State,
};

/// The time that a new node gets (seconds).
const NODE_JOINS: i64 = 5 * 60;

/// Objects that belong to another, by the namespace and the name of that one.
type ByName<'a, T> = HashMap<&'a str, HashMap<&'a str, Vec<&'a T>>>;

/// What a detector looks at.
#[derive(Debug)]
pub struct Context<'a> {
    /// The objects.
    pub state: &'a State,
    /// The time, as the state has it.
    pub now: Timestamp,
    clock: Clock,
    /// By the object on top of their owners.
    pods_of: HashMap<ObjectRef, Vec<&'a Arc<Pod>>>,
    /// By namespace and Service.
    slices_of: ByName<'a, EndpointSlice>,
    /// By namespace, label and its value; made when somebody asks.
    pods_with: OnceCell<HashMap<&'a str, ByName<'a, Arc<Pod>>>>,
    /// By namespace and Deployment.
    replica_sets_of: ByName<'a, ReplicaSet>,
}

// === impl Context ===

impl<'a> Context<'a> {
    /// Looks through a state once.
    pub fn new(state: &'a State, now: Timestamp) -> Self {
        let clock = Clock::of(state, now);
        let mut pods_of: HashMap<_, Vec<_>> = HashMap::new();
        for pod in state.pods.iter() {
            let top = state.top_owner(&pod.object_ref(), &pod.metadata);
            pods_of.entry(top).or_default().push(pod);
        }
        let mut slices_of = ByName::new();
        for slice in state.slices.iter() {
            if let Some(service) = slice.service() {
                note(&mut slices_of, &slice.metadata.namespace, service, &**slice);
            }
        }
        let mut replica_sets_of = ByName::new();
        for set in state.replica_sets.iter() {
            let top = state.top_owner(&set.object_ref(), &set.metadata);
            let deployment = state.deployments.get(&top.namespace, &top.name);
            if let Some(owner) = deployment.filter(|_| &*top.kind == "Deployment") {
                let Meta {
                    namespace, name, ..
                } = &owner.metadata;
                note(&mut replica_sets_of, namespace, name, &**set);
            }
        }
        Self {
            state,
            now: clock.now,
            clock,
            pods_of,
            slices_of,
            pods_with: OnceCell::new(),
            replica_sets_of,
        }
    }

    /// The pods that belong to a workload, directly or through its ReplicaSets or Jobs.
    pub fn pods_of(&self, workload: &ObjectRef) -> &[&'a Arc<Pod>] {
        self.pods_of.get(workload).map_or(&[], Vec::as_slice)
    }

    /// The slices with the addresses of a Service.
    pub(super) fn slices_of(&self, namespace: &str, service: &str) -> &[&'a EndpointSlice] {
        named(&self.slices_of, namespace, service)
    }

    /// The pods of a namespace that a selector with at least one label matches, by name.
    pub(super) fn selected<'s>(
        &'s self,
        namespace: &str,
        selector: &'s BTreeMap<Box<str>, Box<str>>,
    ) -> impl Iterator<Item = &'a Arc<Pod>> + use<'s, 'a> {
        let pods_with = self.pods_with.get_or_init(|| {
            let mut all: HashMap<_, ByName<'_, _>> = HashMap::new();
            for pod in self.state.pods.iter() {
                let mine = all.entry(&*pod.metadata.namespace).or_default();
                for (label, value) in &pod.metadata.labels {
                    note(mine, label, value, pod);
                }
            }
            all
        });
        let mine = pods_with.get(namespace);
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
        named(
            &self.replica_sets_of,
            &deployment.namespace,
            &deployment.name,
        )
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
            let is_later = copied_at.is_some_and(|oldest| event.last_seen() >= oldest);
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

    /// Whether a node has just joined: its network and its own pods take a while.
    pub(super) fn is_new(&self, node: &Node) -> bool {
        self.within(Some(self.born(node)), NODE_JOINS)
    }

    /// A node that explains the state of what runs on it.
    pub(super) fn failed_node(&self, name: &str) -> Option<ObjectRef> {
        let node = self.state.nodes.get("", name)?;
        (!node.is_ready()).then(|| node.object_ref())
    }
}

fn note<'a, T>(all: &mut ByName<'a, T>, namespace: &'a str, name: &'a str, object: &'a T) {
    let objects = all.entry(namespace).or_default();
    objects.entry(name).or_default().push(object);
}

fn named<'s, 'a, T>(all: &'s ByName<'a, T>, namespace: &str, name: &str) -> &'s [&'a T] {
    let objects = all.get(namespace).and_then(|objects| objects.get(name));
    objects.map_or(&[], Vec::as_slice)
}
