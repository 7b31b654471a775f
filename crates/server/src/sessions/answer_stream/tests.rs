use std::task::Waker;

use http_body_util::BodyExt;
use kubecrier_core::{metrics::AnswerMetrics, shares::CallerShare};
use mcp_notify::ProtocolVersion;
use rmcp::model::ClientJsonRpcMessage;
use serde_json::Value;
use tokio::time::advance;

use super::*;
use crate::{
    caller::Caller,
    sessions::{SessionLimits, Sessions, answers::HEALTHY_FOR, answers::Routed},
};

fn sessions(limits: SessionLimits) -> Sessions {
    Sessions::new(
        limits,
        mcp_notify::Metrics::default(),
        AnswerMetrics::default(),
    )
}

/// A session, as a client of that version of the protocol has it.
async fn begin(sessions: &Sessions, caller: &str, version: &str) -> Arc<HttpSession> {
    let caller = Caller::named(caller);
    let entry = caller.scope(async { sessions.create() }).await.unwrap();
    let version = ProtocolVersion::new(version.to_owned());
    entry.session.set_protocol_version(version);
    entry
}

fn ask(entry: &Arc<HttpSession>, id: i64) -> PostStream {
    let message: ClientJsonRpcMessage = serde_json::from_value(
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "slow"}}),
    )
    .unwrap();
    let reader = entry.register_request(&message).unwrap();
    PostStream::new(reader)
}

/// The service answers with a text of that size.
fn answer(entry: &HttpSession, id: i64, size: usize) {
    let result = json!({"content": [{"type": "text", "text": "x".repeat(size)}]});
    let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
    match entry.route(serde_json::from_value(response).unwrap()) {
        Routed::Taken => {}
        Routed::Unread(answer) => entry.park(answer),
        Routed::Other(other) => panic!("{other:?}"),
    }
}

/// The events that are there, and whether the stream has ended.
fn drain(stream: &mut PostStream) -> (Vec<ServerSseMessage>, bool) {
    let mut events = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match Pin::new(&mut *stream).poll_next(&mut cx) {
            Poll::Ready(Some(event)) => events.push(event),
            Poll::Ready(None) => return (events, true),
            Poll::Pending => return (events, false),
        }
    }
}

