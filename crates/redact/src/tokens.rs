//! Secrets that are known by their shape: tokens of well-known services, hashes of
//! passwords, JWTs.

mod table;

use std::ops::Range;

pub(super) use self::table::{Alphabet, SHAPES, Shape};
use super::{encoded, values, work::examined};

/// The length of a JWT header; a longer run of characters is something else.
const HEADER_MAX: usize = 2048;

/// How the headers of JWTs begin: `{"alg":`, `{"typ":`, `{"kid":`, `{"enc":`.
const SURE: [&str; 4] = ["eyJhbGciOi", "eyJ0eXAiOi", "eyJraWQiOi", "eyJlbmMiOi"];

/// The runs of characters that were read last, so that tokens that begin in one of them do
/// not read it again.
#[derive(Debug, Default)]
pub(super) struct Runs([Range<usize>; Alphabet::COUNT]);

// === impl Runs ===

impl Runs {
    /// The end of the run of these characters at `at`. The offsets have to grow, but for the
    /// length of a prefix.
    fn end(&mut self, bytes: &[u8], at: usize, alphabet: Alphabet) -> usize {
        let known = &mut self.0[alphabet as usize];
        if at < known.start {
            // A token within the prefix of another: the run may go on in the one that is known.
            let end = at + alphabet.run(&bytes[at..known.start]);
            return if end == known.start { known.end } else { end };
        }
        if at > known.end || known.end == 0 {
            *known = at..at + alphabet.run(&bytes[at..]);
        }
        known.end
    }
}

/// The token whose prefix begins at `at`.
pub(super) fn shaped(
    text: &str,
    at: usize,
    shape: &Shape,
    runs: &mut Runs,
) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let body_at = at + shape.prefix.len();
    if text.get(at..body_at) != Some(shape.prefix) {
        return None;
    }
    // A prefix inside a word is a part of this word.
    let before = at.checked_sub(1).map(|before| bytes[before]);
    if before.is_some_and(|byte| byte.is_ascii_alphanumeric())
        && shape.prefix.as_bytes()[0].is_ascii_alphanumeric()
    {
        return None;
    }
    let body = &text[body_at..runs.end(bytes, body_at, shape.alphabet)];
    let body = body.trim_end_matches(['.', '-']);
    let seen = &body[..body.len().min(values::SEEN_MAX)];
    examined(seen.len());
    let fits = body.len() >= shape.min && body.len() <= shape.max;
    // A name of Kubernetes may begin like a token: `sk-learn-inference-7d9f8c6b5d-abcde`.
    let named = || values::is_kubernetes_name(&text[at..body_at + body.len()]);
    let words = || shape.alphabet != Alphabet::Hex && values::is_words(seen);
    let distinct = values::distinct(seen);
    let varied = distinct >= 5 || distinct >= 2 && seen.len() >= 50;
    (fits && varied && !named() && !words()).then(|| at..body_at + body.len())
}

/// The end of the JWT that begins at `start`: three parts, or fewer if it was cut off. The
/// second offset is how far the text was read.
pub(super) fn jwt(text: &str, start: usize) -> (Option<usize>, usize) {
    let part = |from: usize, max: usize| {
        let bytes = &text.as_bytes()[from..];
        let inside = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let length = bytes.iter().take(max).take_while(inside).count();
        examined(length);
        from + length
    };
    let header = part(start, HEADER_MAX);
    // Headers begin with {"alg": or {"typ": or have one of these a little later.
    let sure = || {
        SURE.iter().any(|sure| text[start..].starts_with(sure))
            || encoded::decode_base64(&text.as_bytes()[start..header.min(start + 256)])
                .windows(6)
                .any(|six| matches!(six, b"\"alg\":" | b"\"enc\":"))
    };
    if !text[header..].starts_with('.') {
        return (sure().then_some(header), header);
    }
    let payload = part(header + 1, usize::MAX);
    if payload < header + 5 {
        return (sure().then_some(header), payload);
    }
    let mut end = payload;
    // An encrypted one has five parts.
    for _ in 0..3 {
        if !text[end..].starts_with('.') {
            break;
        }
        let next = part(end + 1, usize::MAX);
        if next == end + 1 && !sure() {
            break;
        }
        end = next;
    }
    (Some(end), end)
}

/// A password after the mark that it is not hashed: `joe:{PLAIN}x`.
pub(super) fn plain(text: &str, end: usize) -> Option<Range<usize>> {
    let near = &text[end..text.floor_char_boundary((end + values::SEEN_MAX).min(text.len()))];
    let length = near
        .find(|one: char| one.is_whitespace() || matches!(one, ':' | '"' | '\'' | '\\'))
        .unwrap_or(near.len());
    examined(length);
    (length > 3 && !values::is_placeholder(near)).then_some(end..end + length)
}

