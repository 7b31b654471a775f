use proptest::prelude::*;
use serde_json::{Value, json};

use super::{convert::Times, *};
use kubecrier_core::InvolvedObject;

fn wire(mut event: Value) -> WireEvent {
    event["involvedObject"] = json!({"kind": "Pod", "name": "web"});
    event["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z".into();
    serde_json::from_value(event).unwrap()
}

fn parsed(event: Value) -> Event {
    to_event(wire(event), &Redactor::default())
}

fn check_last_seen(event: Value, second: i64) {
    let expected: Timestamp = format!("2026-01-01T00:00:0{second}Z").parse().unwrap();
    assert_eq!(parsed(event).timestamp, expected);
}

#[test]
fn the_latest_sign_of_an_event_is_its_time() {
    let (two, three) = ("2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z");
    let (four, five) = ("2026-01-01T00:00:04.000000Z", "2026-01-01T00:00:05.000000Z");
    check_last_seen(json!({}), 1);
    check_last_seen(json!({"firstTimestamp": two}), 2);
    check_last_seen(json!({"firstTimestamp": two, "eventTime": four}), 4);
    check_last_seen(json!({"lastTimestamp": three, "eventTime": four}), 3);
    let series = json!({"count": 7, "lastObservedTime": five});
    check_last_seen(json!({"lastTimestamp": three, "series": series}), 5);
}

/// A bad time in one event must not lose the other events.
#[test]
fn a_time_that_is_none_counts_as_not_said() {
    let far = "9999-12-31T23:59:59Z";
    check_last_seen(json!({"lastTimestamp": far}), 1);
    let two = "2026-01-01T00:00:02Z";
    check_last_seen(json!({"lastTimestamp": far, "firstTimestamp": two}), 2);
    let micro = "9999-12-31T23:59:59.999999Z";
    check_last_seen(json!({"eventTime": micro, "lastTimestamp": two}), 2);
    check_last_seen(json!({"series": {"lastObservedTime": micro}}), 1);
    check_last_seen(json!({"lastTimestamp": null, "eventTime": null}), 1);
    let written = json!([{"manager": "somebody", "time": far}]);
    check_last_seen(json!({"metadata": {"managedFields": written}}), 1);
}

/// An event of the year 2099 would be the newest of every list for ever.
#[test]
fn a_time_that_is_yet_to_come_counts_as_not_said() {
    let (two, far) = ("2026-01-01T00:00:02Z", "2099-01-01T00:00:00Z");
    check_last_seen(json!({"lastTimestamp": far}), 1);
    check_last_seen(json!({"lastTimestamp": far, "firstTimestamp": two}), 2);
    check_last_seen(json!({"eventTime": "2099-01-01T00:00:00.000000Z"}), 1);
    let series = json!({"count": 7, "lastObservedTime": "2099-01-01T00:00:05.000000Z"});
    check_last_seen(json!({"firstTimestamp": two, "series": series}), 2);
    let first = parsed(json!({"firstTimestamp": far, "lastTimestamp": two})).first_seen;
    assert_eq!(first, Some("2026-01-01T00:00:01Z".parse().unwrap()));
}

#[test]
fn clocks_may_differ_a_little_and_that_of_the_api_server_by_any_time() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let last = |created: &str, seen: &str| {
        let mut event = wire(json!({"lastTimestamp": seen}));
        let created = created.parse::<Timestamp>().unwrap();
        event.metadata.creation_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created),
        );
        Times::of(&event, now).last.to_string()
    };
    let created = "2025-12-31T00:00:00Z";
    assert_eq!(
        last(created, "2026-01-01T00:05:00Z"),
        "2026-01-01T00:05:00Z"
    );
    assert_eq!(last(created, "2026-01-01T00:05:01Z"), created);
    let ahead = "2026-01-02T00:00:00Z";
    assert_eq!(last(ahead, "2026-01-02T00:00:07Z"), "2026-01-02T00:00:07Z");
    assert_eq!(last(ahead, "2026-01-02T00:06:00Z"), ahead);
}

/// Redaction must not change what an event is about: filters, dedupe and captures use it.
#[test]
fn an_event_keeps_its_names_and_loses_its_secrets() {
    let redactor = Redactor::new(&["sk-[a-z0-9-]+".to_owned()]).unwrap();
    let name = "sk-learn-inference-7d9f8c6b5d-abcde";
    let mut event = wire(json!({
        "type": "Warning", "reason": "BackOff", "message": format!("{name} has password=hunter2"),
        "metadata": {"namespace": name, "labels": {"app": name, "sk-key": "sk-x y"}},
        "source": {"component": name},
    }));
    event.involved_object = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod", "name": name, "namespace": name, "uid": "sk-uid",
        "fieldPath": format!("spec.containers{{{name}}}"),
    }))
    .unwrap();
    let event = to_event(event, &redactor);
    let InvolvedObject {
        api_version,
        kind,
        name: pod,
        namespace,
        uid,
        field_path,
    } = &event.involved;
    assert_eq!([api_version, kind, uid], ["v1", "Pod", "sk-uid"]);
    assert_eq!([pod, namespace, &event.namespace, &event.source], [name; 4]);
    assert_eq!(*field_path, format!("spec.containers{{{name}}}"));
    assert!(event.message.starts_with("[redacted "), "{}", event.message);
    assert!(
        event.message.ends_with(" has password=[redacted password]"),
        "{}",
        event.message
    );
    assert_eq!(
        event.labels.get("sk-key"),
        Some("sk-x y"),
        "selectors match it"
    );
    assert!(!event.labels.shown()["sk-key"].contains("sk-x"));
    assert_eq!(event.labels.shown()["app"], name);
    let odd = parsed(json!({
        "type": "Warn\u{1b}[31m\u{ad}ing", "reason": "token=abcdefgh12345678", "message": "",
        "source": {"component": "password=hunter2"},
    }));
    assert!(!odd.kind.contains(['\u{1b}']), "{:?}", odd.kind);
    assert!(
        !odd.reason.contains("abcdefgh") && !odd.source.contains("hunter2"),
        "{odd:?}"
    );
}

