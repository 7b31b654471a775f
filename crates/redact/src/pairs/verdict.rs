//! Whether a value of a name is a secret.

use super::{Context, separator::Sep};
use crate::{
    names::{self, Class, Name},
    values::{self, SEEN_MAX},
};

/// Schemes of the header `Authorization` that one word follows.
#[rustfmt::skip]
const SCHEMES: &[&str] = &[
    "bearer", "basic", "token", "apikey", "negotiate", "ssws", "splunk", "bot", "jwt", "key",
    "ntlm", "apitoken", "api-key", "flyv1",
];

/// How a value is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(super) context: Context,
    pub(super) quoted: bool,
    /// Other words follow in the line.
    pub(super) more: bool,
}

pub(super) fn is_scheme(word: &str) -> bool {
    word.len() <= 10
        && SCHEMES
            .iter()
            .any(|scheme| scheme.eq_ignore_ascii_case(word))
}

/// Whether a word can be a scheme that nobody has heard of.
pub(super) fn is_scheme_like(word: &str) -> bool {
    (2..=32).contains(&word.len())
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Whether what follows a scheme is a secret: it stands alone, and is neither a word nor a
/// number.
pub(super) fn is_opaque(rest: &str) -> bool {
    let rest = rest.trim_end();
    rest.len() >= 6
        && !rest.contains([' ', ','])
        && !rest.trim_end_matches('=').contains('=')
        && !values::is_word(rest)
        && !values::is_measure(rest)
        && !values::is_location(rest)
        && !values::is_status(rest)
        && !(rest.len() < 16 && values::is_identifier(rest))
        && !values::is_object_name(rest)
}

/// Whether a value of this name is a secret. Without `how` it is a value by itself, as in a
/// payload.
pub(crate) fn hides(name: Name, value: &str, how: Option<How>) -> bool {
    let value = value.trim();
    if values::is_placeholder(value) {
        return false;
    }
    let seen = &value[..value.floor_char_boundary(SEEN_MAX)];
    if is_blank(seen) {
        return false;
    }
    let first = seen.split([' ', '\t']).next().unwrap_or_default();
    let phrase = first.len() < seen.len();
    let quoted = how.is_none_or(|how| how.quoted);
    let bare = how.filter(|how| !how.quoted);
    let colon = bare.filter(|how| how.context.sep == Sep::Colon && how.context.spaced);
    let pipe = how.is_some_and(|how| how.context.sep == Sep::Pipe);
    // `invalid password: cipher: message authentication failed`
    let chain = colon.is_some_and(|how| how.more && first.ends_with(':'));
    // A line of a string of JSON ends with it.
    let status = first.split("\\n").next().is_some_and(values::is_status) || chain;
    if phrase && values::is_sentence(seen) && !matches!(name.class, Class::Header | Class::Cookie) {
        return false;
    }
    match name.class {
        Class::Password => {
            let folder = name.folder && (seen.starts_with('/') || values::is_location(seen));
            // One word under an indented key: a file of settings, and not the result of a test.
            let setting =
                |how: How| how.context.alone && how.context.column > 0 && !phrase && !status;
            let tests = name.bare_pass
                && (values::is_measure(first) && !values::is_pin(first)
                    || first
                        .get(..4)
                        .is_some_and(|four| four.eq_ignore_ascii_case("test"))
                    || colon.is_some_and(|how| {
                        !values::is_secretish(first) && !values::is_pin(first) && !setting(how)
                    })
                    || first.contains(".test.")
                    || first.contains("::"));
            let word = |first: &str| {
                values::is_word(first)
                    || !first.is_ascii() && !first.bytes().any(|byte| byte.is_ascii_digit())
            };
            let colons = how.is_some_and(|how| !how.quoted && how.context.sep == Sep::Colon);
            let foreign = name.foreign && colons && word(first);
            let prose =
                colon.is_some_and(|how| how.context.prose && how.more && values::is_word(first));
            let table = pipe && values::is_word(first);
            !(folder
                || tests
                || foreign
                || prose
                || table
                || status && (bare.is_some() || !phrase || first.len() > 3))
        }
        Class::Secret | Class::Object => {
            let setting = bare.is_some_and(|how| how.context.alone && how.context.spaced);
            let typed = name.kind == "password" || name.kind == "secret" && (quoted || setting);
            let pin = typed && values::is_pin(seen);
            if status || values::is_measure(seen) && !pin || values::is_location(seen) {
                return false;
            }
            if name.class == Class::Object
                && (values::is_object_name(seen)
                    || seen.contains('/') && values::is_kubernetes_name(seen))
            {
                return false;
            }
            // `token:index` is the key of an entry.
            let unspaced = bare.filter(|how| how.context.sep == Sep::Colon && !how.context.spaced);
            if unspaced.is_some_and(|how| how.context.enclosing.is_some() && how.context.tight)
                && values::is_word(seen)
            {
                return false;
            }
            if colon.is_some() && values::is_email(first) {
                return false;
            }
            if let Some(how) = colon {
                let word = values::is_word(first)
                    && !(how.context.alone && !how.more && first.len() >= 16);
                let number = first.len() >= 16 && first.bytes().all(|byte| byte.is_ascii_digit());
                let sentence = how.context.prose
                    && !number
                    && !values::is_secretish(first)
                    && !values::is_uuid(first)
                    && !pin;
                if word
                    || sentence
                    || how.more && how.context.prose && !pin && values::is_identifier(first)
                {
                    return false;
                }
            }
            if pipe {
                return values::is_random(first);
            }
            // A sentence about it.
            !(quoted
                && phrase
                && values::is_word(first)
                && seen.split(' ').filter(|word| values::is_word(word)).count() >= 4)
        }
        // A signature by a curve is public.
        Class::Weak
            if ["MEUCI", "MEQCI", "MEYCI", "MGUCM", "MGQCM"]
                .iter()
                .any(|der| seen.starts_with(der)) =>
        {
            false
        }
        Class::Weak => {
            values::is_random(seen)
                || name.kind == "secret" && is_credentials(seen)
                || is_pair(seen) && (quoted || colon.is_none_or(|how| !how.more))
        }
        Class::Said => {
            values::is_strong(first)
                || quoted
                    && !phrase
                    && !status
                    && !values::is_word(first)
                    && !values::is_email(first)
        }
        Class::Code => {
            // A pin may also be the digest of a certificate.
            is_code(seen, quoted)
                || values::is_random(seen) && !seen.contains('/') && !seen.starts_with("sha")
        }
        Class::Opaque => values::is_key(seen),
        Class::Session => {
            seen.len() >= 16
                && values::is_random(seen)
                && !seen.starts_with("0x")
                // The identifier of an account of Windows.
                && !seen.starts_with("S-1-")
        }
        Class::Header => {
            let rest = seen[first.len()..].trim_start();
            let placeholder = values::is_placeholder(rest);
            if rest.is_empty() {
                values::is_random(first)
                    || values::is_uuid(first)
                    || values::is_secretish(first) && !values::is_identifier(first)
            } else {
                !placeholder
                    && (is_opaque(rest) && is_scheme_like(first)
                        || is_scheme(first) && !(values::is_word(rest) && values::is_status(rest))
                        || rest.contains('=')
                        || values::is_random(first))
            }
        }
        Class::Cookie => seen.contains('=') || values::is_random(seen),
    }
}

/// Whether a value is the name of what to put there, as a usage prints it:
/// `--password PASSWORD`.
fn is_blank(value: &str) -> bool {
    value.len() <= 24
        && value
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        && names::classify(value).is_some()
}

/// Whether a value is a number that is typed in: `482913`, `4829-1375`. Numbers of a few
/// digits say what happened more often.
pub(super) fn is_code(value: &str, quoted: bool) -> bool {
    let count = |is: fn(&u8) -> bool| value.as_bytes().iter().filter(|byte| is(byte)).count();
    let digits = count(u8::is_ascii_digit);
    let signs = value
        .bytes()
        .filter(|byte| matches!(byte, b'-' | b' '))
        .count();
    let numbers = digits + signs == value.len() && signs <= 3;
    numbers && digits <= 16 && (digits >= 6 || quoted && digits >= 4)
        || (8..=32).contains(&value.len())
            && digits >= 1
            && count(u8::is_ascii_alphanumeric) + signs == value.len()
            && value.split(['-', ' ']).all(|part| part.len() >= 3)
            && count(u8::is_ascii_alphabetic) > 0
            && !values::is_uuid(value)
}

/// Whether a value is `user:password`.
fn is_credentials(value: &str) -> bool {
    value.split_once(':').is_some_and(|(user, password)| {
        (2..=40).contains(&user.len())
            && values::is_identifier(user)
            && !password.contains(['/', ':', ' '])
            && values::is_secretish(password)
    })
}

/// Whether a value is `user:password` in base64.
fn is_pair(value: &str) -> bool {
    if value.len() < 8
        || !value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='))
    {
        return false;
    }
    let decoded = crate::encoded::decode_base64(value.as_bytes());
    decoded.contains(&b':') && decoded.iter().all(|byte| matches!(byte, b' '..=b'~'))
}
