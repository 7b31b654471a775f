//! Objects, and what happened to them: bounded, and nothing but data.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{clock, random::Random, resource::Resource, selector::Selection};

/// Every object of the cluster, and the last changes.
pub(crate) struct Store {
    objects: BTreeMap<Key, Arc<Value>>,
    /// Events by their versions: the one that is longest silent comes first.
    events: BTreeMap<u64, Key>,
    history: VecDeque<Change>,
    limits: Limits,
    version: u64,
    /// Changes up to this one are forgotten.
    compacted: u64,
    random: Random,
}

/// What a store may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) objects_max: usize,
    pub(crate) history_max: usize,
}

/// Where an object is. The order is that of the API server's lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) resource: (&'static str, &'static str),
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// One step of an object from a state to the next.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Value>>,
    pub(crate) after: Option<Arc<Value>>,
}

/// A part of a list.
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Value>>,
    /// The last of these items, if others follow.
    pub(crate) last: Option<Key>,
    pub(crate) remaining: usize,
}

/// That version is forgotten.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Compacted;

/// Why an object was not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// The cluster has no such resource.
    #[error("the demo cluster has no resource of the kind `{0}`")]
    UnknownKind(String),
    /// It has neither a name nor a generateName.
    #[error("an object of the kind `{0}` has no name")]
    Nameless(&'static str),
    /// There are as many objects as there may be.
    #[error("the demo cluster holds {0} objects and takes no more")]
    Full(usize),
}

// === impl Store ===