#[test]
fn no_event_is_larger_than_a_page_of_text() {
    let long = "x".repeat(1 << 20);
    let labels: serde_json::Map<_, _> = (0..9999).map(|n| (format!("k{n}"), json!("v"))).collect();
    let event = parsed(json!({
        "message": long, "reason": long, "type": long, "source": {"component": long},
        "reportingComponent": long, "metadata": {"labels": labels},
    }));
    let cut = format!("… [cut: {} bytes]", (1 << 20) - 4096);
    assert!(event.message.ends_with(&cut), "{}", &event.message[4000..]);
    assert_eq!(event.message.len(), 4096 + cut.len());
    let bytes = event.members().bytes_len();
    assert!(bytes < 16 * 1024, "{bytes}");
}

#[test]
fn a_series_counts_for_itself() {
    let series = json!({"count": 7, "lastObservedTime": "2026-01-01T00:00:05.000000Z"});
    assert_eq!(parsed(json!({"series": series, "count": 2})).count, 7);
    assert_eq!(parsed(json!({"count": 2})).count, 2);
    assert_eq!(parsed(json!({})).count, 1);
}

#[test]
fn the_api_server_matches_what_it_can() {
    let query = EventQuery {
        types: vec!["Warning".to_owned()],
        involved: Some(ObjectName::parse("deploy/web").unwrap()),
        ..EventQuery::default()
    };
    let expected = "type=Warning,involvedObject.name=web,involvedObject.kind=Deployment";
    assert_eq!(query.selector().unwrap(), expected);
    assert_eq!(EventQuery::default().selector(), None);
    let both = vec!["Normal".to_owned(), "Warning".to_owned()];
    assert_eq!(
        EventQuery {
            types: both,
            ..EventQuery::default()
        }
        .selector(),
        None
    );
}

/// Clients read these fields: a row has all of them, redacted.
#[test]
fn a_row_has_the_fields_of_the_list_and_no_secrets() {
    let row = EventRow(parsed(json!({
        "metadata": {"namespace": "shop", "uid": "u-1"},
        "type": "Warning", "reason": "BackOff", "message": "password=hunter2",
    })));
    let expected = r#"{"eventId":"u-1:1","lastSeen":"2026-01-01T00:00:01Z","namespace":"shop","type":"Warning","reason":"BackOff","involvedObject":{"apiVersion":"","kind":"Pod","name":"web","namespace":""},"count":1,"firstSeen":"2026-01-01T00:00:01Z","message":"password=[redacted password]"}"#;
    assert_eq!(serde_json::to_string(&row).unwrap(), expected);
    let mut never = row;
    never.0.first_seen = None;
    let written = serde_json::to_value(&never).unwrap();
    assert_eq!(written["firstSeen"], Value::Null, "it is there, and null");
}

proptest! {
    #[test]
    fn the_newest_come_first_and_the_rest_is_counted(
        seconds in prop::collection::vec(0..1000_i64, 0..60), limit in 1..20_usize,
    ) {
        let mut newest = Newest::new(limit);
        for second in &seconds {
            let at = Timestamp::from_second(*second).unwrap();
            let parse = || Ok(wire(json!({"lastTimestamp": at.to_string()})));
            newest.offer(at, &EventHead::default(), parse).unwrap();
        }
        let page = newest.into_page(None, &Redactor::default());
        let shown: Vec<_> = page.items.iter().map(|row| row.0.timestamp.as_second()).collect();
        let mut expected = seconds.clone();
        expected.sort_unstable_by_key(|second| Reverse(*second));
        expected.truncate(limit);
        prop_assert_eq!(shown, expected);
        prop_assert_eq!(page.more, Remaining::Exactly(seconds.len().saturating_sub(limit)));
    }
}

