//! Starts the real binary and sends raw JSON-RPC to it, so that no client library hides
//! what is on the wire.

mod cli;
mod failure_counts;
mod frames;
mod kubeconfigs;
mod project;
mod proxy;
mod records;
mod signed;
mod stream;
mod subscriber;
mod terminal;
mod tool_result;
mod wrong_session;

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

pub(crate) use self::{
    cli::{Demo, Watch},
    failure_counts::FailureCounts,
    frames::{Validation, validate},
    kubeconfigs::{File, kubeconfig, one_context},
    project::{MARKER, Project, before_marker, changed},
    proxy::Proxy,
    stream::Stream,
    subscriber::Subscriber,
    terminal::Terminal,
    tool_result::ToolResult,
};

/// An upper bound for every wait; only a failing test reaches it.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A running server.
pub(crate) struct Server {
    child: Child,
    log: Arc<Mutex<String>>,
    lines: mpsc::Receiver<String>,
}

/// A server over HTTP, and a first session with it.
pub(crate) struct Http {
    pub(crate) server: Server,
    client: HttpSession,
}

/// A session over HTTP, of the legacy era.
pub(crate) struct HttpSession {
    pub(crate) base: String,
    version: String,
    client: reqwest::Client,
    pub(crate) session: String,
    next: AtomicU64,
}

/// A session on stdin and stdout.
pub(crate) struct StdioSession {
    pub(crate) server: Server,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    next: u64,
    /// The version of its `initialize`.
    version: String,
}

/// The binary with a clean environment.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubecrier"));
    command
        .env_clear()
        .env("HOME", "/nonexistent")
        .env("NO_COLOR", "1");
    command
}

pub(crate) fn initialize(version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }})
}

// === impl Server ===

