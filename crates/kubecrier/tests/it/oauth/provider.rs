//! npm's oidc-provider, and servers that trust it.

use std::{
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::Client;

use crate::harness::{HttpSession, Server, Stream, command, message};

/// A running identity provider.
pub(crate) struct Provider {
    pub(crate) issuer: String,
    _server: Server,
    _folder: TempDir,
}

/// A server that accepts the tokens of a provider.
pub(crate) struct Guarded {
    pub(crate) server: Server,
    pub(crate) base: String,
}

/// A port that nobody has.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

// === impl Provider ===

impl Provider {
    /// `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        Self::start_at(free_port())
    }

    pub(crate) fn start_at(port: u16) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/oidc.mjs");
        let mut node = Client::Oidc
            .command(&script, folder.path())
            .inspect_err(testbed::skip)
            .ok()?;
        let server = Server::start(node.arg(port.to_string()).stdin(Stdio::null()));
        let line = server.wait_for("issuer http");
        Some(Self {
            issuer: line.rsplit(' ').next().unwrap().to_owned(),
            _server: server,
            _folder: folder,
        })
    }

    /// Whether it can be had here, without starting it.
    pub(crate) fn is_installed() -> bool {
        let folder = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/oidc.mjs");
        let found = Client::Oidc.command(&script, folder.path());
        found.inspect_err(testbed::skip).is_ok()
    }

    /// Changes what it does, e.g. `ttl=5`.
    pub(crate) async fn set(&self, name: &str, value: Value) {
        let mut url = reqwest::Url::parse(&format!("{}/test/set", self.issuer)).unwrap();
        url.query_pairs_mut().append_pair(name, &value.to_string());
        assert_eq!(reqwest::get(url).await.unwrap().status(), 200);
    }

    /// Replaces its keys.
    pub(crate) async fn rotate(&self) {
        let url = format!("{}/test/rotate", self.issuer);
        assert_eq!(reqwest::get(url).await.unwrap().status(), 200);
    }

    /// Replaces its keys by one of each of these kinds, such as `rsa,p256`.
    pub(crate) async fn rotate_to(&self, kinds: &str) {
        let url = format!("{}/test/rotate?kinds={kinds}", self.issuer);
        assert_eq!(reqwest::get(url).await.unwrap().status(), 200);
    }

    /// A token with any header and claims that one of its keys has signed: `kind` says which
    /// key, `how` in what way.
    pub(crate) async fn forge(
        &self,
        kind: &str,
        how: &str,
        header: Value,
        claims: Value,
    ) -> String {
        let wanted = json!({"kind": kind, "how": how, "header": header, "claims": claims});
        let request = reqwest::Client::new().post(format!("{}/test/forge", self.issuer));
        let answer = request.json(&wanted).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.text().await.unwrap()
    }

    /// Ends a token, as its holder does (RFC 7009).
    pub(crate) async fn revoke(&self, token: &str) {
        let request = reqwest::Client::new().post(format!("{}/token/revocation", self.issuer));
        let request = request.basic_auth("robot", Some("robot-secret"));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer = request.body(format!("token={token}")).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    }

    /// How often its keys were asked for.
    pub(crate) async fn key_requests(&self) -> u64 {
        let url = format!("{}/test/set", self.issuer);
        let state: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
        state["keyRequests"].as_u64().unwrap()
    }

    /// A token of a program.
    pub(crate) async fn token(&self, resource: &str, scope: &str) -> String {
        let mut url = reqwest::Url::parse("http://x").unwrap();
        url.query_pairs_mut()
            .append_pair("grant_type", "client_credentials")
            .append_pair("resource", resource);
        if !scope.is_empty() {
            url.query_pairs_mut().append_pair("scope", scope);
        }
        let request = reqwest::Client::new().post(format!("{}/token", self.issuer));
        let request = request.basic_auth("robot", Some("robot-secret"));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer = request.body(url.query().unwrap().to_owned()).send().await;
        let answer: Value = answer.unwrap().json().await.unwrap();
        let token = answer["access_token"].as_str();
        token
            .unwrap_or_else(|| panic!("no token: {answer}"))
            .to_owned()
    }
}

// === impl Guarded ===

impl Guarded {
    /// Starts a server that is its own public URL.
    pub(crate) fn start(kubeconfig: &Path, issuer: &str, arguments: &[&str]) -> Self {
        Self::start_with(kubeconfig, issuer, |command| command.args(arguments))
    }

    pub(crate) fn start_with(
        kubeconfig: &Path,
        issuer: &str,
        arguments: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        Self::start_as("shared", kubeconfig, issuer, arguments)
    }

    /// Starts one whose callers act in clusters as `identity` says.
    pub(crate) fn start_as(
        identity: &str,
        kubeconfig: &Path,
        issuer: &str,
        arguments: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        Self::start_at(free_port(), identity, kubeconfig, issuer, arguments)
    }

    /// The same on a port that is known before.
    pub(crate) fn start_at(
        port: u16,
        identity: &str,
        kubeconfig: &Path,
        issuer: &str,
        arguments: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let base = format!("http://127.0.0.1:{port}");
        let mut command = command();
        let command = command.arg("--kubeconfig").arg(kubeconfig);
        let command = command.args(["--oauth-issuer", issuer, "--public-url", &base]);
        let command = command.args(["--port", &port.to_string(), "--cluster-identity", identity]);
        let server = Server::start(arguments(command).stdin(Stdio::null()));
        server.wait_for("serving MCP over HTTP");
        Self { server, base }
    }

    /// What tokens have to be for.
    pub(crate) fn resource(&self) -> String {
        format!("{}/mcp", self.base)
    }

    /// Posts a call of a tool in the protocol without sessions.
    pub(crate) async fn call(
        &self,
        token: &str,
        tool: &str,
        arguments: Value,
    ) -> reqwest::Response {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool,
            "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            },
        }});
        let request = reqwest::Client::new().post(self.resource());
        let request = request
            .header("accept", "application/json, text/event-stream")
            .header("authorization", format!("Bearer {token}"))
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool);
        request.json(&body).send().await.unwrap()
    }

    /// The status of a call that needs no more than the base.
    pub(crate) async fn status(&self, token: &str) -> u16 {
        let answer = self.call(token, "namespaces_list", json!({})).await;
        answer.status().as_u16()
    }

    /// Waits until a token has this answer.
    pub(crate) async fn until(&self, token: &str, expected: u16) {
        let answered = async {
            while self.status(token).await != expected {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        };
        let answered = tokio::time::timeout(crate::harness::TIMEOUT, answered).await;
        answered.unwrap_or_else(|_| panic!("never {expected}:\n{}", self.server.log()));
    }

    /// Opens a stream of the protocol without sessions.
    pub(crate) async fn listen(&self, token: &str) -> Stream {
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        let session = self.session(token).await;
        Stream::new(session.modern("subscriptions/listen", None, wanted).await)
    }

    pub(crate) async fn session(&self, token: &str) -> HttpSession {
        HttpSession::begin_as(&self.base, token).await
    }
}

/// The value of a parameter of `WWW-Authenticate`.
pub(crate) fn challenge(answer: &reqwest::Response, name: &str) -> Option<String> {
    let header = answer.headers().get("www-authenticate")?.to_str().unwrap();
    let (_, rest) = header.split_once(&format!("{name}=\""))?;
    Some(rest.split('"').next().unwrap().to_owned())
}

/// The text of a tool's answer.
pub(crate) async fn text(answer: reqwest::Response) -> String {
    let message = message(&answer.text().await.unwrap());
    message["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
