//! The subscriptions that a listen names, where servers share them: they are here before the
//! listen is acknowledged, which cannot wait.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header::RETRY_AFTER};
use serde::Deserialize;

use crate::{
    caller::Caller,
    output::ToolError,
    resources::{LISTEN_URIS_MAX, Requester, subscription_id},
    share,
    subscriptions::Subscriptions,
};

#[derive(Deserialize)]
struct ListenHead {
    params: ListenParams,
}

#[derive(Deserialize)]
struct ListenParams {
    notifications: ListenFilter,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListenFilter {
    #[serde(default)]
    resource_subscriptions: Vec<String>,
}

/// Has the subscriptions of a listen here. One that is not the caller's is not accepted later.
pub(super) async fn bring(subscriptions: &Subscriptions, text: &[u8]) -> Result<(), Response> {
    let requester = Requester::stateless(Caller::current(), share::current_peer());
    if !subscriptions.are_shared(&requester) {
        return Ok(());
    }
    for uri in uris(text) {
        let Some(id) = subscription_id(&uri) else {
            continue;
        };
        let brought = subscriptions.bring(&requester, id).await;
        if let Err(error) = brought.or_else(ToolError::unless_unavailable) {
            let wait = [(RETRY_AFTER, "2")];
            let text = format!("{error}\n");
            return Err((StatusCode::SERVICE_UNAVAILABLE, wait, text).into_response());
        }
    }
    Ok(())
}

/// The URIs of a listen; none if it is not as it should be.
fn uris(text: &[u8]) -> Vec<String> {
    let head = serde_json::from_slice::<ListenHead>(text);
    let mut uris = head.map_or(Vec::new(), |head| {
        head.params.notifications.resource_subscriptions
    });
    uris.truncate(LISTEN_URIS_MAX);
    uris
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fuzz_listens(text in ".{0,200}") {
            prop_assert!(uris(text.as_bytes()).len() <= LISTEN_URIS_MAX);
        }
    }

    #[test]
    fn the_uris_of_a_listen_are_read() {
        let text = r#"{"method":"subscriptions/listen","params":{"notifications":
            {"toolsListChanged":true,"resourceSubscriptions":["a","b"]}}}"#;
        assert_eq!(uris(text.as_bytes()), ["a", "b"]);
        assert_eq!(uris(b"[]"), [""; 0]);
    }
}
