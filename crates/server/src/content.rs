//! Content that programs and files of a project have made. Everything in it may come from a
//! stranger, so all of it is cleaned before it leaves: texts, base64, links, notes beside
//! them, and definitions.

use base64::{Engine, engine::general_purpose::STANDARD};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use rmcp::model::ContentBlock;
use serde_json::{Map, Value, json};

use kubecrier_redact::{Redactor, neutralise};

/// The keys of a definition by which a client names it again. A project's author chose them.
const IDENTITY: [&str; 3] = ["name", "uri", "uriTemplate"];

/// What a URI cannot have, and a mark has.
const NO_URI: &AsciiSet = &CONTROLS.add(b' ').add(b'[').add(b']');

/// Types of text that do not begin with `text/`.
const TEXT_TYPES: [&str; 11] = [
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/jsonl",
    "application/sql",
    "application/toml",
    "application/x-ndjson",
    "application/x-sh",
    "application/x-yaml",
    "application/xml",
    "application/yaml",
];

/// Cleans a content block. One that could not be made again from what is left of it becomes
/// text.
pub(super) fn clean(redactor: &Redactor, block: &mut ContentBlock) {
    let mut value = serde_json::to_value(&*block).unwrap_or_default();
    clean_block(redactor, &mut value);
    *block = to_block(value);
}

/// A content block; a value that looks like one and is none is shown as text.
pub(super) fn to_block(value: Value) -> ContentBlock {
    serde_json::from_value(value.clone()).unwrap_or_else(|_| ContentBlock::text(value.to_string()))
}

/// Cleans a content block of a tool's answer.
pub(super) fn clean_block(redactor: &Redactor, block: &mut Value) {
    let kind = block["type"].as_str().unwrap_or_default();
    match kind {
        "image" | "audio" => clean_with_base64(redactor, block, "data"),
        "resource_link" => {
            redactor.json(block);
            escape_uri(block);
        }
        "resource" => {
            if let Some(resource) = block.get_mut("resource") {
                let mut inner = resource.take();
                clean_with_base64(redactor, &mut inner, "blob");
                escape_uri(&mut inner);
                redactor.json(block);
                block["resource"] = inner;
            } else {
                redactor.json(block);
            }
        }
        _ => redactor.json(block),
    }
}

/// The content of a resource as `resources/read` shows it: text, or base64 of what is no
/// text.
pub(super) fn contents(
    redactor: &Redactor,
    uri: &str,
    bytes: &[u8],
    mime_type: Option<&str>,
) -> Value {
    let mut contents = if is_text(bytes, mime_type) {
        let text = String::from_utf8_lossy(bytes);
        json!({"uri": uri, "text": redactor.workload(&text)})
    } else {
        let blob = clean_bytes(redactor, bytes, mime_type);
        json!({"uri": uri, "blob": STANDARD.encode(blob.as_deref().unwrap_or(bytes))})
    };
    if let Some(mime_type) = mime_type {
        contents["mimeType"] = mime_type.into();
    }
    contents
}

/// A definition as lists show it. What clients name it by stays as it is.
pub(super) fn clean_definition(redactor: &Redactor, definition: &Value) -> Value {
    let mut clean = definition.clone();
    redactor.json(&mut clean);
    for key in IDENTITY {
        if let Some(value) = definition.get(key) {
            clean[key] = value.clone();
        }
    }
    clean
}

/// Makes a URI again of one in which a mark stands for a secret.
fn escape_uri(object: &mut Value) {
    if let Some(Value::String(uri)) = object.get_mut("uri")
        && uri.contains(['[', ' '])
    {
        *uri = utf8_percent_encode(uri, NO_URI).to_string();
    }
}

