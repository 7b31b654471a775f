//! Tokens that an issuer has really signed and that must not let anybody in, and names that are
//! hard to carry.

use jiff::Timestamp;
use serde_json::{Value, json};
use testbed::User;

use super::provider::{Guarded, Provider, challenge};
use crate::harness::{HttpSession, TIMEOUT, one_context};

/// Claims of a token that is good for an hour, with others on top.
fn claims(provider: &Provider, guarded: &Guarded, other: Value) -> Value {
    let now = Timestamp::now().as_second();
    let mut claims = json!({"iss": provider.issuer, "aud": guarded.resource(), "sub": "ann", "iat": now,
                            "exp": now + 3600, "scope": "kubecrier:read"});
    for (name, value) in other.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

pub(super) async fn signed(provider: &Provider, guarded: &Guarded, other: Value) -> String {
    let claims = claims(provider, guarded, other);
    let header = json!({"alg": "RS256"});
    provider.forge("rsa", "RS256", header, claims).await
}

/// The name of a group as directories give it.
fn guid(number: u32) -> String {
    format!("{number:08x}-1b2c-4d5e-8f90-{number:012x}")
}

#[tokio::test]
async fn a_signed_token_that_is_not_for_here_and_now_is_refused_by_its_reason() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let file = one_context(bed.dev(), User::Reader);
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("audit.jsonl");
    let guarded = Guarded::start_with(&file.path, &provider.issuer, |command| {
        let claims = ["--groups-claim", "groups", "--username-claim", "name"];
        command.args(claims).arg("--audit-log").arg(&records)
    });
    let now = Timestamp::now().as_second();
    let many: Vec<String> = (0..10_000).map(|n| format!("g{n}")).collect();
    let named = |other: Value| {
        let mut all = json!({"name": "ann"});
        for (name, value) in other.as_object().unwrap() {
            all[name] = value.clone();
        }
        all
    };
    let good = signed(&provider, &guarded, named(json!({}))).await;
    assert_eq!(guarded.status(&good).await, 200);
    for (other, status, reason) in [
        (json!({"aud": "https://other.example/mcp"}), 401, "audience"),
        (json!({"aud": [provider.issuer]}), 401, "audience"),
        (json!({"aud": null}), 401, "'aud'"),
        (
            json!({"iss": "https://evil.example"}),
            401,
            "does not trust",
        ),
        (
            json!({"iss": format!("{}/", provider.issuer)}),
            401,
            "does not trust",
        ),
        (json!({"exp": now - 60}), 401, "expired"),
        (json!({"exp": null}), 401, "'exp'"),
        (json!({"nbf": now + 600}), 401, "not valid yet"),
        (json!({"iat": now + 600}), 401, "not valid yet"),
        (json!({"sub": "a\r\nX-Evil: 1"}), 401, "'sub'"),
        (json!({"sub": ""}), 401, "'sub'"),
        // Theirs, and nobody here.
        (json!({"groups": many}), 403, "10000 groups"),
        (
            json!({"name": "a\r\nImpersonate-Group: system:masters"}),
            403,
            "control characters",
        ),
        (json!({"name": "ann "}), 403, "blank"),
        (
            json!({"groups": ["dev\nImpersonate-User: root"]}),
            403,
            "control characters",
        ),
    ] {
        let token = signed(&provider, &guarded, named(other)).await;
        let answer = guarded.call(&token, "namespaces_list", json!({})).await;
        assert_eq!(answer.status(), status, "{reason}");
        assert!(!answer.headers().contains_key("x-evil"), "{reason}");
        let description = challenge(&answer, "error_description").unwrap_or_default();
        let text = answer.text().await.unwrap();
        let said = format!("{description}{text}");
        assert!(said.contains(reason), "{reason} in {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    // Names as long as those of Entra make a token that no server takes, and a clear answer.
    let many: Vec<String> = (0..10_000).map(guid).collect();
    let token = signed(&provider, &guarded, named(json!({"groups": many}))).await;
    assert!(token.len() > 500_000, "{}", token.len());
    for _ in 0..5 {
        let answer = guarded.call(&token, "namespaces_list", json!({})).await;
        assert_eq!(answer.status(), 401);
        assert!(challenge(&answer, "resource_metadata").is_some());
        let description = challenge(&answer, "error_description").unwrap();
        assert!(description.contains("fewer groups"), "{description}");
        assert!(answer.text().await.unwrap().contains("fewer groups"));
    }
    // What is large and no token is told apart.
    let cookies = reqwest::Client::new().get(guarded.resource());
    let cookies = cookies.header("cookie", "c".repeat(300_000));
    let answer = cookies.send().await.unwrap();
    assert_eq!(answer.status(), 431);
    assert!(answer.text().await.unwrap().contains("headers"));
    // Whoever is let in is let in as before.
    assert_eq!(guarded.status(&good).await, 200);
    // Those who are known, and nobody here, are on record.
    let known = format!("{}#ann", provider.issuer);
    let recorded = async {
        loop {
            let text = std::fs::read_to_string(&records).unwrap_or_default();
            let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
            let refused: Vec<Value> = lines
                .filter(|line: &Value| line["reason"] == "mapping")
                .collect();
            if refused.len() == 4 {
                return refused;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let recorded = tokio::time::timeout(TIMEOUT, recorded).await.unwrap();
    for line in recorded {
        assert_eq!(line["caller"], *known, "{line}");
        assert_eq!(line["status"], 403, "{line}");
    }
    let log = guarded.server.log();
    assert!(!log.contains("panicked"), "{log}");
}

/// A name with quotes, commas and other scripts is the user whom Kubernetes sees.
#[tokio::test]
async fn a_name_that_needs_care_in_a_header_is_the_user_in_the_audit_log() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let cluster = bed.dev();
    let file = one_context(cluster, User::ActsAsCallers);
    let guarded = Guarded::start_as("impersonate", &file.path, &provider.issuer, |command| {
        command.arg("--oauth-content-scopes=false").args([
            "--username-claim",
            "name",
            "--groups-claim",
            "groups",
        ])
    });
    let name = "Jürgen \"J\" Groß, 東京; a=%41\\";
    let groups = ["ops: a=b", "日本, \"x\""];
    let other = json!({"name": name, "groups": groups});
    let token = signed(&provider, &guarded, other).await;
    let session = HttpSession::begin_as(&guarded.base, &token).await;
    let answer = session.call("pods_list", json!({"namespace": "default"}));
    answer.await.refused("forbidden", &["Groß"]);
    let user = format!("oidc:{name}");
    let audit = cluster.audit_of(User::ActsAsCallers).unwrap();
    let of_user = |request: &&Value| request["impersonatedUser"]["username"] == user.as_str();
    let request = audit.iter().find(of_user).unwrap();
    let mut expected = groups.map(|group| format!("oidc:{group}")).to_vec();
    expected.push("system:authenticated".to_owned());
    assert_eq!(request["impersonatedUser"]["groups"], json!(expected));
}
