//! Private keys in PEM and its relatives: whole, on one line, line by line, or cut off.

use std::ops::Range;

use super::{values, work::examined};

/// A line of a key is 64 characters; some tools write 70 or 76.
const LINE: Range<usize> = 60..81;

/// The length of the label of a block.
const LABEL_MAX: usize = 64;

/// Lines of others that may stand between the lines of a key.
const STRANGERS_MAX: u8 = 3;

const BEGIN: [&str; 2] = ["-----BEGIN", "---- BEGIN"];
const END: [&str; 2] = ["-----END", "---- END"];

/// A block that began in an earlier line and has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// A private key; the number of lines of others since the last line of it.
    Private { strangers: u8 },
    /// A certificate, a public key, a signature.
    Public,
    /// Lines of a key in the format of PuTTY that are left.
    Counted { lines: usize },
    /// Lines without a beginning that look like those of a key.
    Headless,
}

/// A marker of PEM.
#[derive(Debug)]
pub(super) struct Marker {
    pub(super) range: Range<usize>,
    pub(super) private: bool,
}

/// The marker that begins at `at` with `-----BEGIN` or `-----END`.
pub(super) fn marker(text: &str, at: usize) -> Option<Marker> {
    let rest = &text[at..];
    let word = BEGIN.iter().chain(&END).find(|word| {
        rest.get(..word.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(word))
    })?;
    let label = &rest.as_bytes()[word.len()..];
    let label = &label[..label.len().min(LABEL_MAX)];
    let inside = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'.');
    let length = label.iter().take_while(inside).count();
    examined(length);
    let label = rest[word.len()..word.len() + length].to_ascii_uppercase();
    let dashes = label_end(&rest[word.len() + length..]);
    let private = label.contains("PRIVATE")
        || label.contains("NKEY SEED")
        || label.contains("STATIC KEY")
        || label.contains("SECRET KEY");
    (length > 0).then(|| Marker {
        range: at..at + word.len() + length + dashes,
        private,
    })
}

fn label_end(rest: &str) -> usize {
    rest.bytes()
        .take(5)
        .take_while(|byte| *byte == b'-')
        .count()
}

/// The end of the key material that begins at `from`: base64, with the line breaks that a
/// string of JSON has, or spaces between long pieces.
pub(super) fn material_end(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        let run = bytes[at..]
            .iter()
            .take_while(|byte| is_material(**byte) || **byte == b'\\')
            .count();
        examined(run);
        at += run;
        // `Proc-Type: 4,ENCRYPTED` and pieces that spaces separate.
        let rest = &bytes[at..];
        let gap = rest.iter().take_while(|byte| **byte == b' ').count().min(8);
        let piece = rest[gap..]
            .iter()
            .take(16)
            .take_while(|byte| is_material(**byte))
            .count();
        if gap == 0 || piece < 16 {
            return at;
        }
        at += gap;
    }
}

/// The beginning of the key material that ends at `end`.
pub(super) fn material_start(text: &str, from: usize, end: usize) -> usize {
    let bytes = &text.as_bytes()[from..end];
    let length = bytes
        .iter()
        .rev()
        .take_while(|byte| is_material(**byte) || matches!(byte, b'\\' | b' '))
        .count();
    examined(length);
    // Words before the key are not a part of it.
    let piece = &text[end - length..end];
    let words = piece.len() - piece.trim_start().len();
    let mut start = end - length + words;
    while let Some(space) = text[start..end].find(' ') {
        if space >= 16 {
            break;
        }
        start += space + 1;
    }
    start
}

fn is_material(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Whether a line is one of a block: characters of base64 and nothing else.
pub(super) fn is_block_line(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && line.bytes().all(is_material)
}

/// What a line is while a private key has begun.
#[derive(Debug)]
pub(super) enum KeyLine {
    /// These ranges are key material.
    Material(Vec<Range<usize>>),
    /// It is empty, or a header of the key.
    Quiet,
    /// Something else.
    Stranger,
}

/// Looks at a line inside a private key. A logger may have put a prefix before it, or the
/// line into a record.
pub(super) fn key_line(line: &str) -> KeyLine {
    let trimmed = line.trim();
    if trimmed.is_empty() || trimmed == "\\" {
        return KeyLine::Quiet;
    }
    let headers = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:"];
    if headers.iter().any(|header| trimmed.contains(header)) {
        return KeyLine::Quiet;
    }
    let start = line.len() - line.trim_start().len();
    let word_at = trimmed.rfind([' ', '\t']).map_or(0, |at| at + 1);
    let word = &trimmed[word_at..];
    // A short line may be the last line of a key, or a word.
    let whole = word_at == 0
        && !(word.len() > 1 && word.bytes().skip(1).all(|byte| byte.is_ascii_lowercase()));
    if (word.len() >= 16 || whole) && word.bytes().all(is_material) {
        return KeyLine::Material(
            std::iter::once(start + word_at..start + trimmed.len()).collect(),
        );
    }
    // A record: strings that are nothing but material.
    let mut pieces = Vec::new();
    let bytes = line.as_bytes();
    let mut at = 0;
    examined(bytes.len());
    while at < bytes.len() {
        let length = bytes[at..]
            .iter()
            .take_while(|byte| is_material(**byte))
            .count();
        let end = at + length;
        let quoted = at > 0
            && matches!(bytes[at - 1], b'"' | b'\'')
            && (bytes
                .get(end)
                .is_some_and(|byte| matches!(byte, b'"' | b'\''))
                || bytes[end..].starts_with(b"\\n")
                || bytes[end..].starts_with(b"\\r"));
        let last = quoted && length >= 2 && bytes[at..end].contains(&b'=');
        if length >= 40 || quoted && length >= 16 || last {
            pieces.push(at..end);
        }
        at = end.max(at + 1);
    }
    if pieces.is_empty() {
        KeyLine::Stranger
    } else {
        KeyLine::Material(pieces)
    }
}

// === impl Block ===

impl Block {
    /// The block after a line of somebody else.
    pub(super) fn after_stranger(self) -> Option<Self> {
        match self {
            Self::Private { strangers } if strangers < STRANGERS_MAX => Some(Self::Private {
                strangers: strangers + 1,
            }),
            Self::Public => Some(Self::Public),
            Self::Private { .. } | Self::Counted { .. } | Self::Headless => None,
        }
    }
}

/// Whether a line is a path of words: `projects/acme/keyRings/main/cryptoKeys/shop`.
fn is_path(line: &str) -> bool {
    line.split('/').count() >= 3
        && line
            .split('/')
            .all(|part| part.is_empty() || values::is_identifier(part))
}

/// Whether a line is a line from the middle of a key: as wide as such lines are, and not a
/// hash in hexadecimal.
pub(super) fn is_lone_line(line: &str) -> bool {
    let line = line.trim_end_matches('\r');
    let body = line.trim_end_matches('=');
    let has = |is: fn(&u8) -> bool| line.as_bytes().iter().any(is);
    LINE.contains(&line.len())
        && body.bytes().all(is_material)
        && !body.contains('=')
        && !is_path(line)
        && has(u8::is_ascii_uppercase)
        && has(|byte| byte.is_ascii_lowercase() && *byte > b'f')
        && has(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'/'))
}
