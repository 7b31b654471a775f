//! The ways that text takes through the redactor.

use kubecrier_redact::Redactor;
use serde_json::{Value, json};

use crate::expand::Expanded;

/// As many characters of a secret in a row count as a leak.
const PIECE: usize = 6;

/// What comes out, by way: whole, line by line, as the message of a log record, and as a
/// string of JSON.
pub(crate) fn through(redactor: &Redactor, text: &str) -> Vec<(&'static str, String)> {
    let mut lines = redactor.lines();
    let by_line: Vec<String> = text
        .split('\n')
        .map(|line| lines.clean(line).into_owned())
        .collect();
    let clean = |way| redactor.workload(&untouched(way, text)).into_owned();
    vec![
        ("whole", clean("whole")),
        ("lines", by_line.join("\n")),
        ("record", clean("record")),
        ("string", clean("string")),
    ]
}

/// What would come out by this way if nothing were redacted.
pub(crate) fn untouched(way: &str, text: &str) -> String {
    match way {
        "record" => json!({"level": "info", "msg": text, "ts": "2026-11-16T05:00:00Z"}).to_string(),
        "string" => json!(text).to_string(),
        _ => text.to_owned(),
    }
}

/// A name, by the places where names stand.
pub(crate) fn around(name: &str) -> [(&'static str, String); 4] {
    [
        ("alone", name.to_owned()),
        ("sentence", format!("Started container of {name} on node-1")),
        ("pair", format!("level=info pod={name} ready=true")),
        ("json", json!({"kind": "Pod", "name": name}).to_string()),
    ]
}

/// The piece of a secret in an output, also where the output hides it behind JSON's escapes.
pub(crate) fn leak(expanded: &Expanded, output: &str) -> Option<String> {
    let plain: Option<Value> = serde_json::from_str(output).ok();
    let plain = plain.as_ref().map(|json| json.get("msg").unwrap_or(json));
    let plain = plain.and_then(Value::as_str).unwrap_or_default();
    expanded
        .pieces(PIECE)
        .find(|piece| output.contains(piece) || plain.contains(piece))
}
