//! Passwords in command lines and statements where no name goes before them: `mysql -pX`,
//! `curl -u joe:X`, `IDENTIFIED BY 'X'`.

use std::ops::Range;

use super::{pairs, values, work::examined};

/// Words that announce a command with a password among its arguments.
#[rustfmt::skip]
pub(super) const WORDS: &[&str] = &[
    "mysql", "mariadb", "sshpass", "login", "mongo", "redis-cli", "ldap", "sqlcmd", "curl", "wget",
    "smbclient", "7z", "htpasswd", "from-literal", "rabbitmqctl", "etcdctl", "unseal", "chpasswd",
    "httpie", "smbpasswd", "passwd --stdin", "password-stdin", "openssl", "radtest",
    "wpa_passphrase", "ipmitool", "mosquitto_", "cqlsh", "rclone obscure", "reset-admin-password",
    "set-initial-password", "mc alias set", "config host add", "net user ", "zip -p", "rabbitmqadmin",
];

/// How a command takes its password.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, and all combinations happen"
)]
#[derive(Clone, Copy, Debug, Default)]
struct Style {
    /// `-pX`
    attached: bool,
    /// The flag before the password.
    flag: Option<&'static str>,
    /// `-u user:X`
    user: bool,
    /// `-U user%X`
    percent: bool,
    /// Any literal of a Secret that is made.
    literal: bool,
    /// The password is the argument of this number from here, without flags.
    positional: Option<u8>,
    /// The password comes from the standard input.
    input: bool,
    /// `-passin pass:X`
    openssl: bool,
}

