//! The output of a running process line by line: stderr, and progress on a pipe of its
//! own.

use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::mpsc,
};

/// The number of lines that are forwarded of one process; the rest is counted.
pub(super) const LINES_MAX: usize = 1_000;
/// The length of a line; a longer one is cut.
const LINE_BYTES_MAX: usize = 4 * 1024;
/// The number of last lines that are kept for an error message.
const TAIL_LINES: usize = 10;

/// Reports what a running process printed.
#[derive(Clone, Debug, PartialEq)]
pub enum ProcessEvent {
    /// A line on stderr, or one on the progress pipe that is not progress.
    Log(String),
    /// A line on the progress pipe.
    Progress(Progress),
    /// A log message on the progress pipe, as mcp-bash's library writes it.
    Message(Message),
}

/// A log message, in the form of the protocol.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Message {
    /// The level.
    pub level: String,
    /// What it is about.
    pub logger: Option<String>,
    /// A text, or anything else.
    pub data: Value,
}

/// A notification of the protocol on the progress pipe.
#[derive(Deserialize)]
struct Notified {
    method: String,
    params: Value,
}

/// Reports the progress of a process.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Progress {
    /// The work done so far.
    pub progress: f64,
    /// The work in total, if known.
    pub total: Option<f64>,
    /// A text for people.
    pub message: Option<String>,
}

// === impl Message ===

impl Message {
    /// The data as one text.
    pub fn text(&self) -> String {
        match &self.data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

// === impl ProcessEvent ===

impl ProcessEvent {
    /// Parses a whole notification.
    fn notified(line: &str) -> Option<Self> {
        let Notified { method, params } = serde_json::from_str(line).ok()?;
        match method.strip_prefix("notifications/")? {
            "progress" => serde_json::from_value(params).ok().map(Self::Progress),
            "message" => serde_json::from_value(params).ok().map(Self::Message),
            _ => None,
        }
    }

    /// Parses a line of progress: `40` or `40/100`, either with a text after it, or JSON; or a
    /// whole notification.
    pub(super) fn progress(line: String) -> Self {
        if let Some(event) = Self::notified(&line) {
            return event;
        }
        match Progress::parse(&line) {
            Some(progress) => Self::Progress(progress),
            None => Self::Log(format!("not a line of progress: {line}")),
        }
    }
}

// === impl Progress ===

impl Progress {
    fn parse(line: &str) -> Option<Self> {
        if line.starts_with('{') {
            return serde_json::from_str(line).ok();
        }
        let (number, message) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (progress, total) = match number.split_once('/') {
            Some((progress, total)) => (progress, Some(total.parse().ok()?)),
            None => (number, None),
        };
        let message = message.trim();
        Some(Self {
            progress: progress.trim_end_matches('%').parse().ok()?,
            total,
            message: (!message.is_empty()).then(|| message.to_owned()),
        })
    }
}

/// Forwards each line until the pipe is closed, and returns the last ones. It never waits
/// for the receiver: a line that does not fit into the channel is dropped and counted.
pub(super) async fn forward_lines(
    from: Option<impl AsyncRead + Unpin>,
    events: mpsc::Sender<ProcessEvent>,
    make: fn(String) -> ProcessEvent,
    max: usize,
) -> Vec<String> {
    let mut lines = LineForwarder {
        events,
        make,
        left: max,
        dropped: 0,
        tail: Vec::new(),
    };
    let Some(mut from) = from else {
        return lines.tail;
    };
    let mut line = Vec::new();
    let mut buffer = vec![0; 4 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        for byte in &buffer[..count] {
            if *byte == b'\n' {
                lines.forward(&std::mem::take(&mut line));
            } else if line.len() < LINE_BYTES_MAX {
                line.push(*byte);
            }
        }
    }
    lines.forward(&line);
    lines.finish()
}

struct LineForwarder {
    events: mpsc::Sender<ProcessEvent>,
    make: fn(String) -> ProcessEvent,
    left: usize,
    dropped: usize,
    tail: Vec<String>,
}

// === impl LineForwarder ===

impl LineForwarder {
    fn forward(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        // Control characters do not belong in a log.
        let line: String = line
            .trim_end()
            .chars()
            .filter(|one| !one.is_control() || *one == '\t')
            .collect();
        if line.is_empty() {
            return;
        }
        if self.tail.len() == TAIL_LINES {
            self.tail.remove(0);
        }
        self.tail.push(line.clone());
        if self.left == 0 || self.events.try_send((self.make)(line)).is_err() {
            self.dropped += 1;
        } else {
            self.left -= 1;
        }
    }

    fn finish(self) -> Vec<String> {
        if self.dropped > 0 {
            let note = format!("{} more lines were left out", self.dropped);
            let _full = self.events.try_send(ProcessEvent::Log(note));
        }
        self.tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_number_with_or_without_total_and_text() {
        let progress = |progress, total, message: Option<&str>| {
            ProcessEvent::Progress(Progress {
                progress,
                total,
                message: message.map(str::to_owned),
            })
        };
        for (line, expected) in [
            ("40", progress(40.0, None, None)),
            ("40%", progress(40.0, None, None)),
            (
                "4/10 draining node-1",
                progress(4.0, Some(10.0), Some("draining node-1")),
            ),
            (
                r#"{"progress": 1, "message": "x"}"#,
                progress(1.0, None, Some("x")),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":50,"total":null,"message":"x"}}"#,
                progress(50.0, None, Some("x")),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"l","data":{"a":1}}}"#,
                ProcessEvent::Message(Message {
                    level: "warning".to_owned(),
                    logger: Some("l".to_owned()),
                    data: serde_json::json!({"a": 1}),
                }),
            ),
            (
                "half",
                ProcessEvent::Log("not a line of progress: half".to_owned()),
            ),
            (
                "4/x",
                ProcessEvent::Log("not a line of progress: 4/x".to_owned()),
            ),
        ] {
            assert_eq!(ProcessEvent::progress(line.to_owned()), expected);
        }
    }

    #[tokio::test]
    async fn lines_are_cut_cleaned_and_counted() {
        let (sender, mut receiver) = mpsc::channel(8);
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let text = format!("one\r\n\n\x1b[31mtwo\n{long}\nthree\nfour");
        let tail = forward_lines(Some(text.as_bytes()), sender, ProcessEvent::Log, 3).await;
        assert_eq!(tail.len(), 5);
        assert_eq!(tail[2].len(), LINE_BYTES_MAX);
        let mut sent = Vec::new();
        while let Some(ProcessEvent::Log(line)) = receiver.recv().await {
            sent.push(line);
        }
        assert_eq!(sent.len(), 4);
        assert_eq!((sent[0].as_str(), sent[1].as_str()), ("one", "[31mtwo"));
        assert_eq!(sent[3], "2 more lines were left out");
    }
}
