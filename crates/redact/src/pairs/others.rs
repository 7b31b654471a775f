//! What looks like a name and its value, and is something else: programs, images, packages,
//! members of objects, pieces of base64.

use crate::{names, values, work::examined};

/// Whether what follows the name of a package is the architecture it was built for:
/// `libsecret-1-0:amd64`.
pub(super) fn is_architecture(rest: &str) -> bool {
    let word = rest
        .bytes()
        .take(8)
        .take_while(u8::is_ascii_alphanumeric)
        .count();
    matches!(
        &rest[..word],
        "all" | "amd64" | "arm64" | "armhf" | "i386" | "any" | "noarch" | "s390x" | "ppc64el"
    )
}

/// Whether a tag is a blank to fill in: `mongodb://<user>:<password>@host`,
/// `AUTH <password> called`.
pub(super) fn is_blank(text: &str, at: usize, spaced: bool) -> bool {
    let near = &text[at..text.floor_char_boundary((at + 200).min(text.len()))];
    (spaced || near.starts_with(['@', ':', '/', '?', '&'])) && !near.contains("</")
}

/// Whether a name is the scope of the title of a commit: `fix(password): trim input`.
pub(super) fn is_commit(text: &str, start: usize, end: usize) -> bool {
    const KINDS: [&str; 8] = [
        "fix(",
        "feat(",
        "chore(",
        "refactor(",
        "test(",
        "docs(",
        "perf(",
        "ci(",
    ];
    let closes = text[end..].starts_with("): ") || text[end..].starts_with(")!: ");
    closes && KINDS.iter().any(|kind| text[..start].ends_with(kind))
}

/// Whether what looks like a value is the tag of an image: `registry/token-api:3f2a9c1`.
pub(super) fn is_tag(text: &str, start: usize, at: usize) -> bool {
    let rest = &text.as_bytes()[at..];
    let hex = rest
        .iter()
        .take(65)
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    if !text[..start].ends_with('/') {
        return false;
    }
    // `password-api:dev`: the name of an image goes on after the word for a secret.
    let tag = rest
        .iter()
        .take(48)
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
        .count();
    let word = &text[at..at + tag];
    let named =
        values::is_identifier(word) || values::is_measure(word) || values::is_kubernetes_name(word);
    if named && tag <= 20 && !names::is_whole(&text[start..at]) {
        return true;
    }
    (7..=64).contains(&hex)
        && rest
            .get(hex)
            .is_none_or(|byte| !byte.is_ascii_alphanumeric())
}

/// Whether what follows a comma is another flag (`--api-key, -k`, `"--token", "--user"`), or
/// the next key of a record that ends its text with a flag.
pub(super) fn is_next(text: &str, at: usize, closers: usize) -> bool {
    let near = &text[at..text.floor_char_boundary((at + 48).min(text.len()))];
    let word = near.trim_start_matches(['"', '\'']);
    let key = near.strip_prefix('"').and_then(|key| key.find('"'));
    examined(near.len());
    word.starts_with("--")
        || closers == 0 && word.starts_with('-')
        || key.is_some_and(|end| near[end + 2..].starts_with(':'))
}

/// Whether `->` leads to a member (`Token->get()`) or to another place of the same thing
/// (`fix-token -> origin/fix-token`).
pub(super) fn is_arrow(text: &str, end: usize, at: usize, ident: &str) -> bool {
    if !text[end..at].contains("->") {
        return false;
    }
    let near = &text[at..text.floor_char_boundary((at + 160).min(text.len()))];
    let word = &near[..near.find([' ', '"', '\\']).unwrap_or(near.len())];
    let member = word.find(|one: char| !(one.is_ascii_alphanumeric() || one == '_'));
    examined(word.len());
    word.ends_with(ident)
        || text[end..].starts_with("->")
            && member.is_some_and(|member| member > 0 && word[member..].starts_with('('))
}

/// Whether a name is that of a program that says something: `passwd: password changed.`
pub(super) fn is_program(text: &str, ident: &str, at: usize) -> bool {
    let program = matches!(
        ident,
        "passwd" | "chpasswd" | "gpasswd" | "htpasswd" | "smbpasswd" | "kpasswd" | "ldappasswd"
    );
    if !program {
        return false;
    }
    let near = &text[at..text.floor_char_boundary((at + 120).min(text.len()))];
    let words = || near.split_ascii_whitespace();
    let about = |word: &str| {
        let word = word.to_ascii_lowercase();
        [
            "password",
            "user",
            "account",
            "auth",
            "token",
            "login",
            "pam_",
            "line",
            "permission",
        ]
        .iter()
        .any(|start| word.starts_with(start))
    };
    examined(near.len());
    let first = words().next().unwrap_or_default();
    let count = words().take(4).count();
    count > 2 && words().any(about) || count == 2 && values::is_word(first) && about(first)
}

/// Whether a name is a piece of base64 that happens to end like one.
pub(super) fn is_material(ident: &str) -> bool {
    ident.len() >= 24
        && ident.to_ascii_lowercase().ends_with("pw")
        && values::is_mixed(ident)
        && values::distinct(ident) >= 16
}
