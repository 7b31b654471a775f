//! The registration: `server.d/register.json`, or what `server.d/register.sh` prints.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The size of a registration in bytes.
pub(super) const BYTES_MAX: u64 = 1 << 20;

const VERSION: u64 = 1;

/// Lists the items to serve. A list that is absent is discovered in the folder; a list that
/// is present is served exactly as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Registration {
    pub(super) tools: Option<Vec<Map<String, Value>>>,
    pub(super) resources: Option<Vec<Map<String, Value>>>,
    pub(super) templates: Option<Vec<Map<String, Value>>>,
    pub(super) prompts: Option<Vec<Map<String, Value>>>,
    /// The number of completions, which are not served.
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

// === impl Registration ===

impl Registration {
    /// Parses a registration; unknown fields are errors.
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

    /// A registration of nothing, for a file that cannot be parsed: which lists it was to
    /// switch off is unknown.
    pub(super) fn empty() -> Self {
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
        let registration = Registration::parse(text).unwrap();
        assert_eq!(registration.tools, Some(Vec::new()));
        assert_eq!(registration.prompts, None);
        assert_eq!(registration.resources, None);
    }

    #[test]
    fn an_invalid_registration_is_rejected_with_its_reason() {
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
            let error = Registration::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(Registration::parse(b"{\"version\": 1, \"_meta\": \"\xff\"}").is_err());
    }
}
