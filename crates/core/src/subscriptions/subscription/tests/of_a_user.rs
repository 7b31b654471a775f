//! A subscription whose user may not see everything.

use mcp_notify::Admission;
use tokio::time::{Duration, advance};

use super::*;
use crate::{
    access::{
        AccessDecisions,
        tests::{Authorizer, user},
    },
    faults::{ContainerFacts, Tail},
};

const EVENTS: &str = "list events in `shop`";

struct Fixture {
    authorizer: Authorizer,
    decisions: AccessDecisions,
    session: Session,
    subscription: Arc<Subscription>,
}

/// A pod with a container, whose log has a line.
struct OneContainer;

impl EvidenceProvider for OneContainer {
    fn connect<'a>(
        &'a self,
        _cluster: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn EvidenceSource>, CaptureError>> {
        async { Ok(Arc::new(Self) as Arc<dyn EvidenceSource>) }.boxed()
    }

    fn remove_expired(&self) {}
}

impl EvidenceSource for OneContainer {
    fn pod<'a>(&'a self, _fault: &'a Fault) -> BoxFuture<'a, Result<Arc<PodFacts>, CaptureError>> {
        let container = ContainerFacts {
            name: "app".to_owned(),
            restarted: false,
        };
        let facts = PodFacts {
            containers: vec![container],
            ..PodFacts::default()
        };
        async { Ok(Arc::new(facts)) }.boxed()
    }

    fn log<'a>(&'a self, _request: &'a LogRequest) -> BoxFuture<'a, Result<LogSample, LogError>> {
        let sample = LogSample {
            tail: Tail {
                text: "a line of the log".to_owned(),
                truncated: false,
            },
            signature: None,
            incomplete: None,
        };
        async { Ok(sample) }.boxed()
    }
}

fn fixture(mode: Mode) -> Fixture {
    let authorizer = Authorizer::default();
    authorizer.set("ann", EVENTS, true);
    authorizer.set("ann", "get pods in `shop`", true);
    let session = Session::new("ann");
    set_level(&session, Level::Debug);
    let decisions = authorizer.decisions();
    let viewer = decisions.viewer(&user("ann"));
    let request = FilterRequest {
        mode,
        ..FilterRequest::default()
    };
    let deps = SubscriptionDeps {
        viewer,
        faults: FaultQueue::new(
            Arc::new(OneContainer),
            CaptureLimits::default(),
            Metrics::new().captures(),
            Lifecycle::default(),
        ),
        ..deps(Some(&session))
    };
    let subscription = subscription(request, deps);
    Fixture {
        authorizer,
        decisions,
        session,
        subscription,
    }
}

fn warning() -> Arc<Event> {
    Arc::new(event("shop", "Pod", "web-0"))
}

async fn settle() {
    for _ in 0..20 {
        advance(Duration::from_millis(20)).await;
        tokio::task::yield_now().await;
    }
}

fn notices(page: &FeedPage) -> usize {
    let is_notice = |entry: &&FeedEntry| matches!(entry.item, FeedItem::Notice(_));
    page.entries.iter().filter(is_notice).count()
}

/// Polls and reads are decided at that moment, pushes when they are sent.
#[tokio::test(start_paused = true)]
async fn what_waits_is_checked_when_it_is_read_and_when_it_is_sent() {
    let Fixture {
        authorizer,
        decisions: _kept,
        session,
        subscription,
    } = fixture(Mode::Events);
    for _ in 0..3 {
        take(&subscription, &warning());
    }
    let page = subscription.read_after(0, 10).await;
    assert_eq!((page.entries.len(), page.withheld), (3, 0));
    let admitted = |item: &Waiting| match item {
        Waiting::Notification(message) => matches!(message.admit(), Admission::Open),
        _ => panic!("{item:?}"),
    };
    let mut reader = session.outbox().reader();
    let batch = reader.next().await.unwrap();
    assert_eq!(batch.iter().map(admitted).collect::<Vec<_>>(), [true; 3]);
    drop(batch);
    authorizer.set("ann", EVENTS, false);
    let page = subscription.read_after(0, 10).await;
    assert_eq!((page.entries.len(), page.withheld), (0, 3), "at once");
    assert_eq!(page.next, 3, "a cursor leads on");
    for _ in 0..2 {
        let page = subscription.read_newest(10).await;
        assert_eq!((notices(&page), page.entries.len()), (1, 1), "told once");
    }
    let batch = reader.next().await.unwrap();
    let sent: Vec<_> = batch.iter().map(admitted).collect();
    assert_eq!(sent, [false, false, false, true], "the notice alone");
    drop((batch, reader));
    authorizer.set("ann", EVENTS, true);
    let page = subscription.read_after(0, 10).await;
    assert_eq!(page.withheld, 0, "it is back");
    take(&subscription, &warning());
    authorizer.set("ann", EVENTS, false);
    let page = subscription.read_after(4, 10).await;
    assert_eq!((page.entries.len(), page.withheld), (0, 1));
    assert_eq!(
        notices(&subscription.read_after(5, 10).await),
        1,
        "news again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_answer_shows_nothing_and_tells_of_no_withdrawal() {
    let Fixture {
        authorizer,
        decisions: _kept,
        subscription,
        ..
    } = fixture(Mode::Events);
    take(&subscription, &warning());
    authorizer.set_down(true);
    let page = subscription.read_after(0, 10).await;
    assert_eq!((page.entries.len(), page.withheld), (0, 1));
    authorizer.set_down(false);
    let page = subscription.read_after(0, 10).await;
    assert_eq!((page.entries.len(), notices(&page)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn evidence_is_left_out_of_a_fault_and_says_so() {
    let Fixture {
        authorizer,
        decisions: _kept,
        subscription,
        ..
    } = fixture(Mode::Faults);
    let logs = async || {
        let page = subscription.read_newest(1).await;
        let shown = page.entries.first().map(|entry| {
            let payload = Payload::new(subscription.id(), "dev", entry);
            let payload = serde_json::to_value(payload).unwrap();
            (payload["logs"].clone(), payload["context"].is_object())
        });
        shown.unwrap()
    };
    for (pods, own_logs) in [(false, false), (true, false), (true, true)] {
        authorizer.set("ann", "get pods in `shop`", pods);
        authorizer.set("ann", "get pods/log in `shop`", own_logs);
        advance(Duration::from_mins(10)).await;
        take(&subscription, &warning());
        settle().await;
        let (logs, has_context) = logs().await;
        assert_eq!(has_context, pods);
        let logs = logs.to_string();
        assert_eq!(logs.contains("forbidden"), !own_logs, "{logs}");
        assert_eq!(logs.contains("a line of the log"), own_logs, "{logs}");
    }
    authorizer.set("ann", "get pods in `shop`", false);
    authorizer.set("ann", "get pods/log in `shop`", false);
    let (logs, has_context) = logs().await;
    assert!(
        !has_context && logs.to_string().contains("forbidden"),
        "{logs}"
    );
}
