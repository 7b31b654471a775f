//! One change, many clients: a slow one and a broken one do not disturb the rest.
//!
//! `cargo run -p mcp-notify --example broadcast`

use std::io;

use mcp_notify::{
    Delivery, JoinPolicy, Notification, NotificationSink, ObserverRegistry, Outcome, Registry,
    RetryPolicy, SendError, SendFuture, Session, with_session,
};

/// A transport with one client that never reads and one whose connection is gone.
struct Troubled;

impl NotificationSink for Troubled {
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
    let delivery = Delivery::new(Troubled).retry(RetryPolicy::default());
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
        .broadcast(&Notification::list_changed(Registry::Tools))
        .await;
    assert_eq!(broadcast.delivered(), 2);
    assert!(matches!(
        broadcast.outcome(&clients[1]),
        Some(Outcome::Abandoned {
            error: SendError::Deadline(_),
            ..
        })
    ));
    assert!(matches!(
        broadcast.outcome(&clients[2]),
        Some(Outcome::Abandoned {
            error: SendError::Network(_),
            ..
        })
    ));

    // Those whose connection failed are observers no more.
    assert_eq!(registry.len(), 2);
}

#[test]
fn a_slow_and_a_broken_client_do_not_disturb_the_rest() {
    main();
}
