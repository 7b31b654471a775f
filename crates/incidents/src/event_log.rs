//! The events of a cluster, by the object that they are about.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;

use crate::{
    objects::{Event, Object, ObjectRef},
    state::KINDS,
};

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
    /// A hash of the name of each: an event that comes is compared with all of its object, which
    /// are elsewhere in memory.
    names: Vec<u64>,
    /// The oldest and the newest time in them, from when they are first asked for: many events
    /// may come before a state is evaluated.
    times: OnceLock<Option<(Timestamp, Timestamp)>>,
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
        let id = ObjectRef {
            namespace: Arc::clone(&involved.namespace),
            kind: kind_name(&involved.kind),
            name: Arc::clone(&involved.name),
        };
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
        let times = self.each().filter_map(|events| match events.times()? {
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
            objects.retain(|_, events| events.retain(|event| is_seen(&event.metadata.namespace)));
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
            objects.retain(|_, events| events.retain(|event| is_kept(event.last_seen())));
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
        let Self { all, names, .. } = self;
        let name = name_hash(&event);
        let mut known = names.iter().zip(&*all);
        let known = known
            .position(|(hash, known)| *hash == name && known.metadata.name == event.metadata.name);
        let before = known.unwrap_or(all.len());
        if let Some(known) = known {
            all.remove(known);
            names.remove(known);
        }
        let index = insertion_index(all, before, event.last_seen());
        all.insert(index, Arc::new(event));
        names.insert(index, name);
        if all.len() > EVENTS_MAX {
            all.remove(0);
            names.remove(0);
        }
        self.times = OnceLock::new();
    }

    /// Keeps some of them. Returns whether there are any.
    fn retain(&mut self, is_kept: impl Fn(&Event) -> bool) -> bool {
        self.all.retain(|event| is_kept(event));
        self.names.clear();
        self.names
            .extend(self.all.iter().map(|event| name_hash(event)));
        self.times = OnceLock::new();
        !self.all.is_empty()
    }

    /// The oldest and the newest time in them.
    fn times(&self) -> Option<(Timestamp, Timestamp)> {
        *(self.times).get_or_init(|| bounds(self.all.iter().flat_map(|event| event.times())))
    }
}

fn name_hash(event: &Event) -> u64 {
    let mut hasher = DefaultHasher::new();
    event.metadata.name.hash(&mut hasher);
    hasher.finish()
}

/// The name of a kind as a key, without a copy of one that is known.
fn kind_name(kind: &str) -> Cow<'static, str> {
    let known = KINDS.into_iter().find(|known| *known == kind);
    known.map_or_else(|| Cow::Owned(kind.to_owned()), Cow::Borrowed)
}

/// Where an event belongs among others that are in order, if it was at `before`: it passes only
/// those that were seen later or earlier than it. As a rule it is the newest.
fn insertion_index(others: &[Arc<Event>], before: usize, seen: Option<Timestamp>) -> usize {
    let (earlier, later) = others.split_at(before);
    let passed = later.partition_point(|other| other.last_seen() < seen);
    if passed > 0 || earlier.last().is_none_or(|last| last.last_seen() <= seen) {
        return before + passed;
    }
    earlier.partition_point(|other| other.last_seen() <= seen)
}

/// The oldest and the newest of some times.
pub(crate) fn bounds(times: impl Iterator<Item = Timestamp>) -> Option<(Timestamp, Timestamp)> {
    let each = times.map(|time| (time, time));
    each.reduce(|(oldest, newest), (time, _)| (oldest.min(time), newest.max(time)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::objects::Meta;

    fn event(name: u8, seen: i64) -> Event {
        Event {
            metadata: Meta {
                name: name.to_string().into(),
                ..Meta::default()
            },
            last_timestamp: (seen > 0).then(|| Timestamp::from_second(seen).unwrap()),
            ..Event::default()
        }
    }

    proptest! {
        #[test]
        fn events_of_an_object_are_in_the_order_of_a_stable_sort(
            given in prop::collection::vec((0..24_u8, 0..8_i64), 0..60), dropped in 0..8_i64,
        ) {
            let (mut events, mut expected) = (Events::default(), Vec::<(u8, i64)>::new());
            for (at, (name, seen)) in given.into_iter().enumerate() {
                if at % 20 == 19 {
                    let is_kept = |seen: i64| seen != dropped;
                    let seen = |event: &Event| event.last_seen().map_or(0, Timestamp::as_second);
                    expected.retain(|known| is_kept(known.1));
                    prop_assert_eq!(events.retain(|event| is_kept(seen(event))), !expected.is_empty());
                }
                events.apply(event(name, seen));
                match expected.iter_mut().find(|known| known.0 == name) {
                    Some(known) => known.1 = seen,
                    None => expected.push((name, seen)),
                }
                expected.sort_by_key(|known| known.1);
                if expected.len() > EVENTS_MAX {
                    expected.remove(0);
                }
                let names = events.all.iter().map(|event| event.metadata.name.parse().unwrap());
                let names: Vec<u8> = names.collect();
                prop_assert_eq!(names, expected.iter().map(|known| known.0).collect::<Vec<_>>());
                let times = expected.iter().filter(|known| known.1 > 0);
                let times = bounds(times.map(|known| Timestamp::from_second(known.1).unwrap()));
                prop_assert_eq!(events.times(), times);
            }
        }
    }
}
