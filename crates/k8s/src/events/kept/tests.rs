//! Kept lists over a cluster in memory, on paused time.

use demo_cluster::{DemoCluster, Fault, RequestMatcher};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::{client, impersonation::Actor, name::Name};
use kubecrier_core::metrics::Metrics;

const RENEWAL: Duration = Duration::from_mins(1);

struct Fixture {
    cluster: DemoCluster,
    contexts: Arc<Contexts>,
    lists: EventLists,
}

// === impl Fixture ===

impl Fixture {
    /// A namespace with so many events.
    fn new(events: usize) -> Self {
        let cluster = DemoCluster::default();
        for number in 0..events {
            put(&cluster, number);
        }
        let contexts = Contexts::of_demo(&cluster);
        let watches = Metrics::new().watch().clone();
        let lifecycle = Lifecycle::default();
        Self {
            lists: EventLists::new(Arc::clone(&contexts), lifecycle, watches, RENEWAL),
            cluster,
            contexts,
        }
    }

    async fn ask(&self, query: &EventQuery) -> Page<EventRow> {
        let lists = &self.lists;
        let request = |cluster: Cluster| async move { lists.events(&cluster, query).await };
        let page: Result<_, ClusterError> = self
            .contexts
            .with_cluster(&Actor::Server, None, request)
            .await;
        page.unwrap()
    }

    async fn list(&self, query: &EventQuery) -> Page<EventRow> {
        let request = |cluster: Cluster| async move { cluster.events(query).await };
        let page: Result<_, ClusterError> = self
            .contexts
            .with_cluster(&Actor::Server, None, request)
            .await;
        page.unwrap()
    }

    fn lists_made(&self) -> u64 {
        self.cluster.requests("list", "events")
    }

    fn kept(&self) -> usize {
        self.lists.shared.tasks.lock().len()
    }

    /// Asks once, and waits until the answers come from memory.
    async fn keep(&self) {
        self.ask(&newest(1)).await;
        self.cluster.until_watches(1).await;
        sleep(SETTLED_AFTER).await;
    }
}

fn put(cluster: &DemoCluster, number: usize) {
    // No two at the same time.
    let micros = i64::try_from(number % 10 * 10_000_000 + number).unwrap();
    let at = cluster.now() - jiff::SignedDuration::from_micros(micros);
    let object = ["Pod", "Deployment", "Pods"][number % 3];
    let namespace = ["shop", "mail"][number % 2];
    let kind = ["Normal", "Warning"][number / 2 % 2];
    let reason = ["BackOff", "Back", "Pulled"][number / 3 % 3];
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("one.{number}"), "namespace": namespace},
        "type": kind, "reason": reason,
        "involvedObject": {"kind": object, "name": format!("web-{}", number % 5), "namespace": "shop"},
        "message": format!("n={number} password=hunter2"),
        "lastTimestamp": at.to_string(), "count": 1,
    });
    cluster.put(event).unwrap();
}

fn newest(limit: usize) -> EventQuery {
    EventQuery {
        limit,
        ..EventQuery::default()
    }
}

