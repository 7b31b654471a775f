//! Values of a password that are sentences about it, and words that no sentence has.

use super::{
    case_changes, is_identifier, is_kubernetes_name, is_location, is_measure, is_placeholder,
    is_random, is_secretish, is_status,
};

/// First words of what a check of a form says about a field.
#[rustfmt::skip]
const SUBJECTS: &[&str] = &[
    "are", "at", "be", "can", "can't", "cannot", "could", "does", "doesn't", "ensure", "enter",
    "expected", "field", "has", "have", "incorrect", "input", "invalid", "is", "isn't", "it",
    "length", "may", "minimum", "missing", "must", "no", "not", "only", "parse", "password",
    "passwords", "path", "please", "required", "secret", "should", "string", "that", "the", "this",
    "token", "too", "unexpected", "value", "was", "wrong", "you", "your",
];

/// Words that make several words a sentence.
#[rustfmt::skip]
const VERBS: &[&str] = &[
    "are", "be", "been", "blank", "can", "can't", "cannot", "contain", "does", "doesn't", "empty",
    "error", "failed", "field", "found", "has", "have", "invalid", "is", "isn't", "long", "match",
    "may", "must", "not", "required", "short", "should", "updated", "was", "were", "wrong",
];

/// How the address of a value in a store of secrets begins.
const STORES: [&str; 6] = [
    "vault:",
    "ref+",
    "op://",
    "secretref:",
    "arn:aws:",
    "keyvault:",
];

/// Whether a value is a sentence: `This field is required.`, `must not be blank`.
pub(crate) fn is_sentence(value: &str) -> bool {
    let mut words = value.split_ascii_whitespace().map(plain);
    let Some(first) = words.next() else {
        return false;
    };
    let listed = |list: &[&str], word: &str| {
        word.len() <= 12
            && list
                .binary_search(&word.to_ascii_lowercase().as_str())
                .is_ok()
    };
    listed(SUBJECTS, first)
        && (words.clone().any(|word| listed(VERBS, word))
            || listed(VERBS, first) && words.next().is_some())
}

/// A word without the marks around it.
fn plain(word: &str) -> &str {
    word.trim_matches(|one: char| !one.is_ascii_alphanumeric())
}

/// Whether a word in a sentence can only be a secret: neither a word, a name, a number, a
/// place nor an address of mail.
pub(crate) fn is_strong(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ',', ';', ')', '"', '\'']);
    if word.len() < 6 || is_placeholder(word) || is_status(word) || is_email(word) {
        return false;
    }
    let named = is_identifier(word) || word.contains('-') && is_kubernetes_name(word);
    let other = is_measure(word) || is_location(word) || word.contains("()");
    is_random(word) || is_secretish(word) && !named && !other
}

/// Whether a value has only digits, as passwords that people choose have, and is no time.
pub(crate) fn is_pin(value: &str) -> bool {
    let epoch = matches!(value.len(), 10 | 13) && value.starts_with('1');
    (6..=16).contains(&value.len()) && !epoch && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a value says in which store the secret is: `vault:secret/data/db#password`,
/// `op://vault/db/password`.
pub(super) fn is_stored(value: &str) -> bool {
    STORES.iter().any(|store| value.starts_with(store))
        && value.bytes().all(|byte| {
            byte.is_ascii_alphanumeric()
                || matches!(
                    byte,
                    b':' | b'/' | b'#' | b'-' | b'_' | b'.' | b'+' | b'?' | b'='
                )
        })
}

/// Whether a word is a pair of its own: `auth=basic tls=true`.
pub(crate) fn is_pair(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(key, value)| !value.trim_start_matches('=').is_empty() && is_identifier(key))
}

/// Whether letters in both cases make no words: there are pairs of them that words do not
/// have, and the case changes within.
pub(crate) fn is_scrambled(value: &str) -> bool {
    let bytes = value.as_bytes();
    if bytes.len() < 12 || case_changes(value) < 2 {
        return false;
    }
    let rare = |byte: u8| matches!(byte.to_ascii_lowercase(), b'j' | b'q' | b'x' | b'z' | b'v');
    let consonant = |byte: u8| {
        byte.is_ascii_alphabetic()
            && !matches!(
                byte.to_ascii_lowercase(),
                b'a' | b'e' | b'i' | b'o' | b'u' | b'y'
            )
    };
    let pairs = bytes.windows(2).filter(|two| {
        let (first, second) = (two[0], two[1]);
        // `Expired`, `Json`
        let known = matches!(first, b'x') && matches!(second, b'p' | b't' | b'c')
            || first.is_ascii_lowercase() && second.is_ascii_uppercase()
            || matches!(
                (first, second),
                (b'J', b's' | b'w') | (b'X', b'm') | (b'n', b'v' | b'x')
            );
        !known && consonant(first) && consonant(second) && (rare(first) || rare(second))
    });
    pairs.count() >= 2
}

/// `joe@example.com`
pub(crate) fn is_email(word: &str) -> bool {
    let word = word.trim_matches(['<', '>', '"', '\'', ',', ';']);
    let inside = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+')
            })
    };
    word.split_once('@').is_some_and(|(user, host)| {
        let named = host.bytes().any(|byte| byte.is_ascii_alphabetic());
        inside(user) && inside(host) && named && (host.contains('.') || user.len() <= 32)
    })
}
