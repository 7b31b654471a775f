//! Secrets of Kubernetes as somebody printed them: the whole object, in YAML or
//! JSON, whose values look like anything.

use std::sync::LazyLock;

use regex::Regex;

use super::edits::Edits;

static IS_SECRET: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\bkind\\*"?\s{0,4}:\s{0,4}\\*"?Secret\b"#).expect("tests compile it")
});

/// Where the values are: a line of YAML, or a key of JSON.
static VALUES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?m)^([ \t]*(?:- )?)(?:data|stringData):[ \t]*\r?\n|\\*"(?:data|stringData)\\*"\s{0,4}:\s{0,4}\{"#)
        .expect("tests compile it")
});

/// Marks the values of every Secret, if there is one in the text at all.
pub(super) fn redact(edits: &mut Edits<'_>) {
    let text = edits.text();
    if !text.contains("Secret") || !IS_SECRET.is_match(text) {
        return;
    }
    let mut from = 0;
    while let Some(found) = VALUES.captures_at(text, from) {
        let Some(whole) = found.get(0) else {
            return;
        };
        from = match found.get(1) {
            Some(indent) => yaml(edits, indent.as_str().len(), whole.end()),
            None => json(edits, whole.end()),
        };
    }
}

/// Marks the values of deeper lines; answers where they end.
fn yaml(edits: &mut Edits<'_>, indent: usize, from: usize) -> usize {
    let text = edits.text();
    let mut at = from;
    let mut entry = None;
    for line in text[from..].split_inclusive('\n') {
        let body = line.trim_start_matches([' ', '\t']);
        let deep = line.len() - body.len();
        let body = body.trim_end();
        if !body.is_empty() && deep <= indent {
            break;
        }
        let own = *entry.get_or_insert(deep);
        let start = at + deep;
        match body.find(':').filter(|_| deep == own) {
            Some(colon) => {
                let value = body[colon + 1..].trim_start();
                let value_at = start + body.len() - value.len();
                if !matches!(value, "" | "|" | "|-" | ">" | ">-" | "|+") {
                    mark(edits, value_at, start + body.len());
                }
            }
            None => mark(edits, start, start + body.len()),
        }
        at += line.len();
    }
    at
}

/// Marks what stands between the braces; answers where they close.
fn json(edits: &mut Edits<'_>, from: usize) -> usize {
    let text = edits.text();
    let (mut depth, mut quoted, mut escaped) = (1_usize, false, false);
    for (at, byte) in text.bytes().enumerate().skip(from) {
        match byte {
            _ if escaped => escaped = false,
            // Of a document within a string every quote is escaped.
            b'\\' if quoted && text.as_bytes().get(at + 1) != Some(&b'"') => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            mark(edits, from, at);
            return at;
        }
    }
    mark(edits, from, text.len());
    text.len()
}

fn mark(edits: &mut Edits<'_>, from: usize, to: usize) {
    if !edits.text()[from..to].trim().starts_with("[redacted") {
        edits.redact(from..to, "secret");
    }
}
