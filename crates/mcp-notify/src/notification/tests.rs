use serde_json::{Value, json};

use super::*;

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
