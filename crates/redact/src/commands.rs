//! Passwords in command lines and statements where no name goes before them: `mysql -pX`,
//! `curl -u joe:X`, `IDENTIFIED BY 'X'`.

use std::ops::Range;

mod learn;

pub(super) use self::learn::WORDS;
use self::learn::{Style, learn};
use super::{pairs, values, work::examined};

/// What one line of a command says about the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    /// A command reads a password from the standard input.
    pub(super) input: bool,
    /// A command goes on that was given a user.
    pub(super) user: bool,
}

/// Calls `found` with the passwords among the arguments of the commands in a line, and says
/// what the next line has to know.
pub(super) fn arguments(text: &str, lines: Lines, mut found: impl FnMut(Range<usize>)) -> Lines {
    examined(text.len());
    let mut style = Style {
        given_user: lines.user,
        ..Style::default()
    };
    let mut before: Option<&str> = None;
    let mut printed: Vec<Range<usize>> = Vec::new();
    let mut prints = false;
    let inside = |one: char| {
        !(one.is_whitespace() || matches!(one, '"' | '\'' | '`' | ',' | '[' | ']' | '|'))
    };
    let mut at = 0;
    // The word before is an element of a list of arguments.
    let mut listed = false;
    while let Some(start) = text[at..].find(inside).map(|start| at + start) {
        let gap = &text[at..start];
        // The text that the command stands in ends, or the command does.
        if gap.contains(['|', ':'])
            || gap.contains("\"}")
            || gap.contains("\",") && gap != "\",\"" && !(listed && gap == "\", \"")
        {
            style.positional = None;
        }
        prints &= !gap.contains('|');
        let end = text[start..]
            .find(|one| !inside(one))
            .map_or(text.len(), |end| start + end);
        // A comma or a bracket may be a part of a password.
        let near = &text[end..text.floor_char_boundary((end + 64).min(text.len()))];
        let more = || {
            near.find(|one: char| one.is_whitespace() || matches!(one, '"' | '\'' | '`'))
                .unwrap_or(near.len())
        };
        let goes_on = near.starts_with([',', '[', ']']) && !near[1..].starts_with(['"', '\'', ' ']);
        let end = if goes_on { end + more() } else { end };
        let word = &text[start..end];
        if prints && printed.len() < 8 && !word.starts_with(['-', '%', '$', '>']) {
            printed.push(start..end);
        }
        prints |= matches!(word, "echo" | "printf");
        if let Some(range) = argument(&style, before, word) {
            found(start + range.start..start + range.end);
        } else if let Some(left) = style.positional
            && !word.starts_with(['-', '+'])
        {
            style.positional = left.checked_sub(1).filter(|left| *left > 0);
            let after = text[end..].trim_start();
            let ends = after.is_empty() || after.starts_with(['"', '\'', '|', '&', ';', '>', '\\']);
            let shown = left == 1 && !values::is_placeholder(word);
            if shown && (ends || values::is_secretish(word)) {
                found(start..end);
            }
        }
        listed = gap.ends_with(['"', '\'']);
        learn(&mut style, word, before);
        before = Some(word);
        at = end;
    }
    if lines.input || style.input {
        for range in printed {
            let word = &text[range.clone()];
            // `root:x`
            let colon = word.find(':').map_or(0, |colon| colon + 1);
            if !values::is_placeholder(&word[colon..]) && word.len() > colon + 3 {
                found(range.start + colon..range.end);
            }
        }
    }
    Lines {
        input: style.input,
        user: style.given_user && text.ends_with('\\'),
    }
}

