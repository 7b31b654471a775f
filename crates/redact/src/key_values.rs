//! Secrets that are known by the name of their key: `password=...`, `"token": "..."`,
//! `--api-key ...`.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

/// Matches the name of a secret. A macro, because `concat!` takes only literals.
macro_rules! name_pattern {
    () => {
        concat!(
            r"(?i:pass(?:word|wd|phrase)|pwd|secret|token|credential|authorization|cookie",
            r"|(?:api|access|account|private|encryption|signing|shared|master|storage|session)[_-]?key)",
        )
    };
}

static NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(concat!("(?-u)", name_pattern!())).expect("tests compile it"));

/// Matches the name of a secret, and the separator before its value.
pub(super) const PATTERN: &str = concat!(
    name_pattern!(),
    r#"[A-Za-z0-9_.-]{0,40}["'\\`\]]{0,4}[ \t]{0,4}(?:=>|:=|[=:>, \t])[ \t]{0,4}"#,
);

/// Last words of names that describe a secret and do not hold one.
const DESCRIPTIVE: [&str; 45] = [
    "name",
    "names",
    "ref",
    "refs",
    "path",
    "paths",
    "file",
    "files",
    "dir",
    "type",
    "uri",
    "url",
    "endpoint",
    "count",
    "length",
    "len",
    "ids",
    "ttl",
    "expiry",
    "expires",
    "expired",
    "expiration",
    "seconds",
    "policy",
    "version",
    "namespace",
    "mode",
    "enabled",
    "required",
    "limit",
    "usage",
    "used",
    "max",
    "min",
    "format",
    "algorithm",
    "provider",
    "store",
    "class",
    "audience",
    "audiences",
    "issuer",
    "request",
    "reset",
    "error",
];

/// The schemes of the header `Authorization`.
const SCHEMES: [&str; 6] = ["bearer", "basic", "digest", "negotiate", "token", "apikey"];

/// The length of a placeholder.
const PLACEHOLDER_MAX: usize = 100;

/// The length of a name, searched backwards.
const NAME_MAX: usize = 64;

/// Classifies the secret that a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Any value is a secret.
    Password,
    /// The rest of the line is the secret, as in a header.
    Header,
    /// A value is a secret if it looks like one.
    Other,
}

/// The kind in the mark.
pub(super) fn kind(hit: &str) -> &'static str {
    match class_of(&hit.to_ascii_lowercase()) {
        Class::Password => "password",
        Class::Header => "token",
        Class::Other if hit.to_ascii_lowercase().contains("token") => "token",
        Class::Other => "secret",
    }
}

/// Whether the value of a key of this name is a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    NAME.is_match(name) && !is_descriptive(name)
}

/// Whether a value is not a secret, whatever its name: a word such as `none`, a mask, or a
/// reference to another value.
pub(super) fn is_placeholder(value: &str) -> bool {
    let value = value.trim();
    let lower = value.to_ascii_lowercase();
    let words = [
        "true",
        "false",
        "null",
        "nil",
        "none",
        "undefined",
        "yes",
        "no",
        "empty",
        "unset",
    ];
    let reference = |sign: char| {
        value.starts_with(sign)
            && value[1..]
                .starts_with(|one: char| one.is_ascii_alphabetic() || matches!(one, '{' | '('))
    };
    // Bounded, because text that is not redacted is searched again.
    if value.len() > PLACEHOLDER_MAX {
        return false;
    }
    value.is_empty()
        || words.contains(&lower.as_str())
        || value.starts_with("[redacted")
        || value
            .chars()
            .all(|one| matches!(one, '*' | 'x' | 'X' | '.' | '-' | '?'))
        || reference('$')
        || (value.starts_with('<') && (value.ends_with('>') || value.starts_with("<set")))
}

/// The value of the name at `hit`, if it is a secret.
pub(super) fn value(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let name_start = name_start(bytes, hit.start);
    let matched = &text[hit.clone()];
    let name_end = matched
        .find(|one: char| !(one.is_ascii_alphanumeric() || matches!(one, '_' | '.' | '-')))
        .map_or(hit.end, |at| hit.start + at);
    let name = &text[name_start..name_end];
    let between = &text[name_end..hit.end];
    let mut at = hit.end;
    let separator =
        between.trim_matches(|one| matches!(one, '"' | '\'' | '\\' | '`' | ']' | ' ' | '\t'));
    let before = bytes[..name_start].last();
    match separator {
        // A space or comma separates only flags: `--token abc`, `"--token", "abc"`.
        "" | "," => {
            let begins = before.is_none_or(|byte| !byte.is_ascii_alphanumeric());
            if !name.starts_with('-') || !begins || text[at..].starts_with('-') {
                return None;
            }
        }
        ">" if before != Some(&b'<') => return None,
        _ => {}
    }
    if is_descriptive(name) {
        return None;
    }
    let class = class_of(&name.to_ascii_lowercase());
    // The value may be quoted, and the quotes escaped.
    let escapes = text[at..]
        .bytes()
        .take_while(|byte| *byte == b'\\')
        .count()
        .min(8);
    if let Some(quote @ (b'"' | b'\'' | b'`')) = bytes.get(at + escapes) {
        at += escapes + 1;
        let end = quoted_end(text, at, *quote, escapes);
        return secret(text, at..end, class, name);
    }
    let alone = is_alone(&bytes[..name_start]);
    let stops = |one: char| {
        one.is_whitespace()
            || matches!(one, '"' | '\'' | '`' | '<')
            || (!alone && matches!(one, ',' | ';' | '&' | '}' | ']' | ')' | '>' | '|'))
    };
    let until = |from: usize, ends: &dyn Fn(char) -> bool| {
        text[from..].find(ends).map_or(text.len(), |end| from + end)
    };
    let word_end = until(at, &stops);
    let word = &text[at..word_end];
    let scheme = SCHEMES
        .iter()
        .any(|scheme| scheme.eq_ignore_ascii_case(word));
    let colon = separator == ":";
    // A colon in prose is followed by a word.
    let plain = word.len() < 20 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let prose = colon && between.ends_with([' ', '\t']) && plain && !scheme;
    if prose && class != Class::Password {
        return None;
    }
    let end = match class {
        Class::Header => until(at, &|one| matches!(one, '"' | '\'' | '`' | '\n')),
        Class::Password if alone && colon => until(at, &|one| one == '\n'),
        _ if scheme => {
            let gap =
                text[word_end..].len() - text[word_end..].trim_start_matches([' ', '\t']).len();
            until(word_end + gap.min(4), &stops)
        }
        _ => word_end,
    };
    let end = at + text[at..end].trim_end().len();
    secret(text, at..end, class, name)
}

