//! Objects of one kind.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use crate::{event_log::bounds, objects::Object};

/// Objects of one kind, by namespace and name. A clone shares namespaces until one of the two
/// changes something in them.
#[derive(Clone, Debug)]
pub struct Store<T> {
    namespaces: BTreeMap<Arc<str>, Arc<ByName<T>>>,
    len: usize,
    is_known: bool,
}

/// The objects of a namespace, by name.
type ByName<T> = BTreeMap<Arc<str>, Entry<T>>;

/// An object, and what is asked of it whenever a state is evaluated.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub object: Arc<T>,
    /// When the API server stored it first.
    pub created: Option<Timestamp>,
    /// The oldest and the newest time that it tells.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Whether no detector can find anything wrong with it.
    pub is_plain: bool,
}

// === impl Entry ===

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self {
            object: Arc::clone(&self.object),
            ..*self
        }
    }
}

impl<T: Object> Entry<T> {
    fn of(object: T) -> Self {
        Self {
            created: object.meta().creation_timestamp,
            times: bounds(object.times()),
            is_plain: object.is_plain(),
            object: Arc::new(object),
        }
    }
}

// === impl Store ===

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            namespaces: BTreeMap::new(),
            len: 0,
            is_known: false,
        }
    }
}

impl<T: Object> Store<T> {
    /// Whether the kind could be read: what is not in the store then does not exist.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Says that the kind was read, also if there is nothing of it.
    pub fn set_known(&mut self, is_known: bool) {
        self.is_known = is_known;
    }

    /// Adds or replaces an object.
    pub fn apply(&mut self, mut object: T) {
        let meta = object.meta();
        if let Some(earlier) = self.get(&meta.namespace, &meta.name) {
            object.remember(earlier);
        }
        let meta = object.meta();
        let (namespace, name) = (Arc::clone(&meta.namespace), Arc::clone(&meta.name));
        let objects = Arc::make_mut(self.namespaces.entry(namespace).or_default());
        let known = objects.insert(name, Entry::of(object));
        self.len += usize::from(known.is_none());
    }

    /// Replaces everything.
    pub fn replace(&mut self, objects: impl IntoIterator<Item = T>) {
        let earlier = std::mem::take(&mut self.namespaces);
        self.len = 0;
        self.is_known = true;
        for mut object in objects {
            let meta = object.meta();
            let before = earlier
                .get(&meta.namespace)
                .and_then(|all| all.get(&meta.name));
            if let Some(before) = before {
                object.remember(&before.object);
            }
            self.apply(object);
        }
    }

    /// Removes an object.
    pub fn delete(&mut self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let objects = self.namespaces.get_mut(namespace)?;
        if !objects.contains_key(name) {
            return None;
        }
        let objects = Arc::make_mut(objects);
        let deleted = objects.remove(name)?;
        self.len -= 1;
        if objects.is_empty() {
            self.namespaces.remove(namespace);
        }
        Some(deleted.object)
    }

    /// An object by its name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        let entry = self.namespaces.get(namespace)?.get(name)?;
        Some(&entry.object)
    }

    /// All objects, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.entries().map(|entry| &entry.object)
    }

    /// All objects and what is kept of them, by namespace and name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry<T>> {
        self.namespaces
            .values()
            .flat_map(|objects| objects.values())
    }

    /// The objects of a namespace, by name.
    pub fn in_namespace<'a>(
        &'a self,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        let objects = self.namespaces.get(namespace);
        let entries = objects.into_iter().flat_map(|objects| objects.values());
        entries.map(|entry| &entry.object)
    }

    /// The namespaces that have objects.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(|namespace| &**namespace)
    }

    /// The objects of some namespaces; whether that is all there is of the kind says `is_known`.
    pub(crate) fn seen(&self, is_seen: impl Fn(&str) -> bool, is_known: bool) -> Self {
        let seen = self.namespaces.iter().filter(|(name, _)| is_seen(name));
        let namespaces: BTreeMap<_, _> = seen
            .map(|(name, objects)| (Arc::clone(name), Arc::clone(objects)))
            .collect();
        Self {
            len: namespaces.values().map(|objects| objects.len()).sum(),
            namespaces,
            is_known,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::objects::{Meta, Service};

    #[derive(Clone, Debug)]
    enum Step {
        Apply(u8, u8, i64),
        Delete(u8, u8),
        Replace(Vec<(u8, u8)>),
    }

    fn service(namespace: u8, name: u8, generation: i64) -> Service {
        Service {
            metadata: Meta {
                namespace: namespace.to_string().into(),
                name: name.to_string().into(),
                generation,
                ..Meta::default()
            },
            ..Service::default()
        }
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = || (0..3_u8, 0..5_u8);
        prop_oneof![
            6 => (key(), 0..9_i64).prop_map(|((a, b), c)| Step::Apply(a, b, c)),
            4 => key().prop_map(|(a, b)| Step::Delete(a, b)),
            1 => prop::collection::vec(key(), 0..6).prop_map(Step::Replace),
        ]
    }

    proptest! {
        /// Whatever is done: the same as with one flat map.
        #[test]
        fn a_store_is_a_map_by_namespace_and_name(steps in prop::collection::vec(step(), 0..60)) {
            let mut store = Store::default();
            let mut model = BTreeMap::new();
            let mut earlier = Vec::new();
            for step in steps {
                // What was copied before stays as it was.
                let told: Vec<_> = store.iter().map(|one: &Arc<Service>| one.metadata.generation).collect();
                earlier.push((store.clone(), told));
                match step {
                    Step::Apply(namespace, name, generation) => {
                        store.apply(service(namespace, name, generation));
                        model.insert((namespace, name), generation);
                    }
                    Step::Delete(namespace, name) => {
                        let deleted = store.delete(&namespace.to_string(), &name.to_string());
                        let deleted = deleted.map(|one| one.metadata.generation);
                        prop_assert_eq!(deleted, model.remove(&(namespace, name)));
                    }
                    Step::Replace(keys) => {
                        store.replace(keys.iter().map(|(a, b)| service(*a, *b, 0)));
                        model = keys.into_iter().map(|key| (key, 0)).collect();
                    }
                }
                for (copy, told) in &earlier {
                    let now: Vec<_> = copy.iter().map(|one| one.metadata.generation).collect();
                    prop_assert_eq!(&now, told);
                }
                for entry in store.entries() {
                    let made = Entry::of(Service::clone(&entry.object));
                    prop_assert_eq!(entry.created, made.created);
                    prop_assert_eq!((entry.times, entry.is_plain), (made.times, made.is_plain));
                }
                prop_assert_eq!(store.len(), model.len());
                prop_assert_eq!(store.is_empty(), model.is_empty());
                let told: Vec<_> = store.iter().map(|one| one.metadata.generation).collect();
                prop_assert_eq!(told, model.values().copied().collect::<Vec<_>>());
                for namespace in 0..3_u8 {
                    let told = store.in_namespace(&namespace.to_string()).count();
                    let known = model.keys().filter(|(one, _)| *one == namespace).count();
                    prop_assert_eq!(told, known);
                    for name in 0..5_u8 {
                        let told = store.get(&namespace.to_string(), &name.to_string());
                        let told = told.map(|one| one.metadata.generation);
                        prop_assert_eq!(told, model.get(&(namespace, name)).copied());
                    }
                }
            }
        }
    }
}