impl Store {
    pub(crate) fn new(limits: Limits, seed: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            events: BTreeMap::new(),
            history: VecDeque::new(),
            limits,
            // A version of one digit would hide mistakes of comparing texts.
            version: 98,
            compacted: 98,
            random: Random::new(seed),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The oldest version from which nothing is missing.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Creates an object, or replaces it. What the API server fills in is filled in
    /// here, unless the object brings it along.
    /// Nothing happens when nothing is different.
    pub(crate) fn put(
        &mut self,
        mut object: Value,
        now: Timestamp,
    ) -> Result<Arc<Value>, Rejected> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let resource = Resource::of_kind(&api_version, &kind)
            .ok_or_else(|| Rejected::UnknownKind(format!("{api_version} {kind}")))?;
        let metadata = &mut object["metadata"];
        if text(&metadata["name"]).is_empty() {
            let prefix = text(&metadata["generateName"]);
            if prefix.is_empty() {
                return Err(Rejected::Nameless(resource.kind));
            }
            metadata["name"] = format!("{prefix}{}", self.random.suffix(5)).into();
        }
        if resource.namespaced && text(&metadata["namespace"]).is_empty() {
            metadata["namespace"] = "default".into();
        }
        let key = Key {
            resource: resource.store_key(),
            namespace: if resource.namespaced {
                text(&metadata["namespace"])
            } else {
                String::new()
            },
            name: text(&metadata["name"]),
        };
        let before = self.objects.get(&key).cloned();
        if before.is_none() && self.objects.len() >= self.limits.objects_max {
            return Err(Rejected::Full(self.limits.objects_max));
        }
        for field in ["uid", "creationTimestamp"] {
            if let Some(kept) = before.as_ref().and_then(|old| old["metadata"].get(field)) {
                metadata[field] = kept.clone();
            }
        }
        if metadata["uid"].is_null() {
            metadata["uid"] = self.random.uid().into();
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = clock::seconds(now).into();
        }
        if let Some(before) = &before {
            metadata["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
            if object == **before {
                return Ok(Arc::clone(before));
            }
        }
        object["metadata"]["resourceVersion"] = (self.version + 1).to_string().into();
        let object = Arc::new(object);
        self.objects.insert(key.clone(), Arc::clone(&object));
        self.remember(key, before, Some(Arc::clone(&object)));
        Ok(object)
    }

    /// Removes an object, if it is there.
    pub(crate) fn remove(&mut self, key: &Key) -> bool {
        let Some(before) = self.objects.remove(key) else {
            return false;
        };
        self.remember(key.clone(), Some(before), None);
        true
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// All objects of a resource, in order.
    pub(crate) fn all(
        &self,
        resource: (&'static str, &'static str),
    ) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        let first = Key {
            resource,
            namespace: String::new(),
            name: String::new(),
        };
        self.objects
            .range(first..)
            .take_while(move |(key, _)| key.resource == resource)
    }

    /// Those of one namespace whose names begin so.
    pub(crate) fn named<'a>(
        &'a self,
        resource: (&'static str, &'static str),
        namespace: &'a str,
        prefix: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Value>> {
        let first = Key {
            resource,
            namespace: namespace.to_owned(),
            name: prefix.to_owned(),
        };
        let fits = move |key: &Key| {
            key.resource == resource && key.namespace == namespace && key.name.starts_with(prefix)
        };
        let found = self
            .objects
            .range(first..)
            .take_while(move |(key, _)| fits(key));
        found.map(|(_, object)| object)
    }

    /// How many events there are, and which is longest silent.
    pub(crate) fn oldest_event(&self) -> (usize, Option<&Key>) {
        let first = self.events.first_key_value();
        (self.events.len(), first.map(|(_, key)| key))
    }

    /// A list as it was at a version.
    pub(crate) fn list(
        &self,
        resource: &Resource,
        selection: &Selection,
        version: u64,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Page, Compacted> {
        let stored = resource.store_key();
        let mut then: BTreeMap<&Key, &Arc<Value>> = self.all(stored).collect();
        for change in self
            .since(version)?
            .rev()
            .filter(|one| one.key.resource == stored)
        {
            match &change.before {
                Some(before) => then.insert(&change.key, before),
                None => then.remove(&change.key),
            };
        }
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut matching = then
            .range::<Key, _>((start, Bound::Unbounded))
            .filter(|(_, object)| selection.matches(object));
        let mut items = Vec::new();
        let mut last = None;
        for (key, object) in matching.by_ref().take(limit) {
            items.push(Arc::clone(object));
            last = Some((*key).clone());
        }
        let remaining = matching.count();
        Ok(Page {
            items,
            last: last.filter(|_| remaining > 0),
            remaining,
        })
    }

    /// What happened after a version, oldest first.
    pub(crate) fn since(
        &self,
        version: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Change>, Compacted> {
        if version < self.compacted {
            return Err(Compacted);
        }
        let from = self
            .history
            .partition_point(|change| change.version <= version);
        Ok(self.history.range(from..))
    }

    /// Forgets all history.
    pub(crate) fn compact(&mut self) {
        self.history.clear();
        self.compacted = self.version;
    }

    /// Lets the version grow without a change, as other parts of a cluster do.
    pub(crate) fn skip(&mut self, versions: u64) {
        self.version += versions;
    }

    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn remember(&mut self, key: Key, before: Option<Arc<Value>>, after: Option<Arc<Value>>) {
        self.version += 1;
        if key.resource == ("", "events") {
            if let Some(version) = before.as_deref().and_then(version_of) {
                self.events.remove(&version);
            }
            if after.is_some() {
                self.events.insert(self.version, key.clone());
            }
        }
        self.history.push_back(Change {
            version: self.version,
            key,
            before,
            after,
        });
        while self.history.len() > self.limits.history_max {
            if let Some(oldest) = self.history.pop_front() {
                self.compacted = oldest.version;
            }
        }
    }
}

fn version_of(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

// === impl Change ===

impl Change {
    /// What a watcher with this selection sees: the name of the event and the
    /// object.
    pub(crate) fn seen_by(&self, selection: &Selection) -> Option<(&'static str, Arc<Value>)> {
        let matching =
            |state: &Option<Arc<Value>>| state.clone().filter(|object| selection.matches(object));
        match (matching(&self.before), matching(&self.after)) {
            (None, None) => None,
            (None, Some(after)) => Some(("ADDED", after)),
            (Some(_), Some(after)) => Some(("MODIFIED", after)),
            (Some(before), None) => {
                // The last state it had while it matched, at the version it left.
                let mut left = Value::clone(&before);
                left["metadata"]["resourceVersion"] = json!(self.version.to_string());
                Some(("DELETED", Arc::new(left)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
