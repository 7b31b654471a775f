//! Redaction of text: secrets that workloads wrote into logs and events, and control
//! characters that would drive a reader's terminal.
//!
//! Every output passes through here: tool results, errors, notifications, captured logs
//! and the server's own log. One search finds where a secret may begin; the kinds of
//! secrets that need more than a pattern compute their own extent. Each of them reads only
//! what it then replaces, or a bounded piece of text, so that no input makes it slow.
//!
//! - `rules`: the table of patterns and the search
//! - `key_values`: `password=...`, `"token": "..."`, `--api-key ...`
//! - `pem`: private keys in PEM, whole or cut off
//! - `urls`: credentials in a URL
//! - `manifest`: printed Secret objects
//! - `rewriter`: replaces ranges of a text by marks
//! - `json`: structured payloads
//! - `lines`: a stream of lines, where a key spans several of them
//! - `controls`: terminal sequences and invisible characters

mod controls;
mod json;
mod key_values;
mod lines;
mod manifest;
mod pem;
mod rewriter;
mod rules;
mod urls;

use std::{borrow::Cow, sync::Arc};

use regex::{Regex, RegexBuilder};

use self::rewriter::Rewriter;
pub use self::{controls::neutralise, lines::LineRedactor};

/// The memory that one compiled pattern of the operator may take.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Replaces secrets in text by marks. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// The operator's patterns, in addition to the built-in rules.
    custom: Arc<[Regex]>,
}

/// Reports a pattern that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct BadPattern {
    /// The pattern as configured.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

// === impl Redactor ===

impl Redactor {
    /// A redactor with the built-in rules and these patterns. The match of a pattern is a
    /// secret, or the match of its first group if it has one.
    pub fn new(patterns: &[String]) -> Result<Self, BadPattern> {
        let custom: Result<_, _> = patterns.iter().map(|text| compile(text)).collect();
        Ok(Self { custom: custom? })
    }

    /// The text with a mark in the place of every secret.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        pass(&mut clean, manifest::redact);
        pass(&mut clean, rules::redact);
        for pattern in &*self.custom {
            pass(&mut clean, |text| rules::redact_custom(pattern, text));
        }
        clean
    }

    /// Text of a workload without control characters and secrets. Control characters go
    /// first, because a colour sequence inside a secret would hide it from the search.
    pub fn workload<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match neutralise(text) {
            Cow::Borrowed(text) => self.text(text),
            Cow::Owned(text) => Cow::Owned(self.text(&text).into_owned()),
        }
    }

    /// A redactor for a stream of lines, where a private key may span several of them.
    pub fn lines(&self) -> LineRedactor {
        LineRedactor::new(self.clone())
    }
}

/// Runs one pass over the text, from its beginning to its end.
fn pass(clean: &mut Cow<'_, str>, redact: impl FnOnce(&mut Rewriter<'_>)) {
    let mut rewriter = Rewriter::new(clean);
    redact(&mut rewriter);
    if let Some(rewritten) = rewriter.finish() {
        *clean = Cow::Owned(rewritten);
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
