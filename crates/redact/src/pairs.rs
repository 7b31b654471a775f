//! Secrets that are known by the name of their key: `password=...`, `"token": "..."`,
//! `--api-key ...`, `{Name:DB_PASSWORD Value:...}`.

mod context;
mod extent;
mod fields;
mod reference;
mod separator;
mod space;
mod structure;
mod value;
mod verdict;

use std::ops::Range;

use self::{
    context::{Context, context},
    separator::{Sep, Separator},
};
pub(super) use self::{
    extent::quoted_end,
    fields::value_line,
    structure::{in_map, is_secret_field},
    verdict::hides,
};
use super::{
    names::{self, Class, NAME_MAX, Name},
    scan::Scan,
    state::Pending,
    values,
    work::examined,
};

/// How far after a name a separator may stand.
const LONGER_MAX: usize = 80;

/// Looks at the name that has a word for a secret at `hit`.
pub(super) fn at(scan: &mut Scan<'_>, hit: usize) {
    if hit < scan.names_until || hit < scan.done_until {
        return;
    }
    let text = scan.text;
    let bytes = text.as_bytes();
    let (start, end) = extent(bytes, scan.done_until, hit);
    scan.names_until = end;
    if !may_separate(&bytes[end..]) {
        return;
    }
    let written = &text[start..end];
    let flag = written.starts_with('-');
    let ident = written
        .trim_start_matches(['-', '.', '_'])
        .trim_end_matches(['.', '-']);
    let written_at = start;
    let end =
        start + (written.len() - written.trim_start_matches(['-', '.', '_']).len()) + ident.len();
    let start = end - ident.len();
    if ident.ends_with("Secret") && (is_kind(text, start) || text[end..].starts_with('{')) {
        scan.next.secret_kind = true;
        return;
    }
    if shown_file(scan, start, end) {
        return;
    }
    let Some((name, name_start)) = name(text, start, end) else {
        return;
    };
    if is_material(ident) {
        return;
    }
    if fields::names_a_value(scan, start, end, name) {
        return;
    }
    // `variable "db_password" {`
    if text[end..].starts_with("\" {") && text[..start].ends_with("variable \"") {
        scan.next.pending = Some(Pending::Value {
            name: fields::strict(name),
            lines: 5,
        });
        return;
    }
    let (mut found, name, words) = match separator::after(text, end) {
        Some(found) => (found, name, name_start < start),
        None => {
            if let Some(range) = space::value(scan, name, written_at..end, flag) {
                scan.find(range, name.kind);
                return;
            }
            match longer(text, name, name_start, end) {
                Some((found, longer)) => (found, longer, true),
                None => {
                    announce(scan, name, start..end);
                    return;
                }
            }
        }
    };
    let mut context = context(text, name_start, &found);
    context.prose |= words;
    // `"--token", "x"` are arguments; otherwise a comma separates only in a tuple.
    let tuple = matches!(context.before, Some(b'(' | b'[' | b'{'))
        && !text[end..end + found.closers].contains(')');
    if found.sep == Sep::Comma && !flag && !tuple {
        return;
    }
    // `arn:aws:secretsmanager:eu-west-1:123456789012:secret:name`
    if found.sep == Sep::Colon
        && !found.spaced
        && name.class != Class::Password
        && bytes[..start].last() == Some(&b':')
    {
        return;
    }
    if found.sep == Sep::Tag && (bytes[..start].last() != Some(&b'<') || is_blank(text, found.at)) {
        return;
    }
    if found.sep == Sep::Colon && !found.spaced {
        if is_tag(text, start, found.at) {
            return;
        }
        // `${PASSWORD:?must be set}`, `${PASSWORD:-x}`
        if text[..start].ends_with("${") {
            match &bytes[found.at..] {
                [b'?' | b'+', ..] | [b'-', b'}', ..] => return,
                [b'-', ..] => found.at += 1,
                _ => {}
            }
        }
    }
    if found.sep == Sep::Comma
        && !flag
        && text[found.at..]
            .trim_start_matches(['"', '\''])
            .starts_with("--")
    {
        return;
    }
    if found.at >= scan.end {
        scan.next.pending = pending(name, &context, flag);
        return;
    }
    value::read(scan, name, found.at, &context);
}

/// Whether a tag is a blank to fill in: `mongodb://<user>:<password>@host`.
fn is_blank(text: &str, at: usize) -> bool {
    let near = &text[at..text.floor_char_boundary((at + 200).min(text.len()))];
    near.starts_with(['@', ':', '/', '?', '&']) && !near.contains("</")
}

/// Whether what looks like a value is the tag of an image: `registry/token-api:3f2a9c1`.
fn is_tag(text: &str, start: usize, at: usize) -> bool {
    let rest = &text.as_bytes()[at..];
    let hex = rest
        .iter()
        .take(65)
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    text[..start].ends_with('/')
        && (7..=64).contains(&hex)
        && rest
            .get(hex)
            .is_none_or(|byte| !byte.is_ascii_alphanumeric())
}

