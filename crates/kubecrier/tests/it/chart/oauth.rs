//! The chart with access tokens: what it refuses, and a release whose callers log in.

use std::path::Path;

use serde_json::{Value, json};
use testbed::{BoundToken, Cluster, Mount, namespace, pod};

use super::{
    applied::apply_all,
    least, notes, refusal,
    rendered::{Rendered, on_top_of, write_files},
};
use crate::{
    harness::{Http, HttpSession, initialize},
    impersonation::grant,
    in_cluster::in_pod,
    oauth::provider::{Provider, challenge},
};

const AUDIENCE: &str = "kubecrier";

/// Values with nothing but an issuer, and more on top.
fn values(oauth: Value) -> Value {
    let base = json!({
        "image": {"repository": "registry.example/kubecrier"},
        "auth": {
            "clusterIdentity": "shared",
            "oauth": {"issuers": ["https://id.example"], "publicUrl": "https://crier.example"},
        },
    });
    on_top_of(&base, &json!({"auth": oauth}))
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    for (auth, words) in [
        (
            json!({"oauth": {"publicUrl": ""}}),
            "needs auth.oauth.publicUrl",
        ),
        (json!({"clusterIdentity": ""}), "needs auth.clusterIdentity"),
        (json!({"oauth": {"issuers": ["id.example"]}}), "issuers"),
        (
            json!({"oauth": {"publicUrl": "crier.example"}}),
            "publicUrl",
        ),
        (json!({"oauth": {"algorithms": ["HS256"]}}), "algorithms"),
        (json!({"oauth": {"algorithms": ["none"]}}), "algorithms"),
        (
            json!({"oauth": {"requiredScopes": ["a b"]}}),
            "requiredScopes",
        ),
        (json!({"oauth": {"audiences": [""]}}), "audiences"),
        (
            json!({"oauth": {"allowedGroups": ["a"]}}),
            "need auth.oauth.groupsClaim",
        ),
        (
            json!({"oauth": {"ca": {"configMap": "a", "secret": "b"}}}),
            "exclude each other",
        ),
        (
            json!({"oauth": {"introspection": {"url": "https://id.example/i"}}}),
            "together",
        ),
        (
            json!({"oauth": {"introspection": {"url": "https://id.example/i", "clientId": "a"}}}),
            "together",
        ),
        (json!({"serviceAccounts": {"audience": " "}}), "audience"),
    ] {
        let Some(text) = refusal(&values(auth)) else {
            return;
        };
        assert!(text.contains(words), "no {words} in {text}");
    }
    // Without an issuer they would do nothing.
    for (oauth, words) in [
        (
            json!({"groupsClaim": "groups"}),
            "auth.oauth.groupsClaim needs auth.oauth.issuers",
        ),
        (
            json!({"publicUrl": "https://crier.example"}),
            "auth.oauth.publicUrl needs",
        ),
        (json!({"ca": {"secret": "a"}}), "auth.oauth.ca needs"),
        (
            json!({"introspection": {"url": "https://id.example/i"}}),
            "auth.oauth.introspection needs",
        ),
    ] {
        let text = refusal(&on_top_of(&least(), &json!({"auth": {"oauth": oauth}}))).unwrap();
        assert!(text.contains(words), "no {words} in {text}");
    }
    // The chart sets them, so that they cannot be set twice.
    for key in [
        "oauth_issuer",
        "public_url",
        "username_prefix",
        "service_account_audience",
    ] {
        let text = refusal(&on_top_of(&least(), &json!({"settings": {key: "x"}}))).unwrap();
        assert!(text.contains(key), "no {key} in {text}");
    }
}

#[test]
fn the_notes_say_where_callers_log_in_and_for_whom_pods_have_tokens() {
    let check = |auth: Value, parts: &[&str], others: &[&str]| {
        let Some(notes) = notes(&values(auth)) else {
            return;
        };
        for part in parts {
            assert!(notes.contains(part), "no {part} in {notes}");
        }
        for other in others {
            assert!(!notes.contains(other), "{other} in {notes}");
        }
    };
    let tokens = ["get secret", "Bearer TOKEN"];
    check(
        json!({"oauth": {"publicUrl": "https://crier.example/mcp/"}}),
        &[
            "log in at https://id.example, and act as the ServiceAccount",
            "claude mcp add --transport http kubecrier https://crier.example/mcp\n",
        ],
        &[&tokens[..], &["service account, projected"]].concat(),
    );
    check(
        json!({"clusterIdentity": "impersonate", "serviceAccounts": {"audience": AUDIENCE}}),
        &[
            "and act as themselves",
            "projected for the audience kubecrier.",
        ],
        &tokens,
    );
}

