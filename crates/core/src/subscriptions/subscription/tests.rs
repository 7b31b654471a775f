mod of_a_user;

use std::collections::BTreeMap;

use mcp_notify::{Delivery, Level, LoggingService, OutboxItem as Waiting, OutboxSink, Session};
use serde_json::{Value, json};

use super::*;
use crate::{
    event::tests::event,
    faults::{
        CaptureError, CaptureLimits, EvidenceProvider, EvidenceSource, Fault, LogError, LogRequest,
        LogSample, PodFacts,
    },
    filters::{EventType, FilterRequest},
    metrics::Metrics,
    subscriptions::payload::Payload,
};
use futures_util::{FutureExt, future::BoxFuture};
use kubecrier_lifecycle::Lifecycle;

#[derive(Default)]
pub(in crate::subscriptions) struct Recorded(Mutex<Vec<(String, UpdateSummary)>>);

impl UpdateSink for Recorded {
    fn is_subscribed(&self, _uri: &str) -> bool {
        true
    }

    fn notify_updated(&self, uri: &str, update: &UpdateSummary, _gate: Option<Arc<Gate>>) {
        self.0.lock().push((uri.to_owned(), update.clone()));
    }
}

pub(in crate::subscriptions) fn deps(session: Option<&Session>) -> SubscriptionDeps {
    SubscriptionDeps {
        session: session.map(Session::downgrade),
        updates: Arc::new(Recorded::default()),
        faults: FaultQueue::new(
            Arc::new(NoContainers),
            CaptureLimits::default(),
            Metrics::new().captures(),
            Lifecycle::default(),
        ),
        viewer: Viewer::Everything,
    }
}

fn set_level(session: &Session, level: Level) {
    LoggingService::new(Delivery::new(OutboxSink)).set_level(session, level);
}

fn take(subscription: &Arc<Subscription>, event: &Arc<Event>) {
    Arc::clone(subscription).on_events(&[event]);
}

/// A cluster whose pods have no containers.
struct NoContainers;

impl EvidenceProvider for NoContainers {
    fn connect<'a>(
        &'a self,
        _cluster: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn EvidenceSource>, CaptureError>> {
        async { Ok(Arc::new(Self) as Arc<dyn EvidenceSource>) }.boxed()
    }

    fn remove_expired(&self) {}
}

impl EvidenceSource for NoContainers {
    fn pod<'a>(&'a self, _fault: &'a Fault) -> BoxFuture<'a, Result<Arc<PodFacts>, CaptureError>> {
        async { Ok(Arc::default()) }.boxed()
    }

    fn log<'a>(&'a self, _request: &'a LogRequest) -> BoxFuture<'a, Result<LogSample, LogError>> {
        async { Err(CaptureError::NotFound.into()) }.boxed()
    }
}

fn subscription(request: FilterRequest, deps: SubscriptionDeps) -> Arc<Subscription> {
    let filters = Filters::try_from(request).unwrap();
    Arc::new(Subscription::new(
        filters,
        "dev",
        deps,
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
            let counted = notification.resource().unwrap().resource_type;
            assert_eq!(counted, Some(ResourceType::Events.into()));
            all.push(frame["params"].clone());
            batch.deliver();
        }
    }
    all
}

#[tokio::test]
async fn an_event_becomes_the_message_that_was_promised() {
    let session = Session::new("s");
    let deps = deps(Some(&session));
    set_level(&session, Level::Info);
    let subscription = subscription(FilterRequest::default(), deps);
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
            "event": serde_json::to_value(event.payload()).unwrap(),
        },
    });
    assert_eq!(messages(&session).await, [expected]);
}

