//! The graph: object summaries and a few indexes. Nodes and edges are derived.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::{
    delta::Delta,
    kind::{Kind, KindFilter},
    node::{Edge, Node, NodeState, Relation, Snapshot},
    object::{ObjectId, ObjectSummary, Reference},
    pending::PendingChanges,
    visibility::Visibility,
};

/// Says which objects a graph shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphScope {
    /// The whole cluster.
    Cluster,
    /// One namespace, and the nodes that its pods run on.
    Namespace,
}

/// Holds the objects of a cluster or a namespace.
#[derive(Debug)]
pub struct Graph {
    scope: GraphScope,
    objects_max: usize,
    /// Objects for which there was no room since their kind was listed.
    refused: BTreeMap<Kind, usize>,
    objects: HashMap<ObjectId, Arc<ObjectSummary>>,
    /// By the target of references: the objects that refer to it.
    referrers: HashMap<ObjectId, BTreeSet<ObjectId>>,
    selectable: HashMap<Arc<str>, NamespaceIndex>,
    /// Kinds of which the graph has every object.
    synced: BTreeSet<Kind>,
    /// Recorded from the call of `track_changes` on.
    pending: Option<PendingChanges>,
    /// What the reader of this graph may see: also of the targets of references.
    visibility: Visibility,
}

/// Indexes the two ends of label selection in one namespace.
#[derive(Clone, Debug, Default)]
struct NamespaceIndex {
    pods: HashSet<ObjectId>,
    services: HashSet<ObjectId>,
}

// === impl Graph ===

impl Graph {
    /// An empty graph with room for `objects_max` objects.
    pub fn new(scope: GraphScope, objects_max: usize) -> Self {
        Self {
            scope,
            objects_max,
            refused: BTreeMap::new(),
            objects: HashMap::new(),
            referrers: HashMap::new(),
            selectable: HashMap::new(),
            synced: BTreeSet::new(),
            pending: None,
            visibility: Visibility::everything(),
        }
    }

