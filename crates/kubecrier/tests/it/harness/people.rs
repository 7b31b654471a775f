//! The commands for people, run as a person runs them.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
};

use serde_json::Value;

use super::{PATIENCE, Server, command};

/// A watch whose lines are read.
pub(crate) struct Watch {
    pub(crate) server: Server,
    lines: mpsc::Receiver<String>,
    /// What it said first.
    pub(crate) note: String,
}

/// A demo that only serves, and where.
pub(crate) struct Demo {
    child: Child,
    pub(crate) url: String,
}

// === impl Watch ===

impl Watch {
    /// Started, and subscribed.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut server = Server::start(command.stdin(Stdio::null()).stdout(Stdio::piped()));
        let stdout = BufReader::new(server.stdout());
        let (tell, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _nobody_reads = tell.send(line);
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
        let line = self.lines.recv_timeout(PATIENCE);
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
