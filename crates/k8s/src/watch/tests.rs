//! Joining watches over a cluster in memory, on paused time.

use demo_cluster::{DemoCluster, Fault, Grant, RequestMatcher};
use serde_json::json;
use tokio::time::advance;

use parking_lot::Mutex;

use super::*;
use kubecrier_core::{Event, filters::FilterRequest, shares::ShareKey, subscriptions::WatchStatus};

#[derive(Debug, Default)]
struct RecordingListener(Mutex<Vec<WatchStatus>>);

impl Listener for RecordingListener {
    fn wants(&self, _event: &Event) -> bool {
        true
    }

    fn on_events(self: Arc<Self>, _events: &[&Arc<Event>]) {}

    fn on_status(&self, _watch: u64, change: &WatchStatus) {
        self.0.lock().push(change.clone());
    }
}

struct Fixture {
    cluster: DemoCluster,
    watches: Watches,
}

impl Fixture {
    fn new() -> Self {
        Self::with_limits(TaskLimits {
            total_max: 200,
            per_caller_max: 100,
        })
    }

    fn with_limits(limits: TaskLimits) -> Self {
        let cluster = DemoCluster::default();
        let contexts = Contexts::of_demo(&cluster);
        let watches = Watches::new(
            contexts,
            Lifecycle::default(),
            WatchMetrics::default(),
            Duration::from_mins(1),
            limits,
        );
        Self { cluster, watches }
    }

    async fn join(&self, request: FilterRequest) -> (Arc<RecordingListener>, JoinedWatch) {
        self.try_join(request).await.unwrap()
    }

    async fn try_join(
        &self,
        request: FilterRequest,
    ) -> Result<(Arc<RecordingListener>, JoinedWatch), ClusterError> {
        let listener = Arc::new(RecordingListener::default());
        let filters = Filters::try_from(request).unwrap();
        let context = self.watches.context(None).unwrap();
        let joining = self.watches.join(&context, &filters, listener.clone());
        Ok((listener, joining.await?))
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

/// The current status is replayed to a listener that joins later.
#[tokio::test(start_paused = true)]
async fn who_joins_a_watch_that_does_not_work_is_told() {
    let fixture = Fixture::new();
    let (early, first) = fixture.join(FilterRequest::default()).await;
    assert_eq!(first.warnings, [""; 0]);
    let watches = RequestMatcher::any().verb("watch").resource("events");
    fixture.cluster.fail_next(watches, 1000, Fault::Unavailable);
    fixture.cluster.close_watches();
    fixture.pass(60).await;
    assert_eq!(fixture.watches.list()[0].state, WatchState::Degraded);
    let (late, second) = fixture.join(FilterRequest::default()).await;
    let [warning] = &second.warnings[..] else {
        panic!("{:?}", second.warnings);
    };
    assert!(warning.contains("cannot watch events"), "{warning}");
    fixture.cluster.clear_faults();
    fixture.pass(60).await;
    for listener in [early, late] {
        let statuses = listener.0.lock();
        let is_one_outage = matches!(
            statuses[..],
            [WatchStatus::Degraded { .. }, WatchStatus::Recovered]
        );
        assert!(is_one_outage, "{statuses:?}");
    }
}

/// The only namespace that may be watched can be the last of the list.
#[tokio::test(start_paused = true)]
async fn rights_in_one_of_very_many_namespaces_are_found() {
    let fixture = Fixture::new();
    for number in 0..700 {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": format!("team-{number:03}")},
        });
        fixture.cluster.put(namespace).unwrap();
    }
    let grants = vec![
        Grant::reading(["namespaces"]),
        Grant::reading(["events"]).within("team-666"),
    ];
    fixture.cluster.grant("demo", grants);
    let (_listener, joined) = fixture.join(FilterRequest::default()).await;
    let [warning] = &joined.warnings[..] else {
        panic!("{:?}", joined.warnings);
    };
    assert!(warning.ends_with("made later: team-666"), "{warning}");
    let scopes: Vec<_> = fixture
        .watches
        .list()
        .into_iter()
        .map(|watch| watch.scope)
        .collect();
    assert_eq!(scopes.len(), 1);
    assert!(scopes[0].ends_with("/team-666"), "{scopes:?}");
}

