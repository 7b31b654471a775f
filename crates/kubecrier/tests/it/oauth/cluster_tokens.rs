//! The API server as an issuer of tokens, for programs in the cluster.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use serde_json::{Value, json};
use testbed::{Kubeconfig, User, namespace};
use tokio::time::Instant;

use super::provider::{Guarded, Provider};
use crate::{
    harness::{Http, TIMEOUT, command, kubeconfig, one_context},
    impersonation::{furnish, grant},
};

#[tokio::test]
async fn the_api_server_is_an_issuer_beside_another() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let space = "issuer";
    let cluster = bed.dev();
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    cluster.publish_issuer().await.unwrap();
    let file = one_context(cluster, User::Reader);
    let authority = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(authority.path(), cluster.authority_pem()).unwrap();
    let issuers = format!("{},{}", provider.issuer, cluster.url());
    let prefixes = format!("{}=oidc:,{}=dev:", provider.issuer, cluster.url());
    let guarded = Guarded::start_with(&file.path, &issuers, |command| {
        command
            .arg("--oauth-ca-file")
            .arg(authority.path())
            .args(["--oauth-required-scope", "none"])
            .args(["--username-prefix", &prefixes])
    });
    let resource = guarded.resource();
    let token = cluster.token_for(space, "agent", &resource).await.unwrap();
    // A moment passes until everybody may read where the keys are.
    guarded.until(&token, 200).await;
    // The token of every pod is for the API server alone.
    let usual = cluster.bound_token(space, "agent").await.unwrap();
    assert_eq!(guarded.status(&usual.token).await, 401);
    let person = provider.token(&resource, "").await;
    assert_eq!(guarded.status(&person).await, 200);
    let session = guarded.session(&token).await;
    let request = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    let request = session.request(&request);
    let request = request.header("authorization", format!("Bearer {person}"));
    assert_eq!(
        request.send().await.unwrap().status(),
        404,
        "the session of another"
    );
}

#[tokio::test]
async fn tokens_of_service_accounts_are_reviewed_by_the_cluster() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "reviewed");
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let file = one_context(cluster, User::Admin);
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("audit.jsonl");
    let (server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--service-account-audience", "crier"])
            .arg("--audit-log")
            .arg(&records),
    );
    let guarded = Guarded { server, base };
    let token = cluster.token_for(space, "agent", "crier").await.unwrap();
    assert_eq!(guarded.status(&token).await, 200);
    let other = cluster.token_for(space, "agent", "other").await.unwrap();
    let usual = cluster.bound_token(space, "agent").await.unwrap();
    for wrong in [&*other, &usual.token, "x.y.z", "opaque"] {
        assert_eq!(guarded.status(wrong).await, 401);
    }
    // Doctor tries them as the server does.
    for (token, says) in [
        (
            &token,
            &*format!("is `system:serviceaccount:{space}:agent`"),
        ),
        (&other, "the cluster does not accept the token"),
    ] {
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, token).unwrap();
        let mut doctor = command();
        doctor
            .args(["--port", "0", "--service-account-audience", "crier"])
            .args(["doctor", "--kubeconfig"])
            .arg(&file.path)
            .arg("--token-file")
            .arg(token_file);
        let done = tokio::task::spawn_blocking(move || doctor.output().unwrap());
        let text = String::from_utf8_lossy(&done.await.unwrap().stdout).into_owned();
        assert!(text.contains(says), "{says} in {text}");
    }
    let stats = reqwest::Client::new().get(format!("{}/stats", guarded.base));
    let stats = stats.header("authorization", format!("Bearer {token}"));
    let stats: Value = stats.send().await.unwrap().json().await.unwrap();
    let name = format!("system:serviceaccount:{space}:agent");
    assert_eq!(stats["caller"], format!("kubernetes:{name}"));
    // What was done is on record, with the user of Kubernetes and without tokens.
    let arguments = json!({"namespace": space, "name": "no-such-pod"});
    let answer = guarded.call(&token, "pods_get", arguments).await;
    assert_eq!(answer.status(), 200);
    let record = async {
        loop {
            let text = std::fs::read_to_string(&records).unwrap_or_default();
            let mut lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
            let found = lines.find(|record: &Value| record["tool"] == "pods_get");
            if let Some(record) = found {
                return record;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let record = tokio::time::timeout(TIMEOUT, record).await.unwrap();
    assert_eq!(record["kubernetesUser"], name);
    assert_eq!(record["namespaces"], json!([space]));
    assert_eq!(record["name"], "no-such-pod");
    assert_eq!(record["outcome"], "failed");
    assert_eq!(record["reason"], "not_found");
    let text = std::fs::read_to_string(&records).unwrap();
    assert!(text.contains("\"reason\":\"not_reviewed\""), "{text}");
    for token in [&token, &other, &usual.token] {
        assert!(!text.contains(token.as_str()), "a token on record");
    }
    let rights = std::fs::metadata(&records).unwrap().permissions();
    assert_eq!(rights.mode() & 0o777, 0o600);
    // An account that is deleted may not call for longer than an answer is remembered, and what it
    // has open ends as well.
    let mut deleted = guarded.listen(&token).await;
    let kept = cluster.token_for(space, "other", "crier").await.unwrap();
    let mut other = guarded.listen(&kept).await;
    cluster.delete_account(space, "agent").await.unwrap();
    let at = Instant::now();
    guarded.until(&token, 401).await;
    deleted.rest_within(Duration::from_secs(90)).await;
    let lasted = at.elapsed();
    assert!(lasted < Duration::from_secs(75), "{lasted:?}");
    let open = tokio::time::timeout(Duration::from_secs(10), other.rest());
    assert!(open.await.is_err(), "that account is there");
}

/// Whoever can make service accounts in one cluster must not get the rights of those of another.
#[tokio::test]
async fn a_service_account_is_nobody_in_another_cluster() {
    let Some(bed) = testbed::shared() else { return };
    let (dev, prod, space) = (bed.dev(), bed.prod(), "namesakes");
    let name = format!("system:serviceaccount:{space}:agent");
    for cluster in [dev, prod] {
        furnish(cluster, space).await;
        grant(cluster, space, "agent", "User", &name).await;
    }
    let file = kubeconfig(|file: Kubeconfig| {
        file.context("dev", dev, User::Admin)
            .context("prod", prod, User::Admin)
            .current("dev")
    });
    let (server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--service-account-audience", "crier"])
            .args(["--cluster-identity", "impersonate"]),
    );
    let guarded = Guarded { server, base };
    let token = dev.token_for(space, "agent", "crier").await.unwrap();
    let session = guarded.session(&token).await;
    let pods = session.call("pods_list", json!({"namespace": space})).await;
    assert!(pods.ok().text.contains("web"));
    for (tool, more) in [
        ("pods_list", json!({})),
        ("pods_log", json!({"name": "web"})),
        ("events_list", json!({})),
        ("events_subscribe", json!({})),
    ] {
        let mut arguments = json!({"context": "prod", "namespace": space});
        for (key, value) in more.as_object().unwrap() {
            arguments[key] = value.clone();
        }
        let refused = session.call(tool, arguments).await;
        assert!(
            !refused.text.contains(&format!("event of {space}")),
            "{tool}"
        );
        // What is shared is decided by a review, which has no words of its own.
        let words: &[&str] = match tool {
            "events_subscribe" => &[&name],
            _ => &["service account of another cluster"],
        };
        refused.refused("forbidden", words);
    }
}