impl Server {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let log = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&log);
        let stderr = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                kept.lock().push_str(&format!("{line}\n"));
                let _receiver_may_be_gone = sender.send(line);
            }
        });
        Self { child, log, lines }
    }

    /// Waits for a line of the log.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        while let Ok(line) = self.lines.recv_timeout(TIMEOUT) {
            if line.contains(text) {
                return line;
            }
        }
        panic!("the server never said `{text}`:\n{}", self.log());
    }

    /// Takes the standard output of the process; works once.
    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) async fn exit(&mut self) -> ExitStatus {
        let ended = async {
            loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        match tokio::time::timeout(TIMEOUT, ended).await {
            Ok(status) => status,
            Err(elapsed) => panic!("{elapsed}, the server does not end:\n{}", self.log()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

// === impl Http ===

impl Http {
    pub(crate) async fn start(kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self::start_at(kubeconfig, arguments, "2025-11-25").await
    }

    /// Starts a server that requires a token and a session that sends it; requests outside
    /// the session carry none.
    pub(crate) async fn start_with_token(
        kubeconfig: &Path,
        arguments: &[&str],
        token: &str,
    ) -> Self {
        let (server, base) = Self::launch(
            command()
                .arg("--kubeconfig")
                .arg(kubeconfig)
                .args(arguments),
        );
        let client = HttpSession::begin(&base, "2025-11-25", Some(token)).await;
        Self { server, client }
    }

    pub(crate) async fn start_at(kubeconfig: &Path, arguments: &[&str], version: &str) -> Self {
        let mut command = command();
        let command = command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
        Self::start_command(command, version).await
    }

    /// Starts a command to which only the port is added.
    pub(crate) async fn start_command(command: &mut Command, version: &str) -> Self {
        let (server, base) = Self::launch(command);
        let client = HttpSession::begin(&base, version, None).await;
        Self { server, client }
    }

    /// Starts a server; the second is its URL without the path.
    pub(crate) fn launch(command: &mut Command) -> (Server, String) {
        let server = Server::start(command.args(["--port", "0"]).stdin(Stdio::null()));
        let line = server.wait_for("serving MCP over HTTP");
        // The log line may be text or JSON.
        let url = &line[line.find("http").unwrap()..];
        let base = url.split("/mcp").next().unwrap().to_owned();
        (server, base)
    }
}

impl std::ops::Deref for Http {
    type Target = HttpSession;

    fn deref(&self) -> &HttpSession {
        &self.client
    }
}

// === impl HttpSession ===

impl HttpSession {
    async fn begin(base: &str, version: &str, token: Option<&str>) -> Self {
        Self::begin_with(reqwest::Client::new(), base, version, token).await
    }

    /// Begins a session whose every request is of the caller with this token.
    pub(crate) async fn begin_as(base: &str, token: &str) -> Self {
        let bearer = format!("Bearer {token}").parse().unwrap();
        let headers = [(reqwest::header::AUTHORIZATION, bearer)];
        let client = reqwest::Client::builder().default_headers(headers.into_iter().collect());
        Self::begin_with(client.build().unwrap(), base, "2025-11-25", Some(token)).await
    }

    /// Begins a session of a client.
    pub(crate) async fn begin_with(
        client: reqwest::Client,
        base: &str,
        version: &str,
        token: Option<&str>,
    ) -> Self {
        let mut session = Self {
            base: base.to_owned(),
            version: version.to_owned(),
            client,
            session: String::new(),
            next: AtomicU64::new(1),
        };
        let bearer = token
            .map(|token| format!("Bearer {token}"))
            .unwrap_or_default();
        let answer = session
            .fresh_with(&initialize(version), "authorization", &bearer)
            .await;
        session.session = answer.headers()["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned();
        drop(answer);
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let accepted = session
            .request(&done)
            .header("authorization", &bearer)
            .send()
            .await;
        assert_eq!(accepted.unwrap().status(), 202);
        session
    }

    /// Begins another session with the same server.
    pub(crate) async fn another(&self, version: &str) -> Self {
        Self::begin(&self.base, version, None).await
    }

    pub(crate) async fn get(&self, path: &str) -> reqwest::Response {
        self.client
            .get(format!("{}{path}", self.base))
            .send()
            .await
            .unwrap()
    }

    /// Builds a POST in this session.
    pub(crate) fn request(&self, body: &Value) -> reqwest::RequestBuilder {
        self.headers(self.client.post(format!("{}/mcp", self.base)).json(body))
    }

    fn headers(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        request
            .header("accept", "application/json, text/event-stream")
            .header("mcp-session-id", &self.session)
            .header("mcp-protocol-version", &self.version)
    }

    /// Sends a POST outside of a session.
    pub(crate) async fn fresh(&self, body: &Value) -> reqwest::Response {
        self.fresh_with(body, "x-nothing", "").await
    }

    /// Sends a POST outside of a session, with one more header.
    pub(crate) async fn fresh_with(
        &self,
        body: &Value,
        header: &str,
        value: &str,
    ) -> reqwest::Response {
        let request = self.client.post(format!("{}/mcp", self.base));
        let request = request.header("accept", "application/json, text/event-stream");
        request
            .header(header, value)
            .json(body)
            .send()
            .await
            .unwrap()
    }

    pub(crate) async fn post(&self, body: &Value) -> reqwest::Response {
        self.request(body).send().await.unwrap()
    }

    /// Opens the session's stream.
    pub(crate) async fn open(&self, last_event_id: Option<&str>) -> reqwest::Response {
        let mut request = self.headers(self.client.get(format!("{}/mcp", self.base)));
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        request.send().await.unwrap()
    }

    pub(crate) async fn stream(&self, last_event_id: Option<&str>) -> Stream {
        let response = self.open(last_event_id).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Stream::at(response, &self.version)
    }

    pub(crate) async fn delete(&self) -> reqwest::StatusCode {
        let request = self.headers(self.client.delete(format!("{}/mcp", self.base)));
        request.send().await.unwrap().status()
    }

    /// Tries to end this session with the token of another caller.
    pub(crate) async fn delete_as(&self, token: &str) -> reqwest::StatusCode {
        let request = self.headers(self.client.delete(format!("{}/mcp", self.base)));
        let request = request.header("authorization", format!("Bearer {token}"));
        request.send().await.unwrap().status()
    }

    /// Sends a request of 2026-07-28, which has no session.
    pub(crate) async fn modern(
        &self,
        method: &str,
        name: Option<&str>,
        mut params: Value,
    ) -> reqwest::Response {
        for (key, value) in [
            ("protocolVersion", json!("2026-07-28")),
            ("clientCapabilities", json!({})),
            ("clientInfo", json!({"name": "test", "version": "1"})),
        ] {
            params["_meta"][format!("io.modelcontextprotocol/{key}")] = value;
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = self
            .client
            .post(format!("{}/mcp", self.base))
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .json(&body);
        if let Some(name) = name {
            request = request.header("mcp-name", name);
        }
        request.send().await.unwrap()
    }

    pub(crate) async fn rpc(&self, method: &str, params: Value) -> Value {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let answer = message(&self.post(&body).await.text().await.unwrap());
        validate(&self.version, Some(method), &answer).expect_valid(&answer);
        answer
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        let answer = self
            .rpc("tools/call", json!({"name": tool, "arguments": arguments}))
            .await;
        ToolResult::read(&answer)
    }
}

/// The response in a JSON body or in an event stream.
pub(crate) fn message(body: &str) -> Value {
    if let Ok(value) = serde_json::from_str(body) {
        return value;
    }
    body.lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?).ok())
        .find(|value: &Value| value.get("id").is_some())
        .unwrap_or_else(|| panic!("no response in {body:?}"))
}

// === impl StdioSession ===

impl StdioSession {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = Server::start(command);
        let stdin = server.child.stdin.take();
        let stdout = BufReader::new(server.child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _receiver_may_be_gone = sender.send(line);
            }
        });
        Self {
            server,
            stdin,
            lines,
            next: 0,
            version: "2025-11-25".to_owned(),
        }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        if let Some(version) = message["params"]["protocolVersion"].as_str() {
            version.clone_into(&mut self.version);
        }
        self.send_line(&message.to_string());
    }

    /// Sends a line that need not be a message.
    pub(crate) fn send_line(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn close(&mut self) {
        self.stdin = None;
    }

    /// The next line of stdout, which must be JSON: stdout belongs to the protocol.
    pub(crate) fn receive(&self) -> Value {
        match self.lines.recv_timeout(TIMEOUT) {
            Ok(line) => {
                let frame: Value = serde_json::from_str(&line)
                    .unwrap_or_else(|_| panic!("not JSON on stdout: {line}"));
                // What a response has to be depends on its request: see `rpc`.
                if frame.get("method").is_some() {
                    validate(&self.version, None, &frame).expect_valid(&frame);
                }
                frame
            }
            Err(error) => panic!("{error}, no answer on stdout:\n{}", self.server.log()),
        }
    }

    pub(crate) fn rpc(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        let answer = self.response();
        assert_eq!(answer["id"], self.next);
        validate(&self.version, Some(method), &answer).expect_valid(&answer);
        answer
    }

    /// The next response; notifications before it are skipped.
    pub(crate) fn response(&self) -> Value {
        loop {
            let message = self.receive();
            if message.get("id").is_some() {
                return message;
            }
        }
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> ToolResult {
        ToolResult::read(&self.rpc("tools/call", json!({"name": tool, "arguments": arguments})))
    }

    /// `initialize` and `notifications/initialized`.
    pub(crate) fn handshake(&mut self) -> Value {
        self.send(&initialize("2025-11-25"));
        let answer = self.receive();
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }
}
