//! A line that speaks of a secret and ends with something that can be nothing else:
//! `No password was set; a random one has been generated: ...`.

use std::ops::Range;

use super::prose::{text_end, whole_end};
use crate::{
    names::{Class, Name},
    values,
    work::examined,
};

/// The part of the line after the name that is looked at.
const NEAR: usize = 160;

/// Shorter values are told from others by what stands around them.
const LENGTH_MIN: usize = 12;

/// What a value is called that is no secret.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "algorithm", "at", "audience", "by", "cause", "chain", "checksum", "cipher", "class", "client",
    "code", "commit", "digest", "engine", "error", "etag", "exception", "fingerprint", "format",
    "from", "hash", "hasher", "host", "id", "image", "in", "issuer", "job", "kid", "kind", "level",
    "message", "method", "mode", "model", "name", "node", "plugin", "pod", "policy", "provider",
    "reason", "ref", "request", "result", "revision", "scheme", "serial", "service", "session",
    "sha", "sha256", "source", "state", "status", "step", "subject", "supplier", "tag",
    "thumbprint", "to", "trace", "type", "uid", "uri", "url", "user", "username", "uuid",
    "version",
];

/// The secret at the end of the text that the name ends in at `end`.
pub(super) fn value(text: &str, name: Name, end: usize) -> Option<Range<usize>> {
    if !matches!(
        name.class,
        Class::Password | Class::Secret | Class::Object | Class::Said
    ) {
        return None;
    }
    let until = text.floor_char_boundary((end + NEAR).min(text.len()));
    let until = end + text_end(&text[end..until]);
    let near = text[end..until].trim_end();
    examined(near.len());
    let colon = near.rfind(": ")?;
    let word = near[colon + 2..].trim_start();
    let from = end + near.len() - word.len();
    let label = near[..colon]
        .rsplit([' ', ',', ';', '('])
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let digest = word
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let shown = word.len() >= LENGTH_MIN
        && !word.contains(' ')
        && OTHERS.binary_search(&label.as_str()).is_err()
        && !(digest && name.class != Class::Password)
        && values::is_random(word)
        && (values::is_mixed(word) || values::is_scrambled(word))
        && word.bytes().all(|byte| byte.is_ascii_graphic())
        && !word.contains(['/', '(', '@', ':', '<', '{', '[']);
    shown.then(|| from..whole_end(text, from + word.len(), until))
}
