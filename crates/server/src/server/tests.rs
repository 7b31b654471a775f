use std::sync::atomic::Ordering;

use mcp_notify::ListKind;
use rmcp::{ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    task::JoinSet,
    time::{Duration, timeout},
};

use super::*;
use crate::{
    history::resume::ReadOrder, resources::tests::Notes, subscriptions::SubscriptionSettings,
};
use kubecrier_core::{ResourceType, faults::CaptureLimits};
use kubecrier_history::{HistoryConfig, MemoryNetwork, MemoryRegistry, Retention};
use kubecrier_k8s as cluster;
use kubecrier_redact::Redactor;

/// A server without a cluster.
pub(crate) fn setup() -> Setup {
    let contexts = cluster::Config {
        kubeconfig: Some("/nonexistent".into()),
        context: None,
        request_timeout: Duration::from_secs(1),
        redactor: Redactor::new(&[]).unwrap(),
        demo: None,
        denied: cluster::DeniedKinds::default(),
        allowed: cluster::Allowed::default(),
        identity: kubecrier_k8s::ClusterIdentity::default(),
    };
    Setup {
        contexts: Arc::new(Contexts::new(contexts)),
        metrics: Metrics::new(),
        lifecycle: Lifecycle::default(),
        limits: ToolLimits {
            output_bytes: 10_000,
        },
        work: WorkLimits::default(),
        tool_filter: ToolFilter::default(),
        subscriptions: SubscriptionSettings::default(),
        redactor: Redactor::new(&[]).unwrap(),
        captures: CaptureLimits::default(),
        incidents: cluster::IncidentSettings::default(),
        project: None,
        history: None,
    }
}

/// A client on a pipe, as on stdio.
struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    server: Server,
    notes: Notes,
    _tasks: JoinSet<()>,
}

impl Client {
    fn start() -> Self {
        let notes = Notes::default();
        let providers = setup::Providers {
            resources: vec![Box::new(notes.clone())],
            tools: Vec::new(),
            project: None,
        };
        let server = Server::with(setup(), providers);
        let session = Session::new("pipe");
        let handler = server.handler_for_session(session.clone());
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(ours);
        let mut tasks = JoinSet::new();
        let (serving, delivering) = (handler, server.clone());
        tasks.spawn(async move {
            let running = serving.serve(theirs).await.unwrap();
            let sink = mcp_notify::rmcp::PeerSink::new(running.peer().clone());
            let _end = delivering.delivery(sink).run(&session).await;
        });
        Self {
            lines: BufReader::new(reader).lines(),
            writer,
            server,
            notes,
            _tasks: tasks,
        }
    }

    async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = timeout(Duration::from_mins(1), self.lines.next_line()).await;
        serde_json::from_str(&line.expect("a message").unwrap().unwrap()).unwrap()
    }

    async fn request(&mut self, id: u32, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
    }

    /// The answer; notifications before it are skipped.
    async fn ask(&mut self, id: u32, method: &str, params: Value) -> Value {
        self.request(id, method, params).await;
        loop {
            let message = self.next().await;
            if message["id"] == id {
                return message;
            }
        }
    }

    async fn handshake(&mut self) -> Value {
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = self.ask(0, "initialize", hello).await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        for _list in ListKind::ALL {
            self.next().await;
        }
        answer
    }

    /// One request of 2026-07-28.
    async fn modern(&mut self, id: u32, method: &str, mut params: Value) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        self.request(id, method, params).await;
    }

    fn update(&self, uri: &str, seq: u64) -> usize {
        let meta = json!({"example/seq": seq});
        let updates = self.server.shared.resources.updates();
        updates.publish(uri, None, Some(&meta))
    }
}

#[tokio::test]
async fn a_session_subscribes_hears_and_unsubscribes() {
    let mut client = Client::start();
    let answer = client.handshake().await;
    let declared = &answer["result"]["capabilities"]["completions"];
    assert_eq!(*declared, json!({}));
    let declared = &answer["result"]["capabilities"]["resources"];
    assert_eq!(*declared, json!({"subscribe": true, "listChanged": true}));
    let answer = client.ask(1, "resources/list", json!({})).await;
    let listed = answer["result"]["resources"].as_array().unwrap().clone();
    assert_eq!(listed[1]["uri"], "note:///own/pipe", "{listed:?}");
    for (id, method) in [(2, "resources/subscribe"), (3, "resources/read")] {
        let answer = client.ask(id, method, json!({"uri": "other:///x"})).await;
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
        assert_eq!(answer["error"]["data"]["uri"], "other:///x");
    }
    let uri = "note:///own/pipe";
    let answer = client
        .ask(4, "resources/subscribe", json!({"uri": uri}))
        .await;
    assert_eq!(answer["result"], json!({}), "{answer}");
    assert_eq!(client.update(uri, 7), 1);
    let told = client.next().await;
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(
        told["params"],
        json!({"uri": uri, "_meta": {"example/seq": 7}})
    );
    let answer = client.ask(5, "resources/read", json!({"uri": uri})).await;
    assert_eq!(answer["result"]["contents"][0]["text"], "remember");
    let answer = client
        .ask(6, "resources/unsubscribe", json!({"uri": uri}))
        .await;
    assert_eq!(answer["result"], json!({}), "{answer}");
    assert_eq!(client.update(uri, 8), 0);
    assert_eq!(client.notes.followed.load(Ordering::Relaxed), 0);
}

