//! Cancellation: `notifications/cancelled` ends a request in flight, which then sends no
//! response.
//!
//! `cargo run -p mcp-notify --features cancellation --example cancellation`

use std::time::Duration;

use mcp_notify::{
    CancelOutcome, CloseReason, InFlightRequest, InFlightRequests, RequestId, Session,
};

/// A tool that takes a minute. `None`: it was cancelled, and there is no response.
async fn index_files(request: &InFlightRequest) -> Option<&'static str> {
    tokio::select! {
        () = request.cancelled() => None,
        () = tokio::time::sleep(Duration::from_mins(1)) => Some("indexed"),
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let requests = InFlightRequests::new();
    let (session, other) = (Session::new("a"), Session::new("b"));

    // A request that runs to its end.
    let request = requests.begin(&session, RequestId::Number(1), "tools/call");
    assert_eq!(index_files(&request).await, Some("indexed"));
    drop(request);
    assert!(requests.is_empty());

    // A request that its client cancels. Another client cannot.
    let id = RequestId::Number(2);
    let request = requests.begin(&session, id.clone(), "tools/call");
    let (response, ()) = tokio::join!(index_files(&request), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(requests.cancel(&other, &id), CancelOutcome::Unknown);
        assert_eq!(requests.cancel(&session, &id), CancelOutcome::Cancelled);
    });
    assert_eq!(response, None);

    // Closing a session cancels all of its requests.
    let request = requests.begin(&session, RequestId::Number(3), "tools/call");
    session.close(CloseReason::Requested);
    assert_eq!(index_files(&request).await, None);
}

#[test]
fn a_cancelled_request_ends_without_a_response() {
    main();
}