#[test]
fn what_is_set_is_what_the_server_takes() {
    let Some(few) = Rendered::of("tools", &values(json!({}))) else {
        return;
    };
    let settings = few.settings();
    for absent in [
        "auth_token_file",
        "oauth_audience",
        "oauth_content_scopes",
        "oauth_ca_file",
    ] {
        assert!(!settings.contains_key(absent), "{absent}");
    }
    assert_eq!(settings["cluster_identity"].as_str(), Some("shared"));
    let settings: kubecrier::cli::Settings = settings.try_into().unwrap();
    kubecrier::config::Config::try_from(settings).unwrap();
    let all = values(json!({
        "clusterIdentity": "impersonate",
        "serviceAccounts": {"audience": AUDIENCE},
        "oauth": {
            "audiences": ["crier"], "requiredScopes": ["api://crier/access"], "contentScopes": false,
            "algorithms": ["ES256", "EdDSA"], "usernameClaim": "email", "usernamePrefix": "-",
            "groupsClaim": "groups", "groupsPrefix": "id:", "allowedGroups": ["k8s-*"],
            "ca": {"secret": "authority", "key": "root.pem"},
            "introspection": {"url": "https://id.example/i", "clientId": "crier",
                              "existingSecret": "client", "key": "word"},
        },
    }));
    let all = on_top_of(
        &all,
        &json!({
            "ingress": {"enabled": true, "hosts": ["crier.example"]},
            "httpRoute": {"enabled": true, "parentRefs": [{"name": "gateway"}]},
        }),
    );
    let all = Rendered::of("tools", &all).unwrap();
    let settings = all.settings();
    assert_eq!(settings["oauth_content_scopes"].as_bool(), Some(false));
    assert_eq!(settings["username_prefix"].as_str(), Some("-"));
    assert_eq!(
        settings["service_account_audience"].as_str(),
        Some(AUDIENCE)
    );
    let settings: kubecrier::cli::Settings = settings.try_into().unwrap();
    kubecrier::config::Config::try_from(settings).unwrap();
    let pod = &all.one("Deployment", "crier-kubecrier")["spec"]["template"]["spec"];
    let sources = pod["volumes"][0]["projected"]["sources"].to_string();
    for part in [
        json!({"name": "authority", "items": [{"key": "root.pem", "path": "oauth/ca.crt"}]}),
        json!({"name": "client", "items": [{"key": "word", "path": "oauth/client-secret"}]}),
    ] {
        let found = sources.contains(&part["items"].to_string());
        assert!(
            found && sources.contains(&part["name"].to_string()),
            "{part} in {sources}"
        );
    }
    // Clients find the issuer where they find the server.
    let well_known = "/.well-known/oauth-protected-resource";
    for kind in ["Ingress", "HTTPRoute"] {
        let text = all.one(kind, "crier-kubecrier").to_string();
        assert!(
            text.contains(well_known) && text.contains("\"/mcp\""),
            "{text}"
        );
    }
    let everything = Rendered::of("tools", &super::everything()).unwrap();
    let ingress = everything.one("Ingress", "crier-kubecrier").to_string();
    assert!(!ingress.contains(well_known), "{ingress}");
}

/// Files of the pod, its account's token, and the arguments of its container.
struct Release {
    folder: tempfile::TempDir,
    mount: Mount,
}

// === impl Release ===

impl Release {
    async fn apply(cluster: &Cluster, space: &str, rendered: &Rendered) -> Self {
        apply_all(cluster, rendered).await;
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().to_str().unwrap();
        let files = rendered.mounted().into_iter();
        let files: Vec<_> = files
            .map(|(path, text)| (path, text.replace("/etc/kubecrier", here)))
            .collect();
        write_files(folder.path(), &files);
        let token: BoundToken = cluster.bound_token(space, "crier-kubecrier").await.unwrap();
        let mount = Mount::new(cluster, space, &token).unwrap();
        Self { folder, mount }
    }

    fn write(&self, path: &str, text: &str) {
        write_files(
            self.folder.path(),
            &[(Path::new(path).into(), text.to_owned())],
        );
    }

    fn command(&self, cluster: &Cluster) -> std::process::Command {
        let mut command = in_pod(cluster, self.mount.path());
        command
            .arg("--config")
            .arg(self.folder.path().join("kubecrier.toml"));
        command.args(["--bind-address", "127.0.0.1"]);
        command
    }

