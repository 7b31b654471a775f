//! The parts of an address: how they are read, checked and written.

use std::{fmt, time::Duration};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{InvalidUri, Since};
use kubecrier_core::{duration, filters::EventType};
use kubecrier_k8s::{ClusterError, ObjectName};

/// Characters that need no encoding anywhere in a URI stay readable.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Writes parameters.
pub(super) struct QueryWriter<'a, 'b> {
    to: &'a mut fmt::Formatter<'b>,
    next: char,
}

// === impl QueryWriter ===

impl<'a, 'b> QueryWriter<'a, 'b> {
    pub(super) fn new(to: &'a mut fmt::Formatter<'b>) -> Self {
        Self { to, next: '?' }
    }

    pub(super) fn put(&mut self, name: &str, value: &str) -> fmt::Result {
        self.put_list(name, &[value])
    }

    /// Expands a list as RFC 6570 does: commas between, everything else encoded.
    pub(super) fn put_list(&mut self, name: &str, values: &[&str]) -> fmt::Result {
        let values: Vec<_> = values.iter().map(|one| encoded(one)).collect();
        write!(self.to, "{}{name}={}", self.next, values.join(","))?;
        self.next = '&';
        Ok(())
    }
}

/// The cursor of a read, as `since` takes it.
pub(crate) fn cursor(version: u64) -> String {
    format!("v{version}")
}

/// Each parameter once, and only those that are known. One without a value was left
/// out: that is how a template expands what is empty.
pub(super) fn parameters<'a>(
    query: &str,
    known: &[&'a str],
) -> Result<Vec<(&'a str, String)>, InvalidUri> {
    let mut found: Vec<(&str, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name)?;
        let Some(name) = known.iter().find(|one| **one == name) else {
            return part(format!(
                "there is no parameter `{}`; there are: {}",
                shown(&name),
                known.join(", ")
            ));
        };
        if found.iter().any(|(before, _)| before == name) {
            return part(format!("the parameter `{name}` stands twice"));
        }
        found.push((*name, decoded(value)?));
    }
    found.retain(|(_, value)| !value.is_empty());
    Ok(found)
}

pub(super) fn object(text: &str) -> Result<ObjectName, InvalidUri> {
    let fits = |object: &ObjectName| {
        !object.kind.is_empty()
            && (object.kind.bytes()).all(|byte| byte.is_ascii_alphanumeric())
            && !object.name.contains(char::is_control)
    };
    match ObjectName::parse(text).ok().filter(fits) {
        Some(object) => Ok(object),
        None => part(format!(
            "`for` is `{}`; write it as kind/name, for example pod/web-0 or deployment/web",
            shown(text)
        )),
    }
}

pub(super) fn event_type(word: &str) -> Result<EventType, InvalidUri> {
    let all = [EventType::Normal, EventType::Warning];
    let mut all = all.into_iter();
    match all.find(|one| one.as_str().eq_ignore_ascii_case(word)) {
        Some(known) => Ok(known),
        None => part(format!(
            "`types` has `{}`; an event is Normal or Warning",
            shown(word)
        )),
    }
}

pub(super) fn reason(text: String) -> Result<String, InvalidUri> {
    let fits = text.len() <= 128 && text.chars().all(|one| one.is_ascii_alphanumeric());
    if !fits {
        return part(format!(
            "`reason` is `{}`; a reason is one word such as BackOff, or its beginning",
            shown(&text)
        ));
    }
    Ok(text)
}

pub(super) fn since(text: &str) -> Result<Since, InvalidUri> {
    let version = text.strip_prefix('v').filter(|digits| {
        // `parse` alone would take a sign, and zeros that make another spelling.
        digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    match version.map(str::parse) {
        Some(Ok(version)) => Ok(Since::Cursor(version)),
        Some(Err(_)) => part(format!("`since` is `{}`, which is no cursor", shown(text))),
        None => ago(text).map(Since::Ago),
    }
}

pub(super) fn ago(text: &str) -> Result<Duration, InvalidUri> {
    duration::parse(text).or_else(|_| {
        part(format!(
            "`since` is `{}`; write for example 15m or 2h",
            shown(text)
        ))
    })
}

/// A duration in the largest unit that fits, as `ago` parses it.
pub(super) fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')];
    let fits = units
        .into_iter()
        .find(|(size, _)| seconds > 0 && seconds.is_multiple_of(*size));
    let (size, unit) = fits.unwrap_or((1, 's'));
    format!("{}{unit}", seconds / size)
}

pub(super) fn number(name: &str, text: &str, most: usize) -> Result<usize, InvalidUri> {
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => part(format!(
            "`{name}` is `{}`, but must be from 1 to {most}",
            shown(text)
        )),
    }
}

pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

pub(super) fn decoded(text: &str) -> Result<String, InvalidUri> {
    let mut escapes = text.split('%').skip(1);
    let whole = escapes.all(|after| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    let decoded = percent_decode_str(text).decode_utf8().ok();
    match decoded.filter(|_| whole) {
        Some(decoded) => Ok(decoded.into_owned()),
        None => part(format!(
            "`{}` is not percent-encoded UTF-8; write %25 for a `%`",
            shown(text)
        )),
    }
}

pub(super) fn named<T>(checked: Result<T, ClusterError>) -> Result<T, InvalidUri> {
    checked.map_err(|error| InvalidUri::Part(error.to_string()))
}

/// A caller's text in an error message: not too long, and without control characters.
pub(super) fn shown(text: &str) -> String {
    let start: String = text.chars().take(80).collect();
    start.escape_debug().to_string()
}

pub(super) fn part<T>(text: impl Into<String>) -> Result<T, InvalidUri> {
    Err(InvalidUri::Part(text.into()))
}