fn messages(page: &Page<EventRow>) -> Vec<&str> {
    let rows = page.items.iter();
    rows.map(|EventRow(event)| event.message.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn who_asks_again_for_many_events_has_them_from_memory_and_up_to_date() {
    let fixture = Fixture::new(1200);
    fixture.keep().await;
    let lists = fixture.lists_made();
    let page = fixture.ask(&newest(50)).await;
    assert_eq!(fixture.lists_made(), lists, "nothing is listed any more");
    assert_eq!(
        (page.items.len(), page.more),
        (50, Remaining::Exactly(1150))
    );
    put(&fixture.cluster, 9410);
    fixture.cluster.delete("events", "shop", "one.0");
    sleep(SETTLED_AFTER).await;
    let page = fixture.ask(&newest(500)).await;
    let shown = messages(&page);
    assert!(
        shown.contains(&"n=9410 password=[redacted password]"),
        "{shown:?}"
    );
    assert!(
        !shown.iter().any(|one| one.starts_with("n=0 ")),
        "{shown:?}"
    );
    assert_eq!(page.more, Remaining::Exactly(700));
    assert_eq!(fixture.lists_made(), lists);
}

#[tokio::test(start_paused = true)]
async fn few_events_are_listed_each_time() {
    let fixture = Fixture::new(999);
    for _ in 0..3 {
        fixture.ask(&newest(50)).await;
    }
    assert_eq!((fixture.kept(), fixture.cluster.open_watches()), (0, 0));
    assert_eq!(fixture.lists_made(), 6, "two pages each");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_asked_for_any_more_is_forgotten() {
    let fixture = Fixture::new(1000);
    fixture.keep().await;
    for _ in 0..3 {
        sleep(LINGER * 9 / 10).await;
        fixture.ask(&newest(1)).await;
        assert_eq!((fixture.kept(), fixture.cluster.open_watches()), (1, 1));
    }
    sleep(LINGER * 11 / 10).await;
    assert_eq!((fixture.kept(), fixture.cluster.open_watches()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn while_there_is_no_open_watch_events_are_listed() {
    let fixture = Fixture::new(1000);
    fixture.keep().await;
    let watch = RequestMatcher::any().verb("watch").resource("events");
    fixture.cluster.fail_next(watch, 1000, Fault::Unavailable);
    fixture.cluster.close_watches();
    sleep(SETTLED_AFTER).await;
    put(&fixture.cluster, 9410);
    let lists = fixture.lists_made();
    let page = fixture.ask(&newest(500)).await;
    assert!(messages(&page).iter().any(|one| one.starts_with("n=9410 ")));
    assert!(fixture.lists_made() > lists);
    fixture.cluster.clear_faults();
    sleep(Duration::from_mins(1)).await;
    let lists = fixture.lists_made();
    let page = fixture.ask(&newest(500)).await;
    assert!(messages(&page).iter().any(|one| one.starts_with("n=9410 ")));
    assert_eq!(
        fixture.lists_made(),
        lists,
        "live again, and nothing was missed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_field_selector_is_evaluated_by_the_api_server() {
    let fixture = Fixture::new(1000);
    fixture.keep().await;
    let lists = fixture.lists_made();
    let query = EventQuery {
        field_selector: Some("reason=Pulled".to_owned()),
        ..newest(500)
    };
    let page = fixture.ask(&query).await;
    assert!(
        page.items
            .iter()
            .all(|EventRow(event)| event.reason == "Pulled")
    );
    assert!(fixture.lists_made() > lists);
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_rights_of_its_own_is_answered_by_the_api_server() {
    let fixture = Fixture::new(1000);
    fixture.keep().await;
    let cluster = fixture
        .contexts
        .cluster(&Actor::Server, None)
        .await
        .unwrap();
    let user = kubecrier_core::KubernetesUser::new("ann", ["dev"]).unwrap();
    let callers = cluster.acting_as(Arc::new(user)).unwrap();
    let lists = fixture.lists_made();
    let _answer = fixture.lists.events(&callers, &newest(1)).await;
    assert!(fixture.lists_made() > lists);
}

#[tokio::test(start_paused = true)]
async fn events_that_take_too_much_memory_are_not_kept() {
    let fixture = Fixture::new(1000);
    fixture.keep().await;
    for number in 1000..6000 {
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "type": "Normal", "reason": "Large",
            "metadata": {"name": format!("large.{number}"), "namespace": "shop"},
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "shop"},
            "message": "x ".repeat(2000), "lastTimestamp": fixture.cluster.now().to_string(),
        });
        fixture.cluster.put(event).unwrap();
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!((fixture.kept(), fixture.cluster.open_watches()), (0, 0));
    let page = fixture.ask(&newest(500)).await;
    assert_eq!(page.more, Remaining::Exactly(5500));
    assert_eq!(fixture.kept(), 0, "so many bytes are not even tried");
}

#[tokio::test(start_paused = true)]
async fn a_scope_takes_the_place_of_one_that_is_not_being_read() {
    let fixture = Fixture::new(6000);
    let spaces = ["shop", "mail"].map(|name| Name::label("namespace", name).unwrap());
    for namespace in [None, Some(&spaces[0]), Some(&spaces[1])] {
        let query = EventQuery {
            namespace: namespace.cloned(),
            ..newest(1)
        };
        fixture.ask(&query).await;
    }
    assert_eq!(fixture.kept(), 3);
    for number in 0..10 {
        let scope = Scope {
            context: "demo".to_owned(),
            namespace: Some(format!("n-{number}")),
        };
        fixture.lists.keep(Key {
            scope,
            generation: 0,
        });
    }
    assert_eq!(fixture.kept(), SCOPES_MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2))]

    /// The same question has the same answer, whoever gives it.
    #[test]
    fn a_kept_list_answers_as_the_api_server_does(
        queries in prop::collection::vec(query(), 30),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new(2100);
            for namespace in [None, Name::label("namespace", "shop").ok()] {
                fixture.ask(&EventQuery { namespace, ..newest(1) }).await;
            }
            fixture.cluster.until_watches(2).await;
            sleep(SETTLED_AFTER).await;
            for query in &queries {
                let lists = fixture.lists_made();
                let (kept, listed) = (fixture.ask(query).await, fixture.list(query).await);
                let (first, second) = (serde_json::to_value(&kept.items).unwrap(), serde_json::to_value(&listed.items).unwrap());
                assert!(first == second, "{query:?}: {:?}, {:?}", messages(&kept), messages(&listed));
                assert_eq!(kept.more, listed.more, "{query:?}");
                assert!(fixture.lists_made() > lists, "the second was a list");
            }
        });
    }
}

fn query() -> impl Strategy<Value = EventQuery> {
    let namespace = prop_oneof![Just(None), Just(Some("shop"))];
    let object = prop::option::of("(pod|Pod|pods|deploy|thing|Pods)/web-[0-6]");
    let types = prop::sample::subsequence(vec!["Normal", "Warning"], 0..=2);
    let reason = prop::option::of("(Back(Off)?|Pull|x)");
    let since = prop::option::of(0..12_u64);
    (namespace, object, types, reason, since, 1..600_usize).prop_map(
        |(namespace, object, types, reason, since, limit)| EventQuery {
            namespace: namespace.map(|name| Name::label("namespace", name).unwrap()),
            involved: object.map(|text| client::ObjectName::parse(&text).unwrap()),
            types: types.into_iter().map(str::to_owned).collect(),
            reason_prefix: reason,
            // Five seconds off every time that an event has: the clock runs.
            since: since.map(|tens| Duration::from_secs(tens * 10 + 5)),
            after: None,
            field_selector: None,
            limit,
        },
    )
}
