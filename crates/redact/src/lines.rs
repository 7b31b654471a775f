//! Redaction of a stream of lines.

use std::borrow::Cow;

use super::{Redactor, pem, rules};

/// Replaces a line of a private key.
const KEY_LINE: &str = "[redacted private key]";

/// Redacts the lines of one text, in order. A line has to pass before it is filtered or
/// cut, so that a private key that spans lines is recognised in all of them.
#[derive(Debug)]
pub struct LineRedactor {
    redactor: Redactor,
    /// A private key has begun and not ended.
    in_key: bool,
}

// === impl LineRedactor ===

impl LineRedactor {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            in_key: false,
        }
    }

    /// The next line, without control characters and secrets.
    pub fn clean<'a>(&mut self, line: &'a str) -> Cow<'a, str> {
        let (begins, ends) = rules::key_markers(line);
        if self.in_key {
            if ends || pem::is_key_line(line) {
                self.in_key = !ends;
                return Cow::Borrowed(KEY_LINE);
            }
            self.in_key = false;
        }
        self.in_key = begins && !ends;
        self.redactor.workload(line)
    }
}
