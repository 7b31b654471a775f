use http::Request;
use kubecrier_core::metrics::AnswerMetrics;
use rmcp::{ServiceExt, model::GetExtensions, transport::Transport};
use serde_json::{Value, json};
use tokio::{
    task::{JoinSet, yield_now},
    time::{Duration, timeout},
};

use super::*;
use crate::{
    server::{Server, tests::setup},
    sessions::SessionLimits,
};

fn dispatcher() -> Arc<Dispatcher> {
    let sessions = Sessions::new(
        SessionLimits::default(),
        mcp_notify::Metrics::default(),
        AnswerMetrics::default(),
    );
    let sessions = Arc::new(sessions);
    let handler = Server::new(setup()).handler_for_sessions(Arc::clone(&sessions));
    Arc::new(Dispatcher::new(sessions, handler))
}

/// A message of a session, as rmcp hands it over.
fn message(id: &SessionId, message: Value) -> ClientJsonRpcMessage {
    let mut message: ClientJsonRpcMessage = serde_json::from_value(message).unwrap();
    let request = Request::builder().header("mcp-session-id", &**id);
    let (parts, ()) = request.body(()).unwrap().into_parts();
    match &mut message {
        JsonRpcMessage::Request(request) => {
            request.request.extensions_mut().insert(parts);
        }
        JsonRpcMessage::Notification(notification) => {
            notification.notification.extensions_mut().insert(parts);
        }
        JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
    }
    message
}

/// Begins a session as rmcp does, and returns the answer.
async fn initialize(dispatcher: &Arc<Dispatcher>, version: &str) -> (SessionId, Value) {
    let (id, transport) = dispatcher.create_session().await.unwrap();
    let mut worker = JoinSet::new();
    let (serving, session) = (Arc::clone(dispatcher), Arc::clone(&id));
    worker.spawn(async move {
        if let Ok(running) = serving.handler.clone().serve(transport).await {
            running.waiting().await.unwrap();
        }
        serving.close_session(&session).await.unwrap();
    });
    let params = json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let answer = (dispatcher
        .initialize_session(&id, message(&id, hello))
        .await)
        .unwrap();
    // The service of the handshake ends by itself.
    let ended = timeout(Duration::from_mins(1), worker.join_all());
    ended.await.expect("the service of the handshake is gone");
    (id, serde_json::to_value(answer).unwrap())
}

async fn ask(dispatcher: &Dispatcher, id: &SessionId, request: Value) -> Vec<Value> {
    let stream = dispatcher.create_stream(id, message(id, request)).await;
    let messages: Vec<_> = stream.unwrap().collect().await;
    (messages.into_iter())
        .filter_map(|one| Some(serde_json::to_value(one.message?).unwrap()))
        .collect()
}

/// Waits until nothing but the table of sessions and the test holds the session.
async fn until_asleep(entry: &Arc<HttpSession>) {
    let asleep = async {
        while Arc::strong_count(entry) > 2 {
            yield_now().await;
        }
    };
    let asleep = timeout(Duration::from_mins(1), asleep);
    asleep.await.expect("what was started for it has ended");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nothing_is_asked_of_has_no_service() {
    let dispatcher = dispatcher();
    let (id, answer) = initialize(&dispatcher, "2025-06-18").await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    let entry = dispatcher.sessions.get(&id).expect("the session goes on");
    until_asleep(&entry).await;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let accepted = dispatcher.accept_message(&id, message(&id, initialized));
    accepted.await.unwrap();
    until_asleep(&entry).await;
    assert_eq!(
        entry.session().outbox().stats().pending,
        3,
        "it was handled: each list is announced"
    );
    let requests = (1..=20).map(
        |number| json!({"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": {}}),
    );
    let answers = requests.map(|request| ask(&dispatcher, &id, request));
    let answers = futures_util::future::join_all(answers).await;
    for (number, answer) in (1..).zip(&answers) {
        assert_eq!(answer.len(), 1, "{answer:?}");
        assert_eq!(answer[0]["id"], number);
        assert!(answer[0]["result"]["tools"].is_array());
    }
    until_asleep(&entry).await;
    dispatcher.sessions.end(&id, "test");
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let ended = dispatcher.create_stream(&id, message(&id, request)).await;
    assert!(matches!(ended.err(), Some(SessionError::Ended)));
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_handshake_fails_is_none() {
    let dispatcher = dispatcher();
    let (id, transport) = dispatcher.create_session().await.unwrap();
    drop(transport);
    assert_eq!(dispatcher.sessions.count(), 1);
    dispatcher.close_session(&id).await.unwrap();
    assert_eq!(dispatcher.sessions.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_cancelled_request_still_says_is_not_the_answer_to_a_later_one_with_its_id() {
    let dispatcher = dispatcher();
    let (id, _) = initialize(&dispatcher, "2025-11-25").await;
    let entry = dispatcher.sessions.get(&id).unwrap();
    let request = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "slow", "_meta": {"progressToken": "p"}}});
    let begin = || {
        let reader = entry.register_request(&message(&id, request.clone()));
        let mut transport = None;
        entry.running.begin(Some(RequestId::Number(7)), |number| {
            let message = message(&id, request.clone());
            transport = Some(MessageTransport::new(Arc::clone(&entry), number, message));
        });
        (PostStream::new(reader.unwrap()), transport.unwrap())
    };
    let says = |text: &str| -> ServerJsonRpcMessage {
        let result = json!({"content": [{"type": "text", "text": text}]});
        serde_json::from_value(json!({"jsonrpc": "2.0", "id": 7, "result": result})).unwrap()
    };
    let progress = || -> ServerJsonRpcMessage {
        let params = json!({"progressToken": "p", "progress": 1});
        let progress =
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        serde_json::from_value(progress).unwrap()
    };
    let (first, mut cancelled) = begin();
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 7}});
    let accepted = dispatcher.accept_message(&id, message(&id, cancel));
    accepted.await.unwrap();
    let of_first: Vec<_> = first.collect().await;
    assert!(of_first.iter().all(|event| event.message.is_none()));
    let (second, mut running) = begin();
    cancelled.send(progress()).await.unwrap();
    cancelled.send(says("too late")).await.unwrap();
    running.send(says("in time")).await.unwrap();
    let of_second: Vec<_> = second.collect().await;
    let messages: Vec<_> = of_second
        .into_iter()
        .filter_map(|one| one.message)
        .collect();
    assert_eq!(messages.len(), 1, "{messages:?}");
    let text = serde_json::to_string(&messages[0]).unwrap();
    assert!(text.contains("in time"), "{text}");
}
