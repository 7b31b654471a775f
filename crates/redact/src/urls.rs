//! Credentials in a URL: `scheme://user:password@host`.

use std::ops::Range;

/// The length of the part of a URL that may hold credentials.
const AUTHORITY_MAX: usize = 512;

/// User information that is shorter is a user name rather than a token.
const TOKEN_MIN: usize = 20;

/// The secret in a URL whose `://` ends at `from`.
pub(super) fn secret(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = &text.as_bytes()[from..];
    let bytes = &bytes[..bytes.len().min(AUTHORITY_MAX)];
    let until = |ends: fn(u8) -> bool| {
        let end = bytes.iter().position(|byte| ends(*byte));
        &bytes[..end.unwrap_or(bytes.len())]
    };
    let authority = until(|byte| is_outside(byte) || matches!(byte, b'/' | b'?' | b'#'));
    let colon = authority.iter().position(|byte| *byte == b':');
    let at = authority.iter().rposition(|byte| *byte == b'@');
    let range = match (colon, at) {
        (Some(colon), Some(at)) if colon < at => colon + 1..at,
        (_, Some(at)) if at >= TOKEN_MIN => 0..at,
        // A password with a slash that was not percent-encoded.
        (Some(colon), None) if !is_port(&authority[colon + 1..]) => {
            let at = until(is_outside).iter().rposition(|byte| *byte == b'@')?;
            colon + 1..at
        }
        _ => return None,
    };
    // Both ends stand beside ASCII, so the range is text.
    let range = from + range.start..from + range.end;
    (!text[range.clone()].starts_with("[redacted")).then_some(range)
}

/// Whether a byte cannot be in a URL.
fn is_outside(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\')
}

fn is_port(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_digit)
}
