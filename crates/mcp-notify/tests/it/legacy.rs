//! 2025-11-25 and before: sessions, over an in-memory pipe.

#![expect(
    deprecated,
    reason = "log levels and roots are part of versions up to 2025-11-25"
)]

use std::sync::Arc;
use std::time::Duration;

use mcp_notify::rmcp::ping;
use mcp_notify::{CustomMethod, Level, ListKind, LogMessage, Notification, ResourceUpdated};
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, CustomNotification, ListRootsResult,
    LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
    ResourceUpdatedNotificationParam, Root, SetLevelRequestParams, SubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, RunningService};
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceExt};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::server::Hub;

/// Records what it receives.
#[derive(Clone, Default)]
struct Client {
    received: Arc<Mutex<Vec<String>>>,
    changed: Arc<Notify>,
    version: Option<ProtocolVersion>,
}

impl Client {
    fn record(&self, what: impl Into<String>) {
        self.received.lock().push(what.into());
        self.changed.notify_one();
    }

    fn count(&self, what: &str) -> usize {
        self.received
            .lock()
            .iter()
            .filter(|one| one.starts_with(what))
            .count()
    }

    /// Waits until this many were received, for at most 30 s.
    async fn until(&self, what: &str, count: usize) {
        let waiting = async {
            while self.count(what) < count {
                self.changed.notified().await;
            }
        };
        let limit = tokio::time::timeout(Duration::from_secs(30), waiting).await;
        assert!(limit.is_ok(), "received only {:?}", self.received.lock());
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_roots().build();
        let mut info = ClientConfig::new(capabilities, <_>::default());
        if let Some(version) = &self.version {
            info.protocol_version = version.clone();
        }
        info
    }
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.record("tools");
    }
    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.record("resources");
    }
    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.record("prompts");
    }
    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.record(format!("updated {}", params.uri));
    }
    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.record(format!(
            "log {:?} {:?} {}",
            params.level, params.logger, params.data
        ));
    }
    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.record(format!("progress {}", params.progress));
    }
    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _: NotificationContext<RoleClient>,
    ) {
        self.record(format!("custom {}", notification.method));
    }
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        self.record("asked for roots");
        Ok(ListRootsResult::new(vec![
            Root::new("file:///b"),
            Root::new("file:///a"),
        ]))
    }
}

async fn connect(
    hub: &Hub,
    client: &Client,
    tasks: &mut JoinSet<()>,
) -> RunningService<RoleClient, Client> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let server = hub.server();
    tasks.spawn(async move {
        if let Ok(running) = server.serve(ours).await {
            let _ = running.waiting().await;
        }
    });
    client
        .clone()
        .serve(theirs)
        .await
        .expect("the client connects")
}

#[tokio::test]
async fn a_fresh_session_hears_of_each_list_once_and_repeated_requests_add_nothing() {
    let (hub, client, mut tasks) = (Hub::new(), Client::default(), JoinSet::new());
    let running = connect(&hub, &client, &mut tasks).await;
    for kind in ["tools", "resources", "prompts"] {
        client.until(kind, 1).await;
    }
    for _ in 0..5 {
        running.list_tools(None).await.unwrap();
    }
    // The custom one is the last: everything sent before it has arrived.
    let method = CustomMethod::new("notifications/test/end").unwrap();
    let session = hub.sessions.lock()[0].clone();
    let _ = session.push(Notification::custom(method, &json!({"at": "end"})));
    client.until("custom notifications/test/end", 1).await;
    assert_eq!(
        client.received.lock().len(),
        4,
        "{:?}",
        client.received.lock()
    );
    hub.lists
        .update(ListKind::Prompts, mcp_notify::ContentHash::from("second"));
    running.list_tools(None).await.unwrap();
    client.until("prompts", 2).await;
    assert_eq!(client.count("tools") + client.count("resources"), 2);
}

#[tokio::test]
async fn two_sessions_of_different_versions_get_what_their_version_has() {
    let (hub, mut tasks) = (Hub::new(), JoinSet::new());
    let old = Client {
        version: Some(ProtocolVersion::V_2025_03_26),
        ..Client::default()
    };
    let new = Client {
        version: Some(ProtocolVersion::V_2025_06_18),
        ..Client::default()
    };
    let running_old = connect(&hub, &old, &mut tasks).await;
    let _running_new = connect(&hub, &new, &mut tasks).await;
    new.until("prompts", 1).await;
    hub.until_sessions(2).await;
    running_old.list_tools(None).await.unwrap();
    let method = CustomMethod::new("notifications/test/end").unwrap();
    for session in &hub.until_sessions(2).await {
        let _ = session.push(Notification::custom(method.clone(), &json!({})));
    }
    old.until("custom", 1).await;
    new.until("custom", 1).await;
    assert_eq!(*old.received.lock(), ["custom notifications/test/end"]);
    assert_eq!(new.received.lock().len(), 4);
}