/// Whether a line ends within a JWT: after a dot, or without a signature.
pub(super) fn is_cut_jwt(line: &str) -> bool {
    let near = &line[line.ceil_char_boundary(line.len().saturating_sub(HEADER_MAX))..];
    let inside = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let length = near.bytes().rev().take_while(|byte| inside(&byte)).count();
    examined(length);
    let last = &near[near.len() - length..];
    let dots = last.bytes().filter(|byte| *byte == b'.').count();
    let header = || SURE.iter().any(|sure| last.starts_with(sure));
    last.starts_with("eyJ") && (dots == 1 || dots == 2 && last.ends_with('.'))
        || dots == 0 && header()
}

/// A line that goes on with the JWT that the line before was cut in.
pub(super) fn jwt_line(line: &str) -> Option<Range<usize>> {
    let around = |one: char| one.is_whitespace() || matches!(one, '"' | '\'' | ',' | '\\');
    let start = line.len() - line.trim_start_matches(around).len();
    let word = line[start..].trim_end_matches(around);
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    examined(line.len());
    if word.len() < 16 || !word.bytes().all(inside) {
        return None;
    }
    let seen = &word[..word.len().min(values::SEEN_MAX)];
    values::is_random(seen).then(|| start..start + word.len())
}

/// The hash of a password that begins at `at` with `$`, `{` or the name of an algorithm.
pub(super) fn hash(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = &text.as_bytes()[at..];
    let inside = |byte: &&u8| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'$' | b'.' | b'/' | b'+' | b'=' | b',' | b'-' | b'_' | b'{' | b'}' | b':'
            )
    };
    let length = bytes.iter().take(512).take_while(inside).count();
    let found = text[at..at + length].trim_end_matches([':', ',', '.', '-', '}']);
    examined(length);
    let signs = found.bytes().filter(|byte| *byte == b'$').count();
    let body = found.rsplit(['$', '}']).next().unwrap_or_default();
    let body = body.split(':').next().unwrap_or_default();
    (body.len() >= 20 && (signs >= 2 || found.starts_with('{'))).then(|| at..at + found.len())
}

/// A bot token of Telegram whose `:AA` begins at `at`: digits before it, 33 characters
/// after it.
pub(super) fn telegram(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let digits = bytes[..at]
        .iter()
        .rev()
        .take(13)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let body = Alphabet::Dashed.run(&bytes[at + 1..at + 1 + bytes[at + 1..].len().min(64)]);
    ((6..=12).contains(&digits) && (30..=40).contains(&body)).then(|| at - digits..at + 1 + body)
}

/// A bot token of Telegram in an address whose `/bot` ends at `at`.
pub(super) fn telegram_address(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let digits = bytes[at..]
        .iter()
        .take(13)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let colon = at + digits;
    if !(6..=12).contains(&digits) || bytes.get(colon) != Some(&b':') {
        return None;
    }
    let body = Alphabet::Dashed.run(&bytes[colon + 1..bytes.len().min(colon + 65)]);
    (body >= 30).then(|| at..colon + 1 + body)
}

/// A token of Terraform Cloud: 14 characters before `.atlasv1.`, and many after it.
pub(super) fn terraform(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let before = bytes[..at]
        .iter()
        .rev()
        .take(14)
        .take_while(|byte| byte.is_ascii_alphanumeric())
        .count();
    let body = at + ".atlasv1.".len();
    let after = Alphabet::Dashed.run(&bytes[body..]);
    (before == 14 && after >= 40).then(|| at - before..body + after)
}

/// A secret of an Azure application: three characters and a digit before `Q~`.
pub(super) fn azure(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let start = at.checked_sub(4)?;
    let begins = bytes[start..at - 1]
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'~'));
    let digit = bytes[at - 1].is_ascii_digit();
    let inside =
        |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'~');
    let after = bytes[at + 2..].iter().take(48).take_while(inside).count();
    (begins && digit && (31..=40).contains(&after)).then(|| start..at + 2 + after)
}

/// A key of New Relic, which ends with `NRAL`: 36 hexadecimal digits before `at`.
pub(super) fn new_relic(text: &str, at: usize) -> Option<Range<usize>> {
    let before = text.as_bytes()[..at]
        .iter()
        .rev()
        .take(36)
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    (before == 36).then(|| at - before..at + 4)
}

/// A key of Mailchimp: 32 hexadecimal digits before `-us` and a number.
pub(super) fn mailchimp(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let before = bytes[..at]
        .iter()
        .rev()
        .take(33)
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let digits = bytes[at + 3..]
        .iter()
        .take(3)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    (before == 32 && (1..=2).contains(&digits)).then(|| at - before..at + 3 + digits)
}