/// Whether a name is a piece of base64 that happens to end like one.
fn is_material(ident: &str) -> bool {
    ident.len() >= 24
        && ident.to_ascii_lowercase().ends_with("pw")
        && values::is_mixed(ident)
        && values::distinct(ident) >= 16
}

/// Notes that a command shows a file with the name of a secret, which the next lines hold.
fn shown_file(scan: &mut Scan<'_>, start: usize, end: usize) -> bool {
    let text = scan.text;
    // The length first: a long rest of the line would be read again for every name.
    if text.len() - end > 8 {
        return false;
    }
    let closes = text[end..]
        .trim_end_matches(['"', '\'', '\\', '}', ')', ' '])
        .is_empty();
    if !closes {
        return false;
    }
    let near = &text[text.floor_char_boundary(start.saturating_sub(96))..start];
    examined(near.len());
    let path = near.rfind([' ', '"', '\'']).map_or(0, |at| at + 1);
    let command = near[..path]
        .trim_end()
        .rsplit([' ', '"', '\'', '/', '('])
        .next();
    if !matches!(
        command,
        Some("cat" | "less" | "head" | "tail" | "more" | "type" | "base64" | "read")
    ) {
        return false;
    }
    let stem = text[start..end]
        .trim_start_matches('.')
        .split('.')
        .next()
        .unwrap_or_default();
    let Some(name) = names::classify(stem) else {
        return false;
    };
    if !matches!(name.class, Class::Password | Class::Secret | Class::Object) {
        return false;
    }
    scan.next.pending = Some(Pending::File { name, lines: 8 });
    true
}

/// What of a line of a file with the name of a secret is one.
pub(super) fn file_line(line: &str) -> Option<Range<usize>> {
    let trimmed = line.trim_end();
    let start = trimmed.rfind([' ', '\t']).map_or(0, |at| at + 1);
    let word = &trimmed[start..];
    let single = trimmed.trim_start().len() == word.len();
    // `[smtp.example.com]:587 joe@example.com:x`
    let from = match word
        .rfind(':')
        .filter(|_| !single || !values::is_random(word))
    {
        Some(colon) => start + colon + 1,
        None if single => start,
        None => return None,
    };
    let secret = &trimmed[from..];
    let shown = secret.len() >= 4
        && !values::is_placeholder(secret)
        && !values::is_measure(secret)
        && !values::is_status(secret)
        && (!single || from != start || !values::is_word(secret));
    shown.then_some(from..trimmed.len())
}

/// Whether what follows a name can separate it from a value.
fn may_separate(rest: &[u8]) -> bool {
    match rest {
        [b'(', quote, ..] => matches!(quote, b'\'' | b'"'),
        [byte, ..] => {
            !byte.is_ascii_alphanumeric()
                && !matches!(
                    byte,
                    b'/' | b'@'
                        | b'('
                        | b'['
                        | b'#'
                        | b'%'
                        | b'&'
                        | b'$'
                        | b'?'
                        | b'!'
                        | b';'
                        | b'+'
                        | b'~'
                )
        }
        [] => true,
    }
}

/// The extent of the name around `hit`.
fn extent(bytes: &[u8], from: usize, hit: usize) -> (usize, usize) {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let near = from.max(hit.saturating_sub(NAME_MAX)).min(hit);
    let before = bytes[near..hit]
        .iter()
        .rev()
        .take_while(|byte| inside(byte))
        .count();
    let after = bytes[hit..]
        .iter()
        .take(NAME_MAX)
        .take_while(|byte| inside(byte))
        .count();
    examined(before + after);
    (hit - before, hit + after)
}

/// Whether a word is the value of `kind`.
fn is_kind(text: &str, start: usize) -> bool {
    let near = &text[text.floor_char_boundary(start.saturating_sub(16))..start];
    let key = near.trim_end_matches(['"', '\'', '\\', ' ', '=', ':']);
    key.len() < near.len() && key.to_ascii_lowercase().ends_with("kind")
}

/// What the name is, and where it begins; it may have a word before it: `API key`.
fn name(text: &str, start: usize, end: usize) -> Option<(Name, usize)> {
    let ident = &text[start..end];
    let before = || {
        let near = &text.as_bytes()[start.saturating_sub(24)..start];
        let near = near.strip_suffix(b" ")?;
        let word = near
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        (word > 0).then(|| start - 1 - word)
    };
    // Any word may stand before `key` in a sentence.
    let with_word = |from: usize| {
        let name = names::classify(&text[from..end])?;
        (name.class != Class::Opaque).then_some((name, from))
    };
    if matches!(ident.len(), 2..=6)
        && matches!(
            ident.to_ascii_lowercase().as_str(),
            "key" | "keys" | "phrase" | "id"
        )
    {
        return with_word(before()?);
    }
    Some((names::classify(ident)?, start))
}

