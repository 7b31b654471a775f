//! The SDK's own client follows resources of a cluster, in both eras.

#![expect(deprecated, reason = "the protocol versions with sessions have it")]

use rmcp::{
    ClientHandler, RoleClient, ServiceExt,
    model::{
        ProtocolVersion, ReadResourceRequestParams, ResourceContents,
        ResourceUpdatedNotificationParam, ServerNotification, SubscribeRequestParams,
        SubscriptionFilter,
    },
    service::{ClientLifecycleMode, ClientServiceExt, NotificationContext},
    transport::StreamableHttpClientTransport,
};
use testbed::{User, event};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout,
};

use super::create_pod_with_log;
use crate::harness::{Http, TIMEOUT, one_context};

/// Records the URIs of resource updates: for an update in a session, the SDK passes nothing
/// else to the handler.
struct UpdateRecorder(UnboundedSender<String>);

impl ClientHandler for UpdateRecorder {
    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let _receiver_may_be_gone = self.0.send(params.uri);
    }
}

async fn next_notification(received: &mut UnboundedReceiver<String>) -> String {
    timeout(TIMEOUT, received.recv()).await.unwrap().unwrap()
}

fn text(contents: &[ResourceContents]) -> &str {
    match &contents[0] {
        ResourceContents::TextResourceContents { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn with_a_session_it_subscribes_is_notified_and_reads_what_changed() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    create_pod_with_log(cluster, "sdk-legacy").await;
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let (sender, mut received) = unbounded_channel();
    let transport = StreamableHttpClientTransport::from_uri(format!("{}/mcp", http.base));
    let client = UpdateRecorder(sender).serve(transport).await.unwrap();
    let events = "k8s://dev/sdk-legacy/events";
    let log = "k8s://dev/sdk-legacy/pods/web-0/logs/app";
    for uri in [events, log] {
        client
            .subscribe(SubscribeRequestParams::new(uri))
            .await
            .unwrap();
        assert_eq!(
            next_notification(&mut received).await,
            uri,
            "followed from here on"
        );
    }
    let one = event("sdk-legacy", "Pod/web-0", "Warning", "BackOff", "once more");
    cluster.create(&one).await.unwrap();
    assert_eq!(next_notification(&mut received).await, events);
    cluster.node().append("sdk-legacy/web-0/app", "a new line");
    assert_eq!(next_notification(&mut received).await, log);
    for (uri, shows) in [(events, "once more"), (log, "ready\na new line\n")] {
        let read = ReadResourceRequestParams::new(uri);
        let read = client.read_resource(read).await.unwrap();
        assert!(text(&read.contents).contains(shows), "{read:?}");
    }
    let gone = SubscribeRequestParams::new("k8s://dev/sdk-legacy/pods/web-0/logs/none");
    let refused = client.subscribe(gone).await.unwrap_err().to_string();
    assert!(
        refused.contains("its containers are: `app`, `proxy`"),
        "{refused}"
    );
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn without_a_session_it_listens_and_is_notified_of_changes() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    create_pod_with_log(cluster, "sdk-modern").await;
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let (sender, _received) = unbounded_channel();
    let transport = StreamableHttpClientTransport::from_uri(format!("{}/mcp", http.base));
    let modern = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let client = UpdateRecorder(sender)
        .serve_with_lifecycle(transport, modern)
        .await;
    let client = client.unwrap();
    let events = "k8s://dev/sdk-modern/events?types=Warning";
    let log = "k8s://dev/sdk-modern/pods/web-0/logs/app";
    let wanted = SubscriptionFilter::builder()
        .resource_subscription(events)
        .resource_subscription(log)
        .resource_subscription("k8s://dev/sdk-modern/secrets/none")
        .build();
    let mut subscription = client.listen(wanted).await.unwrap();
    let acknowledged = subscription.acknowledged().resource_subscriptions.clone();
    let honoured = vec![events.to_owned(), log.to_owned()];
    assert_eq!(acknowledged, Some(honoured));
    // One update of each resource, in any order.
    let mut until = async |mut wanted: Vec<(&str, &str)>| {
        while !wanted.is_empty() {
            let next = timeout(TIMEOUT, subscription.next()).await.unwrap();
            let Some(ServerNotification::ResourceUpdatedNotification(notification)) = next.unwrap()
            else {
                panic!("only updates were asked for");
            };
            let text = serde_json::to_string(&notification).unwrap();
            wanted.retain(|(uri, words)| notification.params.uri != *uri || !text.contains(words));
        }
    };
    until(vec![(events, ""), (log, "")]).await;
    let one = event("sdk-modern", "Pod/web-0", "Warning", "BackOff", "once more");
    cluster.create(&one).await.unwrap();
    until(vec![(events, "once more")]).await;
    cluster.node().append("sdk-modern/web-0/app", "a new line");
    until(vec![(log, "a new line")]).await;
    let read = ReadResourceRequestParams::new(log);
    let read = client.read_resource(read).await.unwrap();
    assert!(text(&read.contents).ends_with("a new line\n"), "{read:?}");
}