/// rmcp asks for a definition at every call of 2026-07-28, from a handler of its own, and
/// every `initialize` needs all of them.
#[tokio::test]
async fn definitions_of_tools_are_not_made_per_call_or_session() {
    let client = Client::start();
    let schema = || {
        let handler = client.server.handler_for_session(Session::new("another"));
        handler.get_tool("pods_list").unwrap().input_schema
    };
    let first = schema();
    assert!(Arc::ptr_eq(&first, &schema()), "by a call");
    let listed = client.server.list_snapshot().tools;
    let listed = listed.iter().find(|tool| tool.name == "pods_list").unwrap();
    assert!(Arc::ptr_eq(&first, &listed.input_schema), "by `initialize`");
}

#[tokio::test]
async fn the_list_of_resources_is_told_when_it_changes() {
    let mut client = Client::start();
    client.handshake().await;
    client.server.publish_list_changes().await;
    client.notes.more.store(1, Ordering::Relaxed);
    client.server.publish_list_changes().await;
    client.server.publish_list_changes().await;
    let told = client.next().await;
    assert_eq!(told["method"], "notifications/resources/list_changed");
    client.request(1, "ping", json!({})).await;
    assert_eq!(client.next().await["id"], 1, "it is told once");
}

#[tokio::test]
async fn a_listen_is_acknowledged_marked_told_and_ended() {
    let mut client = Client::start();
    let uris = ["note:///a", "other:///x", "note:///own/pipe", "note:///b"];
    let wanted = json!({"notifications": {"resourceSubscriptions": uris}});
    client.modern(1, "subscriptions/listen", wanted).await;
    let ack = client.next().await;
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    let honoured = json!({"resourceSubscriptions": ["note:///a", "note:///b"]});
    assert_eq!(ack["params"]["notifications"], honoured);
    for uri in ["note:///a", "note:///b"] {
        let mark = client.next().await;
        assert_eq!(mark["method"], "notifications/resources/updated");
        assert_eq!(mark["params"]["uri"], uri, "{mark}");
    }
    assert_eq!(client.update("note:///a/below", 1), 0, "URIs are exact");
    assert_eq!(client.update("note:///b", 2), 1);
    let told = client.next().await;
    assert_eq!(told["params"]["uri"], "note:///b");
    let meta = &told["params"]["_meta"];
    assert_eq!(meta["example/seq"], 2);
    assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], 1);
    client
        .modern(2, "resources/read", json!({"uri": "note:///own/pipe"}))
        .await;
    let answer = client.next().await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    client
        .modern(3, "resources/subscribe", json!({"uri": "note:///a"}))
        .await;
    assert_eq!(client.next().await["error"]["code"], -32601);
    assert_eq!(client.notes.followed.load(Ordering::Relaxed), 2);
    client.server.shared.lifecycle.drain();
    let end = client.next().await;
    assert_eq!(
        (&end["id"], &end["result"]["resultType"]),
        (&json!(1), &json!("complete"))
    );
    assert_eq!(client.notes.followed.load(Ordering::Relaxed), 0);
}

/// On stdio nobody scrapes the counter, so it is read here.
#[tokio::test]
async fn an_update_that_cannot_be_serialised_is_counted_once_and_disturbs_nothing() {
    struct Unserialisable;
    impl serde::Serialize for Unserialisable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no bytes"))
        }
    }
    let mut client = Client::start();
    client.handshake().await;
    let uri = "note:///own/pipe";
    client
        .ask(1, "resources/subscribe", json!({"uri": uri}))
        .await;
    let updates = client.server.shared.resources.updates();
    updates.publish(uri, Some(ResourceType::PodLogs), Some(&Unserialisable));
    // Its turn comes before the answer to a later request.
    client.ask(2, "ping", json!({})).await;
    let metrics = client.server.shared.metrics.encode(0).unwrap();
    let failures = metrics.lines().filter(|line| line.starts_with("mcp_"));
    for line in failures {
        let own = line.contains("podlogs") && line.contains("serialization");
        assert!(line.ends_with(if own { " 1" } else { " 0" }), "{line}");
    }
    assert_eq!(client.update(uri, 7), 1);
    assert_eq!(client.next().await["params"]["uri"], uri);
}

/// What is in memory is for cursors: for tools, `/metrics` and `/readyz` there is no history.
#[tokio::test]
async fn a_history_in_memory_is_none_that_is_shown() {
    let (history, _writer) = History::in_memory(Retention::default()).unwrap();
    let server = Server::new(Setup {
        history: Some(history),
        ..setup()
    });
    assert!(server.history().is_none());
    let held = tempfile::tempdir().unwrap();
    let config = HistoryConfig {
        folder: held.path().join("history"),
        retention: Retention::default(),
    };
    let (history, _writer) = History::open(config).unwrap();
    let server = Server::new(Setup {
        history: Some(history),
        ..setup()
    });
    assert!(server.history().is_some());
}

/// A cursor may be of another server, and positions in its history mean nothing here.
#[tokio::test]
async fn servers_that_share_subscriptions_read_their_histories_by_version() {
    let server = Server::new(setup());
    let order = || server.shared.subscriptions.read_order();
    assert_eq!(order(), ReadOrder::Log);
    server.share_sessions(SharedSessions {
        registry: Arc::new(MemoryRegistry::default()),
        peers: Arc::new(MemoryNetwork::default().peer("first")),
    });
    assert_eq!(order(), ReadOrder::Oldest);
}
