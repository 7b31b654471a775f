//! The graph itself: facts and a few indexes; nodes and edges are derived.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::{
    delta::Delta,
    facts::{Claim, Facts, Id},
    kind::{Kind, Kinds},
    node::{Edge, Node, Relation, Seen, Snapshot},
    touched::Touched,
};

/// How far a graph reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The whole cluster.
    Everything,
    /// One namespace, and of what lives in none only what it names.
    Namespace,
}

/// The objects of a cluster or a namespace.
#[derive(Debug)]
pub struct Graph {
    reach: Reach,
    objects_max: usize,
    /// By kind: objects for which there was no room since it was listed.
    refused: BTreeMap<Kind, usize>,
    objects: HashMap<Id, Arc<Facts>>,
    /// By what is named: who names it.
    claimants: HashMap<Id, BTreeSet<Id>>,
    spaces: HashMap<Arc<str>, Space>,
    /// Kinds of which everything is known.
    observed: BTreeSet<Kind>,
    /// Since somebody is told.
    touched: Option<Touched>,
}

/// What meets in a namespace by labels.
#[derive(Clone, Debug, Default)]
struct Space {
    pods: HashSet<Id>,
    services: HashSet<Id>,
}

// === impl Graph ===

impl Graph {
    /// Nothing is known yet. There is room for so many objects.
    pub fn new(reach: Reach, objects_max: usize) -> Self {
        Self {
            reach,
            objects_max,
            refused: BTreeMap::new(),
            objects: HashMap::new(),
            claimants: HashMap::new(),
            spaces: HashMap::new(),
            observed: BTreeSet::new(),
            touched: None,
        }
    }

