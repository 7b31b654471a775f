//! Control characters and invisible characters.

use std::borrow::Cow;

use super::work::examined;

/// The length of an OSC, DCS or similar string; a longer one is not taken for a sequence.
const STRING_MAX: usize = 4096;

/// Makes text of a workload safe to print: terminal sequences and invisible characters
/// are removed, other control characters are shown as `\x..`.
pub fn neutralise(text: &str) -> Cow<'_, str> {
    let first = first_suspect(text.as_bytes());
    let first = text[first..]
        .char_indices()
        .find(|(_, one)| treatment(*one) != Treatment::Keep)
        .map(|(at, _)| first + at);
    let Some(first) = first else {
        return Cow::Borrowed(text);
    };
    let mut clean = String::with_capacity(text.len());
    clean.push_str(&text[..first]);
    let mut ends = StringEnds::default();
    let mut at = first;
    while let Some(one) = text[at..].chars().next() {
        examined(one.len_utf8());
        at += one.len_utf8();
        match treatment(one) {
            Treatment::Keep => clean.push(one),
            Treatment::Remove => {}
            Treatment::Newline => {
                if !(one == '\r' && text[at..].starts_with('\n')) {
                    clean.push('\n');
                }
            }
            Treatment::Escape => at = after_escape(text, at, &mut ends),
            Treatment::Control(kind) => at = after_sequence(kind, text, at, &mut ends),
            Treatment::Show => clean.push_str(&format!("\\x{:02x}", u32::from(one))),
        }
    }
    Cow::Owned(clean)
}

/// The offset of the first byte that is not printable ASCII, a tab or a line break, or of
/// a character boundary before it.
fn first_suspect(bytes: &[u8]) -> usize {
    let harmless = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    // Whole blocks without a branch for each byte: this runs over everything.
    let mut clean = 0;
    for block in bytes.chunks(64) {
        if !block.iter().fold(true, |all, byte| all & harmless(*byte)) {
            let first = block.iter().position(|byte| !harmless(*byte));
            return clean + first.unwrap_or_default();
        }
        clean += block.len();
    }
    clean
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Treatment {
    Keep,
    Remove,
    Newline,
    /// Replace it by its code.
    Show,
    /// Remove the escape sequence that begins with ESC.
    Escape,
    /// Remove the sequence of a C1 control, which is short for ESC and this character.
    Control(char),
}

fn treatment(one: char) -> Treatment {
    match one {
        '\n' | '\t' | ' '..='~' => Treatment::Keep,
        '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => Treatment::Newline,
        '\u{1b}' => Treatment::Escape,
        '\u{9b}' => Treatment::Control('['),
        '\u{9d}' => Treatment::Control(']'),
        '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => Treatment::Control('P'),
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => Treatment::Show,
        // What Unicode lists as Default_Ignorable_Code_Point, and the marks of annotations:
        // they turn the direction of text, join or split words invisibly, or are a whole
        // hidden alphabet. All have been used to show a person something else than a model,
        // and each of them inside a secret would hide it from the rules. An emoji that was
        // joined of several is shown as these.
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => Treatment::Remove,
        _ => Treatment::Keep,
    }
}

/// The offset after the sequence whose ESC ends at `at`.
fn after_escape(text: &str, at: usize, ends: &mut StringEnds) -> usize {
    match text.as_bytes().get(at) {
        Some(kind @ (b'[' | b']' | b'P' | b'X' | b'^' | b'_')) => {
            after_sequence(char::from(*kind), text, at + 1, ends)
        }
        Some(b' '..=b'/') => {
            let at = skip(text, at, b' '..=b'/');
            at + usize::from(matches!(text.as_bytes().get(at), Some(b'0'..=b'~')))
        }
        Some(b'0'..=b'~') => at + 1,
        _ => at,
    }
}

fn after_sequence(kind: char, text: &str, at: usize, ends: &mut StringEnds) -> usize {
    if kind == '[' {
        let at = skip(text, at, b'0'..=b'?');
        let at = skip(text, at, b' '..=b'/');
        return at + usize::from(matches!(text.as_bytes().get(at), Some(b'@'..=b'~')));
    }
    // A title, a link or a clipboard.
    ends.after(text, at)
        .filter(|end| end - at <= STRING_MAX)
        .unwrap_or(at)
}

fn skip(text: &str, from: usize, range: std::ops::RangeInclusive<u8>) -> usize {
    let count = text.as_bytes()[from..]
        .iter()
        .take_while(|byte| range.contains(byte))
        .count();
    examined(count);
    from + count
}

/// Finds where strings of terminals end. What was searched once is not searched again, so
/// that any number of strings that never end cost no more than the text is long.
#[derive(Debug, Default)]
struct StringEnds {
    /// Between these offsets there is neither a terminator nor anything else that ends a
    /// string.
    clear: std::ops::Range<usize>,
    /// What is at the end of that stretch: the offset after a terminator, or nothing.
    terminator: Option<usize>,
}

// === impl StringEnds ===

impl StringEnds {
    /// The offset after the terminator of the string that begins at `from`. The offsets have
    /// to grow from call to call. A string ends with its line at the latest.
    fn after(&mut self, text: &str, from: usize) -> Option<usize> {
        if !(self.clear.start <= from && from <= self.clear.end && self.clear.end > 0) {
            let bytes = text.as_bytes();
            let mut at = from;
            self.terminator = loop {
                match (bytes.get(at), bytes.get(at + 1)) {
                    (Some(7), _) => break Some(at + 1),
                    (Some(0x1b), Some(b'\\')) | (Some(0xc2), Some(0x9c)) => break Some(at + 2),
                    (None | Some(b'\n' | 0x1b), _) => break None,
                    _ => at += 1,
                }
            };
            examined(at - from);
            self.clear = from..at;
        }
        self.terminator
    }
}