/// Whether a name begins its line, as in a file of settings: then only the end of the line
/// ends its value.
fn is_alone(before: &[u8]) -> bool {
    let near = &before[before.len().saturating_sub(NAME_MAX)..];
    let line = near
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map(|at| &near[at + 1..]);
    let line = line.or((near.len() == before.len()).then_some(near));
    line.is_some_and(|line| {
        matches!(
            line.trim_ascii(),
            b"" | b"-" | b"export" | b"env" | b"set" | b"ENV"
        )
    })
}

/// The offset of the token after `Bearer ` or `Basic `; `None` if it is a word.
pub(super) fn after_scheme(hit: &str) -> Option<usize> {
    let at = hit.rfind([' ', '\t'])? + 1;
    let token = &hit[at..];
    let digit = token.bytes().any(|byte| byte.is_ascii_digit());
    let inner_capital = token.bytes().skip(1).any(|byte| byte.is_ascii_uppercase());
    let lower = token.bytes().any(|byte| byte.is_ascii_lowercase());
    (digit || token.ends_with('=') || (inner_capital && lower) || token.len() >= 32).then_some(at)
}

fn secret(text: &str, value: Range<usize>, class: Class, name: &str) -> Option<Range<usize>> {
    let given = &text[value.clone()];
    if is_placeholder(given) || given.starts_with(['[', '{']) && given.len() < 2 {
        return None;
    }
    let count = given.len() <= 7 && given.bytes().all(|byte| byte.is_ascii_digit());
    if class == Class::Other && (count || is_object_name(name, given)) {
        return None;
    }
    // PWD is also the working directory.
    let folder =
        given.len() < 256 && given.starts_with('/') && name.to_ascii_lowercase().ends_with("pwd");
    (!folder).then_some(value)
}

/// Whether it is the name of a Secret, as controllers log it: `secret="namespace/name"`.
fn is_object_name(name: &str, value: &str) -> bool {
    let part = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
            })
    };
    name.eq_ignore_ascii_case("secret")
        && value
            .split_once('/')
            .is_some_and(|(namespace, name)| part(namespace) && part(name))
}

/// The end of a quoted value: its closing quote, or the end of the line.
fn quoted_end(text: &str, from: usize, quote: u8, escapes: usize) -> usize {
    let bytes = text.as_bytes();
    let mut run = 0;
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        match byte {
            b'\\' => run += 1,
            b'\n' => return at,
            // A closing quote has as many escapes as the opening one. One with fewer ends
            // the text around the value.
            byte if *byte == quote && run <= escapes => return at - run,
            _ => run = 0,
        }
        if *byte == quote {
            run = 0;
        }
    }
    text.len()
}

fn name_start(bytes: &[u8], from: usize) -> usize {
    let inside = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    from - bytes[..from]
        .iter()
        .rev()
        .take(NAME_MAX)
        .take_while(inside)
        .count()
}

fn class_of(lower: &str) -> Class {
    match () {
        () if lower.contains("authorization")
            || lower.contains("cookie") && !lower.contains("cookies") =>
        {
            Class::Header
        }
        () if lower.contains("pass") || lower.contains("pwd") => Class::Password,
        () => Class::Other,
    }
}

/// Whether a name describes a secret and does not hold one, by its last word.
fn is_descriptive(name: &str) -> bool {
    let name = name.trim_end_matches(['_', '.', '-']);
    let bytes = name.as_bytes();
    let border = |at: usize| {
        bytes[at].is_ascii_uppercase() && bytes[at - 1].is_ascii_lowercase()
            || matches!(bytes[at - 1], b'_' | b'.' | b'-')
    };
    let last = (1..bytes.len()).rev().find(|at| border(*at));
    let word = name[last.unwrap_or_default()..].to_ascii_lowercase();
    let lower = name.to_ascii_lowercase();
    // A secret_id is a secret; the id of a key or a token is not.
    last.is_some()
        && (DESCRIPTIVE.contains(&word.as_str()) || word == "id" && !lower.contains("secret_id"))
        // secretname, tokenpath
        || ["secret", "token", "password"].iter().any(|word| {
            let at = lower.rfind(word).map(|at| at + word.len());
            at.is_some_and(|at| DESCRIPTIVE.contains(&&lower[at..]))
        })
}