/// The status and everything of a response that ends.
async fn resumed(entry: &Arc<HttpSession>, id: &str) -> (StatusCode, String) {
    let response = resume(Arc::clone(entry), id.parse().unwrap());
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn data(text: &str) -> Vec<Value> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_answer_begins_with_an_id_and_a_retry_time_for_clients_that_know_them() {
    let sessions = sessions(SessionLimits::default());
    let entry = begin(&sessions, "ann", "2025-11-25").await;
    let mut post = ask(&entry, 1);
    answer(&entry, 1, 10);
    let (events, is_all) = drain(&mut post);
    assert!(is_all && events.len() == 2, "{events:?}");
    assert_eq!(events[0].event_id.as_deref(), Some("1-0"));
    assert!(events[0].message.is_none() && events[0].retry == Some(RETRY));
    assert_eq!(events[1].event_id.as_deref(), Some("1-1"));
    drop(post);
    assert_eq!(sessions.parked_bytes(), 0, "written at once");
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let entry = begin(&sessions, "ann", version).await;
        let mut post = ask(&entry, 1);
        answer(&entry, 1, 10);
        let (events, is_all) = drain(&mut post);
        assert!(is_all && events.len() == 1, "{events:?}");
        assert!(events[0].event_id.is_none() && events[0].retry.is_none());
        let lost = ask(&entry, 2);
        advance(HEALTHY_FOR).await;
        drop(lost);
        answer(&entry, 2, 10);
        assert_eq!(sessions.parked_bytes(), 0, "{version}");
        assert_eq!(resumed(&entry, "2-0").await.0, StatusCode::BAD_REQUEST);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_parks_the_answer_until_its_time_is_over() {
    let sessions = sessions(SessionLimits::default());
    let entry = begin(&sessions, "ann", "2025-11-25").await;
    drop(ask(&entry, 1));
    answer(&entry, 1, 1000);
    let parked = sessions.parked_bytes();
    assert!((1000..2000).contains(&parked), "{parked}");
    // As often as the client asks: it is the only one who knows what has arrived.
    for _ in 0..2 {
        let (status, text) = resumed(&entry, "1-0").await;
        assert_eq!((status, data(&text).len()), (StatusCode::OK, 1));
        let first = "id: 1-0\nretry: 1000\ndata: \n\nid: 1-1\ndata: {";
        assert!(text.starts_with(first), "{text}");
        assert_eq!(data(&text)[0]["id"], 1);
    }
    let (status, text) = resumed(&entry, "1-1").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(text, "id: 1-1\nretry: 1000\ndata: \n\n", "and nothing else");
    advance(SessionLimits::default().park_for).await;
    let (status, text) = resumed(&entry, "1-0").await;
    let told = &data(&text)[0];
    assert_eq!((status, &told["id"]), (StatusCode::OK, &json!(1)));
    assert_eq!(told["error"]["data"]["reason"], "expired");
    let message = told["error"]["message"].as_str().unwrap();
    assert!(message.contains("send the request again"), "{message}");
    assert_eq!(sessions.parked_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_silent_connection_took_is_kept_too() {
    let sessions = sessions(SessionLimits::default());
    let entry = begin(&sessions, "ann", "2025-11-25").await;
    let mut post = ask(&entry, 1);
    advance(HEALTHY_FOR).await;
    answer(&entry, 1, 1000);
    assert!(drain(&mut post).1);
    assert_eq!(sessions.parked_bytes(), 0, "it is still being written");
    drop(post);
    assert!(sessions.parked_bytes() >= 1000);
    assert_eq!(data(&resumed(&entry, "1-0").await.1)[0]["id"], 1);
    sessions.close_all();
    assert_eq!(sessions.parked_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_caller_parks_no_more_than_its_share() {
    let sessions = sessions(SessionLimits {
        parked_bytes_max: 100_000,
        share: CallerShare::HALF,
        ..SessionLimits::default()
    });
    let greedy = begin(&sessions, "greedy", "2025-11-25").await;
    let more = begin(&sessions, "greedy", "2025-11-25").await;
    let modest = begin(&sessions, "modest", "2025-11-25").await;
    for (entry, id) in [
        (&greedy, 1),
        (&more, 1),
        (&greedy, 2),
        (&modest, 1),
        (&modest, 2),
    ] {
        drop(ask(entry, id));
        answer(entry, id, 20_000);
    }
    let reason = async |entry, id| {
        let (_, text) = resumed(entry, id).await;
        let told = data(&text).remove(0);
        told["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let refused = reason(&greedy, "2-0").await;
    for word in [
        "this caller",
        "--caller-share of --max-parked-answer-bytes",
        "again",
    ] {
        assert!(refused.contains(word), "{refused}");
    }
    for (entry, id) in [
        (&greedy, "1-0"),
        (&more, "1-0"),
        (&modest, "1-0"),
        (&modest, "2-0"),
    ] {
        assert_eq!(reason(entry, id).await, "", "{id}");
    }
    assert!(sessions.parked_bytes() <= 100_000);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_waits_for_long_is_closed_and_the_client_polls() {
    let poll_after = Duration::from_secs(5);
    let sessions = sessions(SessionLimits {
        poll_after: Some(poll_after),
        ..SessionLimits::default()
    });
    let entry = begin(&sessions, "ann", "2025-11-25").await;
    let old = begin(&sessions, "ann", "2025-06-18").await;
    let (mut post, mut waits) = (ask(&entry, 1), ask(&old, 1));
    assert!(!drain(&mut post).1 && !drain(&mut waits).1);
    advance(poll_after).await;
    assert!(drain(&mut post).1);
    assert!(
        !drain(&mut waits).1,
        "its version does not know how to poll"
    );
    drop(post);
    let (_, text) = resumed(&entry, "1-0").await;
    assert_eq!(text, "id: 1-0\nretry: 1000\ndata: \n\n", "and closed again");
    answer(&entry, 1, 10);
    assert_eq!(data(&resumed(&entry, "1-0").await.1)[0]["id"], 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_time_to_park_nothing_is_parked() {
    let sessions = sessions(SessionLimits {
        park_for: Duration::ZERO,
        ..SessionLimits::default()
    });
    let entry = begin(&sessions, "ann", "2025-11-25").await;
    let mut post = ask(&entry, 1);
    assert!(drain(&mut post).0.is_empty());
    drop(post);
    answer(&entry, 1, 10);
    assert_eq!(sessions.parked_bytes(), 0);
    assert_eq!(resumed(&entry, "1-0").await.0, StatusCode::BAD_REQUEST);
}
