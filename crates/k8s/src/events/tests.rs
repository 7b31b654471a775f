use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

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
    let expected = r#"{"lastSeen":"2026-01-01T00:00:01Z","namespace":"shop","type":"Warning","reason":"BackOff","involvedObject":{"apiVersion":"","kind":"Pod","name":"web","namespace":""},"count":1,"firstSeen":"2026-01-01T00:00:01Z","message":"password=[redacted password]"}"#;
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
            newest.offer(at, wire(json!({"lastTimestamp": at.to_string()})));
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
