//! What a process says while it runs: complaints on stderr, progress on its own
//! pipe, both line by line.

use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::mpsc,
};

/// Lines passed on of one process; the rest is counted.
pub(super) const LINES_MAX: usize = 1_000;
/// The length of a line; the rest of it is cut off.
const LINE_BYTES_MAX: usize = 4 * 1024;
/// Lines kept for the answer.
const KEPT: usize = 10;

/// Something a process said.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A line on stderr.
    Line(String),
    /// How far it is.
    Progress(Progress),
}

/// How far a process is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Progress {
    /// So far.
    pub progress: f64,
    /// Of so much.
    pub total: Option<f64>,
    /// In words.
    pub message: Option<String>,
}

// === impl Said ===

impl Said {
    /// A line of progress: `40`, `40/100`, either with words after it, or JSON.
    pub(super) fn progress(line: String) -> Self {
        match Progress::parse(&line) {
            Some(progress) => Self::Progress(progress),
            None => Self::Line(format!("not a line of progress: {line}")),
        }
    }
}

// === impl Progress ===

impl Progress {
    fn parse(line: &str) -> Option<Self> {
        if line.starts_with('{') {
            return serde_json::from_str(line).ok();
        }
        let (number, words) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (progress, total) = match number.split_once('/') {
            Some((progress, total)) => (progress, Some(total.parse().ok()?)),
            None => (number, None),
        };
        let words = words.trim();
        Some(Self {
            progress: progress.trim_end_matches('%').parse().ok()?,
            total,
            message: (!words.is_empty()).then(|| words.to_owned()),
        })
    }
}

/// Passes on each line until the pipe is closed; answers the last ones. Nobody is
/// waited for: what cannot be passed on at once is dropped and counted.
pub(super) async fn follow(
    from: Option<impl AsyncRead + Unpin>,
    say: mpsc::Sender<Said>,
    make: fn(String) -> Said,
    max: usize,
) -> Vec<String> {
    let mut lines = Lines {
        say,
        make,
        left: max,
        dropped: 0,
        kept: Vec::new(),
    };
    let Some(mut from) = from else {
        return lines.kept;
    };
    let mut line = Vec::new();
    let mut buffer = vec![0; 4 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        for byte in &buffer[..count] {
            if *byte == b'\n' {
                lines.take(&std::mem::take(&mut line));
            } else if line.len() < LINE_BYTES_MAX {
                line.push(*byte);
            }
        }
    }
    lines.take(&line);
    lines.end()
}

struct Lines {
    say: mpsc::Sender<Said>,
    make: fn(String) -> Said,
    left: usize,
    dropped: usize,
    kept: Vec<String>,
}

// === impl Lines ===

impl Lines {
    fn take(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        // Escape sequences have no business in a log.
        let line: String = line
            .trim_end()
            .chars()
            .filter(|one| !one.is_control() || *one == '\t')
            .collect();
        if line.is_empty() {
            return;
        }
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push(line.clone());
        if self.left == 0 || self.say.try_send((self.make)(line)).is_err() {
            self.dropped += 1;
        } else {
            self.left -= 1;
        }
    }

    fn end(self) -> Vec<String> {
        if self.dropped > 0 {
            let told = format!("{} more lines were left out", self.dropped);
            let _full = self.say.try_send(Said::Line(told));
        }
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_number_with_or_without_more() {
        let progress = |progress, total, message: Option<&str>| {
            Said::Progress(Progress {
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
                "half",
                Said::Line("not a line of progress: half".to_owned()),
            ),
            ("4/x", Said::Line("not a line of progress: 4/x".to_owned())),
        ] {
            assert_eq!(Said::progress(line.to_owned()), expected);
        }
    }

    #[tokio::test]
    async fn lines_are_cut_cleaned_and_counted() {
        let (say, mut said) = mpsc::channel(8);
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let text = format!("one\r\n\n\x1b[31mtwo\n{long}\nthree\nfour");
        let kept = follow(Some(text.as_bytes()), say, Said::Line, 3).await;
        assert_eq!(kept.len(), 5);
        assert_eq!(kept[2].len(), LINE_BYTES_MAX);
        let mut heard = Vec::new();
        while let Some(Said::Line(line)) = said.recv().await {
            heard.push(line);
        }
        assert_eq!(heard.len(), 4);
        assert_eq!((heard[0].as_str(), heard[1].as_str()), ("one", "[31mtwo"));
        assert_eq!(heard[3], "2 more lines were left out");
    }
}