/// A pushed message and a poll have the same payload.
#[tokio::test]
async fn a_message_says_what_the_feed_has() {
    let session = Session::new("s");
    set_level(&session, Level::Debug);
    for mode in [Mode::Events, Mode::Faults] {
        let request = FilterRequest {
            mode,
            ..FilterRequest::default()
        };
        let subscription = subscription(request, deps(Some(&session)));
        take(&subscription, &Arc::new(event("shop", "Pod", "web-0")));
        while subscription.feed().last() == 0 {
            tokio::task::yield_now().await;
        }
        let error = "no route".to_owned();
        subscription.on_status(1, &WatchStatus::Degraded { error });
        let detail = "gone".to_owned();
        let since = Timestamp::UNIX_EPOCH;
        subscription.on_status(1, &WatchStatus::Gap { since, detail });
        subscription.on_status(1, &WatchStatus::Recovered);
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
        let deps = deps(Some(&session));
        if let Some(level) = level {
            set_level(&session, level);
        }
        let faults = FilterRequest {
            mode: Mode::Faults,
            types: vec![EventType::Warning],
            ..FilterRequest::default()
        };
        let subscription = subscription(faults, deps);
        take(&subscription, &Arc::new(event("shop", "Pod", "web-0")));
        // The same fault is delivered once a minute.
        take(&subscription, &Arc::new(event("shop", "Pod", "web-0")));
        while subscription.feed().last() == 0 {
            tokio::task::yield_now().await;
        }
        let error = "no route".to_owned();
        subscription.on_status(1, &WatchStatus::Degraded { error });
        assert_eq!(subscription.degraded().as_deref(), Some("no route"));
        subscription.on_status(
            1,
            &WatchStatus::Gap {
                since: Timestamp::UNIX_EPOCH,
                detail: "gone".to_owned(),
            },
        );
        subscription.on_status(1, &WatchStatus::Recovered);
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
    let deps = deps(Some(&session));
    set_level(&session, Level::Debug);
    let request = FilterRequest {
        label_selector: Some("app=web".to_owned()),
        ..FilterRequest::default()
    };
    let subscription = subscription(request, deps);
    let mut other = event("shop", "Pod", "api-0");
    other.labels = BTreeMap::from([("app".to_owned(), "api".to_owned())]).into();
    let mut ours = event("shop", "Pod", "web-0");
    ours.labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]).into();
    let (other, ours) = (Arc::new(other), Arc::new(ours));
    assert!(subscription.wants(&other), "labels are asked for later");
    take(&subscription, &other);
    take(&subscription, &ours);
    assert_eq!(subscription.feed().last(), 1);
    subscription.end();
    take(&subscription, &ours);
    subscription.on_status(1, &WatchStatus::Recovered);
    assert_eq!(subscription.feed().last(), 1);
    assert_eq!(messages(&session).await.len(), 1);
}

#[tokio::test]
async fn those_who_follow_the_resource_are_told_what_changed() {
    let heard = Arc::new(Recorded::default());
    let deps = SubscriptionDeps {
        updates: heard.clone(),
        ..deps(None)
    };
    let subscription = subscription(FilterRequest::default(), deps);
    take(&subscription, &Arc::new(event("shop", "Pod", "web-0")));
    let expected = UpdateSummary {
        seq: 1,
        count: 1,
        summary: "Warning BackOff pod/web-0: back-off restarting failed container".to_owned(),
    };
    assert_eq!(*heard.0.lock(), [(subscription.uri().to_owned(), expected)]);
}

/// S3-54 for a subscription that needs several watches.
#[test]
fn several_watches_that_fail_are_one_outage() {
    let subscription = subscription(FilterRequest::default(), deps(None));
    let degraded = |error: &str| WatchStatus::Degraded {
        error: error.to_owned(),
    };
    let told = || subscription.feed().last();
    subscription.on_status(1, &degraded("one"));
    subscription.on_status(2, &degraded("two"));
    assert_eq!(told(), 1);
    subscription.on_status(1, &WatchStatus::Recovered);
    assert_eq!(
        (told(), subscription.degraded().as_deref()),
        (1, Some("two"))
    );
    subscription.on_status(3, &WatchStatus::Recovered);
    assert_eq!(told(), 1, "nobody was told of that one");
    subscription.on_status(2, &WatchStatus::Recovered);
    assert_eq!((told(), subscription.degraded()), (2, None));
}

