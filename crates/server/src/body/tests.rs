use proptest::prelude::*;

use super::*;

#[test]
fn what_begins_a_session_is_known() {
    let begins = |body: &str| MessageKind::of(body.as_bytes()) == MessageKind::Initialize;
    assert!(begins(r#"{"id":1,"method":"initialize","params":{}}"#));
    assert!(begins(r#"{"id":1,"method":"initial\u0069ze"}"#));
    assert!(!begins(r#"{"id":1,"method":"tools/list"}"#));
    assert!(!begins(r#"{"params":{"method":"initialize"}}"#));
    assert!(!begins(r#"["initialize"]"#));
}

#[test]
fn what_asks_for_work_is_known_however_it_is_written() {
    let kind = |body: &str| MessageKind::of(body.as_bytes());
    assert_eq!(kind(r#"{"id":1,"method":"tools/call"}"#), MessageKind::Call);
    let twice = r#"{"id":1,"method":"x","method":"tools/call"}"#;
    assert_eq!(kind(twice), MessageKind::Call);
    assert_eq!(kind(r#"{"id":[],"method":3}"#), MessageKind::Call);
    let listen = r#"{"id":1,"method":"subscriptions/listen"}"#;
    assert_eq!(kind(listen), MessageKind::Listen);
    let wait =
        r#"{"id":1,"method":"tools/call","params":{"arguments":{},"name":"faults\u005fwait"}}"#;
    assert_eq!(kind(wait), MessageKind::Wait);
    for call in [
        r#"{"id":1,"method":"tools/call","params":{"name":"faults_list"}}"#,
        r#"{"id":1,"method":"tools/call","params":{"name":["faults_wait"]}}"#,
        // Which of the two is called is rmcp's to decide, so it counts as any call.
        r#"{"id":1,"method":"tools/call","params":{"name":"faults_wait"},"params":{"name":"pods_log"}}"#,
        r#"{"id":1,"method":"tools/call","params":{"name":"faults_wait","name":"pods_log"}}"#,
        r#"{"id":1,"method":"prompts/get","params":{"name":"faults_wait"}}"#,
    ] {
        assert_eq!(kind(call), MessageKind::Call, "{call}");
    }
    for reply in [
        r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#,
        r#"{"id":1,"result":{}}"#,
        r#"{"id":1,"error":{"code":1,"message":""}}"#,
    ] {
        assert_eq!(kind(reply), MessageKind::Reply, "{reply}");
    }
}

fn body(chunks: Vec<Vec<u8>>) -> Body {
    let chunks = chunks
        .into_iter()
        .map(|chunk| Ok::<_, axum::Error>(Bytes::from(chunk)));
    Body::from_stream(futures_util::stream::iter(chunks))
}

/// A message of so many bytes that is one string.
fn long(bytes: usize) -> Vec<u8> {
    let frame = br#"{"a":""}"#.len();
    format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - frame)).into_bytes()
}

#[tokio::test(start_paused = true)]
async fn a_body_counts_with_what_it_becomes_in_memory_until_it_is_dropped() {
    let bodies = SharedLimit::new(LimitName::new("bytes", ""), 10_000, CallerShare::HALF);
    let (greedy, modest) = (ShareKey::Process, ShareKey::Caller("modest".into()));
    let held = read(body(vec![long(3000)]), &bodies, &greedy)
        .await
        .unwrap();
    assert_eq!(bodies.used(), 3000 + 3 * VALUE_BYTES);
    let refused = read(body(vec![long(1000), long(1000)]), &bodies, &greedy).await;
    assert_eq!(refused.unwrap_err().status(), StatusCode::TOO_MANY_REQUESTS);
    // Few bytes, but many values.
    let many = format!(r#"{{"a":[{}0]}}"#, "0,".repeat(40)).into_bytes();
    let refused = read(body(vec![many]), &bodies, &greedy).await;
    assert_eq!(refused.unwrap_err().status(), StatusCode::TOO_MANY_REQUESTS);
    let other = read(body(vec![long(4000)]), &bodies, &modest)
        .await
        .unwrap();
    drop((held, other));
    assert_eq!(bodies.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_counts_only_for_what_has_come_and_ends_in_time() {
    let bodies = SharedLimit::new(LimitName::new("bytes", ""), 10_000, CallerShare::HALF);
    let stuck = futures_util::stream::iter([Ok::<_, axum::Error>(Bytes::from_static(b"{"))]);
    let stuck = futures_util::StreamExt::chain(stuck, futures_util::stream::pending());
    let mut reading =
        tokio_test::task::spawn(read(Body::from_stream(stuck), &bodies, &ShareKey::Process));
    tokio_test::assert_pending!(reading.poll());
    assert_eq!(bodies.used(), 1);
    let refused = reading.await.unwrap_err();
    assert_eq!(refused.status(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(bodies.used(), 0);
}

/// What begins a session is known.
fn check_against_a_full_parse(body: &[u8]) -> Result<(), TestCaseError> {
    if MessageKind::of(body) == MessageKind::Initialize
        && let Ok(parsed) = serde_json::from_slice::<serde_json::Value>(body)
    {
        prop_assert_eq!(&parsed["method"], "initialize");
    }
    Ok(())
}

proptest! {
    #[test]
    fn fuzz_any_bytes_are_answered(body in prop::collection::vec(any::<u8>(), 0..200)) {
        check_against_a_full_parse(&body)?;
    }

    #[test]
    fn fuzz_what_looks_like_a_message_is_answered(
        body in r#"[ \n]{0,2}[\[{]{0,3}("(method|id|params)":)?("initialize"|\[|\{|null|-?[0-9e.]{1,30}|"\\\\u[0-9a-f]{0,4}")?,?[}\]]{0,3}"#,
    ) {
        check_against_a_full_parse(body.as_bytes())?;
    }
}
