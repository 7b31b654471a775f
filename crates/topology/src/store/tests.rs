mod adopt;

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::{Delta, Labels};

/// Nodes as clients see them.
type Shown = BTreeMap<ObjectId, (String, Labels)>;

/// The model that the graph is compared with: no index, nothing incremental.
#[derive(Clone, Debug, Default)]
struct Model {
    objects: BTreeMap<ObjectId, ObjectSummary>,
    synced: BTreeSet<Kind>,
}

/// What a client has that read the graph once and then only applies deltas.
#[derive(Clone, Debug, Default, PartialEq)]
struct Reader {
    nodes: Shown,
    edges: BTreeSet<Edge>,
}

#[derive(Clone, Debug)]
enum Step {
    /// An object changes in the cluster; false if the watch misses it.
    Apply(ObjectSummary, bool),
    Delete(ObjectId, bool),
    /// A kind is relisted.
    Relist(Kind),
    /// A kind may not be read any more.
    Forget(Kind),
    /// The graph is made anew and everything is listed.
    Restart,
    /// Another client reads between two deltas.
    Read,
    Publish,
}

// === impl Model ===

impl Model {
    /// Derives nodes and edges by comparing every object with every other.
    fn derive(&self, scope: GraphScope) -> Reader {
        let mut all = Reader::default();
        let references = || {
            let objects = self.objects.values();
            objects.flat_map(|one| one.references.iter().map(move |reference| (one, reference)))
        };
        for (id, object) in &self.objects {
            let named = references().any(|(_, reference)| reference.target == *id);
            if scope == GraphScope::Cluster || id.kind != Kind::Node || named {
                let shown = (object.status.to_string(), object.labels.clone());
                all.nodes.insert(id.clone(), shown);
            }
        }
        for (one, reference) in references() {
            let (target, synced) = (
                &reference.target,
                self.synced.contains(&reference.target.kind),
            );
            let there = self.objects.get(target);
            let owns = reference.relation == Relation::Owns;
            if there.is_none() && (!owns || !synced) {
                let status = match (synced, target.kind.is_reference()) {
                    (true, _) => "not found",
                    (false, true) => "",
                    (false, false) => "not read",
                };
                let shown = (status.to_owned(), Labels::default());
                all.nodes.insert(target.clone(), shown);
            }
            let (from, to) = if owns {
                (target, &one.id)
            } else {
                (&one.id, target)
            };
            let stands = match there {
                Some(owner) => !owns || Some(&owner.uid) == reference.uid.as_ref(),
                None => !owns || !synced,
            };
            if stands {
                let (from, to, relation) = (from.clone(), to.clone(), reference.relation);
                all.edges.insert(Edge { from, relation, to });
            }
        }
        for service in self.objects.values() {
            for pod in self.objects.values() {
                let kinds = (service.id.kind, pod.id.kind) == (Kind::Service, Kind::Pod);
                let here = service.id.namespace == pod.id.namespace;
                let mut wanted = service.selector.iter();
                let fits = wanted.all(|(key, value)| pod.labels.get(key) == Some(value));
                if kinds && here && fits && !service.selector.is_empty() {
                    all.edges.insert(Edge {
                        from: service.id.clone(),
                        relation: Relation::Selects,
                        to: pod.id.clone(),
                    });
                }
            }
        }
        all
    }

    fn of(&self, kind: Kind) -> Vec<ObjectSummary> {
        let objects = self.objects.values();
        objects.filter(|one| one.id.kind == kind).cloned().collect()
    }

    fn relist(&mut self, kind: Kind, truth: &Self) {
        self.synced.insert(kind);
        self.objects.retain(|id, _| id.kind != kind);
        let listed = truth.of(kind).into_iter();
        self.objects.extend(listed.map(|one| (one.id.clone(), one)));
    }
}

// === impl Reader ===

impl Reader {
    fn of(snapshot: Snapshot) -> Self {
        let nodes = snapshot.nodes.iter().map(shown).collect();
        let edges = snapshot.edges.into_iter().collect();
        Self { nodes, edges }
    }

    /// Applies a delta that may repeat what is known.
    fn apply_delta(&mut self, delta: Delta) {
        let nodes = delta.added.iter().chain(&delta.modified);
        self.nodes.extend(nodes.map(shown));
        self.nodes.retain(|id, _| !delta.deleted.contains(id));
        self.edges.extend(delta.edges_added);
        self.edges
            .retain(|edge| !delta.edges_deleted.contains(edge));
    }

    /// Applies a delta and checks that each entry is a change.
    fn apply_news(&mut self, delta: Delta) {
        for node in &delta.added {
            let (id, shown) = shown(node);
            assert!(
                self.nodes.insert(id.clone(), shown).is_none(),
                "{id} added twice"
            );
        }
        for node in &delta.modified {
            let (id, shown) = shown(node);
            let before = self.nodes.insert(id.clone(), shown.clone());
            assert!(
                before.is_some_and(|before| before != shown),
                "{id} not modified"
            );
        }
        for id in &delta.deleted {
            assert!(self.nodes.remove(id).is_some(), "{id} deleted twice");
        }
        for edge in delta.edges_added {
            assert!(self.edges.insert(edge), "an edge added twice");
        }
        for edge in delta.edges_deleted {
            assert!(self.edges.remove(&edge), "an edge deleted twice");
        }
    }
}

