use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::{Level, LogMessage, Voice};

struct Unserialisable;

impl Serialize for Unserialisable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no such thing on the wire"))
    }
}

fn parsed(notification: &Notification) -> Value {
    serde_json::from_slice(notification.frame().unwrap()).unwrap()
}

#[test]
fn a_frame_is_json_rpc_2_without_an_id() {
    let notification = Notification::builder(Method::MESSAGE)
        .params(&json!({"data": "line\nbreak"}))
        .build();
    assert_eq!(
        parsed(&notification),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "line\nbreak"}})
    );
    assert!(
        !notification.frame().unwrap().contains(&b'\n'),
        "a frame is one line"
    );
}

#[test]
fn without_parameters_the_key_is_absent() {
    let notification = Notification::builder(Method::TOOLS_LIST_CHANGED).build();
    assert_eq!(
        parsed(&notification),
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    );
    assert_eq!(notification.params().unwrap(), None);
}

#[test]
fn parameters_are_a_slice_of_the_frame_and_clones_share_it() {
    let notification = Notification::builder(Method::MESSAGE)
        .params(&json!({"a": 1}))
        .build();
    let frame = notification.frame().unwrap().clone();
    let params = notification.params().unwrap().unwrap();
    assert_eq!(&params[..], br#"{"a":1}"#);
    assert!(
        frame.as_ptr_range().contains(&params.as_ptr()),
        "no copy was made"
    );
    assert_eq!(
        notification.clone().frame().unwrap().as_ptr(),
        frame.as_ptr()
    );
    assert!(notification.same(&notification.clone()));
    let twin = Notification::builder(Method::MESSAGE)
        .params(&json!({"a": 1}))
        .build();
    assert!(!notification.same(&twin));
}

#[test]
fn a_payload_that_cannot_be_serialised_is_a_notification_without_bytes() {
    let notification = Notification::builder(Method::MESSAGE)
        .params(&Unserialisable)
        .build();
    assert!(matches!(notification.frame(), Err(EncodeError::Json(_))));
    assert!(notification.params().is_err());
    assert_eq!(notification.bytes_len(), 0);
}

#[test]
fn parameters_that_are_no_object_are_refused() {
    for params in [json!(1), json!(null), json!([1]), json!("text")] {
        let notification = Notification::builder(Method::MESSAGE)
            .params(&params)
            .build();
        assert!(
            matches!(notification.frame(), Err(EncodeError::NotAnObject)),
            "{params}"
        );
    }
}

#[test]
fn keys_are_equal_for_the_same_method_and_text_only() {
    let key = |method, text| {
        Notification::builder(method)
            .coalesce(text)
            .build()
            .coalesce_key()
            .cloned()
            .unwrap()
    };
    assert_eq!(
        key(Method::RESOURCE_UPDATED, "a"),
        key(Method::RESOURCE_UPDATED, "a")
    );
    assert_ne!(
        key(Method::RESOURCE_UPDATED, "a"),
        key(Method::RESOURCE_UPDATED, "b")
    );
    assert_ne!(
        key(Method::RESOURCE_UPDATED, "a"),
        key(Method::MESSAGE, "a")
    );
}

#[test]
fn a_frame_is_one_line_also_if_its_parameters_were_kept_as_text() {
    let raw = "{\n  \"a\": \"x\\ny\",\r\n  \"b\": [1,\n2]\n}";
    let raw = serde_json::value::RawValue::from_string(raw.to_owned()).unwrap();
    let notification = Notification::builder(Method::MESSAGE).params(&raw).build();
    let frame = notification.frame().unwrap();
    assert!(!frame.iter().any(|byte| matches!(byte, b'\n' | b'\r')));
    let frame: Value = serde_json::from_slice(frame).unwrap();
    assert_eq!(
        frame["params"],
        serde_json::json!({"a": "x\ny", "b": [1, 2]})
    );
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!({})),
        Just(json!({"deep": [{}, "}}}"]})),
    ];
    proptest::collection::btree_map(".{0,6}", value, 0..4).prop_map(|map| map.into_iter().collect())
}

proptest! {
    /// Shared or not, the message is the same.
    #[test]
    fn members_are_the_same_wherever_they_were_serialised(
        first in object(), own in object(), shared in object(),
    ) {
        let named = |name: &str, object: Map<String, Value>| -> Map<String, Value> {
            object.into_iter().map(|(key, value)| (format!("{name} {key}"), value)).collect()
        };
        let (first, own, shared) = (named("first", first), named("own", own), named("shared", shared));
        let members = SharedMembers::new(&shared).unwrap();
        let voice = Voice::new(Level::Info, "x", &first).unwrap();
        let said = voice.say(&own, Some(members.clone()));
        let mut data = first;
        data.extend(own);
        let notification = LogMessage::new(Level::Info, &data).logger("x").shared(members)
            .into_notification();
        prop_assert_eq!(parsed(&said), parsed(&notification));
        let params = said.params().unwrap().unwrap();
        prop_assert_eq!(&parsed(&said)["params"], &serde_json::from_slice::<Value>(&params).unwrap());
        data.extend(shared);
        let expected = json!({"level": "info", "logger": "x", "data": data});
        prop_assert_eq!(&parsed(&notification)["params"], &expected);
        let params = notification.params().unwrap().unwrap();
        prop_assert_eq!(serde_json::from_slice::<Value>(&params).unwrap(), expected);
        let frame = notification.frame().unwrap();
        prop_assert_eq!(&notification.pieces().unwrap().concat()[..], &frame[..]);
        prop_assert_eq!(notification.bytes_len(), frame.len());
        prop_assert!(!frame.contains(&b'\n'));
    }
}

#[test]
fn shared_members_are_kept_once() {
    let members = SharedMembers::new(&json!({"a": "x".repeat(1000)})).unwrap();
    let message = |own: u8| {
        let data = json!({"own": own});
        let message = LogMessage::new(Level::Info, &data).shared(members.clone());
        message.into_notification()
    };
    let (one, two) = (message(1), message(2));
    let shared = |of: &Notification| of.pieces().unwrap()[1].as_ptr();
    assert_eq!(shared(&one), shared(&two));
}

#[test]
fn only_objects_have_members() {
    for data in [json!(1), json!(null), json!([1]), json!("}}}"), json!([{}])] {
        assert!(matches!(
            SharedMembers::new(&data),
            Err(EncodeError::NotAnObject)
        ));
        assert!(matches!(
            Voice::new(Level::Info, "x", &data),
            Err(EncodeError::NotAnObject)
        ));
        let voice = Voice::new(Level::Info, "x", &json!({})).unwrap();
        assert!(voice.say(&data, None).frame().is_err(), "{data}");
        let members = SharedMembers::new(&json!({"a": 1})).unwrap();
        let notification = LogMessage::new(Level::Info, &data)
            .shared(members)
            .into_notification();
        assert!(
            matches!(notification.frame(), Err(EncodeError::NotAnObject)),
            "{data}"
        );
    }
    assert!(matches!(
        SharedMembers::new(&Unserialisable),
        Err(EncodeError::Json(_))
    ));
}
