use mcp_notify::{Delivery, Item as Waiting, Level, LoggingService, OutboxSink, Session};
use serde_json::{Value, json};

use super::*;
use crate::{
    event::tests::event,
    faults::{
        captures::Captured,
        desk::{Investigation, Investigator},
        evidence::{Evidence, NOTE},
    },
    filters::{EventType, Request},
    subscriptions::payload::Payload,
};
use kubecrier_lifecycle::Lifecycle;

#[derive(Default)]
pub(in crate::subscriptions) struct Heard(Mutex<Vec<(String, Update)>>);

impl Updates for Heard {
    fn wanted(&self, _uri: &str) -> bool {
        true
    }

    fn updated(&self, uri: &str, update: &Update) {
        self.0.lock().push((uri.to_owned(), update.clone()));
    }
}

pub(in crate::subscriptions) fn outlet(session: Option<&Session>) -> Outlet {
    Outlet {
        session: session.map(Session::downgrade),
        updates: Arc::new(Heard::default()),
        faults: Desk::new(Arc::new(Blind), Lifecycle::default()),
    }
}

fn set_level(session: &Session, level: Level) {
    LoggingService::new(Delivery::new(OutboxSink)).set_level(session, level);
}

fn take(subscription: &Arc<Subscription>, event: &Arc<Event>) {
    Arc::clone(subscription).take(&[event]);
}

/// Finds out nothing, at once.
struct Blind;

impl Investigator for Blind {
    fn investigate<'a>(&'a self, cluster: &'a str, event: &'a Event) -> Investigation<'a> {
        Box::pin(async move { self.throttled(cluster, event) })
    }

    fn throttled(&self, _cluster: &str, event: &Event) -> Captured {
        let evidence = Evidence {
            note: NOTE,
            logs: Vec::new(),
            containers_omitted: Vec::new(),
            context: None,
        };
        Captured {
            fault_id: event.involved.name.clone(),
            evidence: Arc::new(evidence),
        }
    }

    fn is_saturated(&self, _cluster: &str) -> bool {
        false
    }

    fn forget_old(&self) {}
}

fn subscription(request: Request, outlet: Outlet) -> Arc<Subscription> {
    let filters = Filters::try_from(request).unwrap();
    Arc::new(Subscription::new(
        filters,
        "dev",
        outlet,
        FeedLimits::default(),
    ))
}

/// The params of every message that waits for the session.
async fn messages(session: &Session) -> Vec<Value> {
    let mut reader = session.outbox().reader();
    let mut all = Vec::new();
    while session.outbox().stats().pending > 0 {
        let mut batch = reader.next().await.unwrap();
        while let Some(item) = batch.front() {
            let Waiting::Notification(notification) = item else {
                panic!("a gap");
            };
            let frame: Value = serde_json::from_slice(notification.frame().unwrap()).unwrap();
            assert_eq!(frame["method"], "notifications/message");
            // S0-9: whatever fails here counts as events.
            let about = format!("{:?}", notification.about().unwrap());
            assert!(about.contains("Events"), "{about}");
            all.push(frame["params"].clone());
            batch.deliver();
        }
    }
    all
}

#[tokio::test]
async fn an_event_becomes_the_message_that_was_promised() {
    let session = Session::new("s");
    let outlet = outlet(Some(&session));
    set_level(&session, Level::Info);
    let subscription = subscription(Request::default(), outlet);
    let event = Arc::new(event("shop", "ConfigMap", "settings"));
    assert!(subscription.wants(&event));
    take(&subscription, &event);
    let id = subscription.id().as_str();
    let expected = json!({
        "level": "info",
        "logger": "kubernetes/events",
        "data": {
            "subscriptionId": id,
            "cluster": "dev",
            "seq": 1,
            "cursor": format!("{id}.1"),
            "eventId": event.id(),
            "event": serde_json::to_value(event.wire()).unwrap(),
        },
    });
    assert_eq!(messages(&session).await, [expected]);
}

/// Whoever is pushed to and whoever polls are told the same.
#[tokio::test]
async fn a_message_says_what_the_feed_has() {
    let session = Session::new("s");
    set_level(&session, Level::Debug);
    for mode in [Mode::Events, Mode::Faults] {
        let request = Request {
            mode,
            ..Request::default()
        };
        let subscription = subscription(request, outlet(Some(&session)));
        take(&subscription, &Arc::new(event("shop", "Pod", "web-0")));
        while subscription.feed().last() == 0 {
            tokio::task::yield_now().await;
        }
        let error = "no route".to_owned();
        subscription.hear(1, &Change::Degraded { error });
        let detail = "gone".to_owned();
        let since = Timestamp::UNIX_EPOCH;
        subscription.hear(1, &Change::Gap { since, detail });
        subscription.hear(1, &Change::Recovered);
        let read = subscription.feed().after(0, 10);
        let kept: Vec<_> = (read.entries.iter())
            .map(|entry| Payload::new(subscription.id(), subscription.cluster(), entry))
            .map(|payload| serde_json::to_value(payload).unwrap())
            .collect();
        let said: Vec<_> = (messages(&session).await.into_iter())
            .map(|mut params| params["data"].take())
            .collect();
        assert_eq!(said, kept);
        assert_eq!(said.len(), 4);
    }
}

