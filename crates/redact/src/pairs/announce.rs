//! What a line says about a secret that one of the next lines holds.

use std::ops::Range;

use super::{Context, ending, separator::Sep, verdict::is_code};
use crate::{
    finds::MARK,
    names::{self, Class, NAME_MAX, Name},
    scan::Scan,
    state::Pending,
    values,
    work::examined,
};

/// Notes that a command shows a file with the name of a secret, which the next lines hold.
pub(super) fn shown_file(scan: &mut Scan<'_>, start: usize, end: usize) -> bool {
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

/// Notes that a command prints a secret by its name: `echo $DB_PASSWORD`,
/// `vault kv get -field=password`.
pub(super) fn shown_value(scan: &mut Scan<'_>, name: Name, start: usize, end: usize) {
    let text = scan.text;
    let near = &text[text.floor_char_boundary(start.saturating_sub(48))..start];
    let opened = near.trim_end_matches(['"', '\\', '{', '$', '\'', '.']);
    let variable =
        near.ends_with(['$', '{']) && (opened.ends_with("echo ") || opened.ends_with("echo -n "));
    let field = opened.ends_with("printenv ")
        || opened.ends_with("-field=")
        || opened.ends_with("--field ");
    let path = opened.ends_with("jsonpath=")
        || near.ends_with("data.")
        || opened.ends_with("==> /run/secrets/")
        || opened.ends_with("op://");
    examined(near.len());
    if !(variable || field || path) || text.len() - end > 80 {
        return;
    }
    // What another command reads is not shown.
    let rest = &text[end..];
    if rest.contains('|') && !rest.contains("base64 -d") && !rest.contains("base64 --d") {
        return;
    }
    let class = Class::Secret;
    scan.next.pending = Some(Pending::Word {
        name: Name { class, ..name },
        lines: 1,
    });
}

/// What of a line of a file with the name of a secret is one.
pub(crate) fn file_line(line: &str) -> Option<Range<usize>> {
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
        && (values::is_pin(secret) || !values::is_measure(secret))
        && !values::is_status(secret)
        && (!single || from != start || !values::is_word(secret));
    shown.then_some(from..trimmed.len())
}

/// The last word of a line in a dialog, if it is base64.
pub(crate) fn last_word(line: &str) -> Option<Range<usize>> {
    let trimmed = line.trim_end().trim_end_matches(['"', '\'']);
    let start = trimmed.rfind([' ', '"', '\'']).map_or(0, |at| at + 1);
    let word = &trimmed[start..];
    let base64 = word.len() >= 6
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    let shown = word.ends_with('=') || !values::is_words(word) || word.len() >= 16;
    (base64 && shown).then_some(start..trimmed.len())
}

/// The words that a shell tests: `+ '[' -n x ']'`, `+ [[ x == x ]]`, `+ test -z x`.
pub(crate) fn tested(line: &str) -> Vec<Range<usize>> {
    let content = line.trim_start().trim_start_matches('+').trim_start();
    let tests = ["[", "'['", "test ", "case "]
        .iter()
        .any(|test| content.starts_with(test));
    if !tests || !line.trim_start().starts_with('+') {
        return Vec::new();
    }
    let base = line.len() - content.len();
    let mut at = base;
    let mut found = Vec::new();
    let mut tests = false;
    for word in content.split(' ') {
        let inner = word.trim_matches('\'');
        let shown =
            tests && inner.len() > 3 && !values::is_status(inner) || values::is_secretish(inner);
        tests = matches!(word, "-n" | "-z" | "=" | "==" | "!=");
        if shown && !values::is_placeholder(inner) {
            let start = at + (word.len() - word.trim_start_matches('\'').len());
            found.push(start..start + inner.len());
        }
        at += word.len() + 1;
    }
    examined(content.len());
    found
}

/// What the next lines may hold, if this one ends after the separator.
pub(super) fn pending(name: Name, context: &Context, flag: bool) -> Option<Pending> {
    let column = context.column;
    // `Enter password for user admin:`
    if name.class == Class::Said && context.sep == Sep::Colon {
        let class = Class::Secret;
        return Some(Pending::Word {
            name: Name { class, ..name },
            lines: 3,
        });
    }
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
        Sep::Assign if context.before == Some(b'[') || context.alone => {
            Some(Pending::Scalar { name, column })
        }
        Sep::Colon | Sep::Assign | Sep::Pipe | Sep::Tag | Sep::Comma => None,
    }
}

/// Notes that a line speaks of a password without saying it: the next one may.
pub(super) fn announce(scan: &mut Scan<'_>, name: Name, ident: Range<usize>) {
    let end = ident.end;
    if let Some(range) = ending::value(scan.text, name, end) {
        scan.find(range, name.kind);
        return;
    }
    if scan.next.pending.is_some() {
        return;
    }
    let until = scan
        .text
        .floor_char_boundary((end + 120).min(scan.text.len()));
    let near = &scan.text[end..until];
    examined(near.len());
    // It was said, and is hidden already.
    if near.contains(MARK) {
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
    let asks = until == scan.text.len() && scan.text[..scan.end].ends_with(':');
    // `Copy the following token:`, `Your token is shown below.`
    let points = || {
        ["below", "following", "once", "save", "copy", "store"]
            .iter()
            .any(|word| near.contains(word))
    };
    if (asks || until == scan.text.len() && points())
        && matches!(name.class, Class::Secret | Class::Said)
    {
        let class = Class::Session;
        scan.next.pending = Some(Pending::Word {
            name: Name { class, ..name },
            lines: 3,
        });
    }
    if name.class != Class::Password {
        return;
    }
    let class = if asks { Class::Secret } else { Class::Weak };
    let lines = if asks { 3 } else { 1 };
    scan.next.pending = Some(Pending::Word {
        name: Name { class, ..name },
        lines,
    });
}

/// Whether a word that stands alone in a line is the value that an earlier line announced.
pub(crate) fn lone_word(line: &str, name: Name) -> Option<Range<usize>> {
    let trimmed = line.trim_end().trim_end_matches([',', '\\']).trim_end();
    let word = trimmed.trim_start();
    let word = ["- ", "> ", "| ", "* "]
        .iter()
        .find_map(|mark| word.strip_prefix(mark))
        .unwrap_or(word)
        .trim_start();
    // `New value: x`
    let word = match word.split_once(": ") {
        Some((label, value))
            if label.len() <= 24
                && (names::carries(label)
                    || names::classify(label).is_none()
                        && label.to_ascii_lowercase().starts_with("generated")) =>
        {
            value.trim_start()
        }
        _ => word,
    };
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
            single
                && word.len() >= 10
                && values::is_random(word)
                && (values::is_mixed(word) || values::is_scrambled(word))
        }
        Class::Session => single && word.len() >= 16 && values::is_random(word),
        Class::Password => quoted || single,
        Class::Said => single && values::is_strong(word),
        Class::Code => is_code(word, true),
        _ => {
            quoted
                || single
                    && (values::is_secretish(word) || !values::is_word(word))
                    && (name.kind == "password" && values::is_pin(word)
                        || !values::is_measure(word))
                    && !values::is_location(word)
        }
    };
    (fits && shown).then(|| start..start + word.len())
}
