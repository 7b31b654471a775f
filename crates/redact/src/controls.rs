//! Control characters and invisible characters.

use std::borrow::Cow;

/// The length of an OSC, DCS or similar string; a longer one is not taken for a sequence.
const STRING_MAX: usize = 4096;

/// Makes text of a workload safe to print: terminal sequences and invisible characters
/// are removed, other control characters are shown as `\x..`.
pub fn neutralise(text: &str) -> Cow<'_, str> {
    let harmless = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.bytes().all(harmless) {
        return Cow::Borrowed(text);
    }
    let Some(first) = text
        .char_indices()
        .find(|(_, one)| treatment(*one) != Treatment::Keep)
    else {
        return Cow::Borrowed(text);
    };
    let (good, mut rest) = text.split_at(first.0);
    let mut clean = String::with_capacity(text.len());
    clean.push_str(good);
    while let Some(one) = rest.chars().next() {
        let after = &rest[one.len_utf8()..];
        rest = after;
        match treatment(one) {
            Treatment::Keep => clean.push(one),
            Treatment::Remove => {}
            Treatment::Newline => {
                if !(one == '\r' && after.starts_with('\n')) {
                    clean.push('\n');
                }
            }
            Treatment::Escape => rest = after_escape(after),
            Treatment::Control(kind) => rest = after_sequence(kind, after),
            Treatment::Show => clean.push_str(&format!("\\x{:02x}", u32::from(one))),
        }
    }
    Cow::Owned(clean)
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
        '\n' | '\t' => Treatment::Keep,
        '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => Treatment::Newline,
        '\u{1b}' => Treatment::Escape,
        '\u{9b}' => Treatment::Control('['),
        '\u{9d}' => Treatment::Control(']'),
        '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => Treatment::Control('P'),
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => Treatment::Show,
        // These turn the direction of text, join words invisibly, or are a whole hidden
        // alphabet: all have been used to show a person something else than a model.
        '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => Treatment::Remove,
        _ => Treatment::Keep,
    }
}

/// The text after the sequence that an ESC begins.
fn after_escape(text: &str) -> &str {
    match text.chars().next() {
        Some(kind @ ('[' | ']' | 'P' | 'X' | '^' | '_')) => after_sequence(kind, &text[1..]),
        Some(' '..='/') => {
            let rest = text.trim_start_matches(|one| (' '..='/').contains(&one));
            rest.strip_prefix(|one| ('0'..='~').contains(&one))
                .unwrap_or(rest)
        }
        Some('0'..='~') => &text[1..],
        _ => text,
    }
}

fn after_sequence(kind: char, text: &str) -> &str {
    if kind == '[' {
        let rest = text.trim_start_matches(|one| ('0'..='?').contains(&one));
        let rest = rest.trim_start_matches(|one| (' '..='/').contains(&one));
        return rest
            .strip_prefix(|one| ('@'..='~').contains(&one))
            .unwrap_or(rest);
    }
    // A title, a link or a clipboard: up to its terminator, on its own line.
    for (at, one) in text.char_indices().take(STRING_MAX) {
        match one {
            '\u{7}' | '\u{9c}' => return &text[at + one.len_utf8()..],
            '\u{1b}' if text[at + 1..].starts_with('\\') => return &text[at + 2..],
            '\n' | '\u{1b}' => return text,
            _ => {}
        }
    }
    text
}
