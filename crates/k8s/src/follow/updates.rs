//! Updates of a followed log: bounded, and at most two per second.

use std::collections::VecDeque;

use serde::Serialize;
use tokio::time::{Duration, Instant};

use crate::ErrorKind;

/// Size of the new lines of one update, as JSON.
const LINES_BYTES_MAX: usize = 4096;

/// Lines within this time are in one update.
const BATCH_DELAY: Duration = Duration::from_millis(50);

/// The shortest time between two updates.
const MIN_INTERVAL: Duration = Duration::from_millis(500);

/// A log that failed counts as recovered after it was followed for this long.
const RECOVERY_DELAY: Duration = Duration::from_secs(1);

/// An update of a followed log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogUpdate {
    /// Sequence number of the update.
    pub seq: u64,
    /// Number of lines since the log is followed.
    pub count: u64,
    /// State of the follow.
    pub state: LogState,
    /// The newest lines since the last update, redacted.
    pub lines: Vec<String>,
    /// Number of lines before them that exceeded the size of an update.
    pub omitted: u64,
    /// One line for a person, about a change of the state.
    pub note: Option<String>,
}

/// The state of a followed log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogState {
    /// New lines are published.
    Following,
    /// The container is not running.
    Waiting,
    /// The pod does not exist any more.
    Gone,
    /// The log cannot be read; it is tried again.
    Failing,
}

/// The update that is not published yet.
#[derive(Debug)]
pub(super) struct PendingUpdate {
    seq: u64,
    count: u64,
    /// Current state and its reason.
    state: Option<(LogState, Option<String>)>,
    /// State and reason of the last published update.
    published: Option<(LogState, Option<String>)>,
    lines: VecDeque<(String, usize)>,
    bytes: usize,
    omitted: u64,
    note: Option<String>,
    due: Option<Instant>,
    last_published: Option<Instant>,
}

// === impl PendingUpdate ===

impl PendingUpdate {
    pub(super) fn new() -> Self {
        Self {
            seq: 0,
            count: 0,
            state: None,
            published: None,
            lines: VecDeque::new(),
            bytes: 0,
            omitted: 0,
            note: None,
            due: None,
            last_published: None,
        }
    }

    /// Adds a redacted line. The oldest lines are dropped for the newest.
    pub(super) fn push_line(&mut self, line: &str) {
        self.count += 1;
        let line = truncate_line(line);
        let size = json_len(&line) + 1;
        self.bytes += size;
        self.lines.push_back((line, size));
        while self.bytes > LINES_BYTES_MAX {
            let Some((_, size)) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= size;
            self.omitted += 1;
        }
        self.schedule(BATCH_DELAY);
    }

    /// Sets the state. The same state again is no update.
    pub(super) fn set_state(&mut self, state: LogState, note: Option<String>) {
        self.set_state_and_reason(state, note.clone(), note);
    }

    /// Sets the state to failing. Another text for the same kind of failure is no update: the
    /// text may have a number that differs each time.
    pub(super) fn set_failing(&mut self, kind: ErrorKind, note: String) {
        let reason = Some(kind.as_str().to_owned());
        self.set_state_and_reason(LogState::Failing, reason, Some(note));
    }

    fn set_state_and_reason(
        &mut self,
        state: LogState,
        reason: Option<String>,
        note: Option<String>,
    ) {
        let current = self.state.as_ref();
        let same = match (state, &reason) {
            (LogState::Following, None) => current.is_some_and(|(current, _)| *current == state),
            // A log can begin anew more than once.
            (LogState::Following, Some(_)) => false,
            _ => current.is_some_and(|current| *current == (state, reason.clone())),
        };
        if same {
            return;
        }
        let failed = matches!(self.published, Some((LogState::Failing, _)));
        let recovers = failed && state == LogState::Following && note.is_none();
        self.state = Some((state, reason));
        self.note = note;
        if state == LogState::Failing && self.state == self.published && self.lines.is_empty() {
            // It failed again before the recovery was published.
            self.note = None;
            self.due = None;
            return;
        }
        self.schedule(if recovers {
            RECOVERY_DELAY
        } else {
            Duration::ZERO
        });
    }

    /// When to publish, if there is an update.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes the update to publish now.
    pub(super) fn take(&mut self) -> LogUpdate {
        self.due = None;
        self.last_published = Some(Instant::now());
        self.bytes = 0;
        self.seq += 1;
        self.published.clone_from(&self.state);
        let state = self.state.as_ref().map(|(state, _)| *state);
        LogUpdate {
            seq: self.seq,
            count: self.count,
            state: state.unwrap_or(LogState::Following),
            lines: self.lines.drain(..).map(|(line, _)| line).collect(),
            omitted: std::mem::take(&mut self.omitted),
            note: self.note.take(),
        }
    }

