//! What a client is told that has no token, a wrong one, or one for less.

use serde_json::{Value, json};
use testbed::User;

use super::provider::{Guarded, Provider, challenge};
use crate::harness::one_context;

#[tokio::test]
async fn a_client_without_a_token_is_told_where_to_log_in() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let file = one_context(bed.dev(), User::Reader);
    let guarded = Guarded::start(&file.path, &provider.issuer, &[]);
    let well_known = format!("{}/.well-known/oauth-protected-resource", guarded.base);
    let client = reqwest::Client::new();
    for method in ["GET", "POST", "DELETE"] {
        let request = client.request(method.parse().unwrap(), guarded.resource());
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 401, "{method}");
        let metadata = challenge(&answer, "resource_metadata");
        assert_eq!(metadata, Some(format!("{well_known}/mcp")));
        assert_eq!(
            challenge(&answer, "scope").as_deref(),
            Some("kubecrier:read")
        );
        assert_eq!(challenge(&answer, "error"), None, "nothing was wrong");
    }
    for address in [well_known.clone(), format!("{well_known}/mcp")] {
        let request = client
            .get(&address)
            .header("origin", "https://anywhere.example");
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{address}");
        assert_eq!(answer.headers()["access-control-allow-origin"], "*");
        let metadata: Value = answer.json().await.unwrap();
        assert_eq!(metadata["resource"], guarded.resource());
        assert_eq!(metadata["authorization_servers"], json!([provider.issuer]));
        let scopes = ["kubecrier:read", "kubecrier:events", "kubecrier:logs"];
        assert_eq!(metadata["scopes_supported"], json!(scopes));
    }
    // Nothing else is for pages of everywhere, or for who has no token.
    let request = client
        .get(guarded.resource())
        .header("origin", "https://anywhere.example");
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 403);
    for page in ["metrics", "stats"] {
        let answer = client
            .get(format!("{}/{page}", guarded.base))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 401, "{page}");
    }
    let health = client
        .get(format!("{}/healthz", guarded.base))
        .send()
        .await
        .unwrap();
    assert_eq!(health.status(), 200);
}

