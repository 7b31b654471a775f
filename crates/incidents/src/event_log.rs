//! The events of a cluster, by the object that they are about.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;

use crate::objects::{Event, Object, ObjectRef};

/// Events of one object that are kept: more do not explain more.
pub(crate) const EVENTS_MAX: usize = 16;

/// Events of all objects that are kept. An API server keeps those of an hour; when a cluster
/// has more, the older half makes room.
pub(crate) const ALL_EVENTS_MAX: usize = 50_000;

/// Events by object. A clone shares namespaces until one of the two changes something in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog {
    namespaces: BTreeMap<Arc<str>, Arc<HashMap<ObjectRef, Events>>>,
    len: usize,
}

/// The events of one object, the newest last.
#[derive(Clone, Debug, Default)]
struct Events {
    all: Vec<Arc<Event>>,
    /// The oldest and the newest time in them.
    times: Option<(Timestamp, Timestamp)>,
}

// === impl EventLog ===

impl EventLog {
    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an event to those of its object; old ones make room.
    pub(crate) fn apply(&mut self, event: Event) {
        let involved = &event.involved_object;
        let id = ObjectRef::new(
            involved.kind.clone().into_string(),
            &involved.namespace,
            Arc::clone(&involved.name),
        );
        let namespace = self.namespaces.entry(Arc::clone(&id.namespace));
        let objects = Arc::make_mut(namespace.or_default());
        let events = objects.entry(id).or_default();
        let before = events.all.len();
        events.apply(event);
        self.len = self.len + events.all.len() - before;
        if self.len > ALL_EVENTS_MAX {
            self.forget_older_half();
        }
    }

    /// The events of an object, the newest last.
    pub(crate) fn of(&self, id: &ObjectRef) -> &[Arc<Event>] {
        let objects = self.namespaces.get(&id.namespace);
        let events = objects.and_then(|objects| objects.get(id));
        events.map_or(&[], |events| &events.all)
    }

    /// All events.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.each().flat_map(|events| &events.all)
    }

    /// The oldest and the newest time of all events, of those that are not after `before`.
    pub(crate) fn times(&self, before: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let times = self.each().filter_map(|events| match events.times? {
            (oldest, newest) if newest <= before => Some((oldest, newest)),
            _ => {
                let all = events.all.iter().flat_map(|event| event.times());
                bounds(all.filter(|time| *time <= before))
            }
        });
        times.reduce(|(a, b), (oldest, newest)| (a.min(oldest), b.max(newest)))
    }

    /// Drops events that were last seen before a time.
    pub(crate) fn forget(&mut self, before: Timestamp) {
        self.retain(|seen| seen.is_some_and(|seen| seen >= before));
    }

    /// The events of some namespaces. Those about objects without a namespace are in a namespace
    /// all the same.
    pub(crate) fn seen(&self, is_seen: impl Fn(&str) -> bool) -> Self {
        let groups = self.namespaces.iter().filter_map(|(namespace, objects)| {
            if !namespace.is_empty() {
                return is_seen(namespace).then(|| (Arc::clone(namespace), Arc::clone(objects)));
            }
            let mut objects = HashMap::clone(objects);
            objects.retain(|_, events| {
                (events.all).retain(|event| is_seen(&event.metadata.namespace));
                events.times = bounds(events.all.iter().flat_map(|event| event.times()));
                !events.all.is_empty()
            });
            Some((Arc::clone(namespace), Arc::new(objects)))
        });
        let mut seen = Self {
            namespaces: groups.collect(),
            len: 0,
        };
        seen.len = seen.each().map(|events| events.all.len()).sum();
        seen
    }

    fn forget_older_half(&mut self) {
        let mut seen: Vec<_> = self.iter().map(|event| event.last_seen()).collect();
        let half = seen.len() / 2;
        let (_, middle, _) = seen.select_nth_unstable(half);
        // Strictly newer than the middle: also events of one moment make room.
        let after = middle.unwrap_or(Timestamp::MIN);
        self.retain(|seen| seen.is_some_and(|seen| seen > after));
    }

    fn retain(&mut self, is_kept: impl Fn(Option<Timestamp>) -> bool) {
        self.namespaces.retain(|_, objects| {
            let objects = Arc::make_mut(objects);
            objects.retain(|_, events| {
                events.all.retain(|event| is_kept(event.last_seen()));
                events.times = bounds(events.all.iter().flat_map(|event| event.times()));
                !events.all.is_empty()
            });
            !objects.is_empty()
        });
        self.len = self.each().map(|events| events.all.len()).sum();
    }

    fn each(&self) -> impl Iterator<Item = &Events> {
        self.namespaces
            .values()
            .flat_map(|objects| objects.values())
    }
}

// === impl Events ===

impl Events {
    fn apply(&mut self, event: Event) {
        let all = &mut self.all;
        let same = |known: &Arc<Event>| known.metadata.name == event.metadata.name;
        match all.iter_mut().find(|known| same(known)) {
            Some(known) => *known = Arc::new(event),
            None => all.push(Arc::new(event)),
        }
        all.sort_by_key(|event| event.last_seen());
        if all.len() > EVENTS_MAX {
            all.remove(0);
        }
        self.times = bounds(all.iter().flat_map(|event| event.times()));
    }
}

/// The oldest and the newest of some times.
pub(crate) fn bounds(times: impl Iterator<Item = Timestamp>) -> Option<(Timestamp, Timestamp)> {
    let each = times.map(|time| (time, time));
    each.reduce(|(oldest, newest), (time, _)| (oldest.min(time), newest.max(time)))
}