#[tokio::test]
async fn log_messages_come_after_a_level_is_set_and_from_it_upwards() {
    let (hub, client, mut tasks) = (Hub::new(), Client::default(), JoinSet::new());
    let running = connect(&hub, &client, &mut tasks).await;
    client.until("prompts", 1).await;
    assert_eq!(
        hub.logging
            .publish(LogMessage::new(Level::Emergency, &"early")),
        0
    );
    running
        .set_level(SetLevelRequestParams::new(LoggingLevel::Warning))
        .await
        .unwrap();
    for level in [Level::Info, Level::Warning, Level::Alert] {
        let broadcast = hub
            .logging
            .log(LogMessage::new(level, &"text").logger("it"))
            .await;
        assert_eq!(broadcast.delivered(), usize::from(level >= Level::Warning));
    }
    client.until("log", 2).await;
    assert_eq!(client.count("log Warning Some(\"it\") \"text\""), 1);
    assert_eq!(client.count("log"), 2);
}

#[tokio::test]
async fn an_observer_that_listed_is_told_and_subscribers_hear_of_their_resource_only() {
    let (hub, client, mut tasks) = (Hub::new(), Client::default(), JoinSet::new());
    let running = connect(&hub, &client, &mut tasks).await;
    client.until("prompts", 1).await;
    let changed = Notification::list_changed(ListKind::Tools);
    assert_eq!(
        hub.observers.broadcast(&changed).await.delivered(),
        0,
        "it has not listed yet"
    );
    running.list_tools(None).await.unwrap();
    assert_eq!(hub.observers.broadcast(&changed).await.delivered(), 1);
    client.until("tools", 2).await;
    running
        .subscribe(SubscribeRequestParams::new("test://x"))
        .await
        .unwrap();
    assert_eq!(
        hub.subscriptions.publish(&ResourceUpdated::new("test://y")),
        0
    );
    assert_eq!(
        hub.subscriptions.publish(&ResourceUpdated::new("test://x")),
        1
    );
    client.until("updated", 1).await;
    assert_eq!(client.count("updated test://x"), 1);
}

#[tokio::test]
async fn progress_of_a_request_reaches_the_client_that_asked() {
    let (hub, mut tasks) = (Hub::new(), JoinSet::new());
    let (client, other) = (Client::default(), Client::default());
    let running = connect(&hub, &client, &mut tasks).await;
    let _running_other = connect(&hub, &other, &mut tasks).await;
    client.until("prompts", 1).await;
    other.until("prompts", 1).await;
    running
        .call_tool(CallToolRequestParams::new("count"))
        .await
        .unwrap();
    client.until("progress 20", 1).await;
    // What was sent to the other one before this has arrived.
    let method = CustomMethod::new("notifications/test/end").unwrap();
    for session in &hub.until_sessions(2).await {
        let _ = session.push(Notification::custom(method.clone(), &json!({})));
    }
    other.until("custom", 1).await;
    assert_eq!(other.count("progress"), 0);
}

// The clock stands still while anything can run, so that all ten are one burst
// however slow the machine is.
#[tokio::test(start_paused = true)]
async fn a_client_answers_pings_and_is_asked_for_its_roots_once_after_a_burst() {
    let (hub, client, mut tasks) = (Hub::new(), Client::default(), JoinSet::new());
    let running = connect(&hub, &client, &mut tasks).await;
    client.until("prompts", 1).await;
    let peer = hub.peers.lock()[0].clone();
    assert!(ping(&peer).await);
    for _ in 0..10 {
        running.notify_roots_list_changed().await.unwrap();
    }
    client.until("asked for roots", 1).await;
    let session = hub.sessions.lock()[0].clone();
    let roots = hub.roots.lock().clone().unwrap();
    let snapshot = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            if let Some(snapshot) = roots.snapshot(&session) {
                break snapshot;
            }
            tokio::task::yield_now().await;
        }
    });
    let snapshot = snapshot.await.unwrap();
    let uris: Vec<_> = snapshot
        .roots
        .iter()
        .map(|root| root.uri.as_str())
        .collect();
    assert_eq!(
        (uris, snapshot.version),
        (vec!["file:///a", "file:///b"], 1)
    );
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(client.count("asked for roots"), 1);
}

#[tokio::test]
async fn a_client_that_left_is_closed_to_its_sink_and_pruned() {
    let (hub, client, mut tasks) = (Hub::new(), Client::default(), JoinSet::new());
    let running = connect(&hub, &client, &mut tasks).await;
    client.until("prompts", 1).await;
    running.list_tools(None).await.unwrap();
    assert_eq!(hub.observers.len(), 1);
    running.cancel().await.unwrap();
    tasks.join_next().await;
    let broadcast = hub
        .observers
        .broadcast(&Notification::list_changed(ListKind::Tools))
        .await;
    assert_eq!((broadcast.delivered(), broadcast.outcomes().len()), (0, 1));
    assert!(broadcast.outcomes()[0].1.prunes());
    assert!(hub.observers.is_empty());
}
