//! rmcp's own client: it connects, sets a level, subscribes and hears, in both eras.

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

use crate::{fixtures, harness::PATIENCE};

const WATCHED: &str = "test://watched-resource";

/// What the client was told, one word each.
struct Ear(UnboundedSender<String>);

impl ClientHandler for Ear {
    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let _nobody_waits = self.0.send(format!("log {}", params.data));
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let _nobody_waits = self.0.send(format!("updated {}", params.uri));
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        let _nobody_waits = self.0.send("tools".to_owned());
    }
}

async fn call(peer: &Peer<RoleClient>, tool: &'static str) {
    let answer = peer.call_tool(CallToolRequestParams::new(tool)).await;
    assert_ne!(answer.unwrap().is_error, Some(true), "{tool}");
}

async fn heard(ear: &mut UnboundedReceiver<String>) -> String {
    timeout(PATIENCE, ear.recv()).await.unwrap().unwrap()
}

async fn next(subscription: &mut Subscription) -> Option<ServerNotification> {
    timeout(PATIENCE, subscription.next())
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn with_a_session_it_sets_a_level_subscribes_and_hears() {
    let (_file, http) = fixtures::start().await;
    let (tell, mut ear) = unbounded_channel();
    let transport = StreamableHttpClientTransport::from_uri(format!("{}/mcp", http.base));
    let client = Ear(tell).serve(transport).await.unwrap();
    assert_eq!(heard(&mut ear).await, "tools");
    let level = SetLevelRequestParams::new(LoggingLevel::Info);
    client.set_level(level).await.unwrap();
    client
        .subscribe(SubscribeRequestParams::new(WATCHED))
        .await
        .unwrap();
    let unknown = SubscribeRequestParams::new("test://none");
    assert!(client.subscribe(unknown).await.is_err());
    call(&client, "test_trigger_resource_update").await;
    assert_eq!(heard(&mut ear).await, format!("updated {WATCHED}"));
    let read = ReadResourceRequestParams::new(WATCHED);
    let read = client.read_resource(read).await.unwrap();
    assert_eq!(read.contents.len(), 1);
    call(&client, "test_tool_with_logging").await;
    for word in ["started", "working", "done"] {
        assert_eq!(heard(&mut ear).await, format!("log \"{word}\""));
    }
    call(&client, "test_trigger_tool_change").await;
    assert_eq!(heard(&mut ear).await, "tools");
    let gone = UnsubscribeRequestParams::new(WATCHED);
    client.unsubscribe(gone).await.unwrap();
    call(&client, "test_trigger_resource_update").await;
    call(&client, "test_tool_with_logging").await;
    assert_eq!(heard(&mut ear).await, "log \"started\"");
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn without_a_session_it_listens_hears_and_sees_a_graceful_end() {
    let (_file, http) = fixtures::start().await;
    let (tell, _ear) = unbounded_channel();
    let transport = StreamableHttpClientTransport::from_uri(format!("{}/mcp", http.base));
    let modern = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let client = Ear(tell).serve_with_lifecycle(transport, modern).await;
    let client = client.unwrap();
    let wanted = SubscriptionFilter::builder()
        .tools_list_changed()
        .resource_subscription(WATCHED)
        .resource_subscription("test://none")
        .build();
    let mut subscription = client.listen(wanted).await.unwrap();
    let acknowledged = subscription.acknowledged().resource_subscriptions.clone();
    assert_eq!(acknowledged, Some(vec![WATCHED.to_owned()]));
    let mut first = Vec::new();
    for _ in 0..2 {
        first.push(next(&mut subscription).await.unwrap());
    }
    let is_update = |one: &ServerNotification| matches!(one, ServerNotification::ResourceUpdatedNotification(told) if told.params.uri == WATCHED);
    assert_eq!(
        first.iter().filter(|one| is_update(one)).count(),
        1,
        "{first:?}"
    );
    call(&client, "test_trigger_resource_update").await;
    assert!(is_update(&next(&mut subscription).await.unwrap()));
    http.server.signal(rustix::process::Signal::TERM);
    while let Some(more) = next(&mut subscription).await {
        assert!(is_update(&more), "{more:?}");
    }
    let end = subscription.end();
    assert!(matches!(end, Some(SubscriptionEnd::Graceful(_))), "{end:?}");
}