#[tokio::test]
async fn labels_that_cannot_be_read_are_told_once_per_kind_and_match_nothing() {
    let session = Session::new("s");
    let deps = deps(Some(&session));
    set_level(&session, Level::Info);
    let request = FilterRequest {
        label_selector: Some("!app".to_owned()),
        ..FilterRequest::default()
    };
    let subscription = subscription(request, deps.clone());
    assert_eq!(subscription.label_use(), LabelUse::Matched);
    let unreadable = |kind: &str, labels_of| {
        let mut one = event("shop", kind, "one");
        one.labels = BTreeMap::new().into();
        one.labels_of = labels_of;
        Arc::new(one)
    };
    for _ in 0..3 {
        take(&subscription, &unreadable("Secret", LabelsOf::Unreadable));
        take(
            &subscription,
            &unreadable("ConfigMap", LabelsOf::Unreadable),
        );
        // What is gone has no labels to be read.
        take(&subscription, &unreadable("Pod", LabelsOf::Gone));
    }
    take(&subscription, &unreadable("Pod", LabelsOf::Involved));
    let said = messages(&session).await;
    let shown: Vec<_> = said
        .iter()
        .map(|one| {
            let data = &one["data"];
            let kind = &data["unlabelled"]["kind"];
            let kind = kind
                .as_str()
                .or(data["event"]["involvedObject"]["kind"].as_str());
            (one["level"].as_str().unwrap(), kind.unwrap())
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("warning", "Secret"),
            ("warning", "ConfigMap"),
            ("info", "Pod")
        ]
    );
    let plain = self::subscription(FilterRequest::default(), deps);
    assert_eq!(plain.label_use(), LabelUse::Shown);
    take(&plain, &unreadable("Secret", LabelsOf::Unreadable));
    assert!(messages(&session).await[0]["data"].get("event").is_some());
}

/// The level is that of the severity; the end has the level of the beginning. What is below
/// the session's level is kept all the same.
#[tokio::test]
async fn incidents_are_delivered_at_the_level_of_their_severity() {
    use crate::incident::tests::incident;
    use kubecrier_incidents::{Severity, Transition};

    let session = Session::new("s");
    set_level(&session, Level::Warning);
    let request = FilterRequest {
        mode: Mode::Incidents,
        namespace: Some("shop".to_owned()),
        ..FilterRequest::default()
    };
    let subscription = subscription(request, deps(Some(&session)));
    let at = Timestamp::now();
    let notice = |transition: Transition| Arc::new(IncidentNotice::new(&transition, at));
    let opened = |space: &str, name: &str, severity| {
        notice(Transition::Opened(incident(space, name, severity, 1)))
    };
    subscription.on_incidents(&[
        opened("shop", "a", Severity::Critical),
        opened("other", "b", Severity::Critical),
        opened("shop", "c", Severity::Info),
        opened("shop", "d", Severity::Warning),
        notice(Transition::Resolved {
            incident: incident("shop", "a", Severity::Critical, 1),
            after: jiff::SignedDuration::from_secs(60),
        }),
    ]);
    let all = messages(&session).await;
    let seen: Vec<_> = all
        .iter()
        .map(|one| {
            assert_eq!(one["logger"], "kubernetes/incidents");
            let data = &one["data"];
            assert_eq!(data["cluster"], "dev");
            let incident = &data["incident"];
            (
                &one["level"],
                &incident["id"],
                &incident["transition"],
                &data["seq"],
            )
        })
        .map(|(level, id, transition, seq)| json!([level, id, transition, seq]))
        .collect();
    assert_eq!(
        json!(seen),
        json!([
            ["critical", "i-a", "opened", 1],
            ["warning", "i-d", "opened", 3],
            ["critical", "i-a", "resolved", 4],
        ])
    );
    let kept = subscription.feed().after(0, 10);
    assert_eq!(kept.entries.len(), 4, "without the other namespace");
    // A poll shows what was pushed.
    let polled = Payload::new(subscription.id(), "dev", &kept.entries[0]);
    assert_eq!(serde_json::to_value(polled).unwrap(), all[0]["data"]);
    subscription.end();
    subscription.on_incidents(&[opened("shop", "late", Severity::Critical)]);
    assert_eq!(subscription.feed().last(), 4);
}
