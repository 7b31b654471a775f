//! The part of a graph that a reader may see, while objects and rights change.

use super::*;
use crate::{KindExtent, Visibility};

fn any_visibility() -> impl Strategy<Value = Visibility> {
    let extent = prop_oneof![
        Just(None),
        Just(Some(KindExtent::Everywhere)),
        prop::collection::btree_set("[ab]", 0..2).prop_map(|spaces| {
            let spaces = spaces.iter().map(|space| space.as_str().into());
            Some(KindExtent::In(spaces.collect()))
        }),
    ];
    vec(extent, Kind::ALL.len()).prop_map(|extents| {
        let kinds = Kind::ALL.into_iter().zip(extents);
        Visibility::of(kinds.filter_map(|(kind, extent)| Some((kind, extent?))))
    })
}

/// What a reader would have if nothing else were in the cluster than what it may see.
fn visible(world: &World, visibility: &Visibility) -> Reader {
    let mut model = world.reported.clone();
    model.objects.retain(|id, _| visibility.shows(id));
    let mut all = model.derive(world.scope);
    all.nodes.retain(|id, _| visibility.shows(id));
    all.edges
        .retain(|edge| visibility.shows(&edge.from) && visibility.shows(&edge.to));
    all
}

proptest! {
    /// A graph that adopts the visible part of another is made of that part alone, and its
    /// deltas lead from one such graph to the next, whichever rights come and go.
    #[test]
    fn what_is_adopted_is_derived_from_what_may_be_seen(
        steps in vec((any_step(), prop::option::weighted(0.2, any_visibility())), 0..60),
        everything in any::<bool>(),
    ) {
        let scope = if everything { GraphScope::Cluster } else { GraphScope::Namespace };
        let mut world = World::new(scope);
        let mut visibility = Visibility::of([]);
        let mut own = Graph::new(scope, 10_000);
        own.adopt(&world.graph, &visibility);
        own.track_changes();
        let mut reader = Reader::of(own.snapshot(&KindFilter::all()));
        prop_assert_eq!(&reader, &Reader::default());
        for (step, other) in steps {
            if !matches!(step, Step::Publish | Step::Read) {
                world.run(step);
            }
            visibility = other.unwrap_or(visibility);
            own.adopt(&world.graph, &visibility);
            let expected = visible(&world, &visibility);
            prop_assert_eq!(&Reader::of(own.snapshot(&KindFilter::all())), &expected);
            reader.apply_news(own.take_delta());
            prop_assert_eq!(&reader, &expected);
            for id in world.reported.objects.keys() {
                if let Some(near) = own.neighbourhood(id, 5, 100) {
                    let data = near.data();
                    let nodes = data["nodes"].as_array().unwrap();
                    let all_seen = nodes.iter().all(|node| {
                        let id = node["id"].as_str().unwrap();
                        expected.nodes.keys().any(|known| known.to_string() == id)
                    });
                    prop_assert!(all_seen);
                }
            }
        }
    }
}

/// A secret that nobody has made is known from a pod that names it, and from nothing else.
#[test]
fn a_name_is_not_seen_that_only_a_hidden_object_tells() {
    let mut whole = Graph::new(GraphScope::Namespace, 100);
    let secret = ObjectId::new(Kind::Secret, "shop", "key");
    let naming = |name: &str| {
        let one = ObjectSummary::new(ObjectId::new(Kind::Pod, "shop", name));
        one.with_references([Reference::new(Relation::Mounts, secret.clone())])
    };
    whole.apply(naming("a"));
    let kinds = |kinds: &[Kind]| {
        let kinds = kinds.iter().map(|kind| (*kind, KindExtent::Everywhere));
        Visibility::of(kinds)
    };
    let mut own = Graph::new(GraphScope::Namespace, 100);
    own.adopt(&whole, &kinds(&[Kind::Secret]));
    assert!(own.node(&secret).is_none() && own.names(Kind::Secret, "shop").is_empty());
    own.adopt(&whole, &kinds(&[Kind::Pod]));
    assert!(own.node(&secret).is_none() && own.names(Kind::Secret, "shop").is_empty());
    own.adopt(&whole, &kinds(&[Kind::Pod, Kind::Secret]));
    assert!(own.node(&secret).is_some());
    assert_eq!(own.names(Kind::Secret, "shop").len(), 1);
}
