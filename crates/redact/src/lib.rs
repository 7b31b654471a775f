//! Redaction of text: secrets that workloads wrote into logs and events, and control
//! characters that would drive a reader's terminal.
//!
//! Every output passes through here: tool results, errors, notifications, captured logs
//! and the server's own log. One search finds where a secret may begin; the rule for what
//! was found reads on from there. What spans lines is held in a state between them.
//!
//! - `lines`: a text or a stream, line by line
//! - `state`: what one line says about the next ones
//! - `scan`: the search in one line
//! - `pairs`: `password=...`, `"token": "..."`, `--api-key ...`
//! - `names`: the words that make a name one of a secret
//! - `values`: what a value looks like
//! - `tokens`: tokens of well-known services, by their shape
//! - `keys`: private keys, whole or in parts
//! - `urls`: credentials in addresses
//! - `paths`: secrets in the paths of addresses
//! - `repeats`: secrets that later lines repeat without their name
//! - `commands`: passwords among the arguments of commands
//! - `sql`: passwords in statements
//! - `calls`: passwords among the arguments of calls in stack traces
//! - `manifest`: printed Secret objects
//! - `encoded`: text inside of text: JSON, addresses, base64
//! - `finds`: the ranges that were found, and the marks in their place
//! - `custom`: patterns of the operator
//! - `json`: structured payloads
//! - `controls`: terminal sequences and invisible characters
//! - `work`: counts what the rules look at

mod calls;
mod commands;
mod controls;
mod custom;
mod encoded;
mod finds;
mod json;
mod keys;
mod lines;
mod manifest;
mod names;
mod pairs;
mod paths;
mod repeats;
mod scan;
mod sql;
mod state;
mod tokens;
mod urls;
mod values;
mod work;

use std::{borrow::Cow, sync::Arc};

use regex::{Regex, RegexBuilder};

use self::lines::Passes;
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
        self.custom(lines::text(&mut Passes::default(), text))
    }

    /// Text of a workload without control characters and secrets. Control characters go
    /// first, because a colour sequence inside a secret would hide it from the search.
    pub fn workload<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match neutralise(text) {
            Cow::Borrowed(text) => self.text(text),
            Cow::Owned(text) => Cow::Owned(self.text(&text).into_owned()),
        }
    }

    /// A redactor for a stream of lines, where a secret may span several of them.
    pub fn lines(&self) -> LineRedactor {
        LineRedactor::new(self.clone())
    }

    /// Hides what the patterns of the operator find.
    fn custom<'a>(&self, text: Cow<'a, str>) -> Cow<'a, str> {
        let patterns = self.custom.iter();
        patterns.fold(text, |text, pattern| custom::redact(pattern, text))
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
