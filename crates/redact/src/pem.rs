//! Private keys in PEM: whole, or cut off at either end.

use std::ops::Range;

/// The size of a key; an end marker farther away belongs to something else.
const KEY_BYTES_MAX: usize = 64 * 1024;

/// A line of a key is 64 characters; some tools write 70 or 76.
const LINE: Range<usize> = 60..81;

/// The length of a line of a key, with the prefix that a logger may have put before it.
const LINE_MAX: usize = 512;

const BEGIN: &str = "-----BEGIN";
const END: &str = "-----END";
const DASHES: &str = "-----";

/// Finds end markers of keys, and searches each stretch of text only once.
#[derive(Debug, Default)]
pub(super) enum EndMarkers {
    #[default]
    NotSearched,
    /// The first marker after the last requested offset.
    At(usize),
    NoMore,
}

// === impl EndMarkers ===

impl EndMarkers {
    /// The first marker from an offset on. The offsets have to grow from call to call.
    fn after(&mut self, text: &str, from: usize) -> Option<usize> {
        match *self {
            Self::NoMore => return None,
            Self::At(at) if at >= from => return Some(at),
            Self::At(_) | Self::NotSearched => {}
        }
        let found = text[from..].find(END).map(|at| from + at);
        *self = found.map_or(Self::NoMore, Self::At);
        found
    }

    /// The extent of the key that begins with the marker `begin`.
    pub(super) fn key(&mut self, text: &str, begin: Range<usize>) -> Range<usize> {
        let another = text[begin.end..].find(BEGIN).map(|at| begin.end + at);
        let end = self.after(text, begin.end);
        if let Some(end) = end.filter(|end| end - begin.end <= KEY_BYTES_MAX)
            && another.is_none_or(|another| another > end)
        {
            let last = end + END.len();
            let close = text[last..].find(DASHES).filter(|at| *at <= 64);
            return begin.start..close.map_or(last, |at| last + at + DASHES.len());
        }
        begin.start..cut_off(text, begin.end)
    }
}

/// The end of a key without an end marker: the last line that looks like key material.
fn cut_off(text: &str, from: usize) -> usize {
    let mut end = from;
    for (nth, line) in text[from..].split_inclusive('\n').enumerate() {
        if nth == 0 {
            // The rest of the first line: a key on one line has its line breaks as `\n`.
            end += line.len() - line.trim_start_matches(is_material_or_break).len();
            if !line.ends_with('\n') || end != from + line.len() {
                return end;
            }
        } else if !is_key_line(line) {
            return end;
        } else {
            end += line.trim_end().len();
            end += usize::from(line.ends_with('\n'));
        }
    }
    end
}

fn is_material(one: char) -> bool {
    one.is_ascii_alphanumeric() || matches!(one, '+' | '/' | '=')
}

fn is_material_or_break(one: char) -> bool {
    is_material(one) || matches!(one, '\\' | '\r' | '\n')
}

/// Whether a line may stand between the markers of a key; a logger may have put a prefix
/// before it.
pub(super) fn is_key_line(line: &str) -> bool {
    let line = line.trim();
    let word = line.rsplit([' ', '\t']).next().unwrap_or_default();
    let header = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:"];
    // A short line may be the last line of a key, or a word.
    let short = || {
        word == line
            && (word.is_empty() || !word.chars().skip(1).all(|one| one.is_ascii_lowercase()))
    };
    (word.len() >= 16 || short()) && word.chars().all(is_material)
        || header.iter().any(|one| line.contains(one))
}

/// The beginning of a key whose begin marker is missing and whose end marker is at `end`.
pub(super) fn before_end(text: &str, written: usize, end: usize) -> usize {
    // One line may hold the whole key, with its line breaks as `\n`.
    let rest = text[written..end].trim_end_matches(is_material_or_break);
    let piece = written + rest.len();
    if end - piece >= 16 && !text[piece..end].contains('\n') {
        return piece;
    }
    let bytes = text.as_bytes();
    let line_before = |from: usize| {
        let near = written.max(from.saturating_sub(LINE_MAX));
        let found = bytes[near..from].iter().rposition(|byte| *byte == b'\n');
        found.map(|at| near + at).ok_or(near)
    };
    let (mut start, mut at) = (end, line_before(end));
    while let Ok(line_end) = at {
        at = line_before(line_end);
        let line_start = match at {
            Ok(newline) => newline + 1,
            Err(near) if near == written => written,
            Err(_) => break,
        };
        let line = text[line_start..line_end].trim();
        if line.is_empty() || !is_key_line(line) {
            break;
        }
        start = line_start;
    }
    start
}

/// Whether a line is a line from the middle of a key: as wide as such lines are, and not a
/// hash in hexadecimal.
pub(super) fn is_lone_line(line: &str) -> bool {
    let line = line.trim_end_matches('\r');
    LINE.contains(&line.len())
        && line.bytes().all(|byte| is_material(char::from(byte)))
        && line.bytes().any(|byte| byte.is_ascii_uppercase())
        && line
            .bytes()
            .any(|byte| byte.is_ascii_lowercase() && byte > b'f')
        && line
            .bytes()
            .any(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'/'))
}