fn shown(node: &Node) -> (ObjectId, (String, Labels)) {
    let labels = node.labels().cloned().unwrap_or_default();
    (node.id().clone(), (node.status().to_owned(), labels))
}

fn any_id(kinds: Vec<Kind>) -> impl Strategy<Value = ObjectId> {
    (select(kinds), "[ab]", "[xyz]")
        .prop_map(|(kind, space, name)| ObjectId::new(kind, &space, &name))
}

fn any_labels() -> impl Strategy<Value = Labels> {
    vec(("[kl]", "[12]"), 0..3).prop_map(|pairs| pairs.into_iter().collect())
}

fn any_reference() -> impl Strategy<Value = Reference> {
    let owner = (any_id(Kind::ALL.to_vec()), "[12]");
    let owner = owner.prop_map(|(id, uid)| Reference::owned_by(id, &uid));
    let relation = select(vec![
        Relation::Routes,
        Relation::RunsOn,
        Relation::Mounts,
        Relation::Scales,
    ]);
    let other = (relation, any_id(Kind::ALL.to_vec()));
    let other = other.prop_map(|(relation, id)| Reference::new(relation, id));
    prop_oneof![owner, other]
}

fn watched() -> Vec<Kind> {
    let kinds = Kind::ALL.into_iter();
    kinds.filter(|kind| !kind.is_reference()).collect()
}

