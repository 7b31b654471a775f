//! 2026-07-28: no sessions; the stream of `subscriptions/listen` is the client.

use std::time::Duration;

use mcp_notify::{
    DeliveryOutcome, Level, ListKind, LogMessage, Notification, ResourceUpdated, SendError,
};
use rmcp::model::{ProtocolVersion, ServerNotification, SubscriptionFilter};
use rmcp::service::{RunningService, Subscription};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceExt};
use serde_json::json;
use tokio::task::JoinSet;

use crate::server::Hub;

#[derive(Clone, Default)]
struct Client;

impl ClientHandler for Client {}

async fn connect(hub: &Hub, tasks: &mut JoinSet<()>) -> RunningService<RoleClient, Client> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let server = hub.server();
    tasks.spawn(async move {
        if let Ok(running) = server.serve(ours).await {
            let _ = running.waiting().await;
        }
    });
    let lifecycle = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    Client
        .serve_with_lifecycle(theirs, lifecycle)
        .await
        .expect("the client connects")
}

async fn next(subscription: &mut Subscription) -> ServerNotification {
    let next = tokio::time::timeout(Duration::from_secs(30), subscription.next()).await;
    next.expect("something comes")
        .expect("the subscription stands")
        .expect("the stream is open")
}

/// The session that the stream became; the ack comes before it is there.
async fn session(hub: &Hub) -> mcp_notify::Session {
    hub.until_sessions(1).await.remove(0)
}

#[tokio::test]
async fn updates_of_accepted_resources_arrive_in_order_with_their_meta() {
    let (hub, mut tasks) = (Hub::new(), JoinSet::new());
    let client = connect(&hub, &mut tasks).await;
    let filter = SubscriptionFilter::builder()
        .tools_list_changed()
        .resource_subscriptions(["test://a", "test://b"])
        .build();
    let mut subscription = client.listen(filter).await.unwrap();
    session(&hub).await;
    for (seq, uri) in ["test://a", "test://b", "test://a"].into_iter().enumerate() {
        let meta = json!({ "io.example/seq": seq });
        assert_eq!(
            hub.subscriptions
                .publish(&ResourceUpdated::new(uri).meta(&meta)),
            1
        );
        let ServerNotification::ResourceUpdatedNotification(got) = next(&mut subscription).await
        else {
            panic!("an update was sent");
        };
        assert_eq!(got.params.uri, uri);
        let text = serde_json::to_value(&got).unwrap();
        assert_eq!(text["params"]["_meta"]["io.example/seq"], json!(seq));
        let id = &text["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert!(!id.is_null(), "rmcp adds the subscription's id");
    }
    assert_eq!(
        hub.subscriptions.publish(&ResourceUpdated::new("test://c")),
        0
    );
    let changed = Notification::list_changed(ListKind::Tools);
    assert_eq!(hub.observers.broadcast(&changed).await.delivered(), 1);
    assert!(matches!(
        next(&mut subscription).await,
        ServerNotification::ToolListChangedNotification(_)
    ));
}

#[tokio::test]
async fn what_the_client_did_not_ask_for_is_refused_without_a_retry_and_prunes_nobody() {
    let (hub, mut tasks) = (Hub::new(), JoinSet::new());
    let client = connect(&hub, &mut tasks).await;
    let filter = SubscriptionFilter::builder()
        .resource_subscriptions(["test://a"])
        .build();
    let mut subscription = client.listen(filter).await.unwrap();
    let session = session(&hub).await;
    let unwanted = [
        Notification::list_changed(ListKind::Prompts),
        ResourceUpdated::new("test://b").to_notification(),
        LogMessage::new(Level::Alert, &"x").into_notification(),
    ];
    for notification in unwanted {
        let outcome = hub.delivery.deliver(&session, &notification).await;
        assert!(
            matches!(
                &outcome,
                DeliveryOutcome::Abandoned {
                    error: SendError::InvalidParams(_),
                    attempt_number: 1,
                    ..
                }
            ),
            "{outcome:?}"
        );
        assert!(!outcome.prunes());
    }
    assert_eq!(
        hub.subscriptions.publish(&ResourceUpdated::new("test://a")),
        1
    );
    let ServerNotification::ResourceUpdatedNotification(got) = next(&mut subscription).await else {
        panic!("nothing but the update was sent");
    };
    assert_eq!(got.params.uri, "test://a");
}

#[tokio::test]
async fn a_stream_that_ends_takes_its_session_with_it() {
    let (hub, mut tasks) = (Hub::new(), JoinSet::new());
    let client = connect(&hub, &mut tasks).await;
    let filter = SubscriptionFilter::builder()
        .resource_subscriptions(["test://a"])
        .build();
    let mut subscription = client.listen(filter).await.unwrap();
    let session = session(&hub).await;
    subscription.cancel().await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), session.closed())
        .await
        .unwrap();
    assert!(hub.subscriptions.is_empty() && hub.observers.is_empty());
    let outcome = hub
        .delivery
        .deliver(
            &session,
            &ResourceUpdated::new("test://a").to_notification(),
        )
        .await;
    assert!(matches!(outcome, DeliveryOutcome::SessionEnded));
}
