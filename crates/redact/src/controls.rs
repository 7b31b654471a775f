//! Characters that act instead of being read.

use std::borrow::Cow;

/// How far the text of an escape sequence may reach before it is none.
const STRING_MAX: usize = 4096;

/// Takes the power out of text that a workload wrote: terminal sequences and
/// invisible characters vanish, other control characters become visible.
pub fn neutralise(text: &str) -> Cow<'_, str> {
    let harmless = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.bytes().all(harmless) {
        return Cow::Borrowed(text);
    }
    let Some(first) = text
        .char_indices()
        .find(|(_, one)| fate(*one) != Fate::Stays)
    else {
        return Cow::Borrowed(text);
    };
    let (good, mut rest) = text.split_at(first.0);
    let mut clean = String::with_capacity(text.len());
    clean.push_str(good);
    while let Some(one) = rest.chars().next() {
        let after = &rest[one.len_utf8()..];
        rest = after;
        match fate(one) {
            Fate::Stays => clean.push(one),
            Fate::Vanishes => {}
            Fate::EndsLine => {
                if !(one == '\r' && after.starts_with('\n')) {
                    clean.push('\n');
                }
            }
            Fate::Escapes => rest = after_escape(after),
            Fate::EscapesLong(kind) => rest = after_sequence(kind, after),
            Fate::Shows => clean.push_str(&format!("\\x{:02x}", u32::from(one))),
        }
    }
    Cow::Owned(clean)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    Vanishes,
    EndsLine,
    Shows,
    /// What follows says what it does.
    Escapes,
    /// As an escape and this character.
    EscapesLong(char),
}

fn fate(one: char) -> Fate {
    match one {
        '\n' | '\t' => Fate::Stays,
        '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => Fate::EndsLine,
        '\u{1b}' => Fate::Escapes,
        '\u{9b}' => Fate::EscapesLong('['),
        '\u{9d}' => Fate::EscapesLong(']'),
        '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => Fate::EscapesLong('P'),
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => Fate::Shows,
        // Turns the direction of text, joins words invisibly, or is a whole hidden
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
        | '\u{e0000}'..='\u{e0fff}' => Fate::Vanishes,
        _ => Fate::Stays,
    }
}

/// What follows the sequence that an escape character begins.
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
