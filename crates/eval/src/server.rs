//! The server, asked over stdio.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// No answer takes longer.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);

/// A running server and a session with it. Dropping it ends the server.
pub(crate) struct Server {
    _process: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    next: u64,
}

// === impl Server ===

impl Server {
    /// Starts the binary for the current context of a kubeconfig.
    pub(crate) async fn start(binary: &Path, kubeconfig: &Path) -> Result<Self> {
        let mut process = Command::new(binary)
            .env_clear()
            .env("HOME", "/nonexistent")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start `{}`", binary.display()))?;
        let stdin = process.stdin.take().context("stdin is piped")?;
        let stdout = process.stdout.take().context("stdout is piped")?;
        let mut server = Self {
            _process: process,
            stdin,
            stdout: BufReader::new(stdout).lines(),
            next: 0,
        };
        let client = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "eval", "version": "1"},
        });
        server.ask("initialize", client).await?;
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        server.write(&done).await?;
        Ok(server)
    }

    /// The text that a tool answers with.
    pub(crate) async fn call(&mut self, tool: &str) -> Result<String> {
        let answer = self
            .ask("tools/call", json!({"name": tool, "arguments": {}}))
            .await?;
        let blocks = answer["content"].as_array().map_or(&[][..], Vec::as_slice);
        let texts: Vec<_> = blocks
            .iter()
            .filter_map(|block| block["text"].as_str())
            .collect();
        let text = texts.join("\n");
        if answer["isError"] == true {
            bail!("{tool} failed: {text}");
        }
        Ok(text)
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await?;
        let answered = async {
            while let Some(line) = self.stdout.next_line().await? {
                let mut message: Value = serde_json::from_str(&line)?;
                if message["id"] != id || !message["method"].is_null() {
                    continue;
                }
                if !message["error"].is_null() {
                    bail!("{method} failed: {}", message["error"]);
                }
                return Ok(message["result"].take());
            }
            bail!("the server ended")
        };
        timeout(ANSWER_WITHIN, answered)
            .await
            .with_context(|| format!("{method} was not answered"))?
    }

    async fn write(&mut self, message: &Value) -> Result<()> {
        let line = format!("{message}\n");
        self.stdin.write_all(line.as_bytes()).await?;
        Ok(self.stdin.flush().await?)
    }
}