/// A separator after a few more words: `Unseal Key 1:`, `Secret access key:`,
/// `password for elastic:`.
fn longer(text: &str, head: Name, start: usize, end: usize) -> Option<(Separator, Name)> {
    let bytes = text.as_bytes();
    let near = &bytes[end..bytes.len().min(end + LONGER_MAX)];
    memchr::memchr2(b':', b'=', near)?;
    let mut at = end;
    let mut words = 0;
    for _ in 0..4 {
        let rest = &bytes[at..];
        let gap = rest
            .iter()
            .take(3)
            .take_while(|byte| **byte == b' ')
            .count();
        let inside = |byte: &&u8| {
            byte.is_ascii_alphanumeric()
                || matches!(
                    byte,
                    b'\'' | b'(' | b')' | b'_' | b'@' | b'.' | b'-' | b'%' | b'"' | b'`'
                )
        };
        let word = rest[gap..].iter().take(40).take_while(inside).count();
        if gap == 0 || word == 0 {
            return None;
        }
        at += gap + word;
        examined(gap + word);
        words += 1;
        let more = &text[end..at];
        if let Some(found) = separator::after(text, at)
            && (found.sep == Sep::Colon && (found.spaced || found.at == text.len())
                || found.sep == Sep::Assign && words <= 2)
        {
            if matches!(
                more.trim(),
                "is" | "was" | "is now" | "set to" | "is set to"
            ) {
                return Some((found, head));
            }
            let name = names::classify(&text[start..at]);
            // `password is generated for root@localhost: x`
            let made = ["generated", "temporary", "initial", "default", "new"]
                .iter()
                .any(|word| more.contains(word));
            let said = name.unwrap_or(Name {
                class: if made { Class::Secret } else { Class::Weak },
                ..head
            });
            return (name.is_some() || head.class == Class::Password).then_some((found, said));
        }
    }
    None
}

/// What the next lines may hold, if this one ends after the separator.
fn pending(name: Name, context: &Context, flag: bool) -> Option<Pending> {
    let column = context.column;
    // `Using certificate key:`
    if name.class == Class::Weak && context.sep == Sep::Colon && context.prose {
        let class = Class::Session;
        return Some(Pending::Word {
            name: Name { class, ..name },
            lines: 2,
        });
    }
    if !matches!(name.class, Class::Password | Class::Secret | Class::Object) {
        return None;
    }
    match context.sep {
        Sep::Comma if flag => Some(Pending::Word { name, lines: 1 }),
        Sep::Colon
            if context.prose
                || context
                    .before
                    .is_some_and(|byte| byte.is_ascii_alphanumeric()) =>
        {
            Some(Pending::Word { name, lines: 3 })
        }
        Sep::Colon if context.alone => Some(Pending::Scalar { name, column }),
        // `["password"]=>`
        Sep::Assign if context.before == Some(b'[') => Some(Pending::Scalar { name, column }),
        Sep::Colon | Sep::Assign | Sep::Pipe | Sep::Tag | Sep::Comma => None,
    }
}

/// Notes that a line speaks of a password without saying it: the next one may.
fn announce(scan: &mut Scan<'_>, name: Name, ident: Range<usize>) {
    let end = ident.end;
    if scan.next.pending.is_some() {
        return;
    }
    // A name that is a line of its own.
    if matches!(name.class, Class::Password | Class::Secret | Class::Weak)
        && end == scan.end
        && scan.text[..ident.start]
            .bytes()
            .take(NAME_MAX)
            .all(|byte| byte == b' ')
        && ident.start < NAME_MAX
    {
        let class = Class::Session;
        scan.next.pending = Some(Pending::Word {
            name: Name { class, ..name },
            lines: 1,
        });
        return;
    }
    if name.class != Class::Password {
        return;
    }
    let until = scan
        .text
        .floor_char_boundary((end + 120).min(scan.text.len()));
    let asks = until == scan.text.len() && scan.text[..scan.end].ends_with(':');
    let class = if asks { Class::Secret } else { Class::Weak };
    let lines = if asks { 3 } else { 1 };
    scan.next.pending = Some(Pending::Word {
        name: Name { class, ..name },
        lines,
    });
}

/// Whether a word that stands alone in a line is the value that an earlier line announced.
pub(super) fn lone_word(line: &str, name: Name) -> Option<Range<usize>> {
    let trimmed = line.trim_end().trim_end_matches([',', '\\']).trim_end();
    let word = trimmed.trim_start();
    let word = word.strip_prefix("- ").unwrap_or(word).trim_start();
    let quoted = word.starts_with(['"', '\'']);
    let word = word.trim_matches(['"', '\'', '`']);
    let start = trimmed.rfind(word)?;
    let fits = !word.is_empty()
        && !word.starts_with('-')
        && !values::is_placeholder(word)
        && !word.contains(": ");
    let single = !word.contains([' ', '\t']);
    let shown = match name.class {
        Class::Weak => {
            single && word.len() >= 10 && values::is_random(word) && values::is_mixed(word)
        }
        Class::Session => single && word.len() >= 16 && values::is_random(word),
        Class::Password => quoted || single,
        _ => quoted || single && (values::is_secretish(word) || !values::is_word(word)),
    };
    (fits && shown).then(|| start..start + word.len())
}