    /// The findings of doctor, one text each, with the section before it.
    async fn doctor(&self, cluster: &Cluster) -> Vec<String> {
        let mut doctor = self.command(cluster);
        doctor.args(["--port", "0", "doctor", "-o", "json"]);
        let done = tokio::task::spawn_blocking(move || doctor.output().unwrap());
        let report: Value = serde_json::from_slice(&done.await.unwrap().stdout).unwrap();
        let sections = report["sections"].as_array().unwrap().iter();
        let found = sections.flat_map(|section| {
            let findings = section["findings"].as_array().unwrap().iter();
            findings.map(|one| {
                let (about, text) = (&section["about"], &one["text"]);
                format!("{} {}: {}", one["verdict"], about, text).replace('"', "")
            })
        });
        found.collect()
    }
}

#[tokio::test]
async fn callers_of_a_release_log_in_and_act_as_themselves() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let (cluster, space) = (bed.dev(), "chart-oauth");
    cluster.publish_issuer().await.unwrap();
    let prefixes = format!("{}=oidc:,{}=cluster:", provider.issuer, cluster.url());
    let values = values(json!({
        "clusterIdentity": "impersonate",
        "serviceAccounts": {"audience": AUDIENCE},
        "oauth": {
            "issuers": [provider.issuer, cluster.url()],
            "requiredScopes": ["kubecrier:read"],
            "contentScopes": false,
            "usernamePrefix": prefixes,
            "groupsClaim": "groups",
            "groupsPrefix": prefixes,
            "allowedGroups": ["team-*"],
            "ca": {"configMap": "issuers"},
            "introspection": {"url": format!("{}/token/introspection", provider.issuer),
                              "clientId": "crier", "existingSecret": "introspection"},
        },
    }));
    let Some(rendered) = Rendered::of(space, &values) else {
        return;
    };
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    cluster
        .create(&pod(space, "web-0", &["web"]))
        .await
        .unwrap();
    let release = Release::apply(cluster, space, &rendered).await;
    release.write("oauth/ca.crt", cluster.authority_pem());
    release.write("oauth/client-secret", "crier-secret\n");
    // The API server's own view of roles follows within moments.
    let mut found = Vec::new();
    for _ in 0..50 {
        found = release.doctor(cluster).await;
        if !found.iter().any(|one| one.starts_with("fail")) {
            break;
        }
    }
    for part in [
        &format!("ok issuer {}: it has 1 keys", provider.issuer),
        &format!("ok issuer {}: it has", cluster.url()),
        "ok context in-cluster, acting as callers: may act as callers, to read only",
        "ok context in-cluster, service accounts as callers: may ask whose a token is",
        "ok context in-cluster, service accounts as callers: may act as service accounts, to read only",
    ] {
        assert!(
            found.iter().any(|one| one.starts_with(part)),
            "{part} in {found:#?}"
        );
    }
    let (server, base) = Http::launch(&mut release.command(cluster));
    let request = reqwest::Client::new().post(format!("{base}/mcp"));
    let request = request.header("host", "crier.example");
    let answer = request
        .json(&initialize("2025-11-25"))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 401, "{}", server.log());
    let metadata = "https://crier.example/.well-known/oauth-protected-resource/mcp";
    assert_eq!(
        challenge(&answer, "resource_metadata").as_deref(),
        Some(metadata)
    );
    let resource = "https://crier.example/mcp";
    let signed = provider.token(resource, "kubecrier:read").await;
    let opaque = format!("{resource}?opaque");
    let opaque = provider.token(&opaque, "kubecrier:read").await;
    let account = cluster.token_for(space, "agent", AUDIENCE).await.unwrap();
    let subjects = [
        (&signed, "oidc:robot", "Group", "oidc:team-a"),
        (&opaque, "oidc:robot", "Group", "oidc:team-a"),
        (
            &account,
            "system:serviceaccount:chart-oauth:agent",
            "User",
            "system:serviceaccount:chart-oauth:agent",
        ),
    ];
    for (token, user, _, _) in subjects {
        let session = HttpSession::begin_as(&base, token).await;
        let refused = session.call("pods_list", json!({})).await;
        refused.refused("forbidden", &[user]);
    }
    grant(cluster, space, "people", subjects[0].2, subjects[0].3).await;
    grant(cluster, space, "accounts", subjects[2].2, subjects[2].3).await;
    for (token, user, _, _) in subjects {
        let session = HttpSession::begin_as(&base, token).await;
        let mut text = String::new();
        for _ in 0..100 {
            let seen = session.call("pods_list", json!({})).await;
            text = seen.text;
            if text.contains("web-0") {
                break;
            }
        }
        assert!(text.contains("web-0"), "{user}: {text}\n{}", server.log());
    }
}
