//! Values that only a space separates from their name: flags, lines of settings, SQL, and
//! sentences.

use std::ops::Range;

use super::{
    Context,
    extent::{bare, quoted_end},
    separator::Sep,
    verdict::{How, hides},
};
use crate::{
    names::{Class, Name},
    scan::Scan,
    state::Pending,
    values,
    work::examined,
};

/// The value after a name and a space, if it is a secret.
pub(super) fn value(
    scan: &mut Scan<'_>,
    name: Name,
    ident: Range<usize>,
    flag: bool,
) -> Option<Range<usize>> {
    let text = scan.text;
    let bytes = text.as_bytes();
    let end = ident.end;
    let closes = |byte: &&u8| matches!(byte, b'"' | b'\'' | b'\\' | b'`');
    let closers = bytes[end..].iter().take(4).take_while(closes).count();
    let gap = bytes[end + closers..]
        .iter()
        .take(16)
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count();
    let at = end + closers + gap;
    let rest = &text[at..];
    let begins = ident.start == 0 || !bytes[ident.start - 1].is_ascii_alphanumeric();
    let flag = flag && begins;
    if rest.is_empty() || rest == "\\" {
        if flag
            && matches!(
                name.class,
                Class::Password | Class::Secret | Class::Object | Class::Weak
            )
        {
            scan.next.pending = Some(Pending::Word {
                name: Name {
                    class: Class::Password,
                    ..name
                },
                lines: 1,
            });
        }
        return None;
    }
    let context = Context {
        sep: Sep::Assign,
        spaced: true,
        prose: !flag,
        alone: false,
        before: None,
        enclosing: None,
        escapes: 0,
        tight: false,
        column: ident.start,
    };
    // PASSWORD('x')
    let call = gap == 0
        && (rest.starts_with("('") || rest.starts_with("(\"") || rest.starts_with("(\\\""))
        && is_setter(&text[ident.clone()]);
    // `ALTER+USER+app+PASSWORD+'x'` in the query of an address
    let plus = gap == 0 && (rest.starts_with("+'") || rest.starts_with("+\""));
    let quote_at = if call || plus { at + 1 } else { at };
    let escapes = bytes[quote_at..]
        .iter()
        .take(4)
        .take_while(|byte| **byte == b'\\')
        .count();
    let quote = bytes
        .get(quote_at + escapes)
        .filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
    if let Some(quote) = quote.filter(|_| gap > 0 || call || plus) {
        let start = quote_at + escapes + 1;
        let end = quoted_end(text, start, *quote, escapes);
        let given = &text[start..end];
        let how = How {
            context,
            quoted: true,
            more: false,
        };
        // `"config" "set" "requirepass" "x"`
        let listed = closers > 0 && escapes == 0 && {
            let before = &text[..ident.start];
            before.ends_with("\" \"") || before.ends_with("' '")
        };
        let shared = text[ident.clone()].to_ascii_lowercase().ends_with("psk");
        let strict =
            flag || call || shared || name.class == Class::Password && (closers == 0 || listed);
        let redis = closers > 0
            && bytes[ident.start..ident.end]
                .iter()
                .all(u8::is_ascii_uppercase)
            && name.class == Class::Weak;
        let shown = strict && hides(name, given, Some(how))
            || redis && !values::is_placeholder(given)
            || values::is_random(given) && given.len() >= 16;
        // password "realm" x
        if strict && name.class == Class::Password && !flag && !call {
            let after = end + escapes + 1;
            let next = text.get(after..).and_then(|rest| rest.strip_prefix(' '));
            if let Some(next) = next {
                let from = text.len() - next.len();
                let to = bare(
                    text,
                    from,
                    text.len().min(from + values::SEEN_MAX),
                    &context,
                );
                if values::is_secretish(&text[from..to]) || values::is_pin(&text[from..to]) {
                    return Some(start..to);
                }
            }
        }
        // AUTH "user" "x"
        let end = if redis {
            text.trim_end().trim_end_matches('"').len().max(end)
        } else {
            end
        };
        return (shown && !given.contains("](")).then_some(start..end);
    }
    // `Setting property 'db.password' to value 'x'`
    if closers > 0 && gap == 1 {
        return after_is(text, name, at);
    }
    if gap == 0
        || closers > 0
        || rest.starts_with(['-', '|', '>', '<', '&', '(', '=', '{', '#']) && !flag
        || rest.starts_with('-')
    {
        return None;
    }
    // `enable secret 5 x`: the number says how it is hidden
    let at = match &bytes[at..] {
        [b'0'..=b'9', b' ', next, ..] if next.is_ascii_graphic() && !flag => at + 2,
        _ => at,
    };
    let end = bare(text, at, text.len().min(at + values::SEEN_MAX), &context);
    let word = &text[at..end];
    let how = How {
        context,
        quoted: false,
        more: false,
    };
    let whole = |end: usize| {
        at..if end + 4 > at + values::SEEN_MAX {
            bare(text, at, text.len(), &context)
        } else {
            end
        }
    };
    if flag && is_told(word, &text[end..]) {
        return None;
    }
    if flag {
        let shown = match name.class {
            Class::Cookie | Class::Header => word.contains('=') || values::is_secretish(word),
            _ => hides(name, word, Some(how)),
        };
        return shown.then(|| whole(end));
    }
    // ((user shop)(password x))
    let opened = ident.start > 0 && bytes[ident.start - 1] == b'(';
    if opened
        && gap == 1
        && bytes.get(end) == Some(&b')')
        && word.len() > 3
        && !values::is_word(word)
        && hides(name, word, Some(how))
    {
        return Some(at..end);
    }
    let row = gap > 1 && is_row(text, name, &ident, word, end);
    (row || said(text, name, &ident, word, end))
        .then(|| whole(end))
        .or_else(|| after_is(text, name, at))
}

