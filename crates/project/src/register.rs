//! `server.d/register.json`: what is registered by hand, as data. Also what
//! `server.d/register.sh` prints.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The size of a registration.
pub(super) const BYTES_MAX: u64 = 1 << 20;

const VERSION: u64 = 1;

/// What is registered by hand. Of a kind that is absent, what lies in the folder
/// is served; of a kind that is there, exactly what it says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Register {
    pub(super) tools: Option<Vec<Map<String, Value>>>,
    pub(super) resources: Option<Vec<Map<String, Value>>>,
    pub(super) templates: Option<Vec<Map<String, Value>>>,
    pub(super) prompts: Option<Vec<Map<String, Value>>>,
    /// Completions, which are not served.
    pub(super) completions: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Wire {
    version: u64,
    tools: Option<Vec<Map<String, Value>>>,
    resources: Option<Vec<Map<String, Value>>>,
    resource_templates: Option<Vec<Map<String, Value>>>,
    prompts: Option<Vec<Map<String, Value>>>,
    completions: Option<Vec<Value>>,
    #[serde(rename = "_meta")]
    _meta: Option<Value>,
}

// === impl Register ===

impl Register {
    /// Reads a registration; anything unexpected is an error.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > BYTES_MAX {
            return Err(format!(
                "it has {} bytes, and may have {BYTES_MAX}",
                bytes.len()
            ));
        }
        if bytes.starts_with(b"\xef\xbb\xbf") {
            return Err("it begins with a byte order mark; save it as plain UTF-8".to_owned());
        }
        let wire: Wire = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => error.to_string(),
            _ => format!("it is not JSON: {error}"),
        })?;
        if wire.version != VERSION {
            return Err(format!(
                "`version` is {}, and only {VERSION} is known",
                wire.version
            ));
        }
        Ok(Self {
            tools: wire.tools,
            resources: wire.resources,
            templates: wire.resource_templates,
            prompts: wire.prompts,
            completions: wire.completions.map_or(0, |all| all.len()),
        })
    }

    /// Nothing at all. Of a file that cannot be read nobody knows what it was to
    /// switch off.
    pub(super) fn nothing() -> Self {
        Self {
            tools: Some(Vec::new()),
            resources: Some(Vec::new()),
            templates: Some(Vec::new()),
            prompts: Some(Vec::new()),
            completions: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_means_discover_and_empty_means_none() {
        let text = br#"{"version": 1, "tools": [], "prompts": null, "_meta": {"by": "me"}}"#;
        let register = Register::parse(text).unwrap();
        assert_eq!(register.tools, Some(Vec::new()));
        assert_eq!(register.prompts, None);
        assert_eq!(register.resources, None);
    }

    #[test]
    fn anything_unexpected_is_refused_with_its_reason() {
        let large = format!(r#"{{"version": 1, "_meta": "{}"}}"#, "x".repeat(2 << 20));
        for (text, reason) in [
            (r#"{"version": 2}"#, "`version` is 2"),
            (r#"{"tools": []}"#, "missing field `version`"),
            (r#"{"version": 1, "tool": []}"#, "unknown field `tool`"),
            (r#"{"version": 1, "tools": {}}"#, "invalid type"),
            (r#"{"version": 1, "tools": ["a"]}"#, "invalid type"),
            (
                r#"{"version": 1, "tools": [], "tools": []}"#,
                "duplicate field",
            ),
            (r#"{"version": 1,"#, "not JSON"),
            ("{\"version\": 1} // no", "not JSON"),
            ("", "not JSON"),
            ("\u{feff}{\"version\": 1}", "byte order mark"),
            (&large, "bytes, and may have 1048576"),
        ] {
            let error = Register::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(Register::parse(b"{\"version\": 1, \"_meta\": \"\xff\"}").is_err());
    }
}