fn of_namespace(name: &str) -> FilterRequest {
    FilterRequest {
        namespace: Some(name.to_owned()),
        ..FilterRequest::default()
    }
}

/// A greedy caller beside a modest one: each has its share of watches, also where one
/// subscription needs many of them.
#[tokio::test(start_paused = true)]
async fn a_caller_has_its_share_of_watches_and_others_keep_theirs() {
    let fixture = Fixture::with_limits(TaskLimits {
        total_max: 6,
        per_caller_max: 3,
    });
    let (greedy, modest) = (
        ShareKey::Caller("greedy".into()),
        ShareKey::Caller("modest".into()),
    );
    let claim = |caller: &ShareKey, request: FilterRequest| {
        let filters = Filters::try_from(request).unwrap();
        fixture.watches.claim(caller, "demo", &filters)
    };
    let mut held = Vec::new();
    for number in 0..10 {
        let request = of_namespace(&format!("made-up-{number}"));
        match claim(&greedy, request.clone()) {
            Ok(claim) => held.push((claim, fixture.join(request).await)),
            Err(reached) => assert!(reached.to_string().contains("--max-watches"), "{reached}"),
        }
    }
    assert_eq!(held.len(), 3);
    for number in 0..3 {
        let request = of_namespace(&format!("modest-{number}"));
        let claim = claim(&modest, request.clone()).unwrap();
        held.push((claim, fixture.join(request).await));
    }
    assert_eq!(fixture.watches.list().len(), 6);
    // The server is full; what is there already can still be shared.
    let third = ShareKey::Caller("third".into());
    let _claim = claim(&third, of_namespace("more")).unwrap();
    let refused = fixture.try_join(of_namespace("more")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Throttled);
    assert!(refused.to_string().contains("--max-watches"), "{refused}");
    let _shared = fixture.join(of_namespace("modest-0")).await;
}

/// A watch of the whole cluster that becomes one per namespace counts as all of them.
#[tokio::test(start_paused = true)]
async fn a_watch_that_becomes_many_counts_as_many() {
    let fixture = Fixture::with_limits(TaskLimits {
        total_max: 100,
        per_caller_max: 3,
    });
    let mut grants = vec![Grant::reading(["namespaces"])];
    for number in 0..4 {
        let name = format!("team-{number}");
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        fixture.cluster.put(namespace).unwrap();
        grants.push(Grant::reading(["events"]).within(&name));
    }
    fixture.cluster.grant("demo", grants);
    let caller = ShareKey::Caller("greedy".into());
    let context = fixture.watches.context(None).unwrap();
    let filters = Filters::try_from(FilterRequest::default()).unwrap();
    let _claim = fixture.watches.claim(&caller, &context, &filters).unwrap();
    let refused = fixture
        .try_join(FilterRequest::default())
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("has 4 watches, and may have 3"),
        "{refused}"
    );
    assert!(fixture.watches.list().is_empty());
}

/// Nothing is asked of the cluster, which may be away.
#[tokio::test(start_paused = true)]
async fn who_joins_beside_another_gets_what_comes_above_a_version() {
    let fixture = Fixture::new();
    let (_first, whole) = fixture.join(FilterRequest::default()).await;
    fixture.cluster.refuse();
    let listener = Arc::new(RecordingListener::default());
    let filters = Filters::try_from(of_namespace("shop")).unwrap();
    let joining = (fixture.watches).join_beside(&whole.lease, &filters, listener, 7);
    let joined = joining.await.unwrap().unwrap();
    assert_eq!((joined.version, joined.context.as_str()), (Some(7), "demo"));
    assert_eq!(fixture.watches.list()[0].subscriptions, 2);
    drop(joined);
    assert_eq!(fixture.watches.list()[0].subscriptions, 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_joins_beside_one_who_does_not_watch_everything() {
    let fixture = Fixture::new();
    let (_first, narrow) = fixture.join(of_namespace("shop")).await;
    let filters = Filters::try_from(of_namespace("shop")).unwrap();
    let listener = Arc::new(RecordingListener::default());
    let joining = fixture
        .watches
        .join_beside(&narrow.lease, &filters, listener, 7);
    assert!(joining.await.unwrap().is_none());
    assert_eq!(fixture.watches.list()[0].subscriptions, 1);
}
