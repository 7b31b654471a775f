//! What is told of a log that grows: bounded, and at most twice a second.

use std::collections::VecDeque;

use serde::Serialize;
use tokio::time::{Duration, Instant};

use crate::ErrorKind;

/// The new lines of one update, as JSON.
const LINES_BYTES_MAX: usize = 4096;

/// Lines that come together are told together.
const GATHER: Duration = Duration::from_millis(50);

/// Twice a second is the most that anybody is told.
const APART: Duration = Duration::from_millis(500);

/// What failed before is told to be well when it has been for so long.
const SETTLE: Duration = Duration::from_secs(1);

/// What is new in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogUpdate {
    /// Counts what was told of this log.
    pub seq: u64,
    /// How many lines were seen since it is followed.
    pub count: u64,
    /// How it stands.
    pub state: LogState,
    /// The newest lines that were not told before, as they may leave.
    pub lines: Vec<String>,
    /// How many before them there was no room for.
    pub omitted: u64,
    /// One line for a person, about what happened besides.
    pub note: Option<String>,
}

/// How a log that is followed stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogState {
    /// Whatever is written from here on is told.
    Following,
    /// The container does not run now.
    Waiting,
    /// The pod is not there any more.
    Gone,
    /// The log cannot be had; it is tried again.
    Failing,
}

/// What has not been told yet.
#[derive(Debug)]
pub(super) struct PendingUpdate {
    seq: u64,
    count: u64,
    /// How it stands and why, as it was last said.
    stands: Option<(LogState, Option<String>)>,
    /// The same, as it was last told.
    stood: Option<(LogState, Option<String>)>,
    lines: VecDeque<(String, usize)>,
    bytes: usize,
    omitted: u64,
    note: Option<String>,
    due: Option<Instant>,
    told: Option<Instant>,
}

// === impl PendingUpdate ===

impl PendingUpdate {
    pub(super) fn new() -> Self {
        Self {
            seq: 0,
            count: 0,
            stands: None,
            stood: None,
            lines: VecDeque::new(),
            bytes: 0,
            omitted: 0,
            note: None,
            due: None,
            told: None,
        }
    }

    /// A line, as it may leave. The oldest give way to the newest.
    pub(super) fn line(&mut self, line: &str) {
        self.count += 1;
        let line = fitting(line);
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
        self.is_due(GATHER);
    }

    /// It stands otherwise than before. The same again is no update.
    pub(super) fn stands(&mut self, state: LogState, note: Option<String>) {
        self.is(state, note.clone(), note);
    }

    /// It cannot be had. Another text for the same kind of failure is no update: there
    /// may be a number in it that differs each time.
    pub(super) fn fails(&mut self, kind: ErrorKind, note: String) {
        let why = Some(kind.as_str().to_owned());
        self.is(LogState::Failing, why, Some(note));
    }

    fn is(&mut self, state: LogState, why: Option<String>, note: Option<String>) {
        let was = self.stands.as_ref();
        let same = match (state, &why) {
            (LogState::Following, None) => was.is_some_and(|(was, _)| *was == state),
            // What began anew may do so twice.
            (LogState::Following, Some(_)) => false,
            _ => was.is_some_and(|was| *was == (state, why.clone())),
        };
        if same {
            return;
        }
        let failed = matches!(self.stood, Some((LogState::Failing, _)));
        let recovers = failed && state == LogState::Following && note.is_none();
        self.stands = Some((state, why));
        self.note = note;
        if state == LogState::Failing && self.stands == self.stood && self.lines.is_empty() {
            // It failed again before anybody heard that it did not.
            self.note = None;
            self.due = None;
            return;
        }
        self.is_due(if recovers { SETTLE } else { Duration::ZERO });
    }

    /// When to tell, if there is anything.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What to tell now.
    pub(super) fn take(&mut self) -> LogUpdate {
        self.due = None;
        self.told = Some(Instant::now());
        self.bytes = 0;
        self.seq += 1;
        self.stood.clone_from(&self.stands);
        let state = self.stands.as_ref().map(|(state, _)| *state);
        LogUpdate {
            seq: self.seq,
            count: self.count,
            state: state.unwrap_or(LogState::Following),
            lines: self.lines.drain(..).map(|(line, _)| line).collect(),
            omitted: std::mem::take(&mut self.omitted),
            note: self.note.take(),
        }
    }

