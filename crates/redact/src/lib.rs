//! What must not leave the server: secrets that workloads wrote into logs and
//! events, and characters that would drive a reader's terminal.
//!
//! One place for every way out: answers of tools, errors, notifications, captured
//! logs and our own log. A single search finds where a secret may begin
//! (`rules`); the few kinds that need more than a pattern say themselves how far
//! they reach (`pairs`, `pem`, `urls`, `manifest`). Each looks only at what it then
//! replaces or at a bounded piece of text, so that no input makes it slow.

mod controls;
mod edits;
mod json;
mod lines;
mod manifest;
mod pairs;
mod pem;
mod rules;
mod urls;

use std::{borrow::Cow, sync::Arc};

use regex::{Regex, RegexBuilder};

use self::edits::Edits;
pub use self::{controls::neutralise, lines::LineRedactor};

/// A compiled pattern of an operator may not take more than this.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Takes secrets out of text. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// What the operator added to the built-in rules.
    added: Arc<[Regex]>,
}

/// A pattern that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct BadPattern {
    /// As it was given.
    pub pattern: String,
    /// Why not.
    pub reason: String,
}

// === impl Redactor ===

impl Redactor {
    /// The built-in rules and these patterns: what one of them matches is a secret,
    /// or what its first group matches if it has one.
    pub fn new(patterns: &[String]) -> Result<Self, BadPattern> {
        let added: Result<Vec<_>, _> = patterns.iter().map(|text| compile(text)).collect();
        Ok(Self {
            added: added?.into(),
        })
    }

    /// The text with a mark in the place of every secret.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        pass(&mut clean, manifest::redact);
        pass(&mut clean, rules::redact);
        for pattern in &*self.added {
            pass(&mut clean, |edits| rules::redact_added(pattern, edits));
        }
        clean
    }

    /// Text of a workload: without control characters and without secrets. In that
    /// order, or a colour in the middle of a secret would hide it.
    pub fn workload<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match neutralise(text) {
            Cow::Borrowed(text) => self.text(text),
            Cow::Owned(text) => Cow::Owned(self.text(&text).into_owned()),
        }
    }

    /// Text that comes line by line, where a key may span several.
    pub fn lines(&self) -> LineRedactor {
        LineRedactor::new(self.clone())
    }
}

/// One look at the text, from its beginning to its end.
fn pass(clean: &mut Cow<'_, str>, look: impl FnOnce(&mut Edits<'_>)) {
    let mut edits = Edits::new(clean);
    look(&mut edits);
    if let Some(cleaner) = edits.finish() {
        *clean = Cow::Owned(cleaner);
    }
}

fn compile(text: &str) -> Result<Regex, BadPattern> {
    let refused = |reason: String| BadPattern {
        pattern: text.to_owned(),
        reason,
    };
    let pattern = RegexBuilder::new(text)
        .size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|error| refused(error.to_string()))?;
    if pattern.is_match("") {
        return Err(refused("it matches the empty text".to_owned()));
    }
    Ok(pattern)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
