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

/// A line that a function of mcp-bash's hooks prints.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HookCall {
    register: HookKind,
    entry: Option<Value>,
    /// The list begins anew.
    #[serde(default, rename = "begin")]
    _begin: bool,
    /// The list is discovered after all.
    #[serde(default)]
    abort: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum HookKind {
    Tools,
    Resources,
    ResourceTemplates,
    Prompts,
    Completions,
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

    /// Parses the output of a hook: a registration, or the lines that mcp-bash's functions print.
    pub(super) fn parse_hook(bytes: &[u8]) -> Result<Self, String> {
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > BYTES_MAX {
            return Self::parse(bytes);
        }
        let mut calls = serde_json::Deserializer::from_slice(bytes).into_iter::<HookCall>();
        match calls.next() {
            Some(Ok(first)) => {
                let mut found = Self::default();
                found.register(first)?;
                for call in calls {
                    found.register(call.map_err(|error| error.to_string())?)?;
                }
                Ok(found)
            }
            Some(Err(_)) | None => Self::parse(bytes),
        }
    }

    /// Does what a function of mcp-bash's hooks does.
    fn register(&mut self, call: HookCall) -> Result<(), String> {
        let HookCall {
            register,
            entry,
            abort,
            ..
        } = call;
        let list = match register {
            HookKind::Tools => &mut self.tools,
            HookKind::Resources => &mut self.resources,
            HookKind::ResourceTemplates => &mut self.templates,
            HookKind::Prompts => &mut self.prompts,
            HookKind::Completions => {
                self.completions += usize::from(entry.is_some());
                return Ok(());
            }
        };
        match entry {
            Some(Value::Object(entry)) => list.get_or_insert_default().push(entry),
            Some(other) => return Err(format!("`{other}` is registered, and is no JSON object")),
            None if abort => *list = None,
            None => *list = Some(Vec::new()),
        }
        Ok(())
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
    fn the_calls_of_a_hook_are_a_registration() {
        let text = br#"{"register":"tools","begin":true}
            {"register":"tools","entry":{"name":
                "a"}}
            {"register":"prompts","begin":true}
            {"register":"resources","entry":{"name": "b"}}
            {"register":"resources","abort":true}
            {"register":"completions","entry":{"name": "c"}}"#;
        let registration = Registration::parse_hook(text).unwrap();
        let names: Vec<_> = registration.tools.iter().flatten().collect();
        assert_eq!(names.len(), 1);
        assert_eq!(names[0]["name"], "a");
        assert_eq!(registration.prompts, Some(Vec::new()));
        assert_eq!(
            (registration.resources, registration.templates),
            (None, None)
        );
        assert_eq!(registration.completions, 1);
        let whole = br#"{"version": 1, "tools": []}"#;
        assert_eq!(Registration::parse_hook(whole), Registration::parse(whole));
        for bad in [
            &b""[..],
            b"{\"register\":\"tools\",\"entry\":no}",
            b"{\"register\":\"tools\",\"entry\":7}",
            b"{\"register\":\"others\"}",
            b"{\"register\":\"tools\"} and more",
            b"{\"register\":\"tools\"} {\"version\": 1}",
        ] {
            assert!(Registration::parse_hook(bad).is_err(), "{bad:?}");
        }
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