/// C22: what each threshold lets through.
#[tokio::test]
async fn thresholds_decide_what_is_said_and_never_what_is_kept() {
    let table = [
        (None, 0),
        (Some(Level::Debug), 4),
        (Some(Level::Info), 4),
        (Some(Level::Notice), 3),
        (Some(Level::Warning), 3),
        (Some(Level::Error), 1),
        (Some(Level::Critical), 0),
        (Some(Level::Emergency), 0),
    ];
    for (level, expected) in table {
        let session = Session::new("s");
        let outlet = outlet(Some(&session));
        if let Some(level) = level {
            set_level(&session, level);
        }
        let faults = Request {
            mode: Mode::Faults,
            types: vec![EventType::Warning],
            ..Request::default()
        };
        let subscription = subscription(faults, outlet);
        take(&subscription, &Arc::new(event("shop", "Pod", "web-0")));
        // The same fault is told once a minute.
        take(&subscription, &Arc::new(event("shop", "Pod", "web-0")));
        while subscription.feed().last() == 0 {
            tokio::task::yield_now().await;
        }
        let error = "no route".to_owned();
        subscription.hear(1, &Change::Degraded { error });
        assert_eq!(subscription.degraded().as_deref(), Some("no route"));
        subscription.hear(
            1,
            &Change::Gap {
                since: Timestamp::UNIX_EPOCH,
                detail: "gone".to_owned(),
            },
        );
        subscription.hear(1, &Change::Recovered);
        assert_eq!(subscription.degraded(), None);
        let said = messages(&session).await;
        assert_eq!(said.len(), expected, "{level:?}: {said:?}");
        assert_eq!(subscription.feed().last(), 4, "{level:?}");
        if level == Some(Level::Info) {
            let voices: Vec<_> = (said.iter())
                .map(|one| format!("{} {}", one["logger"], one["level"]).replace('"', ""))
                .collect();
            let trouble = "kubernetes/subscription_error";
            let expected = [
                "kubernetes/faults warning".to_owned(),
                format!("{trouble} error"),
                format!("{trouble} warning"),
                format!("{trouble} info"),
            ];
            assert_eq!(voices, expected);
            assert_eq!(said[0]["data"]["logs"], json!([]));
            assert_eq!(said[1]["data"]["error"], "no route");
            assert_eq!(said[1]["data"]["degraded"], true);
            assert_eq!(said[3]["data"]["degraded"], false);
        }
    }
}

#[tokio::test]
async fn labels_decide_last_and_an_ended_subscription_is_silent() {
    let session = Session::new("s");
    let outlet = outlet(Some(&session));
    set_level(&session, Level::Debug);
    let request = Request {
        label_selector: Some("app=web".to_owned()),
        ..Request::default()
    };
    let subscription = subscription(request, outlet);
    let mut other = event("shop", "Pod", "api-0");
    other.labels = Arc::new([("app".to_owned(), "api".to_owned())].into());
    let mut ours = event("shop", "Pod", "web-0");
    ours.labels = Arc::new([("app".to_owned(), "web".to_owned())].into());
    let (other, ours) = (Arc::new(other), Arc::new(ours));
    assert!(subscription.wants(&other), "labels are asked for later");
    take(&subscription, &other);
    take(&subscription, &ours);
    assert_eq!(subscription.feed().last(), 1);
    subscription.end();
    take(&subscription, &ours);
    subscription.hear(1, &Change::Recovered);
    assert_eq!(subscription.feed().last(), 1);
    assert_eq!(messages(&session).await.len(), 1);
}

#[tokio::test]
async fn those_who_follow_the_resource_are_told_what_changed() {
    let heard = Arc::new(Heard::default());
    let outlet = Outlet {
        updates: heard.clone(),
        ..outlet(None)
    };
    let subscription = subscription(Request::default(), outlet);
    take(&subscription, &Arc::new(event("shop", "Pod", "web-0")));
    let expected = Update {
        seq: 1,
        count: 1,
        summary: "Warning BackOff pod/web-0: back-off restarting failed container".to_owned(),
    };
    assert_eq!(*heard.0.lock(), [(subscription.uri().to_owned(), expected)]);
}

/// S3-54 for a subscription that needs several watches.
#[test]
fn several_watches_that_fail_are_one_outage() {
    let subscription = subscription(Request::default(), outlet(None));
    let degraded = |error: &str| Change::Degraded {
        error: error.to_owned(),
    };
    let told = || subscription.feed().last();
    subscription.hear(1, &degraded("one"));
    subscription.hear(2, &degraded("two"));
    assert_eq!(told(), 1);
    subscription.hear(1, &Change::Recovered);
    assert_eq!(
        (told(), subscription.degraded().as_deref()),
        (1, Some("two"))
    );
    subscription.hear(3, &Change::Recovered);
    assert_eq!(told(), 1, "nobody was told of that one");
    subscription.hear(2, &Change::Recovered);
    assert_eq!((told(), subscription.degraded()), (2, None));
}
