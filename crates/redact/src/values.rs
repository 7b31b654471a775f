//! What a value looks like: a placeholder, a number, an address, a name, a word, or
//! something that nobody writes by hand.

mod text;

pub(super) use self::text::{is_email, is_pair, is_pin, is_scrambled, is_sentence, is_strong};
use super::finds::MARK;

/// The part of a value that is looked at. A longer one is a secret if its name is one's.
pub(super) const SEEN_MAX: usize = 128;

/// Words that stand in the place of a value and say something about it.
#[rustfmt::skip]
const STATUS: &[&str] = &[
    "accepted", "added", "already", "an", "and", "anonymous", "any", "apikey", "are", "array",
    "authentication", "authorized", "auto", "available", "await", "basic", "bearer", "blank",
    "bool", "boolean", "but", "bytes", "cache", "cached", "can", "cannot", "changed", "checked",
    "client", "configured", "could", "created", "default", "deleted", "denied", "digest",
    "disabled", "does", "does-not-match", "doesn't", "empty", "enabled", "encrypted", "eof",
    "error", "exists", "expected", "expired", "expires", "external", "fail", "failed", "failure",
    "false", "field", "file", "for", "forbidden", "found", "from", "generated", "has", "hidden",
    "ignored", "in", "include", "incorrect", "int", "integer", "internal", "invalid", "is",
    "issued", "kubernetes", "length", "loaded", "locked", "mandatory", "masked", "match", "matched",
    "matches", "max", "min", "mismatch", "missing", "must", "n/a", "needs", "negotiate", "never",
    "nil", "no", "none", "not", "not_found", "null", "number", "object", "off", "ok", "okay",
    "omit", "omitted", "on", "optional", "passed", "pending", "present", "prompt", "protected",
    "provided", "read", "redacted", "refreshed", "rejected", "renewed", "required", "reset",
    "revoked", "rotated", "same-origin", "sensitive", "set", "should", "skipped", "static", "str",
    "string", "succeeded", "success", "the", "too", "true", "type", "unauthorized", "undefined",
    "unknown", "unset", "unsupported", "updated", "used", "using", "valid", "validated",
    "validation", "verified", "was", "were", "will", "with", "wrong", "yes", "your",
];

/// Tags of YAML for values that are somewhere else, or encrypted.
const TAGS: &[&str] = &[
    "vault",
    "secret",
    "reference",
    "env_var",
    "env",
    "ref",
    "sub",
    "getatt",
    "include",
    "lookup",
    "importvalue",
];

/// Whether a value is not a secret, whatever its name: nothing, a mask, or a reference to
/// another value.
pub(super) fn is_placeholder(value: &str) -> bool {
    let value = value.trim();
    // What SOPS has encrypted.
    if value.starts_with("ENC[AES256_GCM,") {
        return true;
    }
    if value.len() > SEEN_MAX {
        return false;
    }
    value.is_empty()
        || value.starts_with(MARK)
        || is_mask(value)
        || is_reference(value)
        || matches!(
            value,
            "0" | "1" | "~" | "''" | "\"\"" | "[]" | "{}" | "()" | "\\" | ">" | "|"
        )
        || value.eq_ignore_ascii_case("<nil>")
}

/// Whether a word says something about a value instead of being one.
pub(super) fn is_status(word: &str) -> bool {
    let word = word.trim_matches(|one: char| !one.is_alphanumeric());
    if word.is_empty() || word.len() > 16 {
        return false;
    }
    let mut lower = [0; 16];
    let lower = &mut lower[..word.len()];
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    STATUS
        .binary_search_by(|status| status.as_bytes().cmp(lower))
        .is_ok()
}

/// `****`, `xxxxx`, `<hidden>`, `[FILTERED]`, `REDACTED`.
fn is_mask(value: &str) -> bool {
    let inner = value.trim_matches(|one| {
        matches!(
            one,
            '<' | '>' | '[' | ']' | '(' | ')' | '*' | '{' | '}' | '"' | '\''
        )
    });
    let lower = inner.to_ascii_lowercase();
    let stars = value.matches("%2A").count() * 3;
    if stars > 6 && stars == value.len() {
        return true;
    }
    let stars = value
        .chars()
        .filter(|one| matches!(one, '*' | '•' | '●'))
        .count();
    let mask = [
        "redacted",
        "filtered",
        "hidden",
        "masked",
        "sensitive",
        "removed",
        "omitted",
        "scrubbed",
    ];
    mask.iter().any(|mask| lower.starts_with(mask))
        || stars >= 3 && stars * 2 >= value.chars().count()
        || value.chars().all(|one| {
            matches!(
                one,
                '*' | 'x' | 'X' | '.' | '-' | '?' | '_' | '…' | '•' | '●'
            )
        })
}