/// Cleans an object of which one field is base64.
fn clean_with_base64(redactor: &Redactor, object: &mut Value, field: &str) {
    let encoded = object
        .as_object_mut()
        .and_then(|fields: &mut Map<String, Value>| fields.remove(field));
    let mime_type = object["mimeType"].as_str().map(str::to_owned);
    redactor.json(object);
    let clean = match encoded {
        None => return,
        Some(Value::String(encoded)) => clean_base64(redactor, encoded, mime_type.as_deref()),
        Some(mut other) => {
            redactor.json(&mut other);
            other
        }
    };
    object[field] = clean;
}

fn clean_base64(redactor: &Redactor, encoded: String, mime_type: Option<&str>) -> Value {
    let Ok(bytes) = STANDARD.decode(&encoded) else {
        // It says that it is base64, and is just a text.
        return redactor.workload(&encoded).into();
    };
    match clean_bytes(redactor, &bytes, mime_type) {
        Some(clean) => STANDARD.encode(clean).into(),
        None => encoded.into(),
    }
}

/// The bytes without secrets, and if they are text without control characters; `None` if
/// nothing is to be changed. Bytes that are no text are searched too: a stranger's single
/// byte must not hide a secret. Without a secret they stay as they are, so that an image
/// stays an image.
fn clean_bytes(redactor: &Redactor, bytes: &[u8], mime_type: Option<&str>) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(bytes);
    let clean = if is_text(bytes, mime_type) {
        redactor.workload(&text)
    } else {
        let plain = neutralise(&text);
        let clean = redactor.text(&plain);
        if clean == plain {
            return None;
        }
        clean.into_owned().into()
    };
    (clean.as_bytes() != bytes).then(|| clean.into_owned().into_bytes())
}