#[tokio::test]
async fn a_wrong_token_is_refused_with_the_reason() {
    let Some(bed) = testbed::shared() else { return };
    let (Some(provider), Some(stranger)) = (Provider::start(), Provider::start()) else {
        return;
    };
    let file = one_context(bed.dev(), User::Reader);
    let file_tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file_tokens.path(), "bob:0123456789abcdef-bob\n").unwrap();
    let guarded = Guarded::start_with(&file.path, &provider.issuer, |command| {
        command
            .arg("--auth-token-file")
            .arg(file_tokens.path())
            .args(["--groups-claim", "groups", "--admin-address", "127.0.0.1:0"])
    });
    let resource = guarded.resource();
    let good = provider.token(&resource, "kubecrier:read").await;
    assert_eq!(guarded.status(&good).await, 200);
    // Tokens of the file go on beside, and scopes do not limit them.
    let log = guarded
        .call("0123456789abcdef-bob", "events_list", json!({}))
        .await;
    assert_eq!(log.status(), 200);
    let foreign = provider
        .token("https://other.example/mcp", "kubecrier:read")
        .await;
    let strange = stranger.token(&resource, "kubecrier:read").await;
    let mut parts: Vec<&str> = good.split('.').collect();
    let changed = format!("{}.{}.{}", parts[0], parts[1], "AAAA");
    let none = format!("eyJhbGciOiJub25lIn0.{}.", parts[1]);
    parts.truncate(2);
    let huge = "x".repeat(121 * 1024);
    for (token, part) in [
        (&*foreign, "audience"),
        (&strange, "does not trust"),
        (&changed, "signature"),
        (&none, "signed with 'none'"),
        ("opaque", "opaque"),
        ("a.b.c", "base64url"),
        (&huge, "more than"),
    ] {
        let answer = guarded.call(token, "namespaces_list", json!({})).await;
        assert_eq!(answer.status(), 401, "{part}");
        assert_eq!(
            challenge(&answer, "error").as_deref(),
            Some("invalid_token")
        );
        let description = challenge(&answer, "error_description").unwrap();
        assert!(description.contains(part), "{part} in {description}");
        assert!(challenge(&answer, "resource_metadata").is_some());
    }
    // Valid, and nobody that could be served.
    let many: Vec<String> = (0..1000).map(|n| format!("g{n}")).collect();
    provider.set("groups", json!(many)).await;
    let groups = provider.token(&resource, "kubecrier:read").await;
    let answer = guarded.call(&groups, "namespaces_list", json!({})).await;
    assert_eq!(answer.status(), 403);
    assert!(answer.text().await.unwrap().contains("1000 groups"));
    let log = guarded.server.log();
    for token in [&good, &foreign, &strange, &groups] {
        assert!(!log.contains(token.as_str()), "a token in the log");
    }
    let admin = crate::admin::admin_address(&guarded.server);
    let metrics = reqwest::get(format!("http://{admin}/metrics"))
        .await
        .unwrap();
    let metrics = metrics.text().await.unwrap();
    for reason in ["audience", "issuer", "signature", "algorithm", "mapping"] {
        let line = format!("kubecrier_requests_refused_total{{reason=\"{reason}\"}} 1");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn a_token_for_less_is_told_all_that_is_missing_at_once() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let file = one_context(bed.dev(), User::Reader);
    let guarded = Guarded::start(&file.path, &provider.issuer, &[]);
    let resource = guarded.resource();
    let none = provider.token(&resource, "").await;
    let read = provider.token(&resource, "kubecrier:read").await;
    let logs = provider
        .token(&resource, "kubecrier:read kubecrier:logs")
        .await;
    let all = "kubecrier:read kubecrier:events kubecrier:logs";
    let everything = provider.token(&resource, all).await;
    let refused = async |token: &str, tool: &str, arguments: Value, scope: &str| {
        let answer = guarded.call(token, tool, arguments).await;
        assert_eq!(answer.status(), 403, "{tool}");
        assert_eq!(
            challenge(&answer, "error").as_deref(),
            Some("insufficient_scope")
        );
        assert_eq!(
            challenge(&answer, "scope").as_deref(),
            Some(scope),
            "{tool}"
        );
        assert!(challenge(&answer, "resource_metadata").is_some());
    };
    refused(&none, "namespaces_list", json!({}), "kubecrier:read").await;
    refused(&none, "faults_get", json!({}), all).await;
    refused(&read, "faults_get", json!({}), all).await;
    refused(
        &read,
        "pods_log",
        json!({}),
        "kubecrier:read kubecrier:logs",
    )
    .await;
    refused(&logs, "events_list", json!({}), all).await;
    refused(
        &read,
        "resources_list",
        json!({"kind": "ev"}),
        "kubecrier:read kubecrier:events",
    )
    .await;
    for (token, tool) in [(&read, "pods_list"), (&everything, "events_list")] {
        assert_eq!(
            guarded.call(token, tool, json!({})).await.status(),
            200,
            "{tool}"
        );
    }
    let session = guarded.session(&read).await;
    for (method, params) in [
        ("resources/read", json!({"uri": "k8s://dev/default/events"})),
        (
            "resources/subscribe",
            json!({"uri": "k8s://dev/default/events"}),
        ),
        ("prompts/get", json!({"name": "triage_fault"})),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        assert_eq!(session.post(&body).await.status(), 403, "{method}");
    }
    let wanted = json!({"notifications": {"resourceSubscriptions": ["k8s://dev/default/events"]}});
    let listen = session.modern("subscriptions/listen", None, wanted).await;
    assert_eq!(listen.status(), 403);
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let listen = session.modern("subscriptions/listen", None, wanted).await;
    assert_eq!(listen.status(), 200);
    // A page without a message needs the base.
    let client = reqwest::Client::new();
    for (token, status) in [(&none, 403), (&read, 200)] {
        let request = client.get(format!("{}/stats", guarded.base));
        let request = request.header("authorization", format!("Bearer {token}"));
        assert_eq!(request.send().await.unwrap().status(), status);
    }
}
