//! A token that expires or is revoked ends its streams; a fresh one of the same caller goes on.

use std::time::Duration;

use serde_json::json;
use testbed::User;
use tokio::time::Instant;

use super::provider::{Guarded, Provider};
use crate::harness::{Stream, one_context};

#[tokio::test]
async fn streams_end_with_their_token_and_the_session_goes_on_with_a_fresh_one() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let file = one_context(bed.dev(), User::Reader);
    let guarded = Guarded::start(&file.path, &provider.issuer, &[]);
    let scopes = "kubecrier:read kubecrier:events";
    provider.set("ttl", json!(4)).await;
    let short = provider.token(&guarded.resource(), scopes).await;
    let issued = Instant::now();
    provider.set("ttl", json!(3600)).await;
    let fresh = provider.token(&guarded.resource(), scopes).await;
    let session = guarded.session(&short).await;
    let subscribed = session
        .call("events_subscribe", json!({"namespace": "default"}))
        .await
        .ok();
    let subscription = subscribed.data["subscriptionId"].clone();
    let mut stream = session.stream(None).await;
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut listen = Stream::new(session.modern("subscriptions/listen", None, wanted).await);
    // The leeway for clocks is half a minute.
    listen.rest().await;
    stream.rest().await;
    let lasted = issued.elapsed();
    let expected = Duration::from_secs(33)..Duration::from_secs(45);
    assert!(expected.contains(&lasted), "{lasted:?}");
    assert_eq!(guarded.status(&short).await, 401);
    let with_fresh = |request: reqwest::RequestBuilder| {
        request.header("authorization", format!("Bearer {fresh}"))
    };
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                      "params": {"name": "events_list_subscriptions", "arguments": {}}});
    let answer = with_fresh(session.request(&list)).send().await.unwrap();
    let text = answer.text().await.unwrap();
    let id = subscription.as_str().unwrap();
    assert!(text.contains(id), "{id} in {text}");
    // For another caller neither exists.
    let other = Provider::start().unwrap();
    let stranger = other.token(&guarded.resource(), scopes).await;
    let request = session
        .request(&list)
        .header("authorization", format!("Bearer {stranger}"));
    assert_ne!(request.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn streams_of_a_revoked_token_end_within_about_a_minute() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let file = one_context(bed.dev(), User::Reader);
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "crier-secret").unwrap();
    let endpoint = format!("{}/token/introspection", provider.issuer);
    let guarded = Guarded::start_with(&file.path, &provider.issuer, |command| {
        command
            .args(["--oauth-introspection-url", &endpoint])
            .args(["--oauth-introspection-client-id", "crier"])
            .arg("--oauth-introspection-secret-file")
            .arg(secret.path())
    });
    let resource = format!("{}?opaque", guarded.resource());
    let revoked = provider.token(&resource, "kubecrier:read").await;
    let kept = provider.token(&resource, "kubecrier:read").await;
    let session = guarded.session(&revoked).await;
    let mut stream = session.stream(None).await;
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let listen = session.modern("subscriptions/listen", None, wanted.clone());
    let mut listen = Stream::new(listen.await);
    let session = guarded.session(&kept).await;
    let other = session.modern("subscriptions/listen", None, wanted);
    let mut other = Stream::new(other.await);
    provider.revoke(&revoked).await;
    let at = Instant::now();
    let limit = Duration::from_secs(90);
    listen.rest_within(limit).await;
    stream.rest_within(limit).await;
    let lasted = at.elapsed();
    assert!(lasted < Duration::from_secs(70), "{lasted:?}");
    assert_eq!(guarded.status(&revoked).await, 401);
    // Asked about as well, and still active.
    let open = tokio::time::timeout(Duration::from_secs(5), other.rest());
    assert!(open.await.is_err(), "it was not revoked");
    assert_eq!(guarded.status(&kept).await, 200);
}
