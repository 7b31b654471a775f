//! Servers that share their sessions, in one process: any of them answers any request, and a
//! stream can be opened on any.

mod moves;
mod outages;
mod recorded;
mod stateless;

use std::{path::Path, sync::Arc, time::Duration};

use kubecrier_core::{faults::CaptureLimits, metrics::Metrics, subscriptions::FeedLimits};
use kubecrier_history::{
    History, HistoryConfig, MemoryNetwork, MemoryRegistry, Registry, Retention,
};
use kubecrier_k8s::{
    Allowed, ClusterIdentity, Config, Contexts, DeniedKinds, IncidentSettings, Reachability,
};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_redact::Redactor;
use kubecrier_server::{
    AuditTarget, HttpConfig, Server, Serving, SessionLimits, Setup, SharedSessions,
    SubscriptionSettings, ToolFilter, ToolLimits, Transport, WorkLimits, admin::Admin,
};
use reqwest::StatusCode;
use serde_json::{Value, json};
use testbed::{User, event, namespace};

use crate::harness::{HttpSession, Stream, one_context};

struct Replica {
    server: Server,
    serving: Serving,
    base: String,
}

async fn replica(
    kubeconfig: &Path,
    name: &str,
    registry: &Arc<dyn Registry>,
    network: &MemoryNetwork,
) -> Replica {
    start(kubeconfig, name, registry, network, Extras::default()).await
}

/// What some tests give a replica.
#[derive(Default)]
struct Extras<'a> {
    history: Option<&'a Path>,
    tokens: Option<&'a Path>,
    feed: Option<FeedLimits>,
    audit: Option<&'a Path>,
    secret: Option<[u8; 32]>,
}

/// The secret that the histories of all replicas have, where a test gives them no other.
const SECRET: [u8; 32] = [7; 32];

async fn start(
    kubeconfig: &Path,
    name: &str,
    registry: &Arc<dyn Registry>,
    network: &MemoryNetwork,
    extras: Extras<'_>,
) -> Replica {
    let redactor = Redactor::new(&[]).unwrap();
    let contexts = Arc::new(Contexts::new(Config {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: None,
        request_timeout: Duration::from_secs(10),
        redactor: redactor.clone(),
        demo: None,
        denied: DeniedKinds::default(),
        allowed: Allowed::default(),
        identity: ClusterIdentity::default(),
    }));
    let (lifecycle, metrics) = (Lifecycle::default(), Metrics::new());
    let history = extras.history.map(|folder| {
        let config = HistoryConfig {
            folder: folder.join(name),
            retention: Retention::default(),
        };
        let (history, writer) = History::open(config).unwrap();
        let draining = lifecycle.draining().clone();
        lifecycle.spawn("history", writer.run(draining.cancelled_owned()));
        history.with_secret(extras.secret.unwrap_or(SECRET))
    });
    let mut subscriptions = SubscriptionSettings::default();
    subscriptions.feed = extras.feed.unwrap_or(subscriptions.feed);
    let server = Server::new(Setup {
        contexts: Arc::clone(&contexts),
        metrics: metrics.clone(),
        lifecycle: lifecycle.clone(),
        limits: ToolLimits {
            output_bytes: 100_000,
        },
        work: WorkLimits::default(),
        tool_filter: ToolFilter::default(),
        subscriptions,
        redactor,
        captures: CaptureLimits::default(),
        incidents: IncidentSettings::default(),
        project: None,
        history,
    });
    server.share_sessions(SharedSessions {
        registry: Arc::clone(registry),
        peers: Arc::new(network.peer(name)),
    });
    lifecycle.spawn("history-contexts", server.clone().keep_history());
    let admin = Admin {
        lifecycle: lifecycle.clone(),
        metrics,
        reachability: Reachability::new(Arc::clone(&contexts), lifecycle.clone()),
        contexts,
        server: server.clone(),
        started: tokio::time::Instant::now(),
    };
    let config = HttpConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        sessions: SessionLimits::default(),
        auth_token_file: extras.tokens.map(Path::to_owned),
        own_token: None,
        allow_other_users: true,
        user_header: None,
        oauth: None,
        service_account_audience: None,
        audit: extras.audit.map(|path| AuditTarget::File(path.to_owned())),
        tls: None,
        admin: None,
        connections_max: 100,
        descriptors_reserved: 10,
    };
    let transport = Transport::Http(Box::new(config));
    let serving = kubecrier_server::start(transport, server.clone(), admin, &lifecycle);
    let serving = serving.await.unwrap();
    let base = format!("http://{}", serving.address().unwrap());
    Replica {
        server,
        serving,
        base,
    }
}