/// A token with which nodes join a cluster of k3s: `K10`, the hash of a certificate, a user
/// and a password.
pub(super) fn node(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if !bytes[at..].starts_with(b"K10") {
        return None;
    }
    let hash = Alphabet::Hex.run(&bytes[at + 3..bytes.len().min(at + 131)]);
    let rest = text[at + 3 + hash..].strip_prefix("::")?;
    let user = rest.bytes().take(40).position(|byte| byte == b':')?;
    let from = text.len() - rest.len() + user + 1;
    let secret = Alphabet::Dotted.run(&bytes[from..]);
    (hash >= 32 && secret >= 4).then_some(at..from + secret)
}

/// A key of Adyen: base64 of two parts with `=-` between.
pub(super) fn adyen(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let alone = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
    if !alone || !bytes[at..].starts_with(b"AQE") {
        return None;
    }
    let run = Alphabet::Base64.run(&bytes[at..bytes.len().min(at + 400)]);
    (run >= 60 && text[at..at + run].contains("=-")).then_some(at..at + run)
}

/// The key of IPsec after its algorithm: `3 rfc4106(gcm(aes)) 44434241... 128`.
pub(super) fn esp_key(text: &str, end: usize) -> Option<Range<usize>> {
    let bytes = &text.as_bytes()[end..];
    let prefix = if bytes.starts_with(b"0x") { 2 } else { 0 };
    let run = Alphabet::Hex.run(&bytes[prefix..bytes.len().min(prefix + 160)]);
    (run >= 32).then(|| end..end + prefix + run)
}

/// What Terraform keeps of a password that it has made up:
/// `"type":"random_password","values":{"result":"x"}`.
pub(super) fn random_password(text: &str, end: usize) -> Option<Range<usize>> {
    let near = &text[end..text.floor_char_boundary((end + 1024).min(text.len()))];
    examined(near.len());
    let at = near.find("\"result\"")?;
    let value = near[at + 8..].trim_start_matches([' ', ':']);
    let value = value.strip_prefix('"')?;
    let length = value.find('"')?;
    let start = end + near.len() - value.len();
    (!values::is_placeholder(&value[..length])).then(|| start..start + length)
}

/// A private number of a key of RSA in XML: `<D>...</D>`.
pub(super) fn xml_number(text: &str, end: usize) -> Option<Range<usize>> {
    let run = Alphabet::Base64.run(&text.as_bytes()[end..]);
    (run >= 40 && text[end + run..].starts_with("</")).then_some(end..end + run)
}

/// The token of a bot of Discord: an id in base64, six characters, and the rest.
pub(super) fn discord(text: &str, run: &Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let id = (23..=28).contains(&run.len()) && matches!(bytes[run.start], b'M' | b'N' | b'O');
    let part = |from: usize| Alphabet::Dashed.run(&bytes[from..bytes.len().min(from + 64)]);
    if !id
        || bytes.get(run.end) != Some(&b'.')
        || part(run.end + 1) != 6
        || bytes.get(run.end + 7) != Some(&b'.')
    {
        return None;
    }
    let rest = part(run.end + 8);
    (rest >= 27).then(|| run.start..run.end + 8 + rest)
}

/// Keys of AWS: 40 characters that stand alone, in the neighbourhood of a key's id.
pub(super) fn aws_secrets(text: &str, mut found: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'+');
    let mut at = 0;
    examined(bytes.len());
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|byte| inside(**byte)).count();
        if length == 40 {
            let word = &bytes[at..at + 40];
            let has = |is: fn(&u8) -> bool| word.iter().any(is);
            if has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
            {
                found(at..at + 40);
            }
        }
        at += length.max(1);
    }
}

/// Bootstrap tokens of kubeadm in a line that speaks of tokens: six characters, a dot, and
/// sixteen.
pub(super) fn bootstrap_tokens(text: &str, mut found: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    examined(bytes.len());
    let lower = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let outside = |byte: Option<&u8>| {
        byte.is_none_or(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'.' | b'_'))
    };
    for dot in memchr::memchr_iter(b'.', bytes) {
        let (Some(start), end) = (dot.checked_sub(6), dot + 17) else {
            continue;
        };
        let (Some(id), Some(secret)) = (bytes.get(start..dot), bytes.get(dot + 1..end)) else {
            continue;
        };
        let alone = outside(start.checked_sub(1).map(|at| &bytes[at]))
            && (outside(bytes.get(end))
                || bytes.get(end) == Some(&b'.') && outside(bytes.get(end + 1)));
        let shaped = id.iter().all(lower) && secret.iter().all(lower);
        let digits = secret.iter().filter(|byte| byte.is_ascii_digit()).count();
        // The name of an Event ends with a time in hexadecimal nanoseconds.
        let event = secret.iter().all(u8::is_ascii_hexdigit)
            && secret[0] == b'1'
            && matches!(secret[1], b'5'..=b'9' | b'a'..=b'c');
        if alone && shaped && digits > 0 && digits < 16 && !event {
            found(start..end);
        }
    }
}
