//! Credentials in addresses: `scheme://user:password@host`, `user:password@tcp(host)`.

use std::ops::Range;

use super::{values, work::examined};

/// The length of the part of a URL that may hold credentials.
const AUTHORITY_MAX: usize = 512;

/// User information that is shorter is a user name rather than a token.
const TOKEN_MIN: usize = 20;

/// The length of `user:password` where nothing says where it begins.
const CREDENTIALS_MAX: usize = 128;

/// The part of a host that is looked at.
const HOST_MAX: usize = 64;

/// Finds credentials, and reads each word of the text only once.
#[derive(Debug, Default)]
pub(super) struct Urls {
    /// The end of the word that was read last, and the last `@` in it.
    word: Option<(usize, Option<usize>)>,
}

// === impl Urls ===

impl Urls {
    /// The secret in a URL whose `://` ends at `from`. The offsets have to grow from call to
    /// call.
    pub(super) fn secret(&mut self, text: &str, from: usize) -> Option<Range<usize>> {
        let at = self.last_at(text, from)?;
        let user = &text.as_bytes()[from..at];
        let range = match user.iter().position(|byte| *byte == b':') {
            // A token as the user, with any password: `https://x:x-oauth-basic@host`.
            Some(colon) if colon >= TOKEN_MIN && values::is_random(&text[from..from + colon]) => {
                return Some(from..at);
            }
            // `sqlserver://host:1433;user=sa;password=x@y`
            Some(colon) if is_port(&user[colon + 1..]) => return None,
            Some(colon) => from + colon + 1..at,
            None if at - from >= TOKEN_MIN || text[..from].ends_with("trojan://") => from..at,
            None => return None,
        };
        (!values::is_placeholder(&text[range.clone()])).then_some(range)
    }

    /// The `@` before the host of the address at `from`.
    fn last_at(&mut self, text: &str, from: usize) -> Option<usize> {
        if let Some((end, at)) = self.word
            && from < end
        {
            return at.filter(|at| *at > from);
        }
        let bytes = &text.as_bytes()[from..];
        let bytes = &bytes[..bytes.len().min(AUTHORITY_MAX)];
        let web = is_web(&text[..from]);
        let (mut last, mut path, mut read) = (None, false, bytes.len());
        let (mut colon, mut password) = (None, false);
        for (nth, byte) in bytes.iter().enumerate() {
            let ends = match byte {
                b'@' => {
                    // On the web an `@` in a path is common; elsewhere a password with a slash
                    // that was not encoded is.
                    let host = is_host(&text[from + nth + 1..]);
                    if !path || !web && host && password {
                        last = Some(from + nth);
                    }
                    false
                }
                b'/' | b'#' => {
                    // What stands before is more than a host and its port.
                    password |= !path && colon.is_some_and(|colon| colon + 1 < nth);
                    path = true;
                    web && last.is_some()
                }
                b'?' => {
                    path = true;
                    last.is_some()
                }
                // A quote ends an address, unless it is a part of the password.
                b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\' => {
                    last.is_some()
                        && !bytes[nth + 1..].starts_with(b"@")
                        && !is_host(text[from + nth + 1..].trim_start_matches('@'))
                        || web
                }
                b',' => last.is_some() && web,
                b':' => {
                    colon = colon.or(Some(nth));
                    nth > 0 && bytes[nth..].starts_with(b"://")
                }
                other => other.is_ascii_whitespace(),
            };
            if ends {
                read = nth;
                break;
            }
        }
        examined(read);
        self.word = Some((from + read, last));
        last
    }
}

/// Whether what follows a colon is a port, and then settings.
fn is_port(rest: &[u8]) -> bool {
    let digits = rest.iter().take(6).take_while(|byte| byte.is_ascii_digit());
    let digits = digits.count();
    (1..=5).contains(&digits) && rest.get(digits) == Some(&b';')
}

