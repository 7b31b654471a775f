use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::{Delta, Labels};

/// A node, as it is shown.
type Shown = BTreeMap<Id, (String, Labels)>;

/// What is known, in the plainest way there is.
#[derive(Clone, Debug, Default)]
struct Plain {
    objects: BTreeMap<Id, Facts>,
    observed: BTreeSet<Kind>,
}

/// What a reader has who read once, and then only hears.
#[derive(Clone, Debug, Default, PartialEq)]
struct Reader {
    nodes: Shown,
    edges: BTreeSet<Edge>,
}

#[derive(Clone, Debug)]
enum Step {
    /// Something happens in the cluster, and the watch may miss it.
    Set(Facts, bool),
    Remove(Id, bool),
    /// Everything of a kind is listed anew.
    Relist(Kind),
    /// A kind may not be read any more.
    LeaveOut(Kind),
    /// Everything is forgotten and listed.
    Restart,
    /// Somebody else reads, between two words.
    Read,
    Tell,
}

// === impl Plain ===

impl Plain {
    /// Nodes and edges by looking at everything, with everything.
    fn derive(&self, reach: Reach) -> Reader {
        let mut all = Reader::default();
        let claims = || {
            let objects = self.objects.values();
            objects.flat_map(|one| one.claims.iter().map(move |claim| (one, claim)))
        };
        for (id, facts) in &self.objects {
            let named = claims().any(|(_, claim)| claim.other == *id);
            if reach == Reach::Everything || id.kind != Kind::Node || named {
                let shown = (facts.status.to_string(), facts.labels.clone());
                all.nodes.insert(id.clone(), shown);
            }
        }
        for (one, claim) in claims() {
            let (target, observed) = (&claim.other, self.observed.contains(&claim.other.kind));
            let there = self.objects.get(target);
            let owns = claim.relation == Relation::Owns;
            if there.is_none() && (!owns || !observed) {
                let status = match (observed, target.kind.is_reference()) {
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
                Some(owner) => !owns || Some(&owner.uid) == claim.uid.as_ref(),
                None => !owns || !observed,
            };
            if stands {
                let (from, to, relation) = (from.clone(), to.clone(), claim.relation);
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

    fn of(&self, kind: Kind) -> Vec<Facts> {
        let objects = self.objects.values();
        objects.filter(|one| one.id.kind == kind).cloned().collect()
    }

    fn relist(&mut self, kind: Kind, truth: &Self) {
        self.observed.insert(kind);
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

    /// Takes over what is said, news or not.
    fn take_over(&mut self, delta: Delta) {
        let nodes = delta.added.iter().chain(&delta.modified);
        self.nodes.extend(nodes.map(shown));
        self.nodes.retain(|id, _| !delta.deleted.contains(id));
        self.edges.extend(delta.edges_added);
        self.edges
            .retain(|edge| !delta.edges_deleted.contains(edge));
    }

    /// Hears, and checks that each word is news.
    fn hear(&mut self, delta: Delta) {
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

fn shown(node: &Node) -> (Id, (String, Labels)) {
    let labels = node.labels().cloned().unwrap_or_default();
    (node.id().clone(), (node.status().to_owned(), labels))
}

fn any_id(kinds: Vec<Kind>) -> impl Strategy<Value = Id> {
    (select(kinds), "[ab]", "[xyz]").prop_map(|(kind, space, name)| Id::new(kind, &space, &name))
}

fn any_labels() -> impl Strategy<Value = Labels> {
    vec(("[kl]", "[12]"), 0..3).prop_map(|pairs| pairs.into_iter().collect())
}

fn any_claim() -> impl Strategy<Value = Claim> {
    let owner = (any_id(Kind::ALL.to_vec()), "[12]");
    let owner = owner.prop_map(|(id, uid)| Claim::owned_by(id, &uid));
    let relation = select(vec![
        Relation::Routes,
        Relation::RunsOn,
        Relation::Mounts,
        Relation::Scales,
    ]);
    let other = (relation, any_id(Kind::ALL.to_vec()));
    let other = other.prop_map(|(relation, id)| Claim::new(relation, id));
    prop_oneof![owner, other]
}

fn watched() -> Vec<Kind> {
    let kinds = Kind::ALL.into_iter();
    kinds.filter(|kind| !kind.is_reference()).collect()
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let parts = (
        any_id(watched()),
        "[12]",
        "(ok|bad)",
        any_labels(),
        any_labels(),
        vec(any_claim(), 0..4),
    );
    parts.prop_map(|(id, uid, status, labels, selector, claims)| {
        let is_service = id.kind == Kind::Service;
        let mut facts = Facts::new(id).claiming(claims);
        facts.uid = uid.into();
        facts.status = status.into();
        facts.labels = labels;
        if is_service {
            facts.selector = selector;
        }
        facts
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (any_facts(), prop::bool::weighted(0.8)).prop_map(|(facts, told)| Step::Set(facts, told)),
        5 => (any_id(watched()), prop::bool::weighted(0.8)).prop_map(|(id, told)| Step::Remove(id, told)),
        2 => select(watched()).prop_map(Step::Relist),
        1 => select(watched()).prop_map(Step::LeaveOut),
        1 => Just(Step::Restart),
        2 => Just(Step::Read),
        4 => Just(Step::Tell),
    ]
}

/// One run: the graph, the truth, what the graph was told of it, and a reader.
struct World {
    reach: Reach,
    graph: Graph,
    truth: Plain,
    heard: Plain,
    reader: Reader,
    /// Those who came later.
    others: Vec<Reader>,
}

// === impl World ===

impl World {
    fn new(reach: Reach) -> Self {
        let mut world = Self {
            reach,
            graph: Graph::new(reach, 10_000),
            truth: Plain::default(),
            heard: Plain::default(),
            reader: Reader::default(),
            others: Vec::new(),
        };
        world.restart();
        world
    }

    fn restart(&mut self) {
        self.graph = Graph::new(self.reach, 10_000);
        self.heard = Plain::default();
        // In whatever order: backwards is one.
        for kind in watched().into_iter().rev() {
            self.relist(kind);
        }
        self.graph.follow();
        self.reader = Reader::of(self.graph.snapshot(&Kinds::all()));
        self.others.clear();
    }

    fn relist(&mut self, kind: Kind) {
        self.graph.relist(kind, self.truth.of(kind));
        self.heard.relist(kind, &self.truth);
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Set(facts, told) => {
                let (id, kind) = (facts.id.clone(), facts.id.kind);
                if told && self.heard.observed.contains(&kind) {
                    let changed = self.graph.set(facts.clone());
                    let before = self.heard.objects.insert(id.clone(), facts.clone());
                    assert_eq!(changed, before.as_ref() != Some(&facts));
                }
                self.truth.objects.insert(id, facts);
            }
            Step::Remove(id, told) => {
                if told {
                    let was = self.heard.objects.remove(&id).is_some();
                    assert_eq!(self.graph.remove(&id), was);
                }
                self.truth.objects.remove(&id);
            }
            Step::Relist(kind) => self.relist(kind),
            Step::LeaveOut(kind) => {
                self.graph.leave_out(kind);
                self.heard.observed.remove(&kind);
                self.heard.objects.retain(|id, _| id.kind != kind);
            }
            Step::Restart => self.restart(),
            Step::Read => {
                self.graph.show();
                let seen = self.graph.snapshot(&Kinds::all());
                self.others.push(Reader::of(seen));
            }
            Step::Tell => self.tell(),
        }
    }

    /// Whoever only hears has what a look at everything shows, and what is not news
    /// is not told.
    fn tell(&mut self) {
        let expected = self.heard.derive(self.reach);
        assert_eq!(Reader::of(self.graph.snapshot(&Kinds::all())), expected);
        let delta = self.graph.take_delta();
        let known = self.others.iter().all(|other| *other == expected);
        assert_eq!(delta.is_empty(), known && self.reader == expected);
        if known {
            self.reader.hear(delta);
        } else {
            self.reader.take_over(delta.clone());
            for mut other in self.others.drain(..) {
                other.take_over(delta.clone());
                assert_eq!(other, expected);
            }
        }
        self.others.clear();
        assert_eq!(self.reader, expected);
        assert!(!self.graph.is_touched() && self.graph.take_delta().is_empty());
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
        let reach = if everything { Reach::Everything } else { Reach::Namespace };
        let mut world = World::new(reach);
        for step in steps {
            world.run(step);
        }
        // What was missed is found by a look at everything, once.
        for kind in watched() {
            world.relist(kind);
        }
        world.tell();
        prop_assert_eq!(&world.heard.objects, &world.truth.objects);
    }
}

fn pod(name: &str) -> Facts {
    let node = Id::new(Kind::Node, "", "node-1");
    let mut pod =
        Facts::new(Id::new(Kind::Pod, "shop", name)).claiming([Claim::new(Relation::RunsOn, node)]);
    pod.labels = [("app", name)].into_iter().collect();
    pod
}

#[test]
fn a_relist_tells_of_what_is_gone_exactly_once() {
    let mut graph = Graph::new(Reach::Everything, 100);
    graph.relist(Kind::Pod, vec![pod("a"), pod("b"), pod("c")]);
    graph.follow();
    graph.relist(Kind::Pod, vec![pod("a"), pod("c")]);
    graph.relist(Kind::Pod, vec![pod("a"), pod("c")]);
    let delta = graph.take_delta();
    assert_eq!(delta.deleted, [Id::new(Kind::Pod, "shop", "b")]);
    assert_eq!((delta.len(), delta.edges_deleted.len()), (2, 1));
    graph.relist(Kind::Pod, vec![pod("a"), pod("c")]);
    assert!(graph.take_delta().is_empty());
}

#[test]
fn what_comes_back_to_what_it_was_is_no_news() {
    let mut graph = Graph::new(Reach::Everything, 100);
    graph.relist(Kind::Pod, vec![pod("a")]);
    graph.follow();
    assert!(!graph.set(pod("a")) && !graph.is_touched());
    let mut otherwise = pod("a");
    otherwise.status = "Error".into();
    assert!(graph.set(otherwise) && graph.remove(&pod("a").id) && graph.set(pod("a")));
    assert!(graph.set(pod("b")) && graph.remove(&pod("b").id));
    assert!(graph.is_touched() && graph.take_delta().is_empty());
}

#[test]
fn the_same_content_has_the_same_hash_however_it_came() {
    let hash = |pods: &[&str]| {
        let mut graph = Graph::new(Reach::Everything, 100);
        for name in pods {
            graph.set(pod(name));
        }
        graph.snapshot(&Kinds::all()).hash()
    };
    assert_eq!(hash(&["a", "b"]), hash(&["b", "a"]));
    assert_ne!(hash(&["a", "b"]), hash(&["a"]));
    assert_eq!(hash(&[]).len(), 64);
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    let mut graph = Graph::new(Reach::Everything, 2);
    graph.relist(Kind::Pod, vec![pod("a"), pod("b"), pod("c")]);
    assert_eq!((graph.len(), graph.refused()), (2, 1));
    assert!(graph.remove(&pod("a").id) && graph.set(pod("c")));
    assert_eq!((graph.len(), graph.refused()), (2, 1));
    // What was refused since may be there all the same, until everything is listed.
    assert!(!graph.knows_all(Kind::Pod));
    let node = || Facts::new(Id::new(Kind::Node, "", "node-1"));
    let status = |graph: &Graph| graph.node(&node().id).unwrap().status().to_owned();
    graph.relist(Kind::Node, vec![]);
    graph.follow();
    let missing = status(&graph);
    graph.relist(Kind::Node, vec![node()]);
    assert_ne!(status(&graph), missing);
    assert_eq!((graph.refused(), graph.take_delta().modified.len()), (2, 1));
    graph.relist(Kind::Pod, vec![pod("c")]);
    graph.relist(Kind::Node, vec![node()]);
    assert_eq!((graph.len(), graph.refused()), (2, 0));
    assert!(graph.knows_all(Kind::Pod) && graph.knows_all(Kind::Node));
}
