use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::testing::FileResource;
use crate::{Level, LogMessage, MessageTemplate};

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
    /// The message does not depend on how it was composed.
    #[test]
    fn members_are_the_same_wherever_they_were_serialised(
        first in object(), own in object(), shared in object(),
    ) {
        let named = |name: &str, object: Map<String, Value>| -> Map<String, Value> {
            object.into_iter().map(|(key, value)| (format!("{name} {key}"), value)).collect()
        };
        let (first, own, shared) = (named("first", first), named("own", own), named("shared", shared));
        let members = SharedMembers::new(&shared).unwrap();
        let template = MessageTemplate::new(Level::Info, "x", &first).unwrap();
        let notification = template.render(&own, members);
        let mut data = first;
        data.extend(own);
        data.extend(shared);
        let built = LogMessage::new(Level::Info, &data).logger("x").into_notification();
        prop_assert_eq!(parsed(&notification), parsed(&built));
        let params = notification.params().unwrap().unwrap();
        prop_assert_eq!(serde_json::from_slice::<Value>(&params).unwrap(), parsed(&built)["params"].clone());
        let frame = notification.frame().unwrap();
        prop_assert_eq!(&notification.pieces().unwrap().concat()[..], &frame[..]);
        prop_assert_eq!((notification.bytes_len(), built.bytes_len()), (frame.len(), frame.len()));
        prop_assert!(!frame.contains(&b'\n'));
    }
}

#[test]
fn what_messages_have_in_common_is_kept_once() {
    let shared = SharedMembers::new(&json!({"a": "x".repeat(1000)})).unwrap();
    let resource = ResourceRef::new(FileResource::Document, "shop://x");
    let templates = ["one", "two"].map(|name| {
        let template = MessageTemplate::new(Level::Notice, name, &json!({"for": name})).unwrap();
        template.resource(resource.clone())
    });
    let [one, two] = &templates;
    let rendered =
        [one, one, two].map(|template| template.render(&json!({"seq": 1}), shared.clone()));
    let piece = |of: usize, nth: usize| rendered[of].pieces().unwrap()[nth].as_ptr();
    assert_eq!(piece(0, 0), piece(1, 0), "one template");
    assert_ne!(piece(0, 0), piece(2, 0));
    assert_eq!(
        (piece(0, 2), piece(1, 2)),
        (piece(1, 2), piece(2, 2)),
        "the same news"
    );
    assert_eq!(rendered[0].resource(), Some(&resource));
    assert_eq!(rendered[0].method(), &Method::MESSAGE);
}