/// Whether a text begins like a host: a name, and a port, a path or the end of the address.
fn is_host(text: &str) -> bool {
    let text = text.strip_prefix(['\'', '"']).unwrap_or(text);
    let text = &text[..text.floor_char_boundary(HOST_MAX)];
    let name =
        text.find(|one: char| !(one.is_ascii_alphanumeric() || matches!(one, '.' | '-' | '_')));
    let name = name.unwrap_or(text.len());
    let ends = [':', '/', '?', '"', '\'', ' ', ',', ')', '}', '\\', '(', ']'];
    name > 0 && (name == text.len() || text[name..].starts_with(ends))
}

/// Whether the scheme that ends a text is that of the web, where an `@` in a path is common.
fn is_web(before: &str) -> bool {
    let before = before.strip_suffix("://").unwrap_or(before);
    before.ends_with("http")
        || before.ends_with("https")
        || before.ends_with("ws")
        || before.ends_with("wss")
}

/// The password before an `@` that no scheme goes before: `user:password@tcp(host)`,
/// `user:password@host:5432/app`. `from` is where unread text begins.
pub(super) fn before_at(text: &str, from: usize, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if !bytes
        .get(at + 1)
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'(')
    {
        return None;
    }
    let near = from.max(text.ceil_char_boundary(at.saturating_sub(CREDENTIALS_MAX)));
    let outside = |byte: &u8| {
        byte.is_ascii_whitespace()
            || matches!(
                byte,
                b'"' | b'\'' | b'`' | b'=' | b'<' | b'>' | b'(' | b'{' | b'[' | b',' | b';'
            )
    };
    let start = bytes[near..at]
        .iter()
        .rposition(outside)
        .map_or(near, |found| near + found + 1);
    examined(at - near);
    let colon = start + bytes[start..at].iter().position(|byte| *byte == b':')?;
    let after = &text[at + 1..];
    let driver = ["tcp(", "unix(", "tcp6(", "(", "cloudsql("]
        .iter()
        .any(|driver| after.starts_with(driver));
    let port = || {
        let name =
            after.find(|one: char| !(one.is_ascii_alphanumeric() || matches!(one, '.' | '-')));
        let rest = &after[name.unwrap_or(after.len())..];
        let digits = rest
            .strip_prefix(':')
            .map(|rest| rest.bytes().take_while(u8::is_ascii_digit).count());
        name.is_some_and(|name| name > 0)
            && (digits.is_some_and(|digits| (2..=5).contains(&digits)) || rest.starts_with('/'))
    };
    let user = &text[start..colon];
    let password = &text[colon + 1..at];
    // An image has a tag before its digest, and a package a version.
    let image = after.starts_with("sha256:") || after.starts_with("sha512:") || user.contains('/');
    let shaped = !user.is_empty()
        && !password.is_empty()
        && user
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'%'))
        && !password.starts_with("//")
        && !values::is_placeholder(password);
    let start = colon + 1;
    (shaped && !image && (driver || port() && !password.contains('/'))).then_some(start..at)
}

/// The password after a prefix that a user and a slash follow: `oracle:thin:scott/tiger@`.
pub(super) fn after_slash(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let bytes = &bytes[..bytes.len().min(from + CREDENTIALS_MAX)];
    // Flags and the words of a command may stand between.
    let mut from = from;
    for _ in 0..4 {
        let rest = &bytes[from..];
        let flag = rest.starts_with(b"-") || rest.starts_with(b"target ");
        let word = rest.iter().position(|byte| *byte == b' ');
        match word.filter(|_| flag) {
            Some(word) => from += word + 1,
            None => break,
        }
    }
    if matches!(bytes.get(from), Some(b'"' | b'\'')) {
        from += 1;
    }
    let bytes = &bytes[from..];
    let outside = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'');
    let end = bytes.iter().position(outside).unwrap_or(bytes.len());
    examined(end);
    let slash = bytes[..end].iter().position(|byte| *byte == b'/')?;
    let at = bytes[..end].iter().rposition(|byte| *byte == b'@');
    // Without a host nothing but the password follows.
    let at = match at {
        Some(at) => at,
        None if !bytes[slash + 1..end].contains(&b'/') => end,
        None => return None,
    };
    let user = bytes[..slash]
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | b'#'));
    let range = from + slash + 1..from + at;
    (slash > 0 && slash + 1 < at && user && !values::is_placeholder(&text[range.clone()]))
        .then_some(range)
}