    fn schedule(&mut self, delay: Duration) {
        let now = Instant::now();
        let earliest = self.last_published.map_or(now, |last| last + MIN_INTERVAL);
        let scheduled = (now + delay).max(earliest);
        self.due = Some(self.due.map_or(scheduled, |due| due.min(scheduled)));
    }
}

/// Truncates a line to the size of one update.
fn truncate_line(line: &str) -> String {
    // The line also needs a comma or bracket.
    let available = LINES_BYTES_MAX - 2;
    if json_len(line) <= available {
        return line.to_owned();
    }
    let mut used = "\"\u{2026}\"".len();
    let cut = line.char_indices().find(|(_, character)| {
        let mut buffer = [0; 4];
        used += json_len(character.encode_utf8(&mut buffer)) - 2;
        used > available
    });
    let end = cut.map_or(line.len(), |(at, _)| at);
    format!("{}\u{2026}", &line[..end])
}

/// The length of a text in JSON, with quotes.
fn json_len(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum::<usize>() + 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_told_fits_and_nothing_is_told_twice_or_forgotten(
            lines in prop::collection::vec(prop_oneof![".{0,40}", "[a-z\"\\\\]{900,5000}"], 0..20),
        ) {
            let mut pending = PendingUpdate::new();
            for line in &lines {
                pending.push_line(line);
            }
            let update = pending.take();
            let json = serde_json::to_string(&update.lines).unwrap();
            prop_assert!(json.len() <= LINES_BYTES_MAX + 1, "{}", json.len());
            prop_assert_eq!(update.count, lines.len() as u64);
            prop_assert_eq!(update.omitted + update.lines.len() as u64, update.count);
            for (published, line) in update.lines.iter().rev().zip(lines.iter().rev()) {
                let start = published.trim_end_matches('\u{2026}');
                prop_assert!(published == line || line.starts_with(start));
            }
            prop_assert!(pending.take().lines.is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_together_is_told_together_and_at_most_twice_a_second() {
        let mut pending = PendingUpdate::new();
        let began = Instant::now();
        assert_eq!(pending.due(), None);
        pending.push_line("one");
        pending.push_line("two");
        assert_eq!(pending.due(), Some(began + BATCH_DELAY));
        tokio::time::advance(BATCH_DELAY).await;
        let update = pending.take();
        assert_eq!((update.seq, update.count, update.lines.len()), (1, 2, 2));
        pending.push_line("three");
        assert_eq!(pending.due(), Some(began + BATCH_DELAY + MIN_INTERVAL));
        pending.set_state(LogState::Gone, None);
        assert_eq!(
            pending.due(),
            Some(began + BATCH_DELAY + MIN_INTERVAL),
            "even what happens"
        );
        tokio::time::advance(MIN_INTERVAL).await;
        let update = pending.take();
        assert_eq!(
            (update.seq, update.count, update.state),
            (2, 3, LogState::Gone)
        );
        pending.set_state(LogState::Gone, None);
        assert_eq!(pending.due(), None, "the same again is no update");
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_in_other_words_is_no_news() {
        let mut pending = PendingUpdate::new();
        pending.set_state(LogState::Following, Some("it began again".to_owned()));
        assert_eq!(pending.take().note.unwrap(), "it began again");
        pending.set_state(LogState::Following, None);
        assert_eq!(pending.due(), None, "it is followed already");
        pending.set_state(LogState::Following, Some("it began again".to_owned()));
        assert_eq!(pending.take().note.unwrap(), "it began again", "once more");

        pending.set_failing(ErrorKind::Other, "request 1 failed".to_owned());
        assert_eq!(pending.take().note.unwrap(), "request 1 failed");
        pending.set_failing(ErrorKind::Other, "request 2 failed".to_owned());
        assert_eq!(pending.due(), None);
        pending.set_failing(ErrorKind::Forbidden, "not allowed".to_owned());
        assert_eq!(pending.take().note.unwrap(), "not allowed");

        pending.set_state(LogState::Following, None);
        assert_eq!(pending.due(), Some(Instant::now() + RECOVERY_DELAY));
        pending.set_failing(ErrorKind::Forbidden, "not allowed".to_owned());
        assert_eq!(pending.due(), None, "nobody heard that it was well");
        pending.set_state(LogState::Following, None);
        pending.push_line("one");
        pending.set_failing(ErrorKind::Forbidden, "not allowed".to_owned());
        assert!(pending.due().is_some(), "there is a line to tell");
    }
}
