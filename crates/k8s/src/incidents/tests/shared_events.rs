//! Events from a watch that others have anyway.

use demo_cluster::NewEvent;
use kubecrier_incidents::objects::ObjectRef;

use super::*;

/// A server whose history watches events.
fn sharing() -> Fixture {
    let mut fixture = Fixture::new();
    let shared = &fixture.watches.shared;
    let watches = Watches::new(
        Arc::clone(&shared.deps.contexts),
        Lifecycle::default(),
        fixture.metrics.watch().clone(),
        RENEWAL,
        LIMITS,
    );
    fixture.watches = fixture.watches.clone().sharing_events(watches);
    fixture
}

fn warn(fixture: &Fixture, message: &str) {
    let event = NewEvent::warning("shop", "Pod/web-1-a", "BackOff", message);
    fixture.cluster.emit(&event).unwrap();
}

/// What detectors know of the pod.
fn messages(view: &IncidentView) -> Vec<String> {
    let pod = ObjectRef::new("Pod", "shop", "web-1-a");
    let state = view.watcher.input().state;
    let events = state.events(&pod).iter();
    events.map(|event| event.message.to_string()).collect()
}

/// What was reported before and after the start, and while the watch had broken.
async fn are_known(fixture: Fixture) {
    warn(&fixture, "early");
    let view = fixture.follow().await.unwrap();
    assert_eq!(messages(&view), ["early"]);
    fixture.pass(Duration::from_secs(10)).await;
    warn(&fixture, "later");
    fixture.pass(Duration::from_secs(10)).await;
    assert_eq!(messages(&view), ["early", "later"]);
    fixture.cluster.expire_watches();
    fixture.cluster.compact();
    warn(&fixture, "missed");
    fixture.pass(Duration::from_mins(2)).await;
    assert_eq!(messages(&view), ["early", "later", "missed"]);
}

#[tokio::test(start_paused = true)]
async fn events_of_an_own_watch_are_known() {
    are_known(Fixture::new()).await;
}

#[tokio::test(start_paused = true)]
async fn events_of_a_shared_watch_are_known_as_well() {
    are_known(sharing()).await;
}

/// One watch of events is open, whoever reads them.
#[tokio::test(start_paused = true)]
async fn a_shared_watch_is_the_only_one_of_events() {
    let fixture = sharing();
    let _view = fixture.follow().await.unwrap();
    let watches = fixture.watches.shared.events.get().unwrap();
    assert_eq!(watches.list().len(), 1);
    assert_eq!(fixture.cluster.open_watches(), WATCHED);
}

/// What may not be read is left out, as without a shared watch.
#[tokio::test(start_paused = true)]
async fn events_that_may_not_be_read_are_left_out() {
    let fixture = sharing();
    fixture
        .cluster
        .deny(RequestMatcher::any().resource("events"));
    fixture.crash("no");
    let view = fixture.follow().await.unwrap();
    let notes = view.snapshot().notes.clone();
    assert!(
        notes.iter().any(|note| note.contains("events")),
        "{notes:?}"
    );
    assert_eq!(open(&view), ["shop/deployment/web crash-loop"]);
}
