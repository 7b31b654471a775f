//! What leaves this server: names as they are, free text redacted.
//!
//! A name identifies an object, so it is the same inside and outside: filters, captures and
//! links depend on it. The grammar of the API server decides what is a name
//! ([`kubecrier_k8s_api::grammar`]); a text in the place of a name that does not follow the
//! grammar is redacted like any other text. Fields are redacted one by one, where they are
//! read: a pass over a finished table could not tell a name from a token.
//!
//! `json` does the same for whole documents.

mod json;

use std::borrow::Cow;

use kubecrier_k8s_api::grammar;
use kubecrier_redact::Redactor;

pub(super) use self::json::{Fields, labels};
pub use self::json::{answer, json};

/// A text in the place of a name that is none is cut here.
const NAME_BYTES_MAX: usize = 512;

/// Bytes at the end of a cut text that are dropped after the redaction: the cut may have
/// split a secret, and the rest of it would not be recognised.
const SPLIT_SECRET_MAX: usize = 512;

/// The name of an object, a container, a node or a component.
pub fn name<'a>(redactor: &Redactor, text: &'a str) -> Cow<'a, str> {
    unless(grammar::is_dns_subdomain, redactor, text)
}

/// A kind, a reason, a phase or a type.
pub fn word<'a>(redactor: &Redactor, text: &'a str) -> Cow<'a, str> {
    unless(grammar::is_word, redactor, text)
}

/// A reference to an object, such as `pod/web-0`.
pub fn reference<'a>(redactor: &Redactor, text: &'a str) -> Cow<'a, str> {
    unless(grammar::is_reference, redactor, text)
}

/// The key of a label or an annotation.
pub(super) fn label_key<'a>(redactor: &Redactor, text: &'a str) -> Cow<'a, str> {
    unless(grammar::is_qualified_name, redactor, text)
}

/// The key of a field or of a map.
pub(super) fn key<'a>(redactor: &Redactor, text: &'a str) -> Cow<'a, str> {
    unless(json::is_key, redactor, text)
}

/// The reference of an image.
pub fn image<'a>(redactor: &Redactor, text: &'a str) -> Cow<'a, str> {
    unless(grammar::is_image, redactor, text)
}

/// An `apiVersion`.
pub(super) fn api_version<'a>(redactor: &Redactor, text: &'a str) -> Cow<'a, str> {
    unless(grammar::is_api_version, redactor, text)
}

/// The path of a field that names a container.
pub(super) fn field_path<'a>(redactor: &Redactor, text: &'a str) -> Cow<'a, str> {
    unless(grammar::is_field_path, redactor, text)
}

fn unless<'a>(is_name: impl Fn(&str) -> bool, redactor: &Redactor, text: &'a str) -> Cow<'a, str> {
    if is_name(text) {
        return Cow::Borrowed(text);
    }
    bounded(redactor, text, NAME_BYTES_MAX)
}

/// Free text, redacted.
pub fn text<'a>(redactor: &Redactor, text: &'a str) -> Cow<'a, str> {
    redactor.workload(text)
}

/// Free text, redacted, with at most so many bytes and a mark of how much was cut. A long text
/// costs no more than a short one: it is cut before it is redacted, and again after.
pub fn bounded<'a>(redactor: &Redactor, text: &'a str, bytes_max: usize) -> Cow<'a, str> {
    bounded_part(redactor, text, 0, bytes_max)
}

/// The same for the beginning of a text, of which so many bytes were left out before.
pub(super) fn bounded_part<'a>(
    redactor: &Redactor,
    text: &'a str,
    left_out: usize,
    bytes_max: usize,
) -> Cow<'a, str> {
    let read = text.floor_char_boundary(bytes_max.saturating_mul(2));
    let clean = redactor.workload(&text[..read]);
    let unread = text.len() - read + left_out;
    let shown_max = match unread {
        0 => bytes_max,
        _ => bytes_max.min(clean.len().saturating_sub(SPLIT_SECRET_MAX.min(bytes_max))),
    };
    if clean.len() <= shown_max && unread == 0 {
        return clean;
    }
    let shown = clean.floor_char_boundary(shown_max);
    let cut = unread + clean.len() - shown;
    Cow::Owned(format!("{}… [cut: {cut} bytes]", &clean[..shown]))
}

/// A sentence that this server composed, with names in backticks and perhaps the words of an
/// API server about them: the names stay wherever they stand, all else is redacted.
pub fn sentence(redactor: &Redactor, text: &str) -> String {
    keep_names(redactor, text, &quoted_names(text))
}

/// The names in backticks, also those in a URI of this server.
pub(super) fn quoted_names(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let parts = quoted.flat_map(|one| {
        let (uri, whole) = match one.strip_prefix("k8s://") {
            Some(uri) => (Some(uri), None),
            None => (None, Some(one)),
        };
        uri.into_iter()
            .flat_map(|uri| uri.split(['/', '?']))
            .chain(whole)
    });
    parts.filter(|one| grammar::is_reference(one)).collect()
}

/// Redacts a text around these names.
pub(super) fn keep_names(redactor: &Redactor, text: &str, names: &[&str]) -> String {
    let clean = redactor.workload(text);
    let Cow::Owned(clean) = clean else {
        return text.to_owned();
    };
    let places = |text: &str| -> usize { names.iter().map(|name| words(text, name).count()).sum() };
    // As a rule no name is touched, and the text is best redacted as a whole.
    if places(&clean) >= places(text) {
        return clean;
    }
    let mut ranges: Vec<_> = names
        .iter()
        .flat_map(|name| words(text, name).map(|at| at..at + name.len()))
        .collect();
    ranges.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let (mut shown, mut from) = (String::new(), 0);
    for range in ranges {
        if range.start >= from {
            shown.push_str(&redactor.workload(&text[from..range.start]));
            shown.push_str(&text[range.clone()]);
            from = range.end;
        }
    }
    shown.push_str(&redactor.workload(&text[from..]));
    shown
}

/// Where a name stands as a word of its own.
fn words<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let inside = |one: char| one.is_ascii_alphanumeric() || matches!(one, '-' | '_');
    text.match_indices(name)
        .map(|(at, _)| at)
        .filter(move |at| {
            !name.is_empty()
                && !text[..*at].ends_with(inside)
                && !text[at + name.len()..].starts_with(inside)
        })
}

#[cfg(test)]
mod tests;
