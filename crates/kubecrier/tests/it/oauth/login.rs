//! People and programs that log in at a real identity provider.

use std::{path::Path, process::Command};

use serde_json::{Value, json};
use testbed::{Client, User};

use super::provider::{Guarded, Provider, text};
use crate::harness::{command, one_context};

/// Lets the official client log in and call tools; `None` if it is not installed. What it
/// returns is what it asked for, and whether the calls failed. The credentials are for the form
/// of a provider that has one.
pub(super) async fn log_in(
    guarded: &Guarded,
    calls: &Value,
    credentials: Option<&str>,
) -> Option<Value> {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/oauth.mjs");
    let node = Client::TypeScript.command(&script, folder.path());
    let node = node.inspect_err(testbed::skip).ok()?;
    let mut bounded = Command::new("timeout");
    bounded
        .arg("60")
        .arg(node.get_program())
        .args(node.get_args());
    bounded.args([&guarded.resource(), &calls.to_string()]);
    bounded.args(credentials);
    let done = tokio::task::spawn_blocking(move || bounded.output().unwrap());
    let done = done.await.unwrap();
    let (out, error) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    assert!(
        done.status.success(),
        "{out}\n{error}\n{}",
        guarded.server.log()
    );
    Some(serde_json::from_str(&out).unwrap())
}

#[tokio::test]
async fn the_official_client_logs_in_and_asks_for_more_when_it_is_refused() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let file = one_context(bed.dev(), User::Reader);
    let guarded = Guarded::start(&file.path, &provider.issuer, &[]);
    let calls = json!([
        {"name": "namespaces_list", "arguments": {}},
        {"name": "events_list", "arguments": {"namespace": "default"}},
        {"name": "namespaces_list", "arguments": {}},
    ]);
    let Some(found) = log_in(&guarded, &calls, None).await else {
        return;
    };
    assert_eq!(found["answers"], json!([false, false, false]));
    let resource = guarded.resource();
    assert_eq!(
        found["asked"],
        json!([
            {"scope": "kubecrier:read", "resource": resource},
            {"scope": "kubecrier:read kubecrier:events", "resource": resource},
        ]),
        "once for the base, once for events, and no more"
    );
}

#[tokio::test]
async fn a_program_calls_with_its_own_token_and_keys_are_rotated_without_a_restart() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let file = one_context(bed.dev(), User::Reader);
    let guarded = Guarded::start(&file.path, &provider.issuer, &[]);
    let old = provider.token(&guarded.resource(), "kubecrier:read").await;
    let answer = guarded.call(&old, "namespaces_list", json!({})).await;
    assert_eq!(answer.status(), 200);
    assert!(text(answer).await.contains("default"));
    let session = guarded.session(&old).await;
    provider.rotate().await;
    let new = provider.token(&guarded.resource(), "kubecrier:read").await;
    // Known tokens go on meanwhile, and the provider is not asked for each request. Nobody knows yet
    // whether the new one is none.
    assert_eq!(guarded.status(&new).await, 503);
    assert_eq!(guarded.status(&old).await, 200);
    guarded.until(&new, 200).await;
    assert_eq!(provider.key_requests().await, 2);
    // Another token of the same caller is the same caller.
    let again = session.call("namespaces_list", json!({})).await.ok();
    assert!(again.data["namespaces"].is_array());
    let request = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    let request = session.request(&request);
    let request = request.header("authorization", format!("Bearer {new}"));
    assert_eq!(request.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_provider_that_is_down_keeps_nobody_out_who_is_known() {
    let Some(bed) = testbed::shared() else { return };
    if !Provider::is_installed() {
        return;
    }
    let file = one_context(bed.dev(), User::Reader);
    let port = super::provider::free_port();
    let issuer = format!("http://127.0.0.1:{port}");
    let guarded = Guarded::start(&file.path, &issuer, &[]);
    let Some(provider) = Provider::start_at(port) else {
        return;
    };
    let first = provider.token(&guarded.resource(), "kubecrier:read").await;
    let later = provider.token(&guarded.resource(), "kubecrier:read").await;
    drop(provider);
    let answer = guarded.call(&first, "namespaces_list", json!({})).await;
    assert_eq!(answer.status(), 503, "not 401: the token may be good");
    assert!(answer.headers().contains_key("retry-after"));
    // Keys are made at each start, so a token of the first has to wait for its own.
    let provider = Provider::start_at(port).unwrap();
    let first = provider.token(&guarded.resource(), "kubecrier:read").await;
    let unseen = provider.token(&guarded.resource(), "kubecrier:read").await;
    guarded.until(&first, 200).await;
    drop(provider);
    assert_eq!(guarded.status(&first).await, 200);
    assert_eq!(guarded.status(&unseen).await, 200, "its key is known");
    assert_eq!(
        guarded.status(&later).await,
        503,
        "whether its key is one, nobody can say"
    );
}

#[tokio::test]
async fn an_opaque_token_is_introspected() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let file = one_context(bed.dev(), User::Reader);
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "crier-secret\n").unwrap();
    let endpoint = format!("{}/token/introspection", provider.issuer);
    let guarded = Guarded::start_with(&file.path, &provider.issuer, |command| {
        command
            .args(["--oauth-introspection-url", &endpoint])
            .args(["--oauth-introspection-client-id", "crier"])
            .arg("--oauth-introspection-secret-file")
            .arg(secret.path())
    });
    let opaque = format!("{}?opaque", guarded.resource());
    let token = provider.token(&opaque, "kubecrier:read").await;
    assert!(!token.contains('.'));
    assert_eq!(guarded.status(&token).await, 200);
    assert_eq!(guarded.status(&format!("{token}x")).await, 401);
    let foreign = provider
        .token("https://other.example/mcp?opaque", "kubecrier:read")
        .await;
    assert_eq!(guarded.status(&foreign).await, 401);
    // A signed one is verified here.
    let signed = provider.token(&guarded.resource(), "kubecrier:read").await;
    assert_eq!(guarded.status(&signed).await, 200);
}

#[tokio::test]
async fn doctor_says_who_the_caller_of_a_token_would_be() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let file = one_context(bed.dev(), User::Reader);
    let token_file = tempfile::NamedTempFile::new().unwrap();
    let resource = "https://crier.example/mcp";
    let doctor = async |token: &str, arguments: &[&str]| {
        std::fs::write(token_file.path(), token).unwrap();
        let mut command = command();
        command
            .args(["--port", "0", "--public-url", "https://crier.example"])
            .args(["--oauth-issuer", &provider.issuer])
            .args(["--cluster-identity", "shared"])
            .args(arguments)
            .args(["doctor", "--kubeconfig"])
            .arg(&file.path)
            .arg("--token-file")
            .arg(token_file.path());
        let done = tokio::task::spawn_blocking(move || command.output().unwrap());
        let done = done.await.unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(!text.contains(token), "the token is shown: {text}");
        text
    };
    let token = provider.token(resource, "kubecrier:read").await;
    let text = doctor(
        &token,
        &["--groups-claim", "groups", "--allowed-groups", "team-*"],
    )
    .await;
    for part in [
        &*format!("issuer {}", provider.issuer),
        "it has 1 keys, for RS256",
        "the caller is `robot`",
        "the user of Kubernetes is `oidc:robot`, in the groups oidc:team-a, system:authenticated",
        "its scopes are kubecrier:read; what needs kubecrier:events, kubecrier:logs is refused",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = doctor(&token, &["--oauth-audience", "other"]).await;
    assert!(
        text.contains("is for the audience https://crier.example/mcp, not for"),
        "{text}"
    );
    assert!(text.contains("--oauth-audience"), "{text}");
}
