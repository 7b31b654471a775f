//! Keycloak, with the settings of docs/identity.md. Run by `cargo xtask interop keycloak`.

use std::io::Write;

use reqwest::{Method, header};
use serde_json::{Value, json};
use testbed::{Keycloak, User};

use super::{
    login::log_in,
    provider::{Guarded, challenge, free_port},
};
use crate::{
    harness::{HttpSession, command, one_context},
    impersonation::{furnish, grant},
};

const REALM: &str = "team";

/// Says with what the server is to be tried. Keycloak is a download of 170 MB and takes minutes, so
/// the usual tests leave it out.
const ASKED_FOR: &str = "TESTBED_INTEROP";

/// A realm that an administrator has set up.
struct Realm {
    keycloak: Keycloak,
    admin: String,
}

// === impl Realm ===

impl Realm {
    /// A realm with a user `ann` in the groups `k8s-dev` and `staff`, and clients: `person`
    /// steps up and has no refresh tokens, `console` has all scopes from the start, tokens of
    /// `other` are for nobody, and `crier` is the server.
    async fn set_up(keycloak: Keycloak, resource: &str) -> Self {
        let admin = keycloak.admin_token().await.unwrap();
        let realm = Self { keycloak, admin };
        let ann = json!({
            "username": "ann", "enabled": true, "firstName": "Ann", "lastName": "Ray",
            "email": "ann@example.com", "emailVerified": true, "groups": ["/k8s-dev", "/staff"],
            "credentials": [{"type": "password", "value": "ann-password", "temporary": false}],
        });
        let crier = json!({"clientId": "crier", "secret": "crier-secret",
                           "serviceAccountsEnabled": true, "standardFlowEnabled": false});
        let created = json!({"realm": REALM, "enabled": true, "users": [ann], "clients": [crier],
                             "groups": [{"name": "k8s-dev"}, {"name": "staff"}]});
        realm.send(Method::POST, "", &created).await;
        let mapper = |name: &str, kind: &str, config: Value| {
            let mut all = json!({"access.token.claim": "true", "id.token.claim": "false"});
            for (key, value) in config.as_object().unwrap() {
                all[key] = value.clone();
            }
            json!({"name": name, "protocol": "openid-connect", "protocolMapper": kind, "config": all})
        };
        let audience = json!({"included.custom.audience": resource});
        let groups = json!({"claim.name": "groups", "full.path": "false"});
        let mappers = json!([
            mapper("audience", "oidc-audience-mapper", audience),
            mapper("groups", "oidc-group-membership-mapper", groups),
        ]);
        let none = json!([]);
        for (name, is_scope, mappers) in [
            ("kubecrier", "false", &mappers),
            ("kubecrier:read", "true", &none),
            ("kubecrier:events", "true", &none),
            ("kubecrier:logs", "true", &none),
        ] {
            let scope = json!({"name": name, "protocol": "openid-connect", "protocolMappers": mappers,
                               "attributes": {"include.in.token.scope": is_scope}});
            realm
                .send(Method::POST, "/team/client-scopes", &scope)
                .await;
        }
        for (name, has_refresh_tokens) in
            [("person", "false"), ("console", "true"), ("other", "true")]
        {
            let client = json!({
                "clientId": name, "publicClient": true, "directAccessGrantsEnabled": true,
                "redirectUris": ["http://127.0.0.1:1/callback"],
                "attributes": {"pkce.code.challenge.method": "S256",
                               "use.refresh.tokens": has_refresh_tokens},
            });
            realm.send(Method::POST, "/team/clients", &client).await;
        }
        realm.add_scope("person", "default", "kubecrier").await;
        realm.add_scope("console", "default", "kubecrier").await;
        for scope in ["read", "events", "logs"] {
            let scope = format!("kubecrier:{scope}");
            realm.add_scope("person", "optional", &scope).await;
            realm.add_scope("other", "optional", &scope).await;
            realm.add_scope("console", "default", &scope).await;
        }
        realm
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Value {
        let url = format!("{}/admin/realms{path}", self.keycloak.url());
        let request = reqwest::Client::new().request(method, &url);
        let request = request.bearer_auth(&self.admin).json(body);
        let answer = request.send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{url}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// The id of a client or of a client scope.
    async fn id(&self, list: &str, key: &str, name: &str) -> String {
        let path = format!("/team/{list}");
        let all = self.send(Method::GET, &path, &Value::Null).await;
        let one = all.as_array().unwrap().iter().find(|one| one[key] == name);
        one.unwrap()["id"].as_str().unwrap().to_owned()
    }

    async fn add_scope(&self, client: &str, kind: &str, scope: &str) {
        let client = self.id("clients", "clientId", client).await;
        let scope = self.id("client-scopes", "name", scope).await;
        let path = format!("/team/clients/{client}/{kind}-client-scopes/{scope}");
        self.send(Method::PUT, &path, &json!({})).await;
    }

    fn issuer(&self) -> String {
        format!("{}/realms/{REALM}", self.keycloak.url())
    }

    /// The tokens of ann by a client, without a browser.
    async fn tokens(&self, client: &str, scope: &str) -> Value {
        let url = format!("{}/protocol/openid-connect/token", self.issuer());
        let form = format!(
            "grant_type=password&client_id={client}&username=ann&password=ann-password&scope={scope}"
        );
        let request = reqwest::Client::new().post(url).body(form);
        let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        request.send().await.unwrap().json().await.unwrap()
    }
}

#[tokio::test]
async fn interop_keycloak() {
    if std::env::var_os(ASKED_FOR).is_none_or(|with| with != "keycloak") {
        return;
    }
    let bed = testbed::shared().expect("a cluster");
    let (cluster, space) = (bed.dev(), "keycloak");
    let port = free_port();
    let resource = format!("http://127.0.0.1:{port}/mcp");
    let keycloak = Keycloak::start(free_port()).await.unwrap();
    let realm = Realm::set_up(keycloak, &resource).await;
    let issuer = realm.issuer();
    let mut secret = tempfile::NamedTempFile::new().unwrap();
    write!(secret, "crier-secret").unwrap();
    let file = one_context(cluster, User::ActsAsCallers);
    let introspection = format!("{issuer}/protocol/openid-connect/token/introspect");
    let settings = [
        "--username-claim",
        "preferred_username",
        "--groups-claim",
        "groups",
        "--allowed-groups",
        "k8s-*",
        "--oauth-introspection-url",
        &introspection,
        "--oauth-introspection-client-id",
        "crier",
        "--oauth-introspection-secret-file",
        secret.path().to_str().unwrap(),
    ];
    let guarded = Guarded::start_at(port, "impersonate", &file.path, &issuer, |command| {
        command.args(settings)
    });

    // Doctor knows the realm, and whom a token names.
    let good = realm.tokens("person", "kubecrier:read").await;
    let token = good["access_token"].as_str().unwrap();
    let mut token_file = tempfile::NamedTempFile::new().unwrap();
    write!(token_file, "{token}").unwrap();
    let mut doctor = command();
    doctor
        .args(["--port", "0", "--cluster-identity", "impersonate"])
        .args(["--public-url", &guarded.base, "--oauth-issuer", &issuer])
        .args(settings)
        .arg("doctor")
        .arg("--kubeconfig")
        .arg(&file.path)
        .arg("--token-file")
        .arg(token_file.path());
    let done = tokio::task::spawn_blocking(move || doctor.output().unwrap());
    let text = String::from_utf8(done.await.unwrap().stdout).unwrap();
    for part in [
        &*format!("issuer {issuer}"),
        "for RS256",
        "the user of Kubernetes is `oidc:ann`, in the groups oidc:k8s-dev, system:authenticated",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }

    // The audience is what the mapper writes, and nothing without it.
    assert_eq!(guarded.status(token).await, 200);
    let refused = async |token: &str, reason: &str| {
        let answer = guarded.call(token, "namespaces_list", json!({})).await;
        assert_eq!(answer.status(), 401, "{reason}");
        let why = challenge(&answer, "error_description").unwrap();
        assert!(why.contains(reason), "{reason} in {why}");
    };
    let without = realm.tokens("other", "kubecrier:read").await;
    refused(without["access_token"].as_str().unwrap(), "'aud'").await;
    // Other tokens of the same log-in are none for here.
    let all = realm.tokens("console", "openid").await;
    refused(all["id_token"].as_str().unwrap(), "audience console").await;
    refused(all["refresh_token"].as_str().unwrap(), "'HS512'").await;
    // An opaque one is asked about with the client of the server.
    refused("opaque-token", "not active").await;

    // Groups are rights.
    furnish(cluster, space).await;
    let session = HttpSession::begin_as(&guarded.base, token).await;
    let listed = async || session.call("pods_list", json!({"namespace": space})).await;
    listed().await.refused("forbidden", &["oidc:ann"]);
    grant(cluster, space, "keycloak", "Group", "oidc:k8s-dev").await;
    let mut text = listed().await.text;
    for _ in 0..100 {
        if text.contains("web") {
            break;
        }
        text = listed().await.text;
    }
    assert!(text.contains("web"), "{text}");
    let audit = cluster.audit_of(User::ActsAsCallers).unwrap();
    let of_ann = |request: &&Value| request["impersonatedUser"]["username"] == "oidc:ann";
    let groups = &audit.iter().find(of_ann).unwrap()["impersonatedUser"]["groups"];
    assert_eq!(groups, &json!(["oidc:k8s-dev", "system:authenticated"]));

    // With default scopes a token has them without being asked for.
    let console = all["access_token"].as_str().unwrap();
    let arguments = json!({"namespace": space});
    let answer = guarded.call(console, "events_list", arguments).await;
    assert_eq!(answer.status(), 200);

    // A person logs in with the official client, and asks for more when that is missing. Without
    // a refresh token: with one, the client renews it in place of asking for more.
    let calls = json!([
        {"name": "pods_list", "arguments": {"namespace": space}},
        {"name": "events_list", "arguments": {"namespace": space}},
    ]);
    let form = Some("username=ann&password=ann-password");
    let found = log_in(&guarded, &calls, form).await.unwrap();
    assert_eq!(found["answers"], json!([false, false]));
    let asked = json!([
        {"scope": "kubecrier:read", "resource": resource},
        {"scope": "kubecrier:read kubecrier:events", "resource": resource},
    ]);
    assert_eq!(found["asked"], asked);

    // A client that registers itself is refused as long as no host is trusted.
    let url = format!("{issuer}/clients-registrations/openid-connect");
    let client = json!({"client_name": "x", "redirect_uris": ["http://127.0.0.1:1/callback"]});
    let answer = reqwest::Client::new().post(url).json(&client).send().await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), 403);
    assert!(answer.text().await.unwrap().contains("Trusted Hosts"));
}