    /// A copy to read from while changes are applied to this graph. It tracks no changes.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self {
            scope: self.scope,
            objects_max: self.objects_max,
            refused: self.refused.clone(),
            objects: self.objects.clone(),
            referrers: self.referrers.clone(),
            selectable: self.selectable.clone(),
            synced: self.synced.clone(),
            pending: None,
            visibility: self.visibility.clone(),
        }
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// The namespaces that objects are in.
    pub fn namespaces(&self) -> BTreeSet<Arc<str>> {
        let ids = self.objects.keys();
        ids.map(|id| Arc::clone(&id.namespace)).collect()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The number of objects that found no room.
    pub fn refused(&self) -> usize {
        self.refused.values().sum()
    }

    /// Whether the graph has every object of a kind, so that one that is not here does
    /// not exist.
    pub fn has_synced(&self, kind: Kind) -> bool {
        self.synced.contains(&kind)
    }

    /// Records changes from here on, until a delta takes them.
    pub fn track_changes(&mut self) {
        self.pending.get_or_insert_default();
    }

    /// Takes the changes since the last call.
    pub fn take_delta(&mut self) -> Delta {
        let pending = self.pending.as_mut().map(std::mem::take);
        pending.map_or_else(Delta::default, |pending| pending.into_delta(self))
    }

    /// Notes that a client reads the graph now. The next delta has every pending change
    /// that this client sees, even if it is reverted until then: the client would
    /// otherwise never learn of the revert.
    pub fn mark_read(&mut self) {
        if let Some(mut pending) = self.pending.take() {
            pending.mark_read(self);
            self.pending = Some(pending);
        }
    }

    /// Whether anything changed since the last delta.
    pub fn has_changes(&self) -> bool {
        self.pending
            .as_ref()
            .is_some_and(|pending| !pending.is_empty())
    }

    /// Adds or replaces an object. False if it is unchanged, or if there is no room.
    pub fn apply(&mut self, object: ObjectSummary) -> bool {
        self.apply_shared(Arc::new(object))
    }

    fn apply_shared(&mut self, object: Arc<ObjectSummary>) -> bool {
        let id = object.id.clone();
        match self.objects.get(&id) {
            Some(known) if *known == object => return false,
            None if self.objects.len() >= self.objects_max => {
                *self.refused.entry(id.kind).or_default() += 1;
                self.set_synced(id.kind, false);
                return false;
            }
            _ => {}
        }
        self.record_before(&id, &object.references);
        self.unindex(&id);
        self.index(&object);
        self.objects.insert(id.clone(), object);
        self.record_after(&id);
        true
    }

    /// Deletes an object. False if it did not exist.
    pub fn delete(&mut self, id: &ObjectId) -> bool {
        if !self.objects.contains_key(id) {
            return false;
        }
        self.record_before(id, &[]);
        self.unindex(id);
        self.objects.remove(id);
        self.record_after(id);
        true
    }

    /// Replaces all objects of a kind: those that are not in the list are deleted.
    pub fn relist(&mut self, kind: Kind, all: Vec<ObjectSummary>) {
        self.refused.remove(&kind);
        self.set_synced(kind, true);
        let listed: HashSet<_> = all.iter().map(|object| object.id.clone()).collect();
        self.delete_where(|id| id.kind == kind && !listed.contains(id));
        for object in all {
            self.apply(object);
        }
    }

    /// Forgets a kind that may not be read any more.
    pub fn forget(&mut self, kind: Kind) {
        self.refused.remove(&kind);
        self.set_synced(kind, false);
        self.delete_where(|id| id.kind == kind);
    }

    /// Becomes the part of another graph that a reader may see. What that changes is recorded
    /// as any other change: a right that comes or goes adds or deletes nodes.
    pub fn adopt(&mut self, whole: &Self, visibility: &Visibility) {
        self.set_visibility(visibility);
        let is_gone = |id: &ObjectId| !visibility.shows(id) || !whole.objects.contains_key(id);
        self.delete_where(is_gone);
        for kind in Kind::ALL {
            self.set_synced(kind, whole.synced.contains(&kind));
        }
        self.refused.clone_from(&whole.refused);
        for (id, object) in &whole.objects {
            // An object that did not change is the same one in both.
            let is_same = |known: &Arc<ObjectSummary>| Arc::ptr_eq(known, object);
            if visibility.shows(id) && !self.objects.get(id).is_some_and(is_same) {
                self.apply_shared(Arc::clone(object));
            }
        }
    }

    /// Changes what may be seen, and records all nodes and edges that this shows or hides.
    fn set_visibility(&mut self, visibility: &Visibility) {
        if self.visibility == *visibility {
            return;
        }
        let is_other = |id: &&ObjectId| self.visibility.shows(id) != visibility.shows(id);
        let ids = self.objects.keys().chain(self.referrers.keys());
        let ids: BTreeSet<_> = ids.filter(is_other).cloned().collect();
        for id in &ids {
            self.record_before(id, &[]);
        }
        self.visibility = visibility.clone();
        for id in &ids {
            self.record_after(id);
        }
    }

    fn delete_where(&mut self, is_gone: impl Fn(&ObjectId) -> bool) {
        let ids = self.objects.keys();
        let gone: Vec<_> = ids.filter(|id| is_gone(id)).cloned().collect();
        for id in gone {
            self.delete(&id);
        }
    }

    /// Changes whether a kind is synced, and with it the nodes of all targets of that kind.
    fn set_synced(&mut self, kind: Kind, synced: bool) {
        if self.synced.contains(&kind) == synced {
            return;
        }
        let targets = self.referrers.keys().filter(|id| id.kind == kind);
        let targets: Vec<_> = targets.cloned().collect();
        for id in &targets {
            self.record_before(id, &[]);
        }
        if synced {
            self.synced.insert(kind);
        } else {
            self.synced.remove(&kind);
        }
        for id in &targets {
            self.record_after(id);
        }
    }

    /// Records the state before an object changes to one with these references.
    fn record_before(&mut self, id: &ObjectId, references: &[Reference]) {
        let Some(mut pending) = self.pending.take() else {
            return;
        };
        let known = self.objects.get(id).into_iter();
        let references = known
            .flat_map(|object| &object.references)
            .chain(references);
        for near in references.map(|reference| &reference.target).chain([id]) {
            if !pending.has_node(near) {
                pending.record_node(near, self.node(near));
            }
        }
        for edge in self.edges_at(id) {
            pending.record_edge(edge, true);
        }
        self.pending = Some(pending);
    }

    /// Records the edges that a change of an object has brought.
    fn record_after(&mut self, id: &ObjectId) {
        let Some(mut pending) = self.pending.take() else {
            return;
        };
        for edge in self.edges_at(id) {
            pending.record_edge(edge, false);
        }
        self.pending = Some(pending);
    }

    fn index(&mut self, object: &ObjectSummary) {
        let id = &object.id;
        for reference in &object.references {
            let referrers = self.referrers.entry(reference.target.clone()).or_default();
            referrers.insert(id.clone());
        }
        if matches!(id.kind, Kind::Pod | Kind::Service) {
            let namespace = Arc::clone(&id.namespace);
            let index = self.selectable.entry(namespace).or_default();
            let ids = match id.kind {
                Kind::Pod => &mut index.pods,
                _ => &mut index.services,
            };
            let new = ids.insert(id.clone());
            debug_assert!(new, "{id} is indexed once");
        }
    }

    fn unindex(&mut self, id: &ObjectId) {
        let Some(object) = self.objects.get(id) else {
            return;
        };
        for reference in &object.references {
            if let Some(referrers) = self.referrers.get_mut(&reference.target) {
                referrers.remove(id);
                if referrers.is_empty() {
                    self.referrers.remove(&reference.target);
                }
            }
        }
        if let Some(index) = self.selectable.get_mut(&id.namespace) {
            index.pods.remove(id);
            index.services.remove(id);
            if index.pods.is_empty() && index.services.is_empty() {
                self.selectable.remove(&id.namespace);
            }
        }
    }

    /// The node of an object, or of the target of a reference.
    pub fn node(&self, id: &ObjectId) -> Option<Node> {
        if !self.visibility.shows(id) {
            return None;
        }
        let state = match self.objects.get(id) {
            Some(object) => {
                let is_foreign = id.kind == Kind::Node && self.scope == GraphScope::Namespace;
                if is_foreign && !self.referrers.contains_key(id) {
                    return None;
                }
                NodeState::Present(Arc::clone(object))
            }
            None => {
                let synced = self.synced.contains(&id.kind);
                let mut references = self.references_to(id);
                // A dependent may outlive its owner: an owner that is gone is not shown.
                references
                    .find(|(_, reference)| reference.relation != Relation::Owns || !synced)?;
                match () {
                    () if synced => NodeState::NotFound,
                    () if id.kind.is_reference() => NodeState::Referenced,
                    () => NodeState::Unreadable,
                }
            }
        };
        let id = id.clone();
        Some(Node { id, state })
    }

    /// The references to an object, each with the object that has it.
    fn references_to<'a>(
        &'a self,
        id: &'a ObjectId,
    ) -> impl Iterator<Item = (&'a ObjectSummary, &'a Reference)> {
        let referrers = self.referrers.get(id).into_iter().flatten();
        let objects = referrers.filter_map(|referrer| self.objects.get(referrer));
        objects.flat_map(move |object| {
            let references = object.references.iter();
            let here = references.filter(move |reference| reference.target == *id);
            here.map(move |reference| (&**object, reference))
        })
    }

    /// The edge of a reference. A reference to an owner has one only if the UID is that
    /// of the owner.
    fn edge(&self, object: &ObjectSummary, reference: &Reference) -> Option<Edge> {
        if !self.visibility.shows(&reference.target) || !self.visibility.shows(&object.id) {
            return None;
        }
        let (this, target) = (object.id.clone(), reference.target.clone());
        let relation = reference.relation;
        if relation != Relation::Owns {
            return Some(Edge {
                from: this,
                relation,
                to: target,
            });
        }
        let owns = match self.objects.get(&target) {
            Some(owner) => reference.uid.as_deref() == Some(&owner.uid),
            None => !self.synced.contains(&target.kind),
        };
        owns.then_some(Edge {
            from: target,
            relation,
            to: this,
        })
    }

    /// Whether the graph has an edge.
    pub fn has_edge(&self, edge: &Edge) -> bool {
        let (referrer, target) = match edge.relation {
            Relation::Selects => {
                let ends = (self.objects.get(&edge.from), self.objects.get(&edge.to));
                return matches!(ends, (Some(from), Some(to)) if selects(from, to));
            }
            Relation::Owns => (&edge.to, &edge.from),
            _ => (&edge.from, &edge.to),
        };
        self.objects.get(referrer).is_some_and(|object| {
            object.references.iter().any(|reference| {
                reference.relation == edge.relation
                    && reference.target == *target
                    && self.edge(object, reference).is_some()
            })
        })
    }

    /// All edges that begin or end at an object, sorted.
    pub fn edges_at(&self, id: &ObjectId) -> BTreeSet<Edge> {
        let own = self.objects.get(id);
        let references = own.into_iter().flat_map(|object| {
            let references = object.references.iter();
            references.map(move |reference| (&**object, reference))
        });
        let mut edges: BTreeSet<_> = references
            .chain(self.references_to(id))
            .filter_map(|(object, reference)| self.edge(object, reference))
            .collect();
        let index = self.selectable.get(&id.namespace);
        if let (Some(object), Some(index)) = (own, index) {
            let others = match id.kind {
                Kind::Pod => &index.services,
                Kind::Service => &index.pods,
                _ => return edges,
            };
            let others = others.iter().filter_map(|id| self.objects.get(id));
            let ends = others.map(|other| match id.kind {
                Kind::Pod => (other, object),
                _ => (object, other),
            });
            let selected = ends.filter(|(from, to)| selects(from, to));
            edges.extend(selected.map(|(from, to)| Edge {
                from: from.id.clone(),
                relation: Relation::Selects,
                to: to.id.clone(),
            }));
        }
        edges
    }

    /// All nodes of these kinds, and the edges between them.
    pub fn snapshot(&self, kinds: &KindFilter) -> Snapshot {
        let wanted = |id: &&ObjectId| kinds.matches(id.kind);
        let targets = self.referrers.keys();
        let absent = targets.filter(|id| !self.objects.contains_key(id));
        let ids = self.objects.keys().chain(absent).filter(wanted);
        let mut nodes: Vec<_> = ids.filter_map(|id| self.node(id)).collect();
        nodes.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let mut edges = Vec::new();
        for object in self.objects.values() {
            let references = object.references.iter();
            edges.extend(references.filter_map(|reference| self.edge(object, reference)));
            if object.id.kind == Kind::Service {
                let at = self.edges_at(&object.id).into_iter();
                edges.extend(at.filter(|edge| edge.relation == Relation::Selects));
            }
        }
        edges.retain(|edge| wanted(&&edge.from) && wanted(&&edge.to));
        edges.sort_unstable();
        Snapshot { nodes, edges }
    }

    /// The names of all nodes of a kind in a namespace, sorted.
    pub fn names(&self, kind: Kind, namespace: &str) -> Vec<Arc<str>> {
        let here = |id: &&ObjectId| {
            id.kind == kind && &*id.namespace == namespace && self.visibility.shows(id)
        };
        let ids = self.objects.keys().chain(self.referrers.keys());
        let names: BTreeSet<_> = ids.filter(here).map(|id| Arc::clone(&id.name)).collect();
        names.into_iter().collect()
    }
}

/// Whether a Service selects a Pod.
fn selects(from: &ObjectSummary, to: &ObjectSummary) -> bool {
    from.id.kind == Kind::Service
        && to.id.kind == Kind::Pod
        && from.id.namespace == to.id.namespace
        && from.selector.selects(&to.labels)
}

#[cfg(test)]
mod tests;