/// Whether bytes are text: by their type, or by how they look.
fn is_text(bytes: &[u8], mime_type: Option<&str>) -> bool {
    let kind = mime_type.unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    let is_text_type = kind.starts_with("text/")
        || TEXT_TYPES.contains(&kind.as_str())
        || ["+json", "+xml", "+yaml"]
            .iter()
            .any(|suffix| kind.ends_with(suffix));
    if is_text_type {
        return true;
    }
    let is_media = ["image/", "audio/", "video/", "font/"]
        .iter()
        .any(|family| kind.starts_with(family));
    if std::str::from_utf8(bytes).is_ok() {
        return kind.is_empty() || !bytes.contains(&0);
    }
    // A text with a few bytes of another encoding in it; a quarter of an image is that.
    let foreign = bytes
        .utf8_chunks()
        .filter(|chunk| !chunk.invalid().is_empty());
    !is_media && !bytes.contains(&0) && foreign.count() * 10 <= bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "password=swordfish-1";

    fn redactor() -> Redactor {
        Redactor::default()
    }

    fn with_foreign_byte(text: &str) -> Vec<u8> {
        [b"caf\xe9 ", text.as_bytes()].concat()
    }

    /// What a client can read in a value, base64 included.
    fn readable(value: &Value) -> String {
        match value {
            Value::String(text) => {
                let decoded = STANDARD.decode(text).unwrap_or_default();
                format!("{text} {}", String::from_utf8_lossy(&decoded))
            }
            Value::Array(items) => items.iter().map(readable).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, one)| format!("{key} {}", readable(one)))
                .collect(),
            other => other.to_string(),
        }
    }

    #[test]
    fn one_foreign_byte_hides_no_secret() {
        for kind in [
            None,
            Some("text/plain"),
            Some("application/octet-stream"),
            Some("application/json; charset=x"),
            Some("image/png"),
        ] {
            let contents = contents(&redactor(), "x://a", &with_foreign_byte(SECRET), kind);
            assert!(
                !readable(&contents).contains("swordfish"),
                "{kind:?}: {contents}"
            );
            assert!(
                readable(&contents).contains("[redacted"),
                "{kind:?}: {contents}"
            );
            let is_blob = contents.get("blob").is_some();
            assert_eq!(is_blob, kind == Some("image/png"), "{kind:?}");
        }
        let contents = contents(&redactor(), "x://a", b"caf\xe9 au lait", None);
        assert_eq!(contents["text"], "caf\u{fffd} au lait");
    }

    #[test]
    fn what_is_no_text_stays_as_it_is() {
        let image: Vec<u8> = [
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec(),
            (0..=255).rev().collect(),
        ]
        .concat();
        for kind in [None, Some("image/png"), Some("application/octet-stream")] {
            let contents = contents(&redactor(), "x://a", &image, kind);
            assert_eq!(contents["blob"], STANDARD.encode(&image), "{kind:?}");
        }
        let zeros = contents(&redactor(), "x://a", &[0; 64], Some("image/bmp"));
        assert_eq!(zeros["blob"], STANDARD.encode([0; 64]));
        let mut block =
            json!({"type": "image", "mimeType": "image/png", "data": STANDARD.encode(&image)});
        let before = block.clone();
        clean_block(&redactor(), &mut block);
        assert_eq!(block, before);
    }

    #[test]
    fn every_part_of_a_block_is_cleaned() {
        let encoded = |bytes: &[u8]| STANDARD.encode(bytes);
        let note = json!({"note": SECRET, "deep": [{"x": SECRET}]});
        for block in [
            json!({"type": "text", "text": SECRET, "_meta": note, "annotations": note}),
            json!({"type": "resource", "_meta": note, "annotations": note,
                "resource": {"uri": format!("x://{SECRET}"), "text": SECRET, "_meta": note}}),
            json!({"type": "resource",
                "resource": {"uri": "x://a", "mimeType": "text/plain", "blob": encoded(SECRET.as_bytes())}}),
            json!({"type": "resource", "resource": {"uri": "x://a", "blob": encoded(&with_foreign_byte(SECRET))}}),
            json!({"type": "resource", "resource": {"uri": "x://a", "blob": format!("not base64 {SECRET}")}}),
            json!({"type": "resource", "resource": SECRET}),
            json!({"type": "resource", "note": SECRET}),
            json!({"type": "resource_link", "uri": format!("x://{SECRET}"), "name": SECRET,
                "title": SECRET, "description": SECRET, "_meta": note}),
            json!({"type": "image", "mimeType": SECRET, "data": encoded(SECRET.as_bytes()), "_meta": note}),
            json!({"type": "audio", "mimeType": "audio/wav", "data": encoded(&[SECRET.as_bytes(), b" \0\xff"].concat())}),
            json!({"type": "image", "data": [SECRET]}),
        ] {
            let mut clean = block.clone();
            clean_block(&redactor(), &mut clean);
            assert!(!readable(&clean).contains("swordfish"), "{block}: {clean}");
            assert_eq!(clean["type"], block["type"]);
            let uris = [&clean["uri"], &clean["resource"]["uri"]];
            for uri in uris.into_iter().filter_map(Value::as_str) {
                assert!(!uri.contains(['[', ']', ' ']), "{uri} is no URI");
            }
            let mut typed = to_block(block);
            super::clean(&redactor(), &mut typed);
            let typed = serde_json::to_value(typed).unwrap();
            assert!(!readable(&typed).contains("swordfish"), "{typed}");
        }
    }

    #[test]
    fn a_definition_keeps_the_name_it_is_called_by() {
        let name = "sk-learn-inference-7d9f8c6b5d-abcde";
        let definition = json!({"name": name, "uri": "x://a", "title": SECRET, "description": SECRET,
            "inputSchema": {"type": "object", "properties": {"token": {"type": "string", "description": SECRET}},
                "required": ["token"]}});
        let clean = clean_definition(&redactor(), &definition);
        assert!(!clean.to_string().contains("swordfish"), "{clean}");
        assert_eq!(clean["name"], name);
        let schema = &clean["inputSchema"];
        assert_eq!(
            (&schema["required"], &schema["properties"]["token"]["type"]),
            (&json!(["token"]), &json!("string"))
        );
    }
}