/// The password in an argument.
fn argument(style: &Style, before: Option<&str>, word: &str) -> Option<Range<usize>> {
    let whole = (!values::is_placeholder(word) && !word.starts_with('-')).then_some(0..word.len());
    let number = word.bytes().all(|byte| byte.is_ascii_digit());
    if style.attached
        && word.len() > 2
        && word.starts_with("-p")
        && !word.starts_with("-port")
        && !word.starts_with("-password")
    {
        return (!values::is_placeholder(&word[2..])).then_some(2..word.len());
    }
    if let Some(flag) = style.flags.iter().find(|flag| before == Some(**flag)) {
        return whole
            .filter(|_| !(word.starts_with('/') || number && word.len() < 6 && *flag == "-p"));
    }
    // Any command with `-u joe -p x`; a port or a process is given in the same way.
    if style.given_user
        && before == Some("-p")
        && values::is_strong(word)
        && !(word.contains(':') && word.starts_with(|one: char| one.is_ascii_digit()))
    {
        return whole;
    }
    // `/p:x`, `/pass:x`
    if style.slashed
        && let Some(from) = ["/p:", "/pass:", "/rp:", "/password:"]
            .iter()
            .find_map(|flag| {
                word.to_ascii_lowercase()
                    .starts_with(flag)
                    .then_some(flag.len())
            })
    {
        return (!values::is_placeholder(&word[from..])).then_some(from..word.len());
    }
    // `-hpx` of rar
    if style.archive && word.len() > 3 && (word.starts_with("-hp") || word.starts_with("-p")) {
        let from = if word.starts_with("-hp") { 3 } else { 2 };
        return Some(from..word.len());
    }
    // `net use Z: \\\\host\\share x`
    if style.share
        && !word.starts_with(['/', '\\', '*', '-'])
        && !word.ends_with(':')
        && (values::is_secretish(word) || values::is_pin(word))
    {
        return whole;
    }
    // `ACL SETUSER app on >x`
    if (style.acl || before == Some("on")) && word.len() > 4 && word.starts_with('>') {
        return Some(1..word.len());
    }
    // `login: admin / x`
    if style.said && before == Some("/") && values::is_strong(word) {
        return whole;
    }
    // `login with admin/x`, `login is admin:x`
    if style.said
        && matches!(
            before,
            Some(
                "with"
                    | "as"
                    | "is"
                    | "login"
                    | "login:"
                    | "credentials"
                    | "credentials:"
                    | "Credentials:"
            )
        )
        && let Some((user, password)) = word.split_once([':', '/'])
        && values::is_identifier(user)
        && !user.is_empty()
        && values::is_secretish(password)
        && !password.contains('/')
    {
        return Some(word.len() - password.len()..word.len());
    }
    if style.openssl
        && matches!(before, Some("-passin" | "-passout" | "-pass"))
        && let Some(password) = word.strip_prefix("pass:")
    {
        return (!values::is_placeholder(password)).then_some(5..word.len());
    }
    if style.user {
        let given = match before {
            Some(
                "-u" | "--user" | "-U" | "--proxy-user" | "--userpwd" | "-a" | "-A" | "--auth"
                | "digest" | "add",
            ) => Some(0),
            _ => ["--user=", "--proxy-user=", "-u"]
                .iter()
                .find_map(|flag| word.starts_with(flag).then_some(flag.len())),
        };
        if let Some(from) = given
            && let Some(colon) = word[from..].find(':').map(|colon| from + colon)
        {
            let password = &word[colon + 1..];
            let group = number
                || password.is_empty()
                || password.starts_with('/')
                || values::is_placeholder(password);
            let numbers = word[from..]
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b':');
            return (!group && !numbers).then_some(colon + 1..word.len());
        }
    }
    if style.percent && before == Some("-U") {
        return word.find('%').map(|percent| percent + 1..word.len());
    }
    // `lftp -u joe,x`: the comma ends a word
    if style.comma && before == Some("-u") {
        return word.find(',').map(|comma| comma + 1..word.len());
    }
    if style.literal {
        let pair = word.strip_prefix("--from-literal=").or(before
            .filter(|before| *before == "--from-literal")
            .map(|_| word))?;
        let value = pair.split_once('=')?.1;
        return (!values::is_placeholder(value)).then(|| word.len() - value.len()..word.len());
    }
    if matches!(before, Some("unseal")) && values::is_random(word)
        || style.vault && before == Some("login") && values::is_random(word)
    {
        return whole;
    }
    None
}

/// The first quoted text after a word, with a flag between: `-String 'X'`.
pub(super) fn quoted(text: &str, end: usize) -> Option<Range<usize>> {
    let near = &text[end..text.floor_char_boundary((end + 24).min(text.len()))];
    let at = near.find(['"', '\''])?;
    let quote = near.as_bytes()[at];
    let start = end + at + 1;
    let close = pairs::quoted_end(text, start, quote, 0);
    let given = text[start..close].trim_end_matches('\\');
    (given.len() > 3 && !values::is_placeholder(given)).then(|| start..start + given.len())
}

/// The private members of a JSON Web Key in a line.
pub(super) fn web_key(text: &str, mut found: impl FnMut(Range<usize>)) {
    examined(text.len());
    for member in [
        "\"d\"", "\"p\"", "\"q\"", "\"dp\"", "\"dq\"", "\"qi\"", "\"k\"",
    ] {
        for (at, _) in text.match_indices(member) {
            let rest = &text[at + member.len()..];
            let value = rest.trim_start();
            let Some(value) = value
                .strip_prefix(':')
                .map(str::trim_start)
                .and_then(|value| value.strip_prefix('"'))
            else {
                continue;
            };
            let length = value
                .bytes()
                .take_while(|byte| {
                    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'=')
                })
                .count();
            let start = text.len() - value.len();
            if length >= 16 {
                found(start..start + length);
            }
        }
    }
}
