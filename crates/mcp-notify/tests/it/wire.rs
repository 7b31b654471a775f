//! What stands on the wire, read line by line without a client's types.

use std::time::Duration;

use mcp_notify::{CustomMethod, Notification, PushOutcome, Session};
use rmcp::ServiceExt;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinSet;

use crate::server::Hub;

struct RawClient {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl RawClient {
    async fn connect(hub: &Hub, pipe_bytes: usize, tasks: &mut JoinSet<()>) -> Self {
        let (ours, theirs) = tokio::io::duplex(pipe_bytes);
        let server = hub.server();
        tasks.spawn(async move {
            if let Ok(running) = server.serve(ours).await {
                let _ = running.waiting().await;
            }
        });
        let (read, write) = tokio::io::split(theirs);
        let mut client = Self {
            lines: BufReader::new(read).lines(),
            write,
        };
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        });
        client
            .render(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))
            .await;
        assert_eq!(client.line().await["id"], 1);
        client
            .render(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        client
    }

    async fn render(&mut self, message: &Value) {
        self.write
            .write_all(format!("{message}\n").as_bytes())
            .await
            .expect("the server reads");
    }

    async fn line(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(30), self.lines.next_line()).await;
        let line = line.expect("something comes").expect("the pipe works");
        serde_json::from_str(&line.expect("the server is there")).expect("a line is JSON")
    }
}

fn numbered(number: usize) -> Notification {
    let method = CustomMethod::new("notifications/test/numbered").expect("a valid name");
    Notification::custom(method, &json!({ "number": number }))
}

async fn session(hub: &Hub) -> Session {
    hub.until_sessions(1).await.remove(0)
}

#[tokio::test]
async fn frames_have_no_id_and_five_hundred_arrive_in_order() {
    let (hub, mut tasks) = (Hub::new(), JoinSet::new());
    let mut client = RawClient::connect(&hub, 64 * 1024, &mut tasks).await;
    let session = session(&hub).await;
    for kind in ["tools", "resources", "prompts"] {
        let line = client.line().await;
        assert_eq!(line["method"], format!("notifications/{kind}/list_changed"));
        assert!(
            line["params"].is_null() || line["params"] == json!({}),
            "{line}"
        );
    }
    for number in 0..500 {
        assert!(matches!(
            session.push(numbered(number)),
            PushOutcome::Queued { .. }
        ));
    }
    for number in 0..500 {
        let line = client.line().await;
        assert_eq!(line["params"]["number"], json!(number));
        assert_eq!(line["jsonrpc"], "2.0");
        assert!(line.get("id").is_none());
    }
}

#[tokio::test]
async fn a_client_that_answers_a_notification_is_ignored() {
    let (hub, mut tasks) = (Hub::new(), JoinSet::new());
    let mut client = RawClient::connect(&hub, 64 * 1024, &mut tasks).await;
    let session = session(&hub).await;
    for _ in 0..3 {
        client.line().await;
    }
    client
        .render(&json!({"jsonrpc": "2.0", "id": 99, "result": {}}))
        .await;
    let _ = session.push(numbered(1));
    assert_eq!(client.line().await["params"]["number"], 1);
    client
        .render(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))
        .await;
    assert_eq!(
        client.line().await["id"],
        2,
        "requests are answered as before"
    );
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody_and_its_outbox_says_what_it_lost() {
    let (hub, mut tasks) = (Hub::new(), JoinSet::new());
    let mut stuck = RawClient::connect(&hub, 512, &mut tasks).await;
    let slow = session(&hub).await;
    for _ in 0..3 {
        stuck.line().await;
    }
    let mut brisk = RawClient::connect(&hub, 64 * 1024, &mut tasks).await;
    let fast = hub.until_sessions(2).await.remove(1);
    for _ in 0..3 {
        brisk.line().await;
    }
    for number in 0..3000 {
        let _ = slow.push(numbered(number));
        if number % 10 == 0 {
            let _ = fast.push(numbered(number));
            assert_eq!(brisk.line().await["params"]["number"], json!(number));
        }
    }
    let stats = slow.outbox().stats();
    assert!(stats.dropped > 0 && stats.pending > 0);
    assert_eq!(
        stats.delivered + stats.merged + stats.dropped + stats.pending,
        stats.pushed
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stalls_and_comes_back_gets_everything_once_and_in_order() {
    let (hub, mut tasks) = (Hub::new(), JoinSet::new());
    let mut client = RawClient::connect(&hub, 256, &mut tasks).await;
    let session = session(&hub).await;
    for _ in 0..3 {
        client.line().await;
    }
    for number in 0..50 {
        let _ = session.push(numbered(number));
    }
    // Two deadlines pass while the client does not read: the retries await the send in
    // flight and start no second one.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(session.outbox().stats().pending > 0);
    for number in 0..50 {
        assert_eq!(client.line().await["params"]["number"], json!(number));
    }
    let _ = session.push(numbered(50));
    assert_eq!(
        client.line().await["params"]["number"],
        50,
        "nothing came twice"
    );
}
