//! Sentences that say a secret: `password for elastic: ...`, `the password of joe is ...`.

use std::ops::Range;

use super::{
    separator::{self, Sep, Separator},
    verdict::is_code,
};
use crate::{
    names::{self, Class, Name},
    values,
    work::examined,
};

/// Verbs and signs that a secret follows, in the languages of `foreign`.
#[rustfmt::skip]
const VERBS: &[&str] = &[
    "auf", "es", "est", "gelten", "is", "ist", "je", "jest", "lautet", "now", "on", "to", "was", "är",
    "è", "é", "это",
];

/// Words after a name that say whose it is.
#[rustfmt::skip]
const PREPOSITIONS: &[&str] = &[
    "da", "de", "del", "della", "do", "for", "för", "für", "of", "para", "per", "pour", "til", "van",
    "voor", "для",
];

/// Where the text ends that a sentence stands in: the string of a record, or its line.
pub(super) fn text_end(near: &str) -> usize {
    let quote = near
        .match_indices('"')
        .find(|(at, _)| matches!(near.as_bytes().get(at + 1), None | Some(b',' | b'}' | b']')));
    let line = near.find("\\n").unwrap_or(near.len());
    quote.map_or(line, |(at, _)| at.min(line))
}

/// The end of a secret that ends at `end`, or goes on behind the part of the text that was
/// looked at.
pub(super) fn whole_end(text: &str, end: usize, until: usize) -> usize {
    if end < until {
        return end;
    }
    let inside =
        |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b',');
    let more = text.as_bytes()[end..]
        .iter()
        .take_while(|byte| inside(byte))
        .count();
    examined(more);
    end + more
}

/// The words between a name and its verb.
const WORDS_MAX: usize = 8;

/// The secret of a sentence: a few words, a verb, and what can be no word:
/// `the password for user root is hunter2`.
pub(super) fn value(text: &str, name: Name, end: usize) -> Option<Range<usize>> {
    if !matches!(
        name.class,
        Class::Password | Class::Secret | Class::Said | Class::Code
    ) {
        return None;
    }
    let until = text.floor_char_boundary((end + LONGER_MAX * 2).min(text.len()));
    let until = end + text_end(&text[end..until]);
    let near = &text[end..until];
    if !near.starts_with(' ') {
        return None;
    }
    let mut at = end;
    let mut verb = false;
    for _ in 0..WORDS_MAX {
        let rest = &text[at..until];
        let gap = rest.len() - rest.trim_start_matches(' ').len();
        let word = rest[gap..].split(' ').next().unwrap_or_default();
        if gap == 0 || word.is_empty() {
            return None;
        }
        let start = at + gap;
        if verb {
            let inner = word.trim_start_matches(['"', '\'', '`', '\\', '«', '»', '„', '“']);
            let from = start + word.len() - inner.len();
            let secret = inner.trim_end_matches([
                '"', '\'', '`', '\\', '.', ',', ';', '!', '»', '«', '“', '”', ')',
            ]);
            examined(at - end);
            // The verb may have been another word: `is set to`.
            let shown = name.class == Class::Code && is_code(secret, false)
                || name.class != Class::Code && values::is_strong(secret)
                || name.class == Class::Password
                    && (values::is_secretish(secret) || values::is_pin(secret))
                    && !values::is_email(secret)
                    && !(secret.contains('-') && values::is_kubernetes_name(secret));
            if shown && !values::is_status(secret) {
                return Some(from..whole_end(text, from + secret.len(), until));
            }
        }
        // Another sentence begins, or the value of something else.
        if word.ends_with(['.', ';', ':', ',']) || word.contains('=') {
            return None;
        }
        verb = VERBS.binary_search(&word).is_ok();
        at = start + word.len();
    }
    None
}

/// How far after a name a separator may stand.
const LONGER_MAX: usize = 80;

/// A separator after a few more words: `Unseal Key 1:`, `Secret access key:`,
/// `password for elastic:`.
pub(super) fn longer(
    text: &str,
    head: Name,
    start: usize,
    end: usize,
) -> Option<(Separator, Name)> {
    let bytes = text.as_bytes();
    let near = &bytes[end..bytes.len().min(end + LONGER_MAX)];
    memchr::memchr2(b':', b'=', near)?;
    let mut at = end;
    let mut words = 0;
    for _ in 0..WORDS_MAX {
        let rest = &bytes[at..];
        let gap = rest
            .iter()
            .take(3)
            .take_while(|byte| **byte == b' ')
            .count();
        let inside = |byte: &&u8| {
            byte.is_ascii_alphanumeric()
                || !byte.is_ascii()
                || matches!(
                    byte,
                    b'\''
                        | b'('
                        | b')'
                        | b'_'
                        | b'@'
                        | b'.'
                        | b'-'
                        | b'%'
                        | b'"'
                        | b'`'
                        | b','
                        | b'['
                        | b']'
                )
        };
        let word = rest[gap..].iter().take(40).take_while(inside).count();
        // A longer word may be cut within a character.
        if gap == 0 || word == 0 || !text.is_char_boundary(at + gap + word) {
            return None;
        }
        at += gap + word;
        examined(gap + word);
        words += 1;
        // Another sentence begins, perhaps with a name of its own.
        if word > 2 && bytes[at - 1] == b'.' && bytes.get(at) == Some(&b' ') {
            return None;
        }
        let more = &text[end..at];
        if let Some(found) = separator::after(text, at)
            && (found.sep == Sep::Colon && (found.spaced || found.at == text.len())
                || found.sep == Sep::Assign && words <= 2 && !text[end..at].contains('('))
        {
            if matches!(
                more.trim(),
                "is" | "was" | "is now" | "set to" | "is set to"
            ) {
                return Some((found, head));
            }
            // `Recovery codes for joe: x`
            if head.class == Class::Code {
                return Some((found, head));
            }
            // `password hash algorithm: argon2id`
            let last = more.rsplit(' ').next().unwrap_or_default();
            if matches!(
                last,
                "algorithm" | "encoder" | "format" | "hasher" | "policy" | "strength"
            ) {
                return None;
            }
            let name = if words <= 4 {
                names::classify(&text[start..at])
            } else {
                None
            };
            // `Das Passwort lautet: x`
            let verb = more
                .rsplit(' ')
                .next()
                .is_some_and(|last| VERBS.binary_search(&last).is_ok());
            if verb && head.class == Class::Password {
                let class = Class::Secret;
                return Some((found, Name { class, ..head }));
            }
            // `password is generated for root@localhost: x`
            let made = ["generated", "temporary", "initial", "default", "new"]
                .iter()
                .any(|word| more.contains(word));
            let of = more
                .split(' ')
                .nth(1)
                .is_some_and(|first| PREPOSITIONS.contains(&first.to_ascii_lowercase().as_str()));
            let made = made && words <= 4 || of && head.class == Class::Password;
            // A list of words is a list of owners.
            if more.contains(',') && !of {
                return None;
            }
            let said = name.unwrap_or(Name {
                class: if made { Class::Secret } else { Class::Said },
                ..head
            });
            let said_so = head.class == Class::Password
                || head.class == Class::Said
                || made && head.class == Class::Secret;
            return (name.is_some() || said_so).then_some((found, said));
        }
    }
    None
}