    fn is_due(&mut self, gather: Duration) {
        let now = Instant::now();
        let earliest = self.told.map_or(now, |told| told + APART);
        let wanted = (now + gather).max(earliest);
        self.due = Some(self.due.map_or(wanted, |due| due.min(wanted)));
    }
}

/// A line that has room by itself.
fn fitting(line: &str) -> String {
    // One more for the comma or bracket beside it.
    let room = LINES_BYTES_MAX - 2;
    if json_len(line) <= room {
        return line.to_owned();
    }
    let mut used = "\"\u{2026}\"".len();
    let cut = line.char_indices().find(|(_, one)| {
        let mut buffer = [0; 4];
        used += json_len(one.encode_utf8(&mut buffer)) - 2;
        used > room
    });
    let end = cut.map_or(line.len(), |(at, _)| at);
    format!("{}\u{2026}", &line[..end])
}

/// What it takes in JSON, quotes and all.
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
                pending.line(line);
            }
            let update = pending.take();
            let json = serde_json::to_string(&update.lines).unwrap();
            prop_assert!(json.len() <= LINES_BYTES_MAX + 1, "{}", json.len());
            prop_assert_eq!(update.count, lines.len() as u64);
            prop_assert_eq!(update.omitted + update.lines.len() as u64, update.count);
            for (told, line) in update.lines.iter().rev().zip(lines.iter().rev()) {
                let start = told.trim_end_matches('\u{2026}');
                prop_assert!(told == line || line.starts_with(start));
            }
            prop_assert!(pending.take().lines.is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_together_is_told_together_and_at_most_twice_a_second() {
        let mut pending = PendingUpdate::new();
        let began = Instant::now();
        assert_eq!(pending.due(), None);
        pending.line("one");
        pending.line("two");
        assert_eq!(pending.due(), Some(began + GATHER));
        tokio::time::advance(GATHER).await;
        let update = pending.take();
        assert_eq!((update.seq, update.count, update.lines.len()), (1, 2, 2));
        pending.line("three");
        assert_eq!(pending.due(), Some(began + GATHER + APART));
        pending.stands(LogState::Gone, None);
        assert_eq!(
            pending.due(),
            Some(began + GATHER + APART),
            "even what happens"
        );
        tokio::time::advance(APART).await;
        let update = pending.take();
        assert_eq!(
            (update.seq, update.count, update.state),
            (2, 3, LogState::Gone)
        );
        pending.stands(LogState::Gone, None);
        assert_eq!(pending.due(), None, "the same again is no update");
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_in_other_words_is_no_news() {
        let mut pending = PendingUpdate::new();
        pending.stands(LogState::Following, Some("it began again".to_owned()));
        assert_eq!(pending.take().note.unwrap(), "it began again");
        pending.stands(LogState::Following, None);
        assert_eq!(pending.due(), None, "it is followed already");
        pending.stands(LogState::Following, Some("it began again".to_owned()));
        assert_eq!(pending.take().note.unwrap(), "it began again", "once more");

        pending.fails(ErrorKind::Other, "request 1 failed".to_owned());
        assert_eq!(pending.take().note.unwrap(), "request 1 failed");
        pending.fails(ErrorKind::Other, "request 2 failed".to_owned());
        assert_eq!(pending.due(), None);
        pending.fails(ErrorKind::Forbidden, "not allowed".to_owned());
        assert_eq!(pending.take().note.unwrap(), "not allowed");

        pending.stands(LogState::Following, None);
        assert_eq!(pending.due(), Some(Instant::now() + SETTLE));
        pending.fails(ErrorKind::Forbidden, "not allowed".to_owned());
        assert_eq!(pending.due(), None, "nobody heard that it was well");
        pending.stands(LogState::Following, None);
        pending.line("one");
        pending.fails(ErrorKind::Forbidden, "not allowed".to_owned());
        assert!(pending.due().is_some(), "there is a line to tell");
    }
}
