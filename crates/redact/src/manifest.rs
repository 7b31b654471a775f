//! Secret objects of Kubernetes printed as YAML or JSON. Their values may look like
//! anything, so they are found by the keys `data` and `stringData`.

use std::sync::LazyLock;

use regex::Regex;

use super::rewriter::Rewriter;

static IS_SECRET: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\bkind\\*"?\s{0,4}:\s{0,4}\\*"?Secret\b"#).expect("tests compile it")
});

/// Matches the beginning of the values: a line of YAML, or a key of JSON.
static VALUES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?m)^([ \t]*(?:- )?)(?:data|stringData):[ \t]*\r?\n|\\*"(?:data|stringData)\\*"\s{0,4}:\s{0,4}\{"#)
        .expect("tests compile it")
});

/// Redacts the values of every Secret, if the text has one.
pub(super) fn redact(rewriter: &mut Rewriter<'_>) {
    let text = rewriter.text();
    if !text.contains("Secret") || !IS_SECRET.is_match(text) {
        return;
    }
    let mut from = 0;
    while let Some(found) = VALUES.captures_at(text, from) {
        let Some(whole) = found.get(0) else {
            return;
        };
        from = match found.get(1) {
            Some(indent) => yaml(rewriter, indent.as_str().len(), whole.end()),
            None => json(rewriter, whole.end()),
        };
    }
}

/// Redacts the values of deeper lines and returns where these lines end.
fn yaml(rewriter: &mut Rewriter<'_>, indent: usize, from: usize) -> usize {
    let text = rewriter.text();
    let mut at = from;
    let mut entry = None;
    for line in text[from..].split_inclusive('\n') {
        let body = line.trim_start_matches([' ', '\t']);
        let depth = line.len() - body.len();
        let body = body.trim_end();
        if !body.is_empty() && depth <= indent {
            break;
        }
        let entry_depth = *entry.get_or_insert(depth);
        let start = at + depth;
        match body.find(':').filter(|_| depth == entry_depth) {
            Some(colon) => {
                let value = body[colon + 1..].trim_start();
                let value_at = start + body.len() - value.len();
                if !matches!(value, "" | "|" | "|-" | ">" | ">-" | "|+") {
                    mark(rewriter, value_at, start + body.len());
                }
            }
            None => mark(rewriter, start, start + body.len()),
        }
        at += line.len();
    }
    at
}

/// Redacts everything between the braces and returns where they close.
fn json(rewriter: &mut Rewriter<'_>, from: usize) -> usize {
    let text = rewriter.text();
    let (mut depth, mut quoted, mut escaped) = (1_usize, false, false);
    for (at, byte) in text.bytes().enumerate().skip(from) {
        match byte {
            _ if escaped => escaped = false,
            // In a document that is itself a JSON string, every quote is escaped.
            b'\\' if quoted && text.as_bytes().get(at + 1) != Some(&b'"') => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            mark(rewriter, from, at);
            return at;
        }
    }
    mark(rewriter, from, text.len());
    text.len()
}

fn mark(rewriter: &mut Rewriter<'_>, from: usize, to: usize) {
    if !rewriter.text()[from..to].trim().starts_with("[redacted") {
        rewriter.redact(from..to, "secret");
    }
}