/// The last of five fields, as in `.pgpass`: `host:5432:database:user:password`.
pub(super) fn password_file(text: &str, at: usize) -> Option<Range<usize>> {
    let near = text.floor_char_boundary(at.saturating_sub(80));
    let outside = |one: char| one.is_ascii_whitespace() || matches!(one, '"' | '\'' | '`');
    let start = text[near..at]
        .rfind(outside)
        .map_or(near, |space| near + space + 1);
    let until = text.floor_char_boundary((at + 160).min(text.len()));
    let end = text[at..until]
        .find(outside)
        .map_or(until, |space| at + space);
    examined(end - start);
    let mut fields = text[start..end].splitn(5, ':');
    let whole = fields
        .by_ref()
        .take(4)
        .all(|field| !field.is_empty() && !field.contains('/'));
    let password = fields.next().filter(|password| password.len() > 2)?;
    let port = text[start..end]
        .split(':')
        .nth(1)
        .is_some_and(|port| port == "*" || port.bytes().all(|byte| byte.is_ascii_digit()));
    // A line of a file of accounts has the days of its changes there.
    let days = text[start..end]
        .split(':')
        .nth(2)
        .is_some_and(|days| !days.is_empty() && days.bytes().all(|byte| byte.is_ascii_digit()));
    (whole && port && !days && !values::is_placeholder(password) && !values::is_status(password))
        .then(|| end - password.len()..end)
}

/// The key in the query of an address, if nobody would write it by hand: `?key=x`.
pub(super) fn query_key(text: &str, end: usize) -> Option<Range<usize>> {
    let near = &text.as_bytes()[end..text.len().min(end + CREDENTIALS_MAX)];
    let inside = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let length = near.iter().take_while(inside).count();
    examined(length);
    let key = &text[end..end + length];
    let whole = !matches!(near.get(length), Some(b'/' | b'.' | b':' | b'%' | b'='));
    let letters = key.bytes().any(|byte| byte.is_ascii_lowercase())
        && key.bytes().any(|byte| byte.is_ascii_uppercase());
    // `/deploy/srv-1?key=x` starts something.
    let before = &text[text.floor_char_boundary(end.saturating_sub(80))..end];
    examined(before.len());
    let starts = before.contains("/deploy/") && length >= 8;
    (whole && letters && (starts || length >= 10 && values::is_random(key)))
        .then(|| end..end + length)
}

/// The password of a query that has a user too: `?u=joe&p=x`.
pub(super) fn query_password(text: &str, start: usize, end: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let inside = |byte: &u8| {
        !byte.is_ascii_whitespace() && !matches!(byte, b'"' | b'\'' | b'<' | b'>' | b']' | b'\\')
    };
    let near = &bytes[start.saturating_sub(CREDENTIALS_MAX)..start];
    let before = near.iter().rev().take_while(|byte| inside(byte)).count();
    let before = &near[near.len() - before..];
    let after = &bytes[end..bytes.len().min(end + CREDENTIALS_MAX)];
    let length = after.iter().take_while(|byte| inside(byte)).count();
    let after = &after[..length];
    examined(before.len() + after.len());
    let has = |text: &[u8], name: &[u8]| text.windows(name.len()).any(|part| part == name);
    let user = has(before, b"?u=") || has(before, b"&u=") || has(after, b"&u=");
    let value = after
        .iter()
        .position(|byte| *byte == b'&')
        .unwrap_or(after.len());
    (user && value > 3).then_some(end..end + value)
}