    /// The same as it is now, to be looked at while this one goes on.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self {
            reach: self.reach,
            objects_max: self.objects_max,
            refused: self.refused.clone(),
            objects: self.objects.clone(),
            claimants: self.claimants.clone(),
            spaces: self.spaces.clone(),
            observed: self.observed.clone(),
            touched: None,
        }
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// How often an object found no room.
    pub fn refused(&self) -> usize {
        self.refused.values().sum()
    }

    /// Whether everything of a kind is known, so that what is not here is nowhere.
    pub fn knows_all(&self, kind: Kind) -> bool {
        self.observed.contains(&kind)
    }

    /// From here on, what changes is remembered until it is told.
    pub fn follow(&mut self) {
        self.touched.get_or_insert_default();
    }

    /// What is otherwise since this was last asked.
    pub fn take_delta(&mut self) -> Delta {
        let touched = self.touched.as_mut().map(std::mem::take);
        touched.map_or_else(Delta::default, |touched| touched.against(self))
    }

    /// Somebody is about to read it: what they see and others were not told yet is told
    /// even if it is over by then.
    pub fn show(&mut self) {
        if let Some(mut touched) = self.touched.take() {
            touched.show(self);
            self.touched = Some(touched);
        }
    }

    /// Whether anything was touched since then.
    pub fn is_touched(&self) -> bool {
        self.touched
            .as_ref()
            .is_some_and(|touched| !touched.is_empty())
    }

    /// An object is as it says now. False if it said the same before, or if there is
    /// no room for it.
    pub fn set(&mut self, facts: Facts) -> bool {
        let id = facts.id.clone();
        match self.objects.get(&id) {
            Some(known) if **known == facts => return false,
            None if self.objects.len() >= self.objects_max => {
                *self.refused.entry(id.kind).or_default() += 1;
                self.change_observed(id.kind, false);
                return false;
            }
            _ => {}
        }
        self.before(&id, &facts.claims);
        self.unlink(&id);
        self.link(&facts);
        self.objects.insert(id.clone(), Arc::new(facts));
        self.after(&id);
        true
    }

    /// An object is gone. False if it was not there.
    pub fn remove(&mut self, id: &Id) -> bool {
        if !self.objects.contains_key(id) {
            return false;
        }
        self.before(id, &[]);
        self.unlink(id);
        self.objects.remove(id);
        self.after(id);
        true
    }

    /// These are all objects of a kind: what is not among them is gone.
    pub fn relist(&mut self, kind: Kind, all: Vec<Facts>) {
        self.refused.remove(&kind);
        self.change_observed(kind, true);
        let listed: HashSet<_> = all.iter().map(|facts| facts.id.clone()).collect();
        self.remove_where(|id| id.kind == kind && !listed.contains(id));
        for facts in all {
            self.set(facts);
        }
    }

    /// Nothing is known of a kind any more: it may not be read.
    pub fn leave_out(&mut self, kind: Kind) {
        self.refused.remove(&kind);
        self.change_observed(kind, false);
        self.remove_where(|id| id.kind == kind);
    }

    fn remove_where(&mut self, gone: impl Fn(&Id) -> bool) {
        let gone: Vec<_> = self.objects.keys().filter(|id| gone(id)).cloned().collect();
        for id in gone {
            self.remove(&id);
        }
    }

    /// What names something of the kind shows it otherwise from now on.
    fn change_observed(&mut self, kind: Kind, observed: bool) {
        if self.observed.contains(&kind) == observed {
            return;
        }
        let named = self.claimants.keys().filter(|id| id.kind == kind);
        let named: Vec<_> = named.cloned().collect();
        for id in &named {
            self.before(id, &[]);
        }
        if observed {
            self.observed.insert(kind);
        } else {
            self.observed.remove(&kind);
        }
        for id in &named {
            self.after(id);
        }
    }

    /// An object is about to change, and will name these.
    fn before(&mut self, id: &Id, claims: &[Claim]) {
        let Some(mut touched) = self.touched.take() else {
            return;
        };
        let known = self.objects.get(id);
        let named = known
            .into_iter()
            .flat_map(|facts| &facts.claims)
            .chain(claims);
        for near in named.map(|claim| &claim.other).chain([id]) {
            if !touched.knows(near) {
                touched.node(near, self.node(near));
            }
        }
        for edge in self.edges_at(id) {
            touched.edge(edge, true);
        }
        self.touched = Some(touched);
    }

    /// It has changed.
    fn after(&mut self, id: &Id) {
        let Some(mut touched) = self.touched.take() else {
            return;
        };
        for edge in self.edges_at(id) {
            touched.edge(edge, false);
        }
        self.touched = Some(touched);
    }

    fn link(&mut self, facts: &Facts) {
        let id = &facts.id;
        for claim in &facts.claims {
            let claimants = self.claimants.entry(claim.other.clone()).or_default();
            claimants.insert(id.clone());
        }
        let space = || Arc::clone(&id.namespace);
        let new = match id.kind {
            Kind::Pod => self
                .spaces
                .entry(space())
                .or_default()
                .pods
                .insert(id.clone()),
            Kind::Service => self
                .spaces
                .entry(space())
                .or_default()
                .services
                .insert(id.clone()),
            _ => true,
        };
        debug_assert!(new, "{id} is in its place once");
    }

    fn unlink(&mut self, id: &Id) {
        let Some(facts) = self.objects.get(id) else {
            return;
        };
        for claim in &facts.claims {
            if let Some(claimants) = self.claimants.get_mut(&claim.other) {
                claimants.remove(id);
                if claimants.is_empty() {
                    self.claimants.remove(&claim.other);
                }
            }
        }
        if let Some(space) = self.spaces.get_mut(&id.namespace) {
            space.pods.remove(id);
            space.services.remove(id);
            if space.pods.is_empty() && space.services.is_empty() {
                self.spaces.remove(&id.namespace);
            }
        }
    }

    /// A node, if there is one.
    pub fn node(&self, id: &Id) -> Option<Node> {
        let claimants = self.claimants.get(id);
        let seen = match self.objects.get(id) {
            Some(facts) => {
                let apart = id.kind == Kind::Node && self.reach == Reach::Namespace;
                if apart && claimants.is_none() {
                    return None;
                }
                Seen::Object(Arc::clone(facts))
            }
            None => {
                let observed = self.observed.contains(&id.kind);
                let mut claims = self.claims_on(id);
                // An owner that is gone is no news of what it leaves behind.
                claims.find(|(_, claim)| claim.relation != Relation::Owns || !observed)?;
                match () {
                    () if observed => Seen::Missing,
                    () if id.kind.is_reference() => Seen::Named,
                    () => Seen::Unread,
                }
            }
        };
        let id = id.clone();
        Some(Node { id, seen })
    }

    /// Who names an object, and how.
    fn claims_on<'a>(&'a self, id: &'a Id) -> impl Iterator<Item = (&'a Facts, &'a Claim)> {
        let claimants = self.claimants.get(id).into_iter().flatten();
        let objects = claimants.filter_map(|claimant| self.objects.get(claimant));
        objects.flat_map(move |facts| {
            let claims = facts.claims.iter().filter(move |claim| claim.other == *id);
            claims.map(move |claim| (&**facts, claim))
        })
    }

    /// The edge that a claim makes, if it makes one.
    fn edge(&self, facts: &Facts, claim: &Claim) -> Option<Edge> {
        let (this, other) = (facts.id.clone(), claim.other.clone());
        let relation = claim.relation;
        if relation != Relation::Owns {
            return Some(Edge {
                from: this,
                relation,
                to: other,
            });
        }
        let owns = match self.objects.get(&other) {
            Some(owner) => claim.uid.as_deref() == Some(&owner.uid),
            None => !self.observed.contains(&other.kind),
        };
        owns.then_some(Edge {
            from: other,
            relation,
            to: this,
        })
    }

    /// Whether there is that edge.
    pub fn has_edge(&self, edge: &Edge) -> bool {
        let (claimant, other) = match edge.relation {
            Relation::Selects => {
                let ends = (self.objects.get(&edge.from), self.objects.get(&edge.to));
                return matches!(ends, (Some(from), Some(to)) if selects(from, to));
            }
            Relation::Owns => (&edge.to, &edge.from),
            _ => (&edge.from, &edge.to),
        };
        self.objects.get(claimant).is_some_and(|facts| {
            let mut claims = facts.claims.iter();
            claims.any(|claim| {
                claim.relation == edge.relation
                    && claim.other == *other
                    && self.edge(facts, claim).is_some()
            })
        })
    }

    /// All edges that begin or end at an object, in order.
    pub fn edges_at(&self, id: &Id) -> BTreeSet<Edge> {
        let own = self.objects.get(id);
        let claims = own.into_iter().flat_map(|facts| {
            let claims = facts.claims.iter();
            claims.map(move |claim| (&**facts, claim))
        });
        let named = claims.chain(self.claims_on(id));
        let mut edges: BTreeSet<_> = named
            .filter_map(|(facts, claim)| self.edge(facts, claim))
            .collect();
        let space = self.spaces.get(&id.namespace);
        if let (Some(facts), Some(space)) = (own, space) {
            let met = match id.kind {
                Kind::Pod => &space.services,
                Kind::Service => &space.pods,
                _ => return edges,
            };
            let met = met.iter().filter_map(|id| self.objects.get(id));
            let ends = met.map(|other| match id.kind {
                Kind::Pod => (other, facts),
                _ => (facts, other),
            });
            let ties = ends.filter(|(from, to)| selects(from, to));
            edges.extend(ties.map(|(from, to)| Edge {
                from: from.id.clone(),
                relation: Relation::Selects,
                to: to.id.clone(),
            }));
        }
        edges
    }

    /// Everything of these kinds, and what ties it together.
    pub fn snapshot(&self, kinds: &Kinds) -> Snapshot {
        let wanted = |id: &&Id| kinds.has(id.kind);
        let absent = self
            .claimants
            .keys()
            .filter(|id| !self.objects.contains_key(id));
        let ids = self.objects.keys().chain(absent).filter(wanted);
        let mut nodes: Vec<_> = ids.filter_map(|id| self.node(id)).collect();
        nodes.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let mut edges = Vec::new();
        for facts in self.objects.values() {
            let claims = facts.claims.iter();
            edges.extend(claims.filter_map(|claim| self.edge(facts, claim)));
            if facts.id.kind == Kind::Service {
                let at = self.edges_at(&facts.id).into_iter();
                edges.extend(at.filter(|edge| edge.relation == Relation::Selects));
            }
        }
        edges.retain(|edge| wanted(&&edge.from) && wanted(&&edge.to));
        edges.sort_unstable();
        Snapshot { nodes, edges }
    }

    /// The names of all nodes of a kind in a namespace.
    pub fn names(&self, kind: Kind, namespace: &str) -> Vec<Arc<str>> {
        let here = |id: &&Id| id.kind == kind && &*id.namespace == namespace;
        let ids = self.objects.keys().chain(self.claimants.keys());
        let names: BTreeSet<_> = ids.filter(here).map(|id| Arc::clone(&id.name)).collect();
        names.into_iter().collect()
    }
}

/// Whether a service sends to a pod.
fn selects(from: &Facts, to: &Facts) -> bool {
    from.id.kind == Kind::Service
        && to.id.kind == Kind::Pod
        && from.id.namespace == to.id.namespace
        && from.selector.selects(&to.labels)
}

#[cfg(test)]
mod tests;