/// Whether a word after a name is its value: in a line of settings, in `.netrc`, of a
/// variable, or in a sentence that says so.
fn said(text: &str, name: Name, ident: &Range<usize>, word: &str, end: usize) -> bool {
    if values::is_placeholder(word) || values::is_status(word) {
        return false;
    }
    // A word of a sentence is the value of nothing but a password.
    if name.class != Class::Password && values::is_word(word) {
        return false;
    }
    let written = &text[ident.clone()];
    let directive = ["requirepass", "masterauth", "bindpw"]
        .iter()
        .any(|directive| written.eq_ignore_ascii_case(directive));
    // `serviceAccountToken expirationSeconds=3607`, `password varchar(255)`
    if is_other(word) && !directive || name.foreign && !values::is_secretish(word) {
        return false;
    }
    let before = &text[text.floor_char_boundary(ident.start.saturating_sub(96))..ident.start];
    examined(before.len());
    let after = text[end..].trim_start_matches(['.', ';', ',', ' ', '}', ')', '\\']);
    let last = after.is_empty() || after.starts_with(['"', '\'', '`', '\r']);
    let word = word.trim_end_matches(['.', ',', ';']);
    let password = name.class == Class::Password;
    let lower = written.to_ascii_lowercase();
    let plain = matches!(
        lower.as_str(),
        "password" | "pass" | "passwd" | "passphrase" | "passcode" | "pwd"
    );
    // A string of JSON is a line of its own.
    let line = before
        .rsplit(['"', '\'', '`'])
        .next()
        .unwrap_or_default()
        .trim();
    let alone = matches!(line, "" | "-" | "#" | ">" | "+");
    let secretish = values::is_secretish(word) || password && values::is_pin(word);
    // `using RSA key 3AA5C34371567BD2`
    if lower.ends_with("key")
        && word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'A'..=b'F'))
    {
        return false;
    }
    // wpa-psk x, pre-shared-key x
    if alone && last && secretish && (lower.contains("psk") || lower.ends_with("shared-key")) {
        return true;
    }
    // setup key 8092c31d-d708-4fd4-af53-e6d58e37a8b9
    if name.class == Class::Secret && lower.ends_with("key") && values::is_uuid(word) {
        return true;
    }
    // user admin insecure-password x
    if password && written.contains('-') && last && !values::is_word(word) {
        let named = word.contains('-') && values::is_kubernetes_name(word);
        let measure = values::is_measure(word) && !values::is_pin(word);
        return !(measure || values::is_location(word) || named);
    }
    // requirepass x, bindpw x, auth_pass x
    if password && !plain && alone && last {
        return true;
    }
    if directive {
        return secretish || last;
    }
    let netrc = before.contains("login ")
        && (before.contains("machine ")
            || before.trim_start().starts_with("login ")
            || before.contains("default "));
    if password && netrc {
        return true;
    }
    let variable = written.contains('_') && !written.bytes().any(|byte| byte.is_ascii_lowercase());
    if variable {
        return values::is_random(word)
            || password && secretish && !values::is_identifier(word)
            || secretish
                && ["ENV", "ARG", "setenv", "setx", "-x", "-gx", "-Ux", "set"]
                    .iter()
                    .any(|word| before.trim_end().ends_with(word));
    }
    if password && plain {
        let announced = [
            "with", "using", "and", "enable", "the", "new", "user", "old", "is", ">", "<", "wrong",
            "bad", "invalid",
        ]
        .iter()
        .any(|word| before.trim_end().ends_with(word));
        // A line of the configuration of a router.
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        let announced = announced
            || last
                && before.len() < 96
                && matches!(
                    first,
                    "neighbor" | "enable" | "username" | "nmcli" | "crypto" | "area" | "+"
                );
        let ftp =
            written == "PASS" && last && (!word.contains(['/', ':']) || word.starts_with("oauth:"));
        let algorithm = [
            "sha", "md5", "aes", "v1", "v2", "v3", "oauth", "pbkdf", "argon", "base64", "utf",
            "x509", "bcrypt", "http",
        ]
        .iter()
        .any(|start| word.to_ascii_lowercase().starts_with(start));
        return secretish
            && !algorithm
            && (alone && last
                || announced
                || ftp
                || values::is_random(word)
                || last && values::is_strong(word));
    }
    if password {
        return values::is_random(word) || last && values::is_strong(word);
    }
    let strong = matches!(name.class, Class::Secret) && values::is_random(word) && word.len() >= 12
        || name.class == Class::Object
            && values::is_random(word)
            && values::is_mixed(word)
            && word.len() >= 20;
    // stats auth joe:x
    if lower == "auth" && before.trim_end().ends_with("stats") && word.contains(':') {
        return true;
    }
    // enable secret 5 x, username joe secret x
    let first = line.split_ascii_whitespace().next().unwrap_or_default();
    if name.class == Class::Object && last && secretish && matches!(first, "enable" | "username") {
        return true;
    }
    // AUTH hunter2, as a client of Redis says it
    let auth = written == "AUTH" && secretish && last;
    strong || auth
}

