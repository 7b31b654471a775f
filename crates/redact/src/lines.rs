//! Redaction of lines, one after the other. A whole text is redacted in the same way.

use std::borrow::Cow;

use super::{Redactor, controls::neutralise, finds::Finds, state::State};

/// How often a line that was changed is looked at again: a mark may uncover what was a part
/// of something else before.
const ROUNDS_MAX: usize = 3;

/// Redacts the lines of one text, in order. A line has to pass before it is filtered or
/// cut, so that a secret that spans lines is recognised in all of them.
#[derive(Debug)]
pub struct LineRedactor {
    redactor: Redactor,
    state: State,
}

// === impl LineRedactor ===

impl LineRedactor {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            state: State::default(),
        }
    }

    /// The next line, without control characters and secrets. A line with control characters
    /// may become several lines.
    pub fn clean<'a>(&mut self, line: &'a str) -> Cow<'a, str> {
        let clean = match neutralise(line) {
            Cow::Borrowed(line) => text(&mut self.state, line),
            Cow::Owned(line) => Cow::Owned(text(&mut self.state, &line).into_owned()),
        };
        self.redactor.custom(clean)
    }
}

/// Redacts text, line by line.
pub(super) fn text<'a>(state: &mut State, text: &'a str) -> Cow<'a, str> {
    let mut output = String::new();
    let mut written = 0;
    let mut start = 0;
    loop {
        let end = memchr::memchr(b'\n', &text.as_bytes()[start..]).map(|at| start + at);
        let line = &text[start..end.unwrap_or(text.len())];
        if let Some(clean) = one(state, line) {
            if output.is_empty() {
                output.reserve(text.len());
            }
            output.push_str(&text[written..start]);
            output.push_str(&clean);
            written = start + line.len();
        }
        match end {
            Some(end) => start = end + 1,
            None => break,
        }
    }
    if written == 0 {
        return Cow::Borrowed(text);
    }
    output.push_str(&text[written..]);
    Cow::Owned(output)
}

/// Redacts one line; `None` if it stays as it is.
fn one(state: &mut State, line: &str) -> Option<String> {
    let before = state.clone();
    let mut finds = Finds::default();
    state.line(line, &mut finds, 0);
    let mut clean = finds.rewrite(line)?;
    for _ in 0..ROUNDS_MAX {
        let mut again = before.clone();
        let mut finds = Finds::default();
        again.line(&clean, &mut finds, 0);
        match finds.rewrite(&clean) {
            Some(cleaner) => clean = cleaner,
            None => break,
        }
    }
    Some(clean)
}
