//! Broadcast: a slow client and a broken one do not affect the others.
//!
//! `cargo run -p mcp-notify --features observers --example broadcast`

use std::io;

use mcp_notify::{
    Delivery, DeliveryOutcome, JoinPolicy, ListKind, Notification, NotificationSink,
    ObserverRegistry, RetryPolicy, SendError, SendFuture, Session, with_session,
};

/// A transport with one client that never reads and one whose connection is closed.
struct FaultyTransport;

impl NotificationSink for FaultyTransport {
    fn send<'a>(&'a self, session: &'a Session, _: &'a Notification) -> SendFuture<'a> {
        Box::pin(async move {
            match session.name() {
                "never reads" => std::future::pending().await,
                "gone" => Err(SendError::classify(io::Error::from(
                    io::ErrorKind::ConnectionReset,
                ))),
                _ => Ok(()),
            }
        })
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let delivery = Delivery::new(FaultyTransport).retry(RetryPolicy::default());
    let registry = ObserverRegistry::with_delivery(delivery, JoinPolicy::OnList);

    // Each client lists the tools, and so becomes an observer.
    let clients: Vec<Session> = ["fine", "never reads", "gone", "fine too"]
        .into_iter()
        .map(Session::new)
        .collect();
    for client in &clients {
        with_session(client.clone(), async {
            registry.remember_current_session();
        })
        .await;
    }
    assert_eq!(registry.len(), 4);

    // The tools change.
    let broadcast = registry
        .broadcast(&Notification::list_changed(ListKind::Tools))
        .await;
    assert_eq!(broadcast.delivered(), 2);
    assert!(matches!(
        broadcast.outcome(&clients[1]),
        Some(DeliveryOutcome::Abandoned {
            error: SendError::Deadline(_),
            ..
        })
    ));
    assert!(matches!(
        broadcast.outcome(&clients[2]),
        Some(DeliveryOutcome::Abandoned {
            error: SendError::Network(_),
            ..
        })
    ));

    // A client whose connection failed is no longer an observer.
    assert_eq!(registry.len(), 2);
}

#[test]
fn a_slow_and_a_broken_client_do_not_disturb_the_rest() {
    main();
}
