//! Secrets in the path of an address: `https://chat.example.com/hooks/X`, `/auth/magic/X`,
//! `rtmp://host/app/X`.

use std::ops::Range;

use super::{values, work::examined};

/// Parts of a path after which one is a secret if it looks like one.
#[rustfmt::skip]
pub(super) const PARTS: &[&str] = &[
    "hook", "/magic", "/reset", "/confirm", "/verif", "/invit", "/activat", "/unlock", "/onetime",
    "/one-time", "/integration", "/heartbeat/", "/inputs/", "/receiver/", "/with/key/", "/private-",
    "hc-ping.com/", "rtmp://", "rtmps://", "/passwordless", "/share/", "/api-key/", "/token/", "/ping/",
    "srt://", "/login-link", "/unsubscribe/", "hook.eu1.make.com/", "hook.us1.make.com/",
    "hook.eu2.make.com/", "hook.us2.make.com/", "hook.integromat.com/", "discord://", "slack://",
    "tgram://", "telegram://", "msteams://", "teams://", "pover://", "pushover://", "gotify://",
    "gotifys://", "ifttt://", "pbul://", "pushbullet://", "mmost://", "mattermost://", "rocket://",
    "spush://", "prowl://", "lark://", "feishu://", "dingtalk://", "bark://", "zulip://",
    "webex://", "wxteams://", "guilded://", "opsgenie://", "pagerduty://", "signl4://", "join://",
    "matrix://", "ntfy://", "sendgrid://", "mailgun://", "schan://", "googlechat://", "gchat://",
];

/// The parts after the one that was found.
const DEEP: usize = 6;

/// A part of a path is not longer.
const PART_MAX: usize = 256;

/// The secret after what was found from `start` to `end`.
pub(super) fn secret(text: &str, start: usize, end: usize, nth: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let part = PARTS[nth];
    let length = |at: usize| {
        let run = bytes[at..]
            .iter()
            .take(PART_MAX)
            .take_while(|byte| is_inside(**byte))
            .count();
        examined(run);
        run
    };
    if matches!(part, "rtmp://" | "rtmps://" | "srt://") {
        return stream(text, end);
    }
    if part.ends_with("://") {
        return notification(text, end);
    }
    // In a word of text it is no path: `webhook denied the request`.
    let mut at = if part.ends_with(['/', '-']) {
        end
    } else {
        end + length(end)
    };
    let hook = part == "hook";
    let plural = text[..at].ends_with("webhooks");
    let one = |at: usize, run: usize| {
        let found = &text[at..at + run];
        let found = found.trim_end_matches(['.', ',', ':', ')']);
        let host = part.ends_with(".com/") && found.len() >= 16;
        let uuid = values::is_uuid(found) && !plural && part != "/token/" && part != "/share/";
        let ids = found.len() > 70 && found.contains('@');
        let shown = uuid
            || !ids && found.len() >= 16 && values::is_random(found)
            || host && values::is_random(found);
        shown.then(|| at..at + found.len())
    };
    if part.ends_with(['/', '-']) {
        let run = length(at);
        if let Some(range) = one(at, run) {
            return Some(range);
        }
        at += run;
    }
    for _ in 0..DEEP {
        if bytes.get(at) != Some(&b'/') {
            break;
        }
        let run = length(at + 1);
        if run == 0 {
            break;
        }
        let next = at + 1 + run;
        // The last part that looks like it is the secret; others are names and numbers.
        if let Some(range) = one(at + 1, run) {
            let more = bytes.get(next) == Some(&b'/');
            let follows = if more {
                one(next + 1, length(next + 1))
            } else {
                None
            };
            return Some(follows.map_or(range.clone(), |follows| range.start..follows.end));
        }
        at = next;
    }
    // `/webhook/send?key=x`
    let rest = &text[at..];
    let query = rest.strip_prefix("?key=")?;
    let from = text.len() - query.len();
    let run = length(from);
    (hook && start < from && run >= 16).then(|| from..from + run)
}

/// The tokens of an address to which notifications go: all parts that nobody writes by hand.
fn notification(text: &str, end: usize) -> Option<Range<usize>> {
    let rest = &text[end..text.floor_char_boundary((end + PART_MAX).min(text.len()))];
    let rest = &rest[..rest
        .find(|one: char| one.is_whitespace() || matches!(one, '"' | '\'' | '\\' | ')' | ','))
        .unwrap_or(rest.len())];
    examined(rest.len());
    let mut found: Option<Range<usize>> = None;
    let mut at = end;
    for part in rest.split(['/', '@', ':', '?', '&']) {
        let upper = part.bytes().any(|byte| byte.is_ascii_uppercase());
        if part.len() >= 16 && values::is_random(part)
            || part.len() >= 9 && upper && values::is_random(part)
        {
            let start = found.as_ref().map_or(at, |found| found.start);
            found = Some(start..at + part.len());
        }
        at += part.len() + 1;
    }
    found
}

/// The key of a stream: the last part of a path that is long.
fn stream(text: &str, end: usize) -> Option<Range<usize>> {
    let rest = &text[end..text.floor_char_boundary((end + PART_MAX).min(text.len()))];
    let rest = &rest[..rest
        .find(|one: char| one.is_whitespace() || matches!(one, '"' | '\'' | '?' | '\\' | ')' | ','))
        .unwrap_or(rest.len())];
    examined(rest.len());
    let last = rest.rfind('/')? + 1;
    let key = rest[last..].trim_end_matches(['.', ':']);
    let digit = key.bytes().any(|byte| byte.is_ascii_digit());
    (key.len() >= 16 && digit).then(|| end + last..end + last + key.len())
}

fn is_inside(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'_' | b'-' | b'.' | b'~' | b'+' | b'=' | b'@' | b'%')
}