#[test]
fn a_part_of_shared_members_is_left_out_and_the_rest_kept_once() {
    let shared = SharedMembers::new(&json!({"a": 1, "b": {"c": 2}, "d": 3})).unwrap();
    assert_eq!(shared.to_object(), br#"{"a":1,"b":{"c":2},"d":3}"#);
    assert_eq!(shared.without(99..99).to_object(), shared.to_object());
    let twice = shared.without(0..6).without(18..24);
    assert_eq!(twice.to_object(), b"{}", "and what is between");
    let again = shared.without(12..17).without(99..99);
    assert_eq!(again.to_object(), br#"{"a":1,"b":{},"d":3}"#);
    for (part, left) in [
        (12..17, r#"{"a":1,"b":{},"d":3}"#),
        (0..6, r#"{"b":{"c":2},"d":3}"#),
        (18..99, r#"{"a":1,"b":{"c":2}}"#),
        (0..99, "{}"),
    ] {
        let some = shared.without(part);
        assert_eq!(some.to_object(), left.as_bytes());
        assert_eq!(some.bytes_len(), some.pieces().concat().len());
        for first in [json!({}), json!({"seq": 1})] {
            let template = MessageTemplate::new(Level::Notice, "x", &json!({})).unwrap();
            let message = parsed(&template.render(&first, some.clone()));
            let mut data: Value = serde_json::from_str(left).unwrap();
            data.as_object_mut()
                .unwrap()
                .extend(first.as_object().unwrap().clone());
            assert_eq!(message["params"]["data"], data);
        }
    }
}

#[test]
fn only_objects_have_members() {
    let template = MessageTemplate::new(Level::Info, "x", &json!({})).unwrap();
    for data in [json!(1), json!(null), json!([1]), json!("}}}"), json!([{}])] {
        let shared = SharedMembers::new(&data);
        assert!(matches!(shared, Err(EncodeError::NotAnObject)));
        let silent = MessageTemplate::new(Level::Info, "x", &data);
        assert!(matches!(silent, Err(EncodeError::NotAnObject)));
        let rendered = template.render(&data, SharedMembers::default());
        assert!(
            matches!(rendered.frame(), Err(EncodeError::NotAnObject)),
            "{data}"
        );
        assert_eq!(rendered.bytes_len(), 0);
    }
    let shared = SharedMembers::new(&Unserialisable);
    assert!(matches!(shared, Err(EncodeError::Json(_))));
}

/// Kept as text, an object may be empty and have spaces in it.
#[test]
fn spaces_are_no_members() {
    let raw = |text: &str| serde_json::value::RawValue::from_string(text.to_owned()).unwrap();
    for empty in ["{}", "{ }", "{\n}"] {
        for full in ["{\"a\":1}", "{ \"a\": 1\n}"] {
            let texts = [
                (empty, empty, full),
                (empty, full, empty),
                (full, empty, empty),
            ];
            for (first, own, shared) in texts {
                let template = MessageTemplate::new(Level::Info, "x", &raw(first)).unwrap();
                let shared = SharedMembers::new(&raw(shared)).unwrap();
                let rendered = template.render(&raw(own), shared);
                assert_eq!(
                    parsed(&rendered)["params"]["data"],
                    json!({"a": 1}),
                    "{rendered:?}"
                );
            }
        }
    }
}

#[test]
fn a_mark_goes_with_the_notification_and_not_into_it() {
    let mark = Mark {
        feed: 7,
        position: [1, 2, 3, 4],
    };
    let method = CustomMethod::new("notifications/shop/order").unwrap();
    let plain = Notification::custom(method, &serde_json::json!({"order": 1}));
    let frame = plain.frame().unwrap().clone();
    let shared = plain.clone();
    assert_eq!(plain.marked(mark).mark(), None, "it is shared already");
    drop(shared);
    let method = CustomMethod::new("notifications/shop/order").unwrap();
    let marked = Notification::custom(method, &serde_json::json!({"order": 1})).marked(mark);
    assert_eq!(marked.mark(), Some(mark));
    assert_eq!(marked.clone().mark(), Some(mark));
    assert_eq!(marked.frame().unwrap(), &frame);
}

#[test]
fn every_gate_has_to_be_open_whether_it_was_shared_before_or_not() {
    struct Door(bool);
    impl Gate for Door {
        fn admit(&self) -> Admission {
            if self.0 {
                Admission::Open
            } else {
                Admission::Shut
            }
        }
    }
    let order = || {
        let method = CustomMethod::new("notifications/shop/order").unwrap();
        Notification::custom(method, &serde_json::json!({"order": 1}))
    };
    let is_open = |one: &Notification| matches!(one.admit(), Admission::Open);
    assert!(is_open(&order()));
    for (first, second) in [(true, true), (true, false), (false, true), (false, false)] {
        let once = order().gated(Arc::new(Door(first)));
        assert_eq!(is_open(&once), first);
        // The clone keeps the gate that it had.
        let twice = once.clone().gated(Arc::new(Door(second)));
        assert_eq!(is_open(&twice), first && second);
        assert_eq!(is_open(&once), first);
        assert_eq!(twice.frame().unwrap(), once.frame().unwrap());
        let unshared = order()
            .gated(Arc::new(Door(first)))
            .gated(Arc::new(Door(second)));
        assert_eq!(is_open(&unshared), first && second);
    }
    let open = order();
    let shut = open.clone().gated(Arc::new(Door(false)));
    assert!(is_open(&open) && !is_open(&shut));
}
