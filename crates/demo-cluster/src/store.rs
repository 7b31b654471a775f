//! The objects and their history: bounded, without locks and without time.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    clock,
    random::Random,
    resource::{EVENTS, Resource, StoreKey},
    selector::Selection,
};

/// All objects of the cluster, and the last changes.
pub(crate) struct Store {
    objects: BTreeMap<ObjectKey, Arc<Value>>,
    /// Events by resourceVersion: the one with the oldest last change comes first.
    events: BTreeMap<u64, ObjectKey>,
    history: VecDeque<Change>,
    limits: StoreLimits,
    version: u64,
    /// The history begins after this resourceVersion.
    compacted: u64,
    random: Random,
}

/// How much a store may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreLimits {
    pub(crate) objects_max: usize,
    pub(crate) history_max: usize,
}

/// The identity of an object. The order is that of the API server's lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    pub(crate) resource: StoreKey,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A creation, update or deletion of an object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: ObjectKey,
    pub(crate) before: Option<Arc<Value>>,
    pub(crate) after: Option<Arc<Value>>,
}

/// A page of a list.
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Value>>,
    /// The last of the items, if others follow.
    pub(crate) last: Option<ObjectKey>,
    pub(crate) remaining: usize,
}

/// The history of that resourceVersion was compacted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Compacted;

/// An object that cannot be stored.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PutError {
    /// The cluster serves no such kind.
    #[error("the demo cluster has no resource of the kind `{0}`")]
    UnknownKind(String),
    /// The object has neither a name nor a generateName.
    #[error("an object of the kind `{0}` has no name")]
    Nameless(&'static str),
    /// The store holds as many objects as it may.
    #[error("the demo cluster holds {0} objects and takes no more")]
    Full(usize),
}

// === impl Store ===

impl Store {
    pub(crate) fn new(limits: StoreLimits, seed: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            events: BTreeMap::new(),
            history: VecDeque::new(),
            limits,
            // From 99 to 100: a client that compares versions as text fails early.
            version: 98,
            compacted: 98,
            random: Random::new(seed),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The oldest resourceVersion that a watch can start from.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Creates an object, or replaces it, and fills in the metadata that the API server would.
    /// An update that changes nothing is not recorded.
    pub(crate) fn put(
        &mut self,
        mut object: Value,
        now: Timestamp,
    ) -> Result<Arc<Value>, PutError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let resource = Resource::of_kind(&api_version, &kind)
            .ok_or_else(|| PutError::UnknownKind(format!("{api_version} {kind}")))?;
        let metadata = &mut object["metadata"];
        if text(&metadata["name"]).is_empty() {
            let prefix = text(&metadata["generateName"]);
            if prefix.is_empty() {
                return Err(PutError::Nameless(resource.api.kind));
            }
            metadata["name"] = format!("{prefix}{}", self.random.suffix(5)).into();
        }
        if resource.api.namespaced && text(&metadata["namespace"]).is_empty() {
            metadata["namespace"] = "default".into();
        }
        let key = ObjectKey {
            resource: resource.store_key(),
            namespace: if resource.api.namespaced {
                text(&metadata["namespace"])
            } else {
                String::new()
            },
            name: text(&metadata["name"]),
        };
        let before = self.objects.get(&key).cloned();
        if before.is_none() && self.objects.len() >= self.limits.objects_max {
            return Err(PutError::Full(self.limits.objects_max));
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
        self.record(key, before, Some(Arc::clone(&object)));
        Ok(object)
    }

    /// Removes an object; `false` if there is none.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> bool {
        let Some(before) = self.objects.remove(key) else {
            return false;
        };
        self.record(key.clone(), Some(before), None);
        true
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// All objects of a resource, in order.
    pub(crate) fn all(
        &self,
        resource: StoreKey,
    ) -> impl Iterator<Item = (&ObjectKey, &Arc<Value>)> {
        let first = ObjectKey {
            resource,
            namespace: String::new(),
            name: String::new(),
        };
        self.objects
            .range(first..)
            .take_while(move |(key, _)| key.resource == resource)
    }

    /// The objects of a namespace whose names have a prefix, in order.
    pub(crate) fn with_prefix<'a>(
        &'a self,
        resource: StoreKey,
        namespace: &'a str,
        prefix: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Value>> {
        let first = ObjectKey {
            resource,
            namespace: namespace.to_owned(),
            name: prefix.to_owned(),
        };
        let fits = move |key: &ObjectKey| {
            key.resource == resource && key.namespace == namespace && key.name.starts_with(prefix)
        };
        let found = self
            .objects
            .range(first..)
            .take_while(move |(key, _)| fits(key));
        found.map(|(_, object)| object)
    }

    /// The number of events, and the one with the oldest last change.
    pub(crate) fn oldest_event(&self) -> (usize, Option<&ObjectKey>) {
        let first = self.events.first_key_value();
        (self.events.len(), first.map(|(_, key)| key))
    }

    /// A page of the list at a resourceVersion.
    pub(crate) fn list(
        &self,
        resource: &Resource,
        selection: &Selection,
        version: u64,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Page, Compacted> {
        let stored = resource.store_key();
        let mut listed: BTreeMap<&ObjectKey, &Arc<Value>> = self.all(stored).collect();
        for change in self
            .since(version)?
            .rev()
            .filter(|one| one.key.resource == stored)
        {
            match &change.before {
                Some(before) => listed.insert(&change.key, before),
                None => listed.remove(&change.key),
            };
        }
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut matching = listed
            .range::<ObjectKey, _>((start, Bound::Unbounded))
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

    /// The changes after a resourceVersion, oldest first.
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

    /// Drops the history, as a compaction of etcd does.
    pub(crate) fn compact(&mut self) {
        self.history.clear();
        self.compacted = self.version;
    }

    /// Advances the resourceVersion without a change, as writes of other resources do.
    pub(crate) fn skip(&mut self, versions: u64) {
        self.version += versions;
    }

    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn record(&mut self, key: ObjectKey, before: Option<Arc<Value>>, after: Option<Arc<Value>>) {
        self.version += 1;
        if key.resource == EVENTS {
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
    /// The type and object of the event that a watch with this selection receives.
    pub(crate) fn watch_event(&self, selection: &Selection) -> Option<(&'static str, Arc<Value>)> {
        let matching =
            |state: &Option<Arc<Value>>| state.clone().filter(|object| selection.matches(object));
        match (matching(&self.before), matching(&self.after)) {
            (None, None) => None,
            (None, Some(after)) => Some(("ADDED", after)),
            (Some(_), Some(after)) => Some(("MODIFIED", after)),
            (Some(before), None) => {
                // The last state that matched, at the resourceVersion of the change.
                let mut last = Value::clone(&before);
                last["metadata"]["resourceVersion"] = json!(self.version.to_string());
                Some(("DELETED", Arc::new(last)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
