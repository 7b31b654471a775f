//! Values that a name gives away: `password=...`, `"token": "..."`, `--api-key ...`.

use std::ops::Range;

/// A name that promises a secret, and what separates it from its value.
pub(super) const PATTERN: &str = concat!(
    r#"(?i:pass(?:word|wd|phrase)|pwd|secret|token|credential"#,
    r#"|(?:api|access|account|private|encryption|signing|shared|master|storage|session)[_-]?key"#,
    r#"|accesskey|authorization|cookie)"#,
    r#"[A-Za-z0-9_.-]{0,40}["'\\`\]]{0,4}[ \t]{0,4}(?:=>|:=|[=:>, \t])[ \t]{0,4}"#,
);

/// Names that end so speak about a secret and are none.
const ABOUT: [&str; 45] = [
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

/// What schemes of the header `Authorization` are called.
const SCHEMES: [&str; 6] = ["bearer", "basic", "digest", "negotiate", "token", "apikey"];

/// Nothing that says "no secret here" is longer.
const NOTHING_MAX: usize = 100;

/// How far back the name is looked for.
const NAME_MAX: usize = 64;

/// What sort of secret the name promises.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// Whatever follows.
    Password,
    /// The whole rest of the line, as in a header.
    Header,
    /// Something that looks like one.
    Other,
}

/// What the mark says.
pub(super) fn kind(hit: &str) -> &'static str {
    match promise(&hit.to_ascii_lowercase()) {
        Promise::Password => "password",
        Promise::Header => "token",
        Promise::Other if hit.to_ascii_lowercase().contains("token") => "token",
        Promise::Other => "secret",
    }
}

/// Whether what stands under that name is a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let promises = [
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "secret",
        "token",
        "credential",
        "authorization",
        "cookie",
    ];
    let keys = [
        "api",
        "access",
        "account",
        "private",
        "encryption",
        "signing",
        "shared",
        "master",
        "storage",
        "session",
    ];
    let key = |word: &str| {
        ["key", "_key", "-key"]
            .iter()
            .any(|end| lower.contains(&format!("{word}{end}")))
    };
    (promises.iter().any(|word| lower.contains(word)) || keys.iter().any(|word| key(word)))
        && !is_about(name)
}

/// Whether a value is no secret whatever its name.
pub(super) fn is_nothing(value: &str) -> bool {
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
    // Only so far: what is left alone is looked at again.
    if value.len() > NOTHING_MAX {
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

/// The value that belongs to the name at `hit`, if it is a secret.
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
        // `--token abc`, `"--token", "abc"`: only for a flag.
        "" | "," => {
            let begins = before.is_none_or(|byte| !byte.is_ascii_alphanumeric());
            if !name.starts_with('-') || !begins || text[at..].starts_with('-') {
                return None;
            }
        }
        ">" if before != Some(&b'<') => return None,
        _ => {}
    }
    if is_about(name) {
        return None;
    }
    let promise = promise(&name.to_ascii_lowercase());
    // Quotes of the value, also within quotes.
    let escapes = text[at..]
        .bytes()
        .take_while(|byte| *byte == b'\\')
        .count()
        .min(8);
    if let Some(quote @ (b'"' | b'\'' | b'`')) = bytes.get(at + escapes) {
        at += escapes + 1;
        let end = quoted_end(text, at, *quote, escapes);
        return secret(text, at..end, promise, name);
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
    // In prose a colon is followed by words.
    let plain = word.len() < 20 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let prose = colon && between.ends_with([' ', '\t']) && plain && !scheme;
    if prose && promise != Promise::Password {
        return None;
    }
    let end = match promise {
        Promise::Header => until(at, &|one| matches!(one, '"' | '\'' | '`' | '\n')),
        Promise::Password if alone && colon => until(at, &|one| one == '\n'),
        _ if scheme => {
            let gap =
                text[word_end..].len() - text[word_end..].trim_start_matches([' ', '\t']).len();
            until(word_end + gap.min(4), &stops)
        }
        _ => word_end,
    };
    let end = at + text[at..end].trim_end().len();
    secret(text, at..end, promise, name)
}

/// Whether a name begins its line, as in a file of settings: then nothing but the
/// line's end closes its value.
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

/// Where the token stands after `Bearer ` or `Basic `, if it is one and no word.
pub(super) fn after_scheme(hit: &str) -> Option<usize> {
    let at = hit.rfind([' ', '\t'])? + 1;
    let token = &hit[at..];
    let digit = token.bytes().any(|byte| byte.is_ascii_digit());
    let inner_capital = token.bytes().skip(1).any(|byte| byte.is_ascii_uppercase());
    let lower = token.bytes().any(|byte| byte.is_ascii_lowercase());
    (digit || token.ends_with('=') || (inner_capital && lower) || token.len() >= 32).then_some(at)
}

fn secret(text: &str, value: Range<usize>, promise: Promise, name: &str) -> Option<Range<usize>> {
    let given = &text[value.clone()];
    if is_nothing(given) || given.starts_with(['[', '{']) && given.len() < 2 {
        return None;
    }
    let count = given.len() <= 7 && given.bytes().all(|byte| byte.is_ascii_digit());
    if promise == Promise::Other && (count || is_object(name, given)) {
        return None;
    }
    // PWD is also where a program was started.
    let folder =
        given.len() < 256 && given.starts_with('/') && name.to_ascii_lowercase().ends_with("pwd");
    (!folder).then_some(value)
}

/// `secret="namespace/name"` names an object, as controllers log it.
fn is_object(name: &str, value: &str) -> bool {
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

/// Where a quoted value ends: at its quote, or with its line.
fn quoted_end(text: &str, from: usize, quote: u8, escapes: usize) -> usize {
    let bytes = text.as_bytes();
    let mut run = 0;
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        match byte {
            b'\\' => run += 1,
            b'\n' => return at,
            // As many escapes as the opening one had, or fewer: the text around ends.
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

fn promise(lower: &str) -> Promise {
    match () {
        () if lower.contains("authorization")
            || lower.contains("cookie") && !lower.contains("cookies") =>
        {
            Promise::Header
        }
        () if lower.contains("pass") || lower.contains("pwd") => Promise::Password,
        () => Promise::Other,
    }
}

/// Whether the last word of a name says that it only speaks about a secret.
fn is_about(name: &str) -> bool {
    let name = name.trim_end_matches(['_', '.', '-']);
    let bytes = name.as_bytes();
    let border = |at: usize| {
        bytes[at].is_ascii_uppercase() && bytes[at - 1].is_ascii_lowercase()
            || matches!(bytes[at - 1], b'_' | b'.' | b'-')
    };
    let last = (1..bytes.len()).rev().find(|at| border(*at));
    let word = name[last.unwrap_or_default()..].to_ascii_lowercase();
    let lower = name.to_ascii_lowercase();
    // A secret_id is one; the id of a key or a token is none.
    last.is_some()
        && (ABOUT.contains(&word.as_str()) || word == "id" && !lower.contains("secret_id"))
        // secretname, tokenpath
        || ["secret", "token", "password"].iter().any(|word| {
            let at = lower.rfind(word).map(|at| at + word.len());
            at.is_some_and(|at| ABOUT.contains(&&lower[at..]))
        })
}
