//! Running calls and the bodies of messages.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use reqwest::StatusCode;
use serde_json::{Value, json};
use testbed::{LogScript, User, pod};

use super::{Shared, no_cluster, token};
use crate::harness::{HttpSession, Stream, TIMEOUT, one_context};

const MIB: usize = 1024 * 1024;

/// A call that does not end by itself.
fn stuck(id: u64, pod: &str) -> Value {
    let params = json!({"name": "pods_log", "arguments": {"name": pod}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

async fn create_stuck(name: &str) {
    let bed = testbed::shared().unwrap();
    let object = pod("default", name, &["app"]);
    bed.dev().create(&object).await.unwrap();
    let never = LogScript::lines(["never"]).delayed(Duration::from_hours(1));
    bed.dev()
        .node()
        .set_log(&format!("default/{name}/app"), never);
}

/// Waits until a request of the session is admitted.
async fn until_admitted(session: &HttpSession, message: &Value) -> reqwest::Response {
    let admitted = async {
        loop {
            let answer = session.post(message).await;
            if answer.status() == StatusCode::OK {
                return answer;
            }
            assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    (tokio::time::timeout(TIMEOUT, admitted).await).expect("there is room again")
}

/// A call counts until its work is done, whether its client waits for it or not.
#[tokio::test]
async fn running_calls() {
    let Some(bed) = testbed::shared() else { return };
    create_stuck("never-ends").await;
    let file = one_context(bed.dev(), User::Reader);
    let arguments = [
        "--max-concurrent-requests",
        "6",
        "--request-timeout-seconds",
        "60",
    ];
    let shared = Shared::start(&file.path, &arguments).await;
    let (greedy, modest) = (shared.greedy(), shared.modest());
    let more = shared.another("greedy").await;
    let mut answers = Vec::new();
    for (id, session) in [(70, greedy), (71, greedy), (72, &more)] {
        answers.push(until_admitted(session, &stuck(id, "never-ends")).await);
    }
    // The client goes away, as a session's client may: the calls go on.
    drop(answers.drain(1..));
    for session in [greedy, &more] {
        let refused = session.post(&stuck(80, "never-ends")).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.headers()["retry-after"], "1");
        let text = refused.text().await.unwrap();
        let words = [
            "3 running requests",
            "--caller-share of --max-concurrent-requests",
        ];
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {}});
    for _ in 0..3 {
        until_admitted(modest, &stuck(70, "never-ends")).await;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 70}});
        assert_eq!(modest.post(&cancel).await.status(), StatusCode::ACCEPTED);
        until_admitted(modest, &list).await.text().await.unwrap();
    }
    // There is always room for a cancellation, and it makes room.
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 71}});
    assert_eq!(greedy.post(&cancel).await.status(), StatusCode::ACCEPTED);
    until_admitted(greedy, &list).await.text().await.unwrap();
}

/// Without a session, a client that disconnects has cancelled its call.
#[tokio::test]
async fn a_call_without_a_session_ends_with_its_connection() {
    let Some(bed) = testbed::shared() else { return };
    create_stuck("abandoned-call").await;
    let file = one_context(bed.dev(), User::Reader);
    let arguments = [
        "--max-concurrent-requests",
        "2",
        "--request-timeout-seconds",
        "60",
    ];
    let shared = Shared::start(&file.path, &arguments).await;
    let greedy = shared.greedy();
    for _ in 0..3 {
        let call = json!({"name": "pods_log", "arguments": {"name": "abandoned-call"}});
        let asked = || {
            let all = bed.dev().node().requests();
            let container = "default/abandoned-call/app";
            all.iter().filter(|one| one.container == container).count()
        };
        let before = asked();
        let begun = async {
            while asked() == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            answer = greedy.modern("tools/call", Some("pods_log"), call) => {
                panic!("{}", answer.text().await.unwrap());
            }
            () = begun => {}
        }
        let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {}});
        until_admitted(greedy, &list).await.text().await.unwrap();
    }
}

/// Reads from clusters wait for each other; another caller's do not wait for them.
#[tokio::test]
async fn reads_from_clusters() {
    let Some(bed) = testbed::shared() else { return };
    create_stuck("slow-read").await;
    let file = one_context(bed.dev(), User::Reader);
    let arguments = [
        "--max-cluster-reads",
        "2",
        "--request-timeout-seconds",
        "60",
    ];
    let shared = Shared::start(&file.path, &arguments).await;
    let (greedy, modest) = (shared.greedy(), shared.modest());
    let _held = until_admitted(greedy, &stuck(70, "slow-read")).await;
    let params = json!({"name": "namespaces_list", "arguments": {}});
    let list = json!({"jsonrpc": "2.0", "id": 71, "method": "tools/call", "params": params});
    let waiting = until_admitted(greedy, &list).await;
    modest.call("namespaces_list", json!({})).await.ok();
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 70}});
    assert_eq!(greedy.post(&cancel).await.status(), StatusCode::ACCEPTED);
    let answer = Stream::at(waiting, "2025-11-25").next().await;
    assert_eq!(answer["id"], 71, "{answer}");
}

/// Sends the head of a POST and so much of its body.
fn send(base: &str, caller: &str, length: usize, body: &[u8]) -> TcpStream {
    let host = base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let token = token(caller);
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\
         accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // Who is refused may be so before all is written.
    drop(stream.write_all(body));
    stream
}

/// A message of so many bytes.
fn long(bytes: usize) -> Vec<u8> {
    let message = |filling: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{filling}"}}"#);
    let frame = message("").len();
    message(&"x".repeat(bytes - frame)).into_bytes()
}

fn answer(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn held_bodies() {
    let file = no_cluster();
    let shared = Shared::start(&file.path, &[]).await;
    let base = shared.http.base.clone();
    let checked = tokio::task::spawn_blocking(move || {
        // Half of 64 MiB, in bodies whose last byte does not come.
        let whole = long(4 * MIB);
        let hold = || send(&base, "greedy", whole.len(), &whole[..4 * MIB - 1]);
        let mut held: Vec<_> = (0..8).map(|_| hold()).collect();
        // The server may still be reading those, and refuse one of them for the sake of a
        // message that comes meanwhile: then another takes its place.
        let refused = loop {
            held.push(hold());
            let answer = answer(send(&base, "greedy", MIB, &long(MIB)));
            if answer.starts_with("HTTP/1.1 429") {
                break answer;
            }
        };
        assert!(refused.contains("bytes of messages"), "{refused}");
        let served = answer(send(&base, "modest", 4 * MIB, &whole));
        assert!(!served.starts_with("HTTP/1.1 429"), "{served}");
        assert!(!served.starts_with("HTTP/1.1 503"), "{served}");
    });
    tokio::time::timeout(TIMEOUT, checked)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn what_begins_something_lasting_is_small() {
    let file = no_cluster();
    let shared = Shared::start(&file.path, &[]).await;
    let mut initialize = crate::harness::initialize("2025-11-25");
    initialize["params"]["clientInfo"]["name"] = "x".repeat(MIB).into();
    let bearer = format!("Bearer {}", token("greedy"));
    let refused = shared
        .http
        .fresh_with(&initialize, "authorization", &bearer)
        .await;
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let values = json!({"jsonrpc": "2.0", "id": 5, "method": "x", "params": vec![0; 200_000]});
    let refused = shared.greedy().post(&values).await;
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
}
