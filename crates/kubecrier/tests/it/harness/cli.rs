//! The interactive commands of the binary, run as child processes.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
};

use serde_json::Value;

use super::{Server, TIMEOUT, command};

/// A running `kubecrier watch` and its output.
pub(crate) struct Watch {
    pub(crate) server: Server,
    lines: mpsc::Receiver<String>,
    /// The first note on stderr.
    pub(crate) note: String,
}

/// A running `kubecrier demo --no-client` and its URL.
pub(crate) struct Demo {
    child: Child,
    pub(crate) url: String,
}

// === impl Watch ===

impl Watch {
    /// Starts the command and waits until it has subscribed.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut server = Server::start(command.stdin(Stdio::null()).stdout(Stdio::piped()));
        let stdout = BufReader::new(server.stdout());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _receiver_may_be_gone = sender.send(line);
            }
        });
        let note = server.wait_for("-- watching");
        Self {
            server,
            lines,
            note,
        }
    }

    pub(crate) fn line(&mut self) -> String {
        let line = self.lines.recv_timeout(TIMEOUT);
        line.unwrap_or_else(|error| panic!("{error}, no line: {}", self.server.log()))
    }

    pub(crate) fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }
}

// === impl Demo ===

impl Demo {
    pub(crate) fn start(port: &str, speed: &str) -> Self {
        let mut child = command()
            .args(["demo", "--no-client", "--port", port, "--speed", speed])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut first).unwrap();
        let url = first.trim().rsplit(' ').next().unwrap().to_owned();
        Self { child, url }
    }

    pub(crate) fn port(&self) -> &str {
        self.url
            .rsplit(':')
            .next()
            .unwrap()
            .trim_end_matches("/mcp")
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
