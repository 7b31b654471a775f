//! A client of 2026-07-28 that says who it is and what it can.

use serde_json::{Value, json};

use crate::harness::message;

pub(crate) struct Modern {
    base: String,
    client: reqwest::Client,
    info: Value,
    capabilities: Value,
    token: Option<String>,
}

impl Modern {
    pub(crate) fn new(base: &str, name: &str, version: &str) -> Self {
        Self {
            base: base.to_owned(),
            client: reqwest::Client::new(),
            info: json!({"name": name, "version": version}),
            capabilities: json!({}),
            token: None,
        }
    }

    /// The same, which declares tasks.
    pub(crate) fn with_tasks(mut self) -> Self {
        self.capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        self
    }

    /// The same with a token.
    pub(crate) fn with_token(mut self, token: String) -> Self {
        self.token = Some(token);
        self
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        name: Option<&str>,
        mut params: Value,
    ) -> reqwest::Response {
        for (key, value) in [
            ("protocolVersion", &json!("2026-07-28")),
            ("clientCapabilities", &self.capabilities),
            ("clientInfo", &self.info),
        ] {
            params["_meta"][format!("io.modelcontextprotocol/{key}")] = value.clone();
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = (self.client.post(format!("{}/mcp", self.base)))
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .json(&body);
        if let Some(name) = name {
            request = request.header("mcp-name", name);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        request.send().await.unwrap()
    }

    pub(crate) async fn rpc(&self, method: &str, name: Option<&str>, params: Value) -> Value {
        let answer = self.send(method, name, params).await;
        message(&answer.text().await.unwrap())
    }

    /// Calls `faults_wait`.
    pub(crate) async fn wait(&self, arguments: Value) -> Value {
        let call = json!({"name": "faults_wait", "arguments": arguments});
        self.rpc("tools/call", Some("faults_wait"), call).await
    }

    /// A request about a task.
    pub(crate) async fn task(&self, method: &str, id: &str) -> Value {
        self.rpc(method, Some(id), json!({"taskId": id})).await
    }
}
