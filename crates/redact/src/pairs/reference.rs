//! Values that are none: references to others, code, remarks.

use super::{Context, separator::Sep};
use crate::values::{self, SEEN_MAX};

/// Whether a value refers to another one: `${NAME}`, `$(cat file)`, `{{ name }}`, or is code.
pub(super) fn is_reference(rest: &str, context: &Context) -> bool {
    let seen = &rest[..rest.floor_char_boundary(SEEN_MAX)];
    let enclosed = [
        ("${", '}'),
        ("$(", ')'),
        ("{{", '}'),
        ("#{", '}'),
        ("%{", '}'),
    ];
    if enclosed
        .iter()
        .any(|(open, close)| seen.starts_with(open) && seen.contains(*close))
    {
        return true;
    }
    if is_element(seen) || is_member(seen) {
        return true;
    }
    // `token: NUMBER(42)`
    let letters = seen.bytes().take_while(u8::is_ascii_uppercase).count();
    if letters > 2 && is_number_in_brackets(&seen[letters..]) {
        return true;
    }
    // `password=lookup('env', 'PW')`
    let word = seen.bytes().take_while(u8::is_ascii_lowercase).count();
    let quoted = ["('", "(\"", "(\\\""]
        .iter()
        .any(|open| seen[word..].starts_with(open));
    if word > 2 && quoted && seen.contains(')') && !matches!(&seen[..word], "string" | "str") {
        return true;
    }
    // `key=0x7f1182330000`, `token=token@entry=0x7ffd1234`
    let first = seen.split([',', ')', ' ']).next().unwrap_or_default();
    if context.sep == Sep::Assign
        && matches!(context.before, Some(b'(' | b','))
        && (values::is_pointer(first) || first.contains("@entry=0x"))
    {
        return true;
    }
    if !context.spaced || context.sep == Sep::Colon && !context.alone {
        return false;
    }
    // `password = self.client.get(name)`, `password = password`
    let inside = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.' | b':');
    let word = seen.bytes().take_while(|byte| inside(byte)).count();
    let path = &seen[..word];
    let call = seen[word..].starts_with('(') && seen.contains(')') && word > 2;
    let lower = path.bytes().any(|byte| byte.is_ascii_lowercase());
    // `password = Secret("x")` has it, `password = Column(String(255))` has not.
    let wraps = path.starts_with(|one: char| one.is_ascii_uppercase())
        && !path.contains(['.', ':'])
        && !seen[word..]
            .trim_start_matches('(')
            .starts_with(|one: char| one.is_ascii_uppercase());
    let member = path.contains('.')
        && [
            "self.",
            "this.",
            "os.",
            "process.",
            "config.",
            "settings.",
            "env.",
            "args.",
            "opts.",
            "options.",
            "params.",
            "cfg.",
            "req.",
            "request.",
            "var.",
            "local.",
            "data.",
            "module.",
            "props.",
            "ctx.",
            "app.",
        ]
        .iter()
        .any(|root| path.starts_with(root));
    let ends = !seen[word..].starts_with(|one: char| {
        one.is_ascii_alphanumeric()
            || matches!(
                one,
                '!' | '@' | '#' | '$' | '%' | '^' | '&' | '*' | '+' | '=' | '~' | '-' | '?'
            )
    });
    let same =
        context.sep == Sep::Assign && ends && crate::names::classify(path).is_some() && lower;
    // `aws_secretsmanager_secret.db.id`
    let resource = context.sep == Sep::Assign
        && ends
        && path.matches('.').count() >= 2
        && path
            .split('.')
            .next()
            .is_some_and(|first| first.contains('_'));
    call && lower && !wraps || member && ends || same || resource
}

/// Whether a value is a size: `24 bytes`.
pub(super) fn is_size(rest: &str) -> bool {
    let digits = rest.bytes().take(12).take_while(u8::is_ascii_digit).count();
    [" bytes", " Bytes", " B", " chars", " characters"]
        .iter()
        .any(|unit| rest[digits..].starts_with(unit))
}

/// Whether a value is an element of a map: `os.environ["NAME"]`, `$_POST['name']`.
fn is_element(seen: &str) -> bool {
    let inside = |one: char| {
        one.is_ascii_alphanumeric()
            || matches!(one, '_' | '.' | '$' | ':' | '-' | '>' | '@' | '(' | ')')
    };
    let element = seen.trim_start_matches(inside);
    let path = &seen[..seen.len() - element.len()];
    let Some(index) = element.strip_prefix('[') else {
        return false;
    };
    let index = index.trim_start_matches('\\');
    let Some(name) = index.strip_prefix(['"', '\'', ':']) else {
        return false;
    };
    let word =
        name.find(|one: char| !(one.is_ascii_alphanumeric() || matches!(one, '_' | '-' | '.')));
    let Some(word) = word.filter(|word| *word > 0) else {
        return false;
    };
    let close = name[word..].trim_start_matches(['\\', '"', '\'']);
    path.len() > 2
        && path.starts_with(|one: char| one.is_ascii_alphabetic() || matches!(one, '$' | '_' | '@'))
        && close.starts_with(']')
}

/// `(42)`
fn is_number_in_brackets(text: &str) -> bool {
    text.strip_prefix('(').is_some_and(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && rest[digits..].starts_with(')')
    })
}

/// Whether a value is a member of an object of PHP: `$this->password`.
fn is_member(seen: &str) -> bool {
    let Some(rest) = seen.strip_prefix('$') else {
        return false;
    };
    let word = rest
        .bytes()
        .take_while(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        .count();
    word > 1 && rest[word..].starts_with("->")
}

/// Whether words in brackets say something about a value: `(known after apply)`.
pub(super) fn is_remark(rest: &str) -> bool {
    let Some(inner) = rest.strip_prefix('(') else {
        return false;
    };
    let seen = &inner[..inner.floor_char_boundary(48)];
    let Some(close) = seen.find(')') else {
        return false;
    };
    let words = &seen[..close];
    let plain = words
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || matches!(byte, b' ' | b'-'));
    plain && (words.contains(' ') || values::is_status(words))
}
