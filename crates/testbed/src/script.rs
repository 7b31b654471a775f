//! What a container has logged, as a test wants it.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

/// A log and how the node behaves when asked for it.
#[derive(Clone, Debug, Default)]
pub struct LogScript {
    lines: Vec<Line>,
    pub(crate) delay: Duration,
    pub(crate) failure: Option<(u16, String)>,
    pub(crate) gives_up: Option<String>,
}

#[derive(Clone, Debug)]
struct Line {
    /// When it was written.
    at: Timestamp,
    text: Bytes,
}

/// Which part of a log is asked for; a kubelet's own parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Go on with new lines.
    pub follow: bool,
    /// The container before the last restart.
    pub previous: bool,
    /// Begin each line with its time.
    pub timestamps: bool,
    /// Only the last lines.
    pub tail_lines: Option<usize>,
    /// Stop after so many bytes.
    pub limit_bytes: Option<usize>,
    /// Only what is younger.
    pub since_seconds: Option<u64>,
    /// Only what was written since.
    pub since_time: Option<Timestamp>,
}

// === impl LogScript ===

impl LogScript {
    /// A log of these lines, all written just now.
    pub fn lines<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> Self {
        lines.into_iter().fold(Self::default(), |log, line| {
            log.line(Duration::ZERO, line.as_ref())
        })
    }

    /// A log of one piece of bytes, of whatever kind.
    pub fn bytes(text: impl Into<Bytes>) -> Self {
        let line = Line {
            at: Timestamp::now(),
            text: text.into(),
        };
        Self {
            lines: vec![line],
            ..Self::default()
        }
    }

    /// Answers with an HTTP error instead.
    pub fn failing(status: u16, message: &str) -> Self {
        Self {
            failure: Some((status, message.to_owned())),
            ..Self::default()
        }
    }

    /// Adds a line that is so old.
    #[must_use]
    pub fn line(mut self, age: Duration, text: &str) -> Self {
        self.push(age, text);
        self
    }

    /// Waits before answering.
    #[must_use]
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Whoever follows it gets this at its end, as a kubelet says what went wrong after
    /// it has answered with a 200: without a time.
    #[must_use]
    pub fn gives_up(mut self, words: &str) -> Self {
        self.gives_up = Some(words.to_owned());
        self
    }

    pub(crate) fn push(&mut self, age: Duration, text: &str) {
        self.lines.push(Line {
            at: Timestamp::now() - age,
            text: Bytes::copy_from_slice(text.as_bytes()),
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// What a kubelet would answer: first the age, then the tail, then the limit,
    /// which cuts the end.
    pub(crate) fn select(&self, wanted: &Selection) -> Vec<u8> {
        let now = Timestamp::now();
        let oldest = wanted
            .since_seconds
            .map(|limit| now - Duration::from_secs(limit));
        let young = |line: &&Line| {
            oldest.is_none_or(|oldest| line.at >= oldest)
                && wanted.since_time.is_none_or(|oldest| line.at >= oldest)
        };
        let kept: Vec<_> = self.lines.iter().filter(young).collect();
        let skip = wanted
            .tail_lines
            .map_or(0, |tail| kept.len().saturating_sub(tail));
        let mut text = Self::print(kept.into_iter().skip(skip), wanted.timestamps);
        if let Some(limit) = wanted.limit_bytes {
            text.truncate(limit);
        }
        text
    }

    /// What was added after the first `seen` lines.
    pub(crate) fn since(&self, seen: usize, timestamps: bool) -> Vec<u8> {
        Self::print(self.lines.iter().skip(seen), timestamps)
    }

    fn print<'a>(lines: impl Iterator<Item = &'a Line>, timestamps: bool) -> Vec<u8> {
        let mut text = Vec::new();
        for line in lines {
            if timestamps {
                text.extend_from_slice(format!("{} ", line.at).as_bytes());
            }
            text.extend_from_slice(&line.text);
            text.push(b'\n');
        }
        text
    }
}

// === impl Selection ===

impl Selection {
    pub(crate) fn parse(query: &str) -> Self {
        let mut wanted = Self::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match key {
                "follow" => wanted.follow = value == "true",
                "previous" => wanted.previous = value == "true",
                "timestamps" => wanted.timestamps = value == "true",
                "tailLines" => wanted.tail_lines = value.parse().ok(),
                "limitBytes" => wanted.limit_bytes = value.parse().ok(),
                "sinceSeconds" => wanted.since_seconds = value.parse().ok(),
                "sinceTime" => wanted.since_time = value.replace("%3A", ":").parse().ok(),
                _ => {}
            }
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: &str) {
        let log = LogScript::default()
            .line(Duration::from_secs(100), "old")
            .line(Duration::from_secs(10), "young")
            .line(Duration::ZERO, "new");
        let text = log.select(&Selection::parse(query));
        assert_eq!(String::from_utf8(text).unwrap(), expected, "{query}");
    }

    #[test]
    fn a_log_is_selected_as_a_kubelet_selects() {
        check("", "old\nyoung\nnew\n");
        check("tailLines=2", "young\nnew\n");
        check("sinceSeconds=50", "young\nnew\n");
        check("sinceSeconds=50&tailLines=1", "new\n");
        check("tailLines=2&limitBytes=8", "young\nne");
        check("tailLines=0", "");
    }

    #[test]
    fn timestamps_come_first() {
        let text = LogScript::lines(["x"]).select(&Selection::parse("timestamps=true"));
        let text = String::from_utf8(text).unwrap();
        let (time, rest) = text.split_once(' ').unwrap();
        time.parse::<Timestamp>().unwrap();
        assert_eq!(rest, "x\n");
    }
}