/// Whoever creates large events must not make the others unreadable.
#[tokio::test(start_paused = true)]
async fn pages_that_are_too_large_are_read_in_smaller_ones() {
    let cluster = demo_cluster::DemoCluster::default();
    for number in 0..40 {
        let message = if number == 7 {
            "small".to_owned()
        } else {
            "x".repeat(1 << 20)
        };
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "Large",
            "metadata": {"name": format!("large.{number}"), "namespace": "shop"},
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "shop"},
            "message": message,
        });
        cluster.put(event).unwrap();
    }
    let contexts = crate::Contexts::of_demo(&cluster);
    let query = &EventQuery {
        limit: 100,
        ..EventQuery::default()
    };
    let request = |cluster: Cluster| async move { cluster.events(query).await };
    let page = contexts
        .with_cluster(&crate::Actor::Server, None, request)
        .await
        .unwrap();
    assert_eq!((page.items.len(), page.caveat), (40, None));
    let small = page.items.iter().filter(|row| row.0.message == "small");
    assert_eq!(small.count(), 1);
    // One answer that cannot be made smaller is an error that says what to do.
    let (kind, name) = (
        &crate::KindQuery {
            kind: "events".to_owned(),
            api_version: None,
            refused: Vec::new(),
        },
        &crate::ListQuery {
            limit: 100,
            ..crate::ListQuery::default()
        },
    );
    let request = |cluster: Cluster| async move { cluster.object_texts(kind, name).await };
    let error = contexts
        .with_cluster(&crate::Actor::Server, None, request)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::TooLarge);
    assert!(error.to_string().contains("larger than 32 MiB"), "{error}");
    assert!(error.hint().unwrap().contains("ask for less"));
}

/// An event as anybody may write it, with times in any of its fields or in none.
fn any_event() -> impl Strategy<Value = Value> {
    let time = prop_oneof![
        Just(Value::Null),
        Just(json!("never")),
        Just(json!("9999-12-31T23:59:59Z")),
        (0..90_i64).prop_map(|second| {
            let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            json!((start + Duration::from_secs(second.unsigned_abs())).to_string())
        }),
    ];
    let times = prop::collection::vec(time, 5);
    let words = prop::collection::vec("[a-z\"\\\\é\n]{0,6}", 4);
    (times, words).prop_map(|(times, words)| {
        json!({
            "metadata": {
                "creationTimestamp": times[0], "resourceVersion": "17", "labels": {"a": "b"},
                "managedFields": [{"manager": words[0], "time": times[1]}],
            },
            "involvedObject": {"kind": words[1], "name": words[2], "fieldPath": words[0]},
            "reason": words[3], "type": words[0], "message": words[1],
            "firstTimestamp": times[1], "lastTimestamp": times[2], "eventTime": times[3],
            "series": {"count": 2, "lastObservedTime": times[4]},
        })
    })
}

proptest! {
    /// What decides about an event is the same, whether all of it was parsed or not.
    #[test]
    fn the_head_of_an_event_says_what_the_event_says(
        events in prop::collection::vec(any_event(), 0..8), token in "[a-z]{0,3}",
    ) {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let list = json!({
            "kind": "EventList", "metadata": {"resourceVersion": "9", "continue": token},
            "items": events,
        });
        let text = serde_json::to_vec(&list).unwrap();
        let mut early = None;
        let mut seen = 0;
        let meta = page::read(&text, |meta| early = Some(meta.clone()), |head, raw| {
            let event: WireEvent = serde_json::from_str(raw.get())?;
            let whole: WireEvent = serde_json::from_value(events[seen].clone())?;
            seen += 1;
            assert_eq!(head.times().believed(now).latest(now), Times::of(&event, now).last);
            assert_eq!(head.about_name(), self::text(whole.involved_object.name.as_ref()));
            assert_eq!(head.about_kind(), self::text(whole.involved_object.kind.as_ref()));
            assert_eq!(head.reason.as_str(), self::text(event.reason.as_ref()));
            assert_eq!(head.kind.as_str(), self::text(whole.kind.as_ref()));
            assert_eq!(head.version(), Some(17));
            Ok(())
        });
        let meta = meta.unwrap();
        prop_assert_eq!(seen, events.len());
        prop_assert_eq!(meta.next(), (!token.is_empty()).then_some(&*token));
        prop_assert_eq!(meta.resource_version.as_deref(), Some("9"));
        prop_assert_eq!(early, Some(meta), "known before the events");
    }

    #[test]
    fn fuzz_any_page_is_read_or_refused(
        text in prop_oneof!["\\PC{0,60}", "[\\[\\]{}\":,a-z0-9]{0,80}",
            "\\{\"metadata\":\\{\"continue\":\"x\"\\},\"items\":[\\[\\]{}\":,a-z]{0,20}\\}"],
    ) {
        let read = page::read(text.as_bytes(), |_| (), |_, _| Ok(()));
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert!(is_json || read.is_err(), "what is no JSON is no page: {text}");
    }
}

#[test]
fn a_list_without_items_is_empty() {
    for items in ["", r#","items":null"#, r#","items":[]"#] {
        let text = format!(r#"{{"metadata":{{"resourceVersion":"3"}}{items}}}"#);
        let none = |_: EventHead<'_>, _: &RawValue| panic!("there is no event");
        let meta = page::read(text.as_bytes(), |_| (), none).unwrap();
        assert_eq!(meta.next(), None);
    }
}