fn any_object() -> impl Strategy<Value = ObjectSummary> {
    let parts = (
        any_id(watched()),
        "[12]",
        "(ok|bad)",
        any_labels(),
        any_labels(),
        vec(any_reference(), 0..4),
    );
    parts.prop_map(|(id, uid, status, labels, selector, references)| {
        let is_service = id.kind == Kind::Service;
        let mut object = ObjectSummary::new(id).with_references(references);
        object.uid = uid.into();
        object.status = status.into();
        object.labels = labels;
        if is_service {
            object.selector = selector;
        }
        object
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (any_object(), prop::bool::weighted(0.8)).prop_map(|(object, reported)| Step::Apply(object, reported)),
        5 => (any_id(watched()), prop::bool::weighted(0.8)).prop_map(|(id, reported)| Step::Delete(id, reported)),
        2 => select(watched()).prop_map(Step::Relist),
        1 => select(watched()).prop_map(Step::Forget),
        1 => Just(Step::Restart),
        2 => Just(Step::Read),
        4 => Just(Step::Publish),
    ]
}

/// One run: the graph, the cluster, what the watches reported of it, and a client.
struct World {
    scope: GraphScope,
    graph: Graph,
    truth: Model,
    reported: Model,
    reader: Reader,
    /// Clients that read later.
    others: Vec<Reader>,
}

// === impl World ===

impl World {
    fn new(scope: GraphScope) -> Self {
        let mut world = Self {
            scope,
            graph: Graph::new(scope, 10_000),
            truth: Model::default(),
            reported: Model::default(),
            reader: Reader::default(),
            others: Vec::new(),
        };
        world.restart();
        world
    }

    fn restart(&mut self) {
        self.graph = Graph::new(self.scope, 10_000);
        self.reported = Model::default();
        // The order must not matter: backwards is one.
        for kind in watched().into_iter().rev() {
            self.relist(kind);
        }
        self.graph.track_changes();
        self.reader = Reader::of(self.graph.snapshot(&KindFilter::all()));
        self.others.clear();
    }

    fn relist(&mut self, kind: Kind) {
        self.graph.relist(kind, self.truth.of(kind));
        self.reported.relist(kind, &self.truth);
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Apply(object, reported) => {
                let (id, kind) = (object.id.clone(), object.id.kind);
                if reported && self.reported.synced.contains(&kind) {
                    let changed = self.graph.apply(object.clone());
                    let before = self.reported.objects.insert(id.clone(), object.clone());
                    assert_eq!(changed, before.as_ref() != Some(&object));
                }
                self.truth.objects.insert(id, object);
            }
            Step::Delete(id, reported) => {
                if reported {
                    let was = self.reported.objects.remove(&id).is_some();
                    assert_eq!(self.graph.delete(&id), was);
                }
                self.truth.objects.remove(&id);
            }
            Step::Relist(kind) => self.relist(kind),
            Step::Forget(kind) => {
                self.graph.forget(kind);
                self.reported.synced.remove(&kind);
                self.reported.objects.retain(|id, _| id.kind != kind);
            }
            Step::Restart => self.restart(),
            Step::Read => {
                self.graph.mark_read();
                let seen = self.graph.snapshot(&KindFilter::all());
                self.others.push(Reader::of(seen));
            }
            Step::Publish => self.publish(),
        }
    }

    /// A client that applies deltas has what a full read shows, and no delta repeats what
    /// is known.
    fn publish(&mut self) {
        let expected = self.reported.derive(self.scope);
        assert_eq!(
            Reader::of(self.graph.snapshot(&KindFilter::all())),
            expected
        );
        let delta = self.graph.take_delta();
        let known = self.others.iter().all(|other| *other == expected);
        assert_eq!(delta.is_empty(), known && self.reader == expected);
        if known {
            self.reader.apply_news(delta);
        } else {
            self.reader.apply_delta(delta.clone());
            for mut other in self.others.drain(..) {
                other.apply_delta(delta.clone());
                assert_eq!(other, expected);
            }
        }
        self.others.clear();
        assert_eq!(self.reader, expected);
        assert!(!self.graph.has_changes() && self.graph.take_delta().is_empty());
        for id in expected.nodes.keys() {
            let at = self.graph.edges_at(id);
            let here = |edge: &&Edge| edge.from == *id || edge.to == *id;
            assert!(at.iter().eq(expected.edges.iter().filter(here)), "{id}");
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_the_graph_is_what_a_full_list_makes(
        steps in vec(any_step(), 0..60),
        everything in any::<bool>(),
    ) {
        let scope = if everything { GraphScope::Cluster } else { GraphScope::Namespace };
        let mut world = World::new(scope);
        for step in steps {
            world.run(step);
        }
        // A relist of each kind finds what the watches missed.
        for kind in watched() {
            world.relist(kind);
        }
        world.publish();
        prop_assert_eq!(&world.reported.objects, &world.truth.objects);
    }
}

fn pod(name: &str) -> ObjectSummary {
    let node = ObjectId::new(Kind::Node, "", "node-1");
    let mut pod = ObjectSummary::new(ObjectId::new(Kind::Pod, "shop", name))
        .with_references([Reference::new(Relation::RunsOn, node)]);
    pod.labels = [("app", name)].into_iter().collect();
    pod
}

#[test]
fn a_relist_reports_a_deletion_exactly_once() {
    let mut graph = Graph::new(GraphScope::Cluster, 100);
    graph.relist(Kind::Pod, vec![pod("a"), pod("b"), pod("c")]);
    graph.track_changes();
    graph.relist(Kind::Pod, vec![pod("a"), pod("c")]);
    graph.relist(Kind::Pod, vec![pod("a"), pod("c")]);
    let delta = graph.take_delta();
    assert_eq!(delta.deleted, [ObjectId::new(Kind::Pod, "shop", "b")]);
    assert_eq!((delta.len(), delta.edges_deleted.len()), (2, 1));
    graph.relist(Kind::Pod, vec![pod("a"), pod("c")]);
    assert!(graph.take_delta().is_empty());
}

#[test]
fn a_reverted_change_is_not_in_the_delta() {
    let mut graph = Graph::new(GraphScope::Cluster, 100);
    graph.relist(Kind::Pod, vec![pod("a")]);
    graph.track_changes();
    assert!(!graph.apply(pod("a")) && !graph.has_changes());
    let mut changed = pod("a");
    changed.status = "Error".into();
    assert!(graph.apply(changed) && graph.delete(&pod("a").id) && graph.apply(pod("a")));
    assert!(graph.apply(pod("b")) && graph.delete(&pod("b").id));
    assert!(graph.has_changes() && graph.take_delta().is_empty());
}

#[test]
fn the_hash_does_not_depend_on_the_order_of_arrival() {
    let hash = |pods: &[&str]| {
        let mut graph = Graph::new(GraphScope::Cluster, 100);
        for name in pods {
            graph.apply(pod(name));
        }
        graph.snapshot(&KindFilter::all()).hash()
    };
    assert_eq!(hash(&["a", "b"]), hash(&["b", "a"]));
    assert_ne!(hash(&["a", "b"]), hash(&["a"]));
    assert_eq!(hash(&[]).len(), 64);
}

#[test]
fn objects_over_the_limit_are_refused_until_a_relist() {
    let mut graph = Graph::new(GraphScope::Cluster, 2);
    graph.relist(Kind::Pod, vec![pod("a"), pod("b"), pod("c")]);
    assert_eq!((graph.len(), graph.refused()), (2, 1));
    assert!(graph.delete(&pod("a").id) && graph.apply(pod("c")));
    assert_eq!((graph.len(), graph.refused()), (2, 1));
    // A refused object may exist all the same, until its kind is relisted.
    assert!(!graph.has_synced(Kind::Pod));
    let node = || ObjectSummary::new(ObjectId::new(Kind::Node, "", "node-1"));
    let status = |graph: &Graph| graph.node(&node().id).unwrap().status().to_owned();
    graph.relist(Kind::Node, vec![]);
    graph.track_changes();
    let missing = status(&graph);
    graph.relist(Kind::Node, vec![node()]);
    assert_ne!(status(&graph), missing);
    assert_eq!((graph.refused(), graph.take_delta().modified.len()), (2, 1));
    graph.relist(Kind::Pod, vec![pod("c")]);
    graph.relist(Kind::Node, vec![node()]);
    assert_eq!((graph.len(), graph.refused()), (2, 0));
    assert!(graph.has_synced(Kind::Pod) && graph.has_synced(Kind::Node));
}
