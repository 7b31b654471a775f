//! The scripted log of a container.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

/// A log, and how the node responds to requests for it.
#[derive(Clone, Debug, Default)]
pub struct LogScript {
    lines: Vec<Line>,
    pub(crate) delay: Duration,
    pub(crate) failure: Option<(u16, String)>,
    pub(crate) trailing_error: Option<String>,
    /// How often the node answers with this text and status 200 in place of the log.
    pub(crate) excuses: Option<(usize, String)>,
    is_unterminated: bool,
}

#[derive(Clone, Debug)]
struct Line {
    at: Timestamp,
    text: Bytes,
}

/// The requested part of a log; the parameters are those of a kubelet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Continue with new lines.
    pub follow: bool,
    /// The container before the last restart.
    pub previous: bool,
    /// Begin each line with its time.
    pub timestamps: bool,
    /// Only the last lines.
    pub tail_lines: Option<usize>,
    /// The maximum number of bytes.
    pub limit_bytes: Option<usize>,
    /// Only lines younger than this.
    pub since_seconds: Option<u64>,
    /// Only lines written since this time.
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

    /// A log of arbitrary bytes.
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

    /// Responds with an HTTP error instead of a log.
    pub fn failing(status: u16, message: &str) -> Self {
        Self {
            failure: Some((status, message.to_owned())),
            ..Self::default()
        }
    }

    /// Adds a line of this age.
    #[must_use]
    pub fn line(mut self, age: Duration, text: &str) -> Self {
        self.push(age, text);
        self
    }

    /// Delays the response.
    #[must_use]
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Ends the log of a follower with this text and without a timestamp. A kubelet reports
    /// an error that way after it has responded with a 200.
    #[must_use]
    pub fn trailing_error(mut self, text: &str) -> Self {
        self.trailing_error = Some(text.to_owned());
        self
    }

    /// Answers the next requests, however many `times` says, with status 200 and this text in
    /// place of the log, as a kubelet does that cannot read it: without a timestamp and
    /// without a newline.
    #[must_use]
    pub fn excused(mut self, times: usize, text: &str) -> Self {
        self.excuses = Some((times, text.to_owned()));
        self
    }

    /// Leaves out the newline after the last line: the workload has written none.
    #[must_use]
    pub fn unterminated(mut self) -> Self {
        self.is_unterminated = true;
        self
    }

    /// The error message for one request, if one is due.
    pub(crate) fn take_excuse(&mut self) -> Option<String> {
        let (times, text) = self.excuses.as_mut()?;
        *times = times.checked_sub(1)?;
        Some(text.clone())
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

    /// The response of a kubelet: it applies the age first, then the tail, then the limit,
    /// which cuts the end.
    pub(crate) fn select(&self, selection: &Selection) -> Vec<u8> {
        let now = Timestamp::now();
        let oldest = selection
            .since_seconds
            .map(|limit| now - Duration::from_secs(limit));
        let young = |line: &&Line| {
            oldest.is_none_or(|oldest| line.at >= oldest)
                && selection.since_time.is_none_or(|oldest| line.at >= oldest)
        };
        let kept: Vec<_> = self.lines.iter().filter(young).collect();
        let skip = selection
            .tail_lines
            .map_or(0, |tail| kept.len().saturating_sub(tail));
        let mut text = Self::print(kept.into_iter().skip(skip), selection.timestamps);
        if self.is_unterminated {
            text.pop();
        }
        if let Some(limit) = selection.limit_bytes {
            text.truncate(limit);
        }
        text
    }

    /// The lines after the first `skipped` lines.
    pub(crate) fn since(&self, skipped: usize, timestamps: bool) -> Vec<u8> {
        Self::print(self.lines.iter().skip(skipped), timestamps)
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
        let mut selection = Self::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match key {
                "follow" => selection.follow = value == "true",
                "previous" => selection.previous = value == "true",
                "timestamps" => selection.timestamps = value == "true",
                "tailLines" => selection.tail_lines = value.parse().ok(),
                "limitBytes" => selection.limit_bytes = value.parse().ok(),
                "sinceSeconds" => selection.since_seconds = value.parse().ok(),
                "sinceTime" => selection.since_time = value.replace("%3A", ":").parse().ok(),
                _ => {}
            }
        }
        selection
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