/// Calls `found` with the passwords among the arguments of the commands in a line. `fed` says
/// that an earlier line has a command that reads one. Returns whether this line has.
pub(super) fn arguments(text: &str, fed: bool, mut found: impl FnMut(Range<usize>)) -> bool {
    examined(text.len());
    let mut style = Style::default();
    let mut before: Option<&str> = None;
    let mut printed: Vec<Range<usize>> = Vec::new();
    let mut prints = false;
    let inside = |one: char| {
        !(one.is_whitespace() || matches!(one, '"' | '\'' | '`' | ',' | '[' | ']' | '|'))
    };
    let mut at = 0;
    while let Some(start) = text[at..].find(inside).map(|start| at + start) {
        let gap = &text[at..start];
        // The text that the command stands in ends, or the command does.
        if gap.contains(['|', ':']) || gap.contains("\"}") || gap.contains("\",") && gap != "\",\""
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
        learn(&mut style, word, before);
        before = Some(word);
        at = end;
    }
    if fed || style.input {
        for range in printed {
            let word = &text[range.clone()];
            // `root:x`
            let colon = word.find(':').map_or(0, |colon| colon + 1);
            if !values::is_placeholder(&word[colon..]) && word.len() > colon + 3 {
                found(range.start + colon..range.end);
            }
        }
    }
    style.input
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
    if let Some(flag) = style.flag
        && before == Some(flag)
    {
        return whole
            .filter(|_| !(word.starts_with('/') || number && word.len() < 6 && flag == "-p"));
    }
    if style.openssl
        && matches!(before, Some("-passin" | "-passout" | "-pass"))
        && let Some(password) = word.strip_prefix("pass:")
    {
        return (!values::is_placeholder(password)).then_some(5..word.len());
    }
    if style.user {
        let given = match before {
            Some("-u" | "--user" | "-U" | "--proxy-user" | "--userpwd") => Some(0),
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
    if style.literal {
        let pair = word.strip_prefix("--from-literal=").or(before
            .filter(|before| *before == "--from-literal")
            .map(|_| word))?;
        let value = pair.split_once('=')?.1;
        return (!values::is_placeholder(value)).then(|| word.len() - value.len()..word.len());
    }
    if before == Some("unseal") && values::is_random(word) {
        return whole;
    }
    None
}

/// What the arguments after a word are.
fn learn(style: &mut Style, word: &str, before: Option<&str>) {
    let command = word.rsplit('/').next().unwrap_or(word);
    match command {
        "mysql" | "mysqldump" | "mysqladmin" | "mariadb" | "mariadb-dump" | "mariadb-admin"
        | "mysqlsh" | "mysqlimport" | "mysqlpump" | "7z" | "7za" => style.attached = true,
        "sshpass" => {
            style.attached = true;
            style.flag = Some("-p");
        }
        "login"
            if matches!(
                before,
                Some(
                    "docker"
                        | "podman"
                        | "nerdctl"
                        | "registry"
                        | "oc"
                        | "az"
                        | "cf"
                        | "crane"
                        | "skopeo"
                        | "auth"
                        | "argocd"
                        | "buildah"
                        | "oras"
                        | "regctl"
                        | "ibmcloud"
                )
            ) =>
        {
            style.flag = Some("-p");
        }
        "mongo" | "mongosh" | "mongodump" | "mongorestore" | "mongoexport" | "mongoimport" => {
            style.flag = Some("-p");
        }
        "redis-cli" => style.flag = Some("-a"),
        "sqlcmd" => style.flag = Some("-P"),
        "curl" | "wget" | "etcdctl" | "httpie" => style.user = true,
        "smbclient" => style.percent = true,
        "add_user" | "change_password" | "change_user_password" | "authenticate_user"
            if before == Some("rabbitmqctl") =>
        {
            style.positional = Some(2);
        }
        "htpasswd" => style.flag = None,
        _ if before.is_some_and(|before| before.ends_with("htpasswd"))
            && word.starts_with('-')
            && !word.starts_with("--") =>
        {
            if word.contains('b') {
                style.positional = Some(if word.contains('n') { 2 } else { 3 });
            }
            style.input |= word.contains('i');
        }
        "smbpasswd" | "chpasswd" | "--stdin" | "--password-stdin" => style.input = true,
        "password" if before.is_some_and(|before| before.starts_with('-')) && style.attached => {
            style.positional = Some(1);
        }
        "radtest" | "wpa_passphrase" => style.positional = Some(2),
        "obscure" if before == Some("rclone") => style.positional = Some(1),
        "reset-admin-password" | "set-initial-password" => style.positional = Some(1),
        "set" if before == Some("alias") => style.positional = Some(4),
        "add" if before == Some("host") => style.positional = Some(4),
        "user" if before == Some("net") => style.positional = Some(2),
        "ipmitool" | "mosquitto_pub" | "mosquitto_sub" | "zip" | "unzip" => {
            style.flag = Some("-P");
        }
        "cqlsh" | "rabbitmqadmin" => style.flag = Some("-p"),
        "openssl" => style.openssl = true,
        _ if command.starts_with("ldap") => style.flag = Some("-w"),
        _ if word.starts_with("--from-literal") => style.literal = true,
        "secret" if before == Some("create") => style.literal = true,
        _ => {}
    }
}

/// The password of a statement of SQL that says `IDENTIFIED` before `from`.
pub(super) fn identified(text: &str, from: usize) -> Option<Range<usize>> {
    let mut at = from;
    for _ in 0..6 {
        let rest = &text[at..];
        let gap = rest.len() - rest.trim_start().len();
        let start = at + gap;
        let rest = &text[start..];
        // A quote that follows at once closes the text that the statement stands in, unless
        // it follows `BY`.
        let closes = gap == 0
            && rest.starts_with(['"', '\'', '`', '\\'])
            && !text[..start].to_ascii_lowercase_ends_with("by");
        if gap > 8 || closes {
            return None;
        }
        if let Some(quote) = rest
            .bytes()
            .next()
            .filter(|byte| matches!(byte, b'\'' | b'"' | b'`'))
        {
            let end = pairs::quoted_end(text, start + 1, quote, 0);
            // `IDENTIFIED WITH 'plugin' BY 'x'`
            let given = &text[start + 1..end];
            if !text[..start]
                .trim_end()
                .to_ascii_lowercase_ends_with("with")
            {
                return (!values::is_placeholder(given)).then_some(start + 1..end);
            }
            at = (end + 1).min(text.len());
            continue;
        }
        let end = rest
            .find([' ', '\t', ';', ')', '"', '\''])
            .unwrap_or(rest.len())
            .min(64);
        let end = rest.floor_char_boundary(end);
        examined(end);
        let word = &rest[..end];
        match word.to_ascii_lowercase().as_str() {
            "" => return None,
            "by" | "with" | "as" | "password" | "using" => {}
            _ if text[..start]
                .trim_end()
                .to_ascii_lowercase_ends_with("with") => {}
            _ if text[..start].trim_end().to_ascii_lowercase_ends_with("by") => {
                return (!values::is_placeholder(word)).then_some(start..start + end);
            }
            _ => return None,
        }
        at = start + end;
    }
    None
}

/// Compares the end of a text without regard to case.
trait EndsWithIgnoringCase {
    fn to_ascii_lowercase_ends_with(&self, word: &str) -> bool;
}

impl EndsWithIgnoringCase for str {
    fn to_ascii_lowercase_ends_with(&self, word: &str) -> bool {
        let end = self
            .len()
            .checked_sub(word.len())
            .and_then(|at| self.get(at..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(word))
    }
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
