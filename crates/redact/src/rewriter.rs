//! Replaces ranges of a text by marks, from its beginning to its end.

use std::ops::Range;

/// The text that replaces a secret; `rules` recognises it and leaves it alone.
fn mark(kind: &str) -> String {
    format!("[redacted {kind}]")
}

/// Builds the redacted text while a pass walks over the original.
#[derive(Debug)]
pub(super) struct Rewriter<'a> {
    text: &'a str,
    output: String,
    /// Everything before this offset has been written to the output.
    written: usize,
}

// === impl Rewriter ===

impl<'a> Rewriter<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            output: String::new(),
            written: 0,
        }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// The end of the last replaced range.
    pub(super) fn written(&self) -> usize {
        self.written
    }

    /// Replaces a range by a mark. False if the range is empty or begins in one that was
    /// replaced before.
    pub(super) fn redact(&mut self, range: Range<usize>, kind: &str) -> bool {
        if range.start < self.written || range.is_empty() {
            return false;
        }
        self.output.push_str(&self.text[self.written..range.start]);
        self.output.push_str(&mark(kind));
        self.written = range.end;
        true
    }

    /// The new text; `None` if nothing was replaced.
    pub(super) fn finish(mut self) -> Option<String> {
        if self.written == 0 {
            return None;
        }
        self.output.push_str(&self.text[self.written..]);
        Some(self.output)
    }
}
