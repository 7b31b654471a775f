//! rmcp's own client: it connects, sets a level, subscribes and receives notifications, in
//! both eras.

#![expect(deprecated, reason = "the protocol versions with sessions have it")]

use rmcp::{
    ClientHandler, Peer, RoleClient, ServiceExt,
    model::{
        CallToolRequestParams, LoggingLevel, LoggingMessageNotificationParam, ProtocolVersion,
        ReadResourceRequestParams, ResourceUpdatedNotificationParam, ServerNotification,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
        UnsubscribeRequestParams,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt, NotificationContext, Subscription, SubscriptionEnd,
    },
    transport::StreamableHttpClientTransport,
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout,
};

use crate::{fixtures, harness::TIMEOUT};

const WATCHED: &str = "test://watched-resource";

/// Records each notification as one text.
struct NotificationRecorder(UnboundedSender<String>);

impl ClientHandler for NotificationRecorder {
    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let _receiver_may_be_gone = self.0.send(format!("log {}", params.data));
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let _receiver_may_be_gone = self.0.send(format!("updated {}", params.uri));
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        let _receiver_may_be_gone = self.0.send("tools".to_owned());
    }
}

async fn call(peer: &Peer<RoleClient>, tool: &'static str) {
    let answer = peer.call_tool(CallToolRequestParams::new(tool)).await;
    assert_ne!(answer.unwrap().is_error, Some(true), "{tool}");
}

async fn next_notification(received: &mut UnboundedReceiver<String>) -> String {
    timeout(TIMEOUT, received.recv()).await.unwrap().unwrap()
}

async fn next(subscription: &mut Subscription) -> Option<ServerNotification> {
    timeout(TIMEOUT, subscription.next())
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn with_a_session_it_sets_a_level_subscribes_and_is_notified() {
    let (_file, http) = fixtures::start().await;
    let (sender, mut received) = unbounded_channel();
    let transport = StreamableHttpClientTransport::from_uri(format!("{}/mcp", http.base));
    let client = NotificationRecorder(sender).serve(transport).await.unwrap();
    assert_eq!(next_notification(&mut received).await, "tools");
    let level = SetLevelRequestParams::new(LoggingLevel::Info);
    client.set_level(level).await.unwrap();
    client
        .subscribe(SubscribeRequestParams::new(WATCHED))
        .await
        .unwrap();
    let unknown = SubscribeRequestParams::new("test://none");
    assert!(client.subscribe(unknown).await.is_err());
    call(&client, "test_trigger_resource_update").await;
    assert_eq!(
        next_notification(&mut received).await,
        format!("updated {WATCHED}")
    );
    let read = ReadResourceRequestParams::new(WATCHED);
    let read = client.read_resource(read).await.unwrap();
    assert_eq!(read.contents.len(), 1);
    call(&client, "test_tool_with_logging").await;
    for word in ["started", "working", "done"] {
        assert_eq!(
            next_notification(&mut received).await,
            format!("log \"{word}\"")
        );
    }
    call(&client, "test_trigger_tool_change").await;
    assert_eq!(next_notification(&mut received).await, "tools");
    let gone = UnsubscribeRequestParams::new(WATCHED);
    client.unsubscribe(gone).await.unwrap();
    call(&client, "test_trigger_resource_update").await;
    call(&client, "test_tool_with_logging").await;
    assert_eq!(next_notification(&mut received).await, "log \"started\"");
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn without_a_session_it_listens_is_notified_and_ends_gracefully() {
    let (_file, http) = fixtures::start().await;
    let (sender, _received) = unbounded_channel();
    let transport = StreamableHttpClientTransport::from_uri(format!("{}/mcp", http.base));
    let modern = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let client = NotificationRecorder(sender)
        .serve_with_lifecycle(transport, modern)
        .await;
    let client = client.unwrap();
    let wanted = SubscriptionFilter::builder()
        .tools_list_changed()
        .resource_subscription(WATCHED)
        .resource_subscription("test://none")
        .build();
    let mut subscription = client.listen(wanted).await.unwrap();
    let acknowledged = subscription.acknowledged().resource_subscriptions.clone();
    assert_eq!(acknowledged, Some(vec![WATCHED.to_owned()]));
    let is_update = |one: &ServerNotification| matches!(one, ServerNotification::ResourceUpdatedNotification(notification) if notification.params.uri == WATCHED);
    // It is told of a list only if the project was read again meanwhile.
    let mut first = next(&mut subscription).await.unwrap();
    if matches!(first, ServerNotification::ToolListChangedNotification(_)) {
        first = next(&mut subscription).await.unwrap();
    }
    assert!(is_update(&first), "{first:?}");
    call(&client, "test_trigger_resource_update").await;
    assert!(is_update(&next(&mut subscription).await.unwrap()));
    http.server.signal(rustix::process::Signal::TERM);
    while let Some(more) = next(&mut subscription).await {
        assert!(is_update(&more), "{more:?}");
    }
    let end = subscription.end();
    assert!(matches!(end, Some(SubscriptionEnd::Graceful(_))), "{end:?}");
}
