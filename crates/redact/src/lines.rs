//! Redaction of lines, one after the other. A whole text is redacted in the same way.

use std::borrow::Cow;

use super::{Redactor, controls::neutralise, finds::Finds, state::State};

/// How often a line is looked at with its marks: a mark may uncover what was a part of
/// something else before.
const ROUNDS_MAX: usize = 3;

/// The mark of a line that does not come to rest.
const WHOLE_LINE: &str = "[redacted secret]";

/// What is known before a line: from the lines as they were, and from the same lines with
/// their marks. A mark hides what would have said something about the next lines, so whoever
/// reads the redacted text again knows less and sees other things. Looking at each line with
/// both makes a second pass over the result find nothing.
#[derive(Debug, Default)]
pub(super) struct Passes {
    seen: State,
    /// `None` while both are the same.
    marked: Option<State>,
}

/// Redacts the lines of one text, in order. A line has to pass before it is filtered or
/// cut, so that a secret that spans lines is recognised in all of them.
#[derive(Debug)]
pub struct LineRedactor {
    redactor: Redactor,
    passes: Passes,
}

// === impl LineRedactor ===

impl LineRedactor {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            passes: Passes::default(),
        }
    }

    /// The next line, without control characters and secrets. A line with control characters
    /// may become several lines.
    pub fn clean<'a>(&mut self, line: &'a str) -> Cow<'a, str> {
        let clean = match neutralise(line) {
            Cow::Borrowed(line) => text(&mut self.passes, line),
            Cow::Owned(line) => Cow::Owned(text(&mut self.passes, &line).into_owned()),
        };
        self.redactor.custom(clean)
    }
}

/// Redacts text, line by line.
pub(super) fn text<'a>(passes: &mut Passes, text: &'a str) -> Cow<'a, str> {
    let mut output = String::new();
    let mut written = 0;
    let mut start = 0;
    loop {
        let end = memchr::memchr(b'\n', &text.as_bytes()[start..]).map(|at| start + at);
        let line = &text[start..end.unwrap_or(text.len())];
        if let Some(clean) = passes.line(line) {
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

// === impl Passes ===

impl Passes {
    /// Redacts one line; `None` if it stays as it is.
    fn line(&mut self, line: &str) -> Option<String> {
        let marked = self.marked.take();
        let before = marked.is_none().then(|| self.seen.clone());
        let clean = look(&mut self.seen, line);
        let before = match marked {
            Some(marked) => marked,
            None if clean.is_none() => return None,
            None => before?,
        };
        let (clean, after) = settle(&before, line, clean);
        self.marked = (after != self.seen).then_some(after);
        clean
    }
}

/// The line with a mark for each secret; `None` if it stays as it is.
fn look(state: &mut State, line: &str) -> Option<String> {
    let mut finds = Finds::default();
    state.line(line, &mut finds, 0);
    finds.rewrite(line)
}

/// Looks at a line with its marks until nothing more is found, and says what is known after it.
fn settle(before: &State, line: &str, clean: Option<String>) -> (Option<String>, State) {
    let mut clean = clean;
    for _ in 0..ROUNDS_MAX {
        let mut after = before.clone();
        match look(&mut after, clean.as_deref().unwrap_or(line)) {
            Some(cleaner) => clean = Some(cleaner),
            None => return (clean, after),
        }
    }
    let mut after = before.clone();
    look(&mut after, WHOLE_LINE);
    (Some(WHOLE_LINE.to_owned()), after)
}

#[cfg(test)]
mod tests;
