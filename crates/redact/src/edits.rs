//! A text and what becomes of it, from its beginning to its end.

use std::ops::Range;

/// What stands where a secret was; `rules` recognises it and leaves it alone.
fn mark(kind: &str) -> String {
    format!("[redacted {kind}]")
}

/// Replaces ranges of a text, in order.
#[derive(Debug)]
pub(super) struct Edits<'a> {
    text: &'a str,
    done: String,
    /// Everything before has been decided.
    settled: usize,
}

// === impl Edits ===

impl<'a> Edits<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            done: String::new(),
            settled: 0,
        }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Where the part that has been decided ends.
    pub(super) fn settled(&self) -> usize {
        self.settled
    }

    /// Puts a mark in the place of this range. Answers whether it did: a range that
    /// has been dealt with, or is empty, stays as it is.
    pub(super) fn redact(&mut self, range: Range<usize>, kind: &str) -> bool {
        if range.start < self.settled || range.is_empty() {
            return false;
        }
        self.done.push_str(&self.text[self.settled..range.start]);
        self.done.push_str(&mark(kind));
        self.settled = range.end;
        true
    }

    /// The new text, if it is another.
    pub(super) fn finish(mut self) -> Option<String> {
        if self.settled == 0 {
            return None;
        }
        self.done.push_str(&self.text[self.settled..]);
        Some(self.done)
    }
}