/// Words that follow the name of a flag in a sentence about it.
#[rustfmt::skip]
const TOLD: &[&str] = &[
    "and", "argument", "as", "at", "because", "by", "can", "cannot", "flag", "flags", "for", "from",
    "if", "in", "instead", "into", "is", "must", "of", "on", "only", "option", "options", "or",
    "parameter", "requires", "should", "that", "to", "via", "when", "which", "will", "with", "without",
];

/// Whether a sentence goes on after a flag: `Using --password via the CLI is insecure.`
fn is_told(word: &str, rest: &str) -> bool {
    let next = rest.split_ascii_whitespace().next().unwrap_or_default();
    rest.starts_with(' ')
        && (values::is_word(next) || next.starts_with("--"))
        && TOLD.binary_search(&word).is_ok()
}

/// Whether the call of a function with this name gives away its argument.
fn is_setter(written: &str) -> bool {
    let lower = written.to_ascii_lowercase();
    let name = lower.rsplit('.').next().unwrap_or_default();
    ["set", "with", "use", "put", "add"]
        .iter()
        .any(|verb| name.starts_with(verb))
        || matches!(
            name,
            "password" | "passwd" | "pwd" | "passphrase" | "token" | "apikey" | "api_key"
        )
}

/// Whether a word is the last column of a table that has the name in its first one.
fn is_row(text: &str, name: Name, ident: &Range<usize>, word: &str, end: usize) -> bool {
    if ident.start >= 24 || !text[..ident.start].trim_start().is_empty() {
        return false;
    }
    let last = text[end..].trim_end().is_empty();
    let shown = match name.class {
        Class::Password => {
            values::is_pin(word) || !values::is_word(word) && !values::is_measure(word)
        }
        Class::Secret | Class::Object => values::is_strong(word) || values::is_uuid(word),
        Class::Weak | Class::Session => values::is_random(word) && word.len() >= 16,
        _ => false,
    };
    last && shown
        && !values::is_placeholder(word)
        && !values::is_status(word)
        && !values::is_location(word)
}

/// Whether a word is the name of another value, or the type of a column.
fn is_other(word: &str) -> bool {
    let letters = word
        .bytes()
        .take_while(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.'))
        .count();
    let rest = &word.as_bytes()[letters..];
    letters > 1
        && match rest {
            [b'=', value, ..] => *value != b'=',
            [b'(', digit, ..] => digit.is_ascii_digit(),
            _ => false,
        }
}

/// The word after `is` or `set to`: `the password is x`.
fn after_is(text: &str, name: Name, at: usize) -> Option<Range<usize>> {
    if !matches!(name.class, Class::Password | Class::Secret) {
        return None;
    }
    let rest = &text[at..];
    let verb = [
        "is set to ",
        "was set to ",
        "set to ",
        "changed to ",
        "changed from ",
        "to value ",
        "reset to ",
        "is: ",
        "is now ",
        "is ",
        "was ",
        "to ",
    ]
    .iter()
    .find(|verb| rest.starts_with(**verb))?;
    let start = at
        + verb.len()
        + (rest[verb.len()..].len()
            - rest[verb.len()..]
                .trim_start_matches(['"', '\'', '`', '\\'])
                .len())
        .min(4);
    let context = Context {
        sep: Sep::Assign,
        spaced: true,
        prose: true,
        alone: false,
        before: None,
        enclosing: None,
        escapes: 0,
        tight: false,
        column: at,
    };
    let end = bare(
        text,
        start,
        text.len().min(start + values::SEEN_MAX),
        &context,
    );
    let end = if end + 4 > start + values::SEEN_MAX {
        bare(text, start, text.len(), &context)
    } else {
        end
    };
    let word = text[start..end].trim_end_matches(['.', ',', ';']);
    let quoted = start > at + verb.len();
    let shown = values::is_random(word)
        || name.class == Class::Password
            && (values::is_secretish(word)
                || values::is_pin(word)
                || quoted && !values::is_status(word));
    (shown && !values::is_placeholder(word)).then(|| start..start + word.len())
}