/// `$NAME`, `${NAME}`, `$(command)`, `{{ name }}`, `%(name)s`, `<name>`, `%s`.
fn is_reference(value: &str) -> bool {
    let enclosed = |open: &str, close: char| {
        value.strip_prefix(open).is_some_and(|rest| {
            rest.trim_end_matches(['"', '\'', ';', ','])
                .ends_with(close)
        })
    };
    if enclosed("${", '}') || enclosed("$(", ')') || enclosed("$((", ')') || enclosed("{{", '}') {
        return true;
    }
    if enclosed("%{", '}') || enclosed("#{", '}') || enclosed("@{", '}') || enclosed("${{", '}') {
        return true;
    }
    if value.starts_with("%(") && value.len() > 3 && value.ends_with(")s") {
        return true;
    }
    let nth = value.strip_prefix(['$', ':']).is_some_and(|nth| {
        nth.len() <= 2 && !nth.is_empty() && nth.bytes().all(|byte| byte.is_ascii_digit())
    });
    if nth
        || matches!(
            value,
            "%s" | "%v" | "%q" | "%d" | "%@" | "{}" | "%+v" | "%w" | "?"
        )
    {
        return true;
    }
    if enclosed("<", '>') {
        return value[1..].bytes().all(|byte| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b' ' | b'-' | b'_' | b'.' | b'>' | b'\'' | b':' | b'/')
        });
    }
    if text::is_stored(value) {
        return true;
    }
    // A tag of YAML: `!vault |`, `!secret db_password`
    if let Some(tag) = value.strip_prefix('!')
        && TAGS.iter().any(|known| known.eq_ignore_ascii_case(tag))
    {
        return true;
    }
    // Documents tell what to put there.
    let lower = value.to_ascii_lowercase();
    if ["your-", "your_", "my-example"]
        .iter()
        .any(|start| lower.starts_with(start))
    {
        return value
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_'));
    }
    let Some(name) = value
        .strip_prefix('$')
        .map(|name| name.strip_prefix("env:").unwrap_or(name))
    else {
        return false;
    };
    // `$ecret` begins like a variable, and is none that anybody would name so.
    let shaped = name.starts_with(|one: char| one.is_ascii_alphabetic() || one == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let upper = !name.bytes().any(|byte| byte.is_ascii_lowercase());
    let telling = || {
        let lower = name.to_ascii_lowercase();
        ["pass", "pw", "secret", "token", "key", "cred", "auth", "_"]
            .iter()
            .any(|word| lower.contains(word))
    };
    shaped && (upper || telling())
}

/// A number, with or without a unit; a date, a time, a version, an address of a network.
pub(super) fn is_measure(value: &str) -> bool {
    let bytes = value.as_bytes();
    if bytes.is_empty() || bytes.len() > 40 {
        return false;
    }
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    let begins = bytes[0].is_ascii_digit()
        || matches!(bytes[0], b'-' | b'+' | b'v' | b'<' | b'>' | b'~' | b'.') && digits > 0;
    if !begins {
        return false;
    }
    // A number of many digits may be a token; a count is shorter.
    if digits == bytes.len() {
        return digits <= 10;
    }
    let letters = bytes
        .iter()
        .filter(|byte| byte.is_ascii_alphabetic())
        .count();
    let marks = |byte: &u8| {
        matches!(
            byte,
            b'.' | b':' | b'-' | b'+' | b'/' | b'%' | b',' | b'T' | b'Z'
        )
    };
    if bytes
        .iter()
        .all(|byte| byte.is_ascii_digit() || marks(byte))
    {
        return !is_uuid(value);
    }
    // 5s, 1h30m, 12ms, 3.5MiB, 24h0m0s, v1.2.3
    let units = [
        "ms", "s", "m", "h", "d", "us", "µs", "ns", "kb", "mb", "gb", "kib", "mib", "gib", "ki",
        "mi", "gi", "b", "k", "x", "min", "sec", "hours", "days", "bytes", "tokens", "req", "rpm",
        "rc", "v", "tb", "h0m0s", "m0s",
    ];
    let mut rest = value;
    if letters > 12 {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|one: char| {
            one.is_ascii_digit()
                || matches!(one, '.' | '-' | '+' | '<' | '>' | '~' | '/' | ':' | ',')
        });
        let unit_end = number
            .find(|one: char| !one.is_alphabetic())
            .unwrap_or(number.len());
        let unit = &number[..unit_end];
        if !unit.is_empty() && !units.contains(&unit.to_ascii_lowercase().as_str()) {
            return false;
        }
        if number.len() == rest.len() && unit.is_empty() {
            return false;
        }
        rest = &number[unit_end..];
    }
    true
}

