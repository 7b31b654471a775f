//! Joining watches over a cluster in memory, on paused time.

use demo_cluster::{DemoCluster, Fault, Grant, RequestMatcher};
use serde_json::json;
use tokio::time::advance;

use parking_lot::Mutex;

use super::*;
use kubecrier_core::{Event, filters::FilterRequest, subscriptions::WatchStatus};

#[derive(Default)]
struct Ears(Mutex<Vec<WatchStatus>>);

impl Listener for Ears {
    fn wants(&self, _event: &Event) -> bool {
        true
    }

    fn on_events(self: Arc<Self>, _events: &[&Arc<Event>]) {}

    fn on_status(&self, _watch: u64, change: &WatchStatus) {
        self.0.lock().push(change.clone());
    }
}

struct World {
    cluster: DemoCluster,
    watches: Watches,
}

impl World {
    fn new() -> Self {
        let cluster = DemoCluster::default();
        let contexts = Contexts::of_demo(&cluster);
        let watches = Watches::new(
            contexts,
            Lifecycle::default(),
            WatchMetrics::default(),
            Duration::from_mins(1),
            FlushClock::start(),
        );
        Self { cluster, watches }
    }

    async fn join(&self, request: FilterRequest) -> (Arc<Ears>, JoinedWatch) {
        let ears = Arc::new(Ears::default());
        let filters = Filters::try_from(request).unwrap();
        let context = self.watches.context(None).unwrap();
        let joining = self.watches.join(&context, &filters, ears.clone());
        let joined = joining.await.unwrap();
        (ears, joined)
    }

    async fn pass(&self, seconds: u32) {
        for _ in 0..seconds * 4 {
            advance(Duration::from_millis(250)).await;
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// What all were told before, one who comes later is told when he comes.
#[tokio::test(start_paused = true)]
async fn who_joins_a_watch_that_does_not_work_is_told() {
    let world = World::new();
    let (early, first) = world.join(FilterRequest::default()).await;
    assert_eq!(first.warnings, [""; 0]);
    let watches = RequestMatcher::any().verb("watch").resource("events");
    world.cluster.fail_next(watches, 1000, Fault::Unavailable);
    world.cluster.close_watches();
    world.pass(60).await;
    assert_eq!(world.watches.list()[0].state, WatchState::Degraded);
    let (late, second) = world.join(FilterRequest::default()).await;
    let [warning] = &second.warnings[..] else {
        panic!("{:?}", second.warnings);
    };
    assert!(warning.contains("cannot watch events"), "{warning}");
    world.cluster.clear_faults();
    world.pass(60).await;
    for ears in [early, late] {
        let heard = ears.0.lock();
        let once = matches!(
            heard[..],
            [WatchStatus::Degraded { .. }, WatchStatus::Recovered]
        );
        assert!(once, "{heard:?}");
    }
}

/// The one namespace that may be watched can be any.
#[tokio::test(start_paused = true)]
async fn rights_in_one_of_very_many_namespaces_are_found() {
    let world = World::new();
    for number in 0..700 {
        let space = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": format!("team-{number:03}")},
        });
        world.cluster.put(space).unwrap();
    }
    let grants = vec![
        Grant::reading(["namespaces"]),
        Grant::reading(["events"]).within("team-666"),
    ];
    world.cluster.grant("demo", grants);
    let (_ears, joined) = world.join(FilterRequest::default()).await;
    let [warning] = &joined.warnings[..] else {
        panic!("{:?}", joined.warnings);
    };
    assert!(warning.ends_with("made later: team-666"), "{warning}");
    let scopes: Vec<_> = world
        .watches
        .list()
        .into_iter()
        .map(|one| one.scope)
        .collect();
    assert_eq!(scopes.len(), 1);
    assert!(scopes[0].ends_with("/team-666"), "{scopes:?}");
}