async fn reasons_until(stream: &mut Stream, last: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    while reasons.last().is_none_or(|reason| reason != last) {
        let message = stream.next().await;
        if let Some(reason) = message["params"]["data"]["event"]["reason"].as_str() {
            reasons.push(reason.to_owned());
        }
    }
    reasons
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_wherever_its_stream_is_and_is_answered_everywhere() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "replicas");
    cluster.create_cluster_wide(&namespace(name)).await.unwrap();
    let happen = async |reason: &str| {
        let new_event = event(name, "Pod/web-0", "Warning", reason, "it went wrong");
        cluster.create(&new_event).await.unwrap();
    };
    let file = one_context(cluster, User::Reader);
    let registry: Arc<dyn Registry> = Arc::new(MemoryRegistry::default());
    let network = MemoryNetwork::default();
    let first = replica(&file.path, "first", &registry, &network).await;
    let second = replica(&file.path, "second", &registry, &network).await;
    let client = reqwest::Client::new();
    let mut session = HttpSession::begin_with(client, &first.base, "2025-11-25", None).await;
    let tools = session.rpc("tools/list", json!({})).await;
    let mut on_first = session.stream(None).await;
    // Requests go elsewhere than the stream.
    session.base.clone_from(&second.base);
    assert_eq!(
        session.rpc("tools/list", json!({})).await,
        with_id(&tools, 2)
    );
    session
        .rpc("logging/setLevel", json!({"level": "info"}))
        .await;
    let made = session.call("events_subscribe", json!({"namespace": name}));
    let made = made.await.ok();
    happen("One").await;
    assert_eq!(reasons_until(&mut on_first, "One").await, ["One"]);
    assert_eq!((first.server.sessions(), second.server.sessions()), (1, 0));
    // The stream moves the session.
    let seen = on_first.ids.last().unwrap().clone();
    let mut on_second = session.stream(Some(&seen)).await;
    assert!(
        on_first.until_end().await.is_none(),
        "the stream before it ends"
    );
    assert_eq!((first.server.sessions(), second.server.sessions()), (0, 1));
    let gap = loop {
        let message = on_second.next().await;
        if message["params"]["data"]["gap"].is_object() {
            break message;
        }
    };
    let id = &made.data["subscriptionId"];
    assert_eq!(&gap["params"]["data"]["subscriptionId"], id, "{gap}");
    session.base.clone_from(&first.base);
    let listed = session
        .call("events_list_subscriptions", json!({}))
        .await
        .ok();
    assert!(
        listed.text.contains(id.as_str().unwrap()),
        "{}",
        listed.text
    );
    until_watched(&second).await;
    happen("Two").await;
    assert_eq!(reasons_until(&mut on_second, "Two").await, ["Two"]);
    // The server that has it is gone: another one goes on.
    network.remove("second");
    let after = session.rpc("tools/list", json!({})).await;
    assert_eq!(after["result"], tools["result"]);
    assert_eq!(first.server.sessions(), 1);
    // What it still has of it is found to be another's.
    while on_second.until_end().await.is_some() {}
    until_left(&second).await;
    assert_eq!(session.delete().await, StatusCode::NO_CONTENT);
    session.base.clone_from(&second.base);
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"});
    assert_eq!(session.post(&list).await.status(), StatusCode::NOT_FOUND);
    let left = registry.list("session.").await.unwrap();
    let left: Vec<_> = left.iter().map(|(_, entry)| &*entry.value).collect();
    assert_eq!(left, [br#"{"format":1,"ended":"final"}"#], "nothing of it");
    first.serving.close();
    second.serving.close();
}

fn with_id(answer: &Value, id: u64) -> Value {
    let mut answer = answer.clone();
    answer["id"] = json!(id);
    answer
}

/// Waits until a server has no session.
async fn until_left(replica: &Replica) {
    let left = async {
        while replica.server.sessions() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let left = tokio::time::timeout(Duration::from_secs(30), left).await;
    left.expect("the session is left");
}

/// Waits until a server watches events.
async fn until_watched(replica: &Replica) {
    let watched = async {
        while replica.server.watching().watches.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let watched = tokio::time::timeout(Duration::from_secs(30), watched).await;
    watched.expect("the events are watched");
}