/// A path, an address without credentials, or a class with its object's number.
pub(super) fn is_location(value: &str) -> bool {
    let path = |text: &str| {
        text.split('/').all(|part| {
            part.is_empty()
                || part.len() <= 40 && is_identifier(part)
                || part.starts_with('.')
                || part.starts_with("..")
        })
    };
    let value = value.strip_prefix('@').unwrap_or(value);
    let rooted = ["/", "./", "../", "~/"]
        .iter()
        .any(|root| value.starts_with(root));
    if rooted && value.len() > 2 {
        return path(value);
    }
    if value.len() > 2 && value.as_bytes()[1] == b':' && value.as_bytes()[2] == b'\\' {
        return true;
    }
    if let Some((scheme, rest)) = value.split_once("://") {
        let address = rest.split(['?', '#']).next().unwrap_or_default();
        return scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
            && !address.contains('@');
    }
    [
        "arn:",
        "sha256:",
        "sha512:",
        "projects/",
        "vault:",
        "secretref:",
        "ref+",
        "op://",
        "file:",
        "classpath:",
        "secret/data/",
    ]
    .iter()
    .any(|start| value.starts_with(start))
        || value.split_once('@').is_some_and(|(class, number)| {
            class.contains('.')
                && is_identifier(class)
                && number.len() <= 8
                && number.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
        || is_pointer(value)
}

/// An address of memory: `0x7f1182330000`.
pub(super) fn is_pointer(value: &str) -> bool {
    value.strip_prefix("0x").is_some_and(|rest| {
        (4..=16).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

pub(super) fn is_uuid(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether a value is made of words of letters, each with a few digits at its end, or of
/// short numbers: `RS256`, `ecdsa-sha2-nistp256`, `kube-system`, `v1beta1`, `cert_manager`.
pub(super) fn is_identifier(value: &str) -> bool {
    let word = |word: &str| {
        let stem = word.trim_end_matches(|one: char| one.is_ascii_digit());
        let tail = word.len() - stem.len();
        let stem = stem.trim_end_matches(|one: char| one.is_ascii_alphabetic());
        // v1beta1
        let stem = stem.strip_prefix('v').unwrap_or(stem);
        tail <= 4 && stem.len() <= 2 && stem.bytes().all(|byte| byte.is_ascii_digit())
    };
    !value.is_empty()
        && value.len() <= SEEN_MAX
        && value.split(['-', '_', '.', '/', ':', ' ']).all(word)
        // Letters in both cases that change again and again are no words.
        && value
            .split(['-', '_', '.', '/', ':', ' '])
            .all(|word| case_changes(word) <= 1 + word.len() / 6 && !is_scrambled(word))
}

/// Whether a text is made of words: no digits, and no capitals but the first letters.
pub(super) fn is_words(value: &str) -> bool {
    !value.bytes().any(|byte| byte.is_ascii_digit()) && case_changes(value) <= 1
}

pub(super) fn case_changes(word: &str) -> usize {
    let bytes = word.as_bytes();
    bytes
        .windows(2)
        .filter(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase())
        .count()
}

/// Whether a value can be the name of an object of Kubernetes, or `namespace/name`.
///
/// Such a name has lower-case letters, digits, hyphens and dots. What controllers append to
/// it is short: a hash of at most ten characters, an ordinal, and five characters that have
/// neither vowels nor `0`, `1` or `3`. A token of the same alphabet has a part that is
/// longer than these and has digits throughout.
pub(super) fn is_kubernetes_name(value: &str) -> bool {
    let part = |part: &str| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        part.len() <= 10 || digits <= 2 || part.len() < 20 && digits <= 4
    };
    let label = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
            })
            && name.split(['-', '.']).all(part)
    };
    value.len() <= 253 && value.split('/').count() <= 2 && value.split('/').all(label)
}

/// Whether the value of `secret` is rather the name of an object: it has a hyphen or a
/// namespace, or is one word of letters.
pub(super) fn is_object_name(value: &str) -> bool {
    let words = |value: &str| {
        value.split(['-', '.', '/']).all(|word| {
            let stem = word.trim_end_matches(|one: char| one.is_ascii_digit());
            let tail = word.len() - stem.len();
            stem.bytes().all(|byte| byte.is_ascii_lowercase()) && tail <= 2
                || word.len() <= 10
                    && !word.bytes().any(|byte| {
                        matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'0' | b'1' | b'3')
                    })
                || word.len() <= 10
                    && word.len() >= 8
                    && word.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    let parts = value.contains(['-', '/']) || value.bytes().all(|byte| byte.is_ascii_lowercase());
    is_kubernetes_name(value) && parts && words(value)
}

/// Whether a value is something that nobody writes by hand: letters and digits mixed, and
/// not one of the forms that ordinary text has.
pub(super) fn is_random(value: &str) -> bool {
    let value = value.trim_end_matches('=');
    let seen = value.get(..SEEN_MAX).unwrap_or(value);
    let bytes = seen.as_bytes();
    if bytes.len() < 8 || seen.contains([' ', '\t']) || seen.contains("](") {
        return false;
    }
    let digit = bytes.iter().any(u8::is_ascii_digit);
    let letter = bytes.iter().any(u8::is_ascii_alphabetic);
    let changes = case_changes(seen);
    let mixed = digit && letter || changes >= 4 && bytes.len() >= 16 || is_scrambled(seen);
    mixed
        && distinct(seen) >= 5
        && !is_placeholder(seen)
        && !is_identifier(seen)
        && !is_measure(seen)
        && !is_location(seen)
        && !is_uuid(seen)
        && !is_kubernetes_name(seen)
}

/// Whether a value has letters in both cases and digits.
pub(super) fn is_mixed(value: &str) -> bool {
    let has = |is: fn(&u8) -> bool| value.as_bytes().iter().any(is);
    has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
}

/// Whether a value looks like a key of a cipher in base64.
pub(super) fn is_key(value: &str) -> bool {
    value.len() >= 32
        && is_mixed(value)
        && is_random(value)
        && distinct(value) >= 16
        && value.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
        })
}

/// Whether a word has something that words of prose do not have: a digit, or punctuation
/// inside.
pub(super) fn is_secretish(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ',', ';', ')', '"', '\'']);
    if word.len() < 5 || word.ends_with(':') || is_measure(word) || is_location(word) {
        return false;
    }
    let digit = word.bytes().any(|byte| byte.is_ascii_digit());
    let letter = word.bytes().any(|byte| byte.is_ascii_alphabetic());
    let sign = word.bytes().skip(1).any(|byte| {
        matches!(
            byte,
            b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'&' | b'*' | b'+' | b'=' | b'~' | b'?'
        )
    });
    // `JsonWebTokenError` is made of words.
    let inner_capital =
        word.len() >= 8 && case_changes(word) >= 3 && (word.len() < 12 || is_scrambled(word));
    letter && (digit || sign || inner_capital)
}

/// A word of letters, as prose has it.
pub(super) fn is_word(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ',', ';', ':', ')', '!', '?', '"', '\'']);
    let word = word.trim_start_matches(['(', '"', '\'']);
    !word.is_empty()
        && word.len() < 24
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_' | b'\''))
        && case_changes(word) <= 2
}

/// The number of different characters.
pub(super) fn distinct(text: &str) -> usize {
    let mut seen = [false; 128];
    for byte in text.bytes() {
        seen[usize::from(byte & 127)] = true;
    }
    seen.iter().filter(|seen| **seen).count()
}

#[cfg(test)]
mod tests;
