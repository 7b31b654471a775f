//! Secrets that a line has named, and that one of the next lines repeats without their name:
//! a shell with `set -x` prints what it tests, a client what it has sent.

use super::{finds::Finds, values, work::examined};

/// The values that are remembered.
const VALUES_MAX: usize = 4;

/// The lines for which they are.
const LINES: u8 = 8;

/// Shorter values are found in other words.
const LENGTH_MIN: usize = 8;

/// The values of the lines before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Repeats {
    values: Vec<Box<str>>,
    lines: u8,
}

// === impl Repeats ===

impl Repeats {
    /// Hides what the lines before have named, and remembers what this one names. Only what
    /// nothing else can be is looked for: a word would be found everywhere.
    pub(super) fn line(&mut self, text: &str, finds: &mut Finds) {
        for value in &self.values {
            examined(text.len());
            for at in memchr::memmem::find_iter(text.as_bytes(), value.as_bytes()) {
                finds.add(at..at + value.len(), "secret");
            }
        }
        self.lines = self.lines.saturating_sub(1);
        if self.lines == 0 {
            self.values.clear();
        }
        for find in finds.iter() {
            let value = text[find.range.clone()].trim_matches(['"', '\'']);
            let fits = (LENGTH_MIN..=values::SEEN_MAX).contains(&value.len())
                && matches!(find.kind, "password" | "secret" | "token")
                && !value.contains(['[', ']', ' ', '"', '\\'])
                && values::is_strong(value);
            if !fits {
                continue;
            }
            self.lines = LINES;
            if self.values.iter().any(|known| **known == *value) {
                continue;
            }
            if self.values.len() == VALUES_MAX {
                self.values.remove(0);
            }
            self.values.push(value.into());
        }
    }
}
