use bytes::Bytes;
use mcp_notify::ProtocolVersion;
use proptest::prelude::*;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest};

use super::*;

fn code(text: &str) -> Option<i32> {
    check(text.as_bytes()).err().map(|refusal| refusal.code)
}

#[test]
fn values_are_counted_with_their_names() {
    let count = |text: &str| check(text.as_bytes()).unwrap().values;
    assert_eq!(count("{}"), 1);
    assert_eq!(count(r#"{"a":1}"#), 3);
    assert_eq!(count(r#"{"a":[1,-2,0.5,null,true,"x",[]]}"#), 10);
}

#[test]
fn only_json_objects_and_arrays_are_messages_and_batches() {
    let shape = |text: &str| check(text.as_bytes()).unwrap().shape;
    assert_eq!(shape(r#" {"jsonrpc":"2.0"}"#), Shape::Message);
    assert_eq!(shape(r#"[{"jsonrpc":"2.0"}]"#), Shape::Batch);
    assert_eq!(code("3"), Some(INVALID_REQUEST));
    for broken in ["", "{", "{]", "{} {}", "\u{feff}{}", "nul"] {
        assert_eq!(code(broken), Some(PARSE_ERROR), "{broken}");
    }
    // Deep nesting is an error, not a crash.
    assert_eq!(code(&"[".repeat(100_000)), Some(PARSE_ERROR));
}

#[test]
fn what_is_wrong_with_a_message_is_named_under_its_id() {
    let check = |text: &str, id: Value, word: &str| {
        assert!(
            serde_json::from_str::<ClientJsonRpcMessage>(text).is_err(),
            "{text}"
        );
        let refusal = explain(text.as_bytes());
        assert_eq!(refusal.code, INVALID_REQUEST, "{text}");
        assert_eq!(refusal.id, id, "{text}");
        assert!(refusal.message.contains(word), "{refusal:?}");
    };
    check(r#"{"id":1,"method":"ping"}"#, json!(1), "jsonrpc");
    check(
        r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#,
        json!("a"),
        "jsonrpc",
    );
    check(
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        json!(null),
        "`id`",
    );
    check(
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        json!(null),
        "`id`",
    );
    check(
        r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
        json!(1),
        "`method`",
    );
    check(r#"{"jsonrpc":"2.0"}"#, json!(null), "`result`");
    check(
        r#"{"jsonrpc":"2.0","id":2,"result":{},"error":{}}"#,
        json!(2),
        "JSON-RPC",
    );
}

#[test]
fn what_an_initialize_leaves_out_has_a_default() {
    let version = |params: &str, named: Option<&str>| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":"init","method":"initialize"{params}}}"#);
        let whole = complete(&Bytes::from(text), named).unwrap();
        match serde_json::from_slice::<ClientJsonRpcMessage>(&whole).unwrap() {
            ClientJsonRpcMessage::Request(request) => match request.request {
                ClientRequest::InitializeRequest(one) => one.params.protocol_version.to_string(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    for params in [
        "",
        r#","params":null"#,
        r#","params":{}"#,
        r#","params":{"clientInfo":{}}"#,
    ] {
        assert_eq!(version(params, None), "2025-11-25", "{params}");
        assert_eq!(
            version(params, Some("2025-06-18")),
            "2025-06-18",
            "{params}"
        );
    }
    let old = r#","params":{"protocolVersion":"2025-03-26"}"#;
    assert_eq!(version(old, Some("2025-06-18")), "2025-03-26");
}

#[test]
fn what_an_initialize_has_must_be_of_its_kind() {
    let check = |rest: &str, code: i32, word: &str| {
        let text = format!(r#"{{"jsonrpc":"2.0","method":"initialize"{rest}}}"#);
        let refusal = complete(&Bytes::from(text), None).unwrap_err();
        assert_eq!(refusal.code, code, "{rest}");
        assert!(refusal.message.contains(word), "{refusal:?}");
    };
    let params = |params: &str| format!(r#","id":1,"params":{params}"#);
    for (given, word) in [
        ("[]", "`params` must be an object"),
        (r#"{"protocolVersion":5}"#, "`params.protocolVersion`"),
        (r#"{"capabilities":[]}"#, "`params.capabilities`"),
        (r#"{"clientInfo":"me"}"#, "`params.clientInfo`"),
        (r#"{"clientInfo":{"name":1}}"#, "`params.clientInfo.name`"),
        (r#"{"capabilities":{"roots":5}}"#, "`params`: "),
    ] {
        check(&params(given), INVALID_PARAMS, word);
    }
    check(r#","params":{}"#, INVALID_REQUEST, "`id`");
    check(r#","id":[],"params":{}"#, INVALID_REQUEST, "`id`");
}

#[test]
fn a_batch_is_split_and_has_no_message_that_stands_alone() {
    let refused = |text: &str| split(text.as_bytes()).unwrap_err().code;
    assert_eq!(refused("[]"), INVALID_REQUEST);
    assert_eq!(
        refused(&format!("[{}1]", "1,".repeat(100))),
        INVALID_REQUEST
    );
    let text = r#"[{"id":1,"method":"ping"},5,{"id":2,"method":"initialize"},
        {"id":3,"method":"subscriptions/listen"},{"method":"x"}]"#;
    let ids: Vec<_> = (split(text.as_bytes()).unwrap().into_iter())
        .map(|item| match item {
            BatchItem::Message(message) => (true, message["id"].clone()),
            BatchItem::Refused(refusal) => (false, refusal.id),
        })
        .collect();
    let none = Value::Null;
    assert_eq!(
        ids,
        [
            (true, json!(1)),
            (false, none.clone()),
            (false, json!(2)),
            (false, json!(3)),
            (true, none)
        ]
    );
    let with = |version| batches_are_known(Some(&version));
    assert!(with(ProtocolVersion::V_2025_03_26));
    for other in [
        ProtocolVersion::V_2024_11_05,
        ProtocolVersion::V_2025_06_18,
        ProtocolVersion::V_2025_11_25,
        ProtocolVersion::V_2026_07_28,
    ] {
        assert!(!with(other));
    }
    assert!(!batches_are_known(None));
}

/// The quick check agrees with a full parse, and every answer says something.
fn check_against_a_full_parse(text: &[u8]) -> Result<(), TestCaseError> {
    let parsed = serde_json::from_slice::<Value>(text);
    let answer = check(text);
    // A number may be too large for the full parser and yet be JSON.
    if parsed.is_ok() || answer.is_err() {
        let is_taken = parsed.is_ok_and(|parsed| parsed.is_object() || parsed.is_array());
        prop_assert_eq!(answer.is_ok(), is_taken);
    }
    let told = |refusal: &Refusal| !refusal.message.is_empty() && refusal.message.len() < 300;
    match answer {
        Err(refusal) => prop_assert!(told(&refusal), "{:?}", refusal),
        Ok(Checked {
            shape: Shape::Batch,
            ..
        }) => {
            prop_assert!(split(text).map_or_else(|refusal| told(&refusal), |all| !all.is_empty()));
        }
        Ok(_) => {
            prop_assert!(told(&explain(text)));
            if let Ok(whole) = complete(&Bytes::copy_from_slice(text), None) {
                prop_assert!(check(&whole).is_ok());
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn fuzz_any_text_is_answered(text in prop::collection::vec(any::<u8>(), 0..200)) {
        check_against_a_full_parse(&text)?;
    }

    #[test]
    fn fuzz_what_looks_like_a_message_is_answered(
        text in r#"[ \n]{0,2}[\[{]{0,3}("(method|id|params|jsonrpc)":)?("initialize"|"2.0"|\[|\{|null|-?[0-9e.]{1,30}|"\\\\u[0-9a-f]{0,4}")?,?[}\]]{0,3}"#,
    ) {
        check_against_a_full_parse(text.as_bytes())?;
    }
}
