//! Metadata of items, in a meta file or an entry of `register.json`. Unknown keys are
//! ignored, because other programs read the same files.

use std::time::Duration;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{
    arguments::{self, InputSchema},
    item::{ItemKind, PromptArgument, TaskSupport},
    template::{self, Template},
};

/// The default timeout of a tool.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
const TIMEOUT_SECONDS_MAX: u64 = 3_600;
const TOOL_NAME_MAX: usize = 64;
const NAME_MAX: usize = 128;
const URI_MAX: usize = 2_048;

/// The metadata of a tool.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ToolMeta {
    pub(super) name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    #[serde(alias = "arguments")]
    input_schema: Option<Map<String, Value>>,
    output_schema: Option<Map<String, Value>>,
    annotations: Option<Map<String, Value>>,
    icons: Option<Vec<Value>>,
    timeout_secs: Option<u64>,
    pub(super) timeout_hint: Option<String>,
    pub(super) task: Option<TaskSupport>,
    /// The executable, relative to `tools/`; only in `register.json`.
    pub(super) path: Option<String>,
}

/// The metadata of a resource or a template.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ResourceMeta {
    pub(super) name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    pub(super) uri: Option<String>,
    pub(super) uri_template: Option<String>,
    pub(super) mime_type: Option<String>,
    pub(super) provider: Option<String>,
    /// The file, relative to `resources/`.
    pub(super) path: Option<String>,
    annotations: Option<Map<String, Value>>,
    icons: Option<Vec<Value>>,
}

/// The metadata of a prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PromptMeta {
    pub(super) name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    arguments: Option<Value>,
    role: Option<String>,
    /// The text, relative to `prompts/`.
    pub(super) path: Option<String>,
    icons: Option<Vec<Value>>,
}

/// Parses a meta file, and makes of it what clients would see: the definition of the item.
/// Nothing else of the project is read.
pub fn parse_meta(kind: ItemKind, bytes: &[u8]) -> Result<Value, String> {
    match kind {
        ItemKind::Tool => {
            let about: ToolMeta = read(bytes)?;
            let name = about.name.as_deref().unwrap_or("tool");
            tool_name(name)?;
            about.timeout()?;
            let definition = about.definition(name)?;
            InputSchema::compile(&definition["inputSchema"])?;
            Ok(definition)
        }
        ItemKind::Resource => {
            let about: ResourceMeta = read(bytes)?;
            let uri = about.uri.as_deref().unwrap_or("file://./resource");
            check_uri(uri)?;
            about.name.as_deref().map_or(Ok(()), plain_name)?;
            check_optional_path(about.path.as_deref())?;
            Ok(about.definition(about.name.as_deref().unwrap_or(uri), "uri", uri))
        }
        ItemKind::ResourceTemplate => {
            let about: ResourceMeta = read(bytes)?;
            let text = about.uri_template.as_deref().unwrap_or_default();
            check_uri(text.split('{').next().unwrap_or_default())?;
            about.name.as_deref().map_or(Ok(()), plain_name)?;
            check_optional_path(about.path.as_deref())?;
            let template = Template::parse(text).map_err(|error| error.to_string())?;
            arguments::check_clashes(template.names())?;
            Ok(about.definition(about.name.as_deref().unwrap_or(text), "uriTemplate", text))
        }
        ItemKind::Prompt => {
            let about: PromptMeta = read(bytes)?;
            let name = about.name.as_deref().unwrap_or("prompt");
            plain_name(name)?;
            about.role()?;
            let arguments = about.arguments()?.unwrap_or_default();
            Ok(about.definition(name, &arguments))
        }
    }
}

fn check_optional_path(path: Option<&str>) -> Result<(), String> {
    path.map_or(Ok(()), template::check_path)
}

/// Parses a meta file; the error names the field that does not fit.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
    from_value(value)
}

pub(super) fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    if !value.is_object() {
        return Err("it must be a JSON object".to_owned());
    }
    serde_path_to_error::deserialize(value)
        .map_err(|error| format!("`{}`: {}", error.path(), error.inner()))
}

// === impl ToolMeta ===

impl ToolMeta {
    pub(super) fn timeout(&self) -> Result<Duration, String> {
        match self.timeout_secs {
            None => Ok(TIMEOUT),
            Some(seconds @ 1..=TIMEOUT_SECONDS_MAX) => Ok(Duration::from_secs(seconds)),
            Some(other) => Err(format!(
                "`timeoutSecs` is {other}, but must be from 1 to {TIMEOUT_SECONDS_MAX}"
            )),
        }
    }

    /// The tool as clients see it.
    pub(super) fn definition(&self, name: &str) -> Result<Value, String> {
        let mut schema = self.input_schema.clone().unwrap_or_default();
        object_schema("inputSchema", &mut schema)?;
        schema.entry("properties").or_insert_with(|| json!({}));
        let mut output_schema = self.output_schema.clone();
        if let Some(schema) = &mut output_schema {
            object_schema("outputSchema", schema)?;
        }
        Ok(object([
            ("name", name.into()),
            ("title", json!(self.title)),
            ("description", json!(self.description)),
            ("inputSchema", Value::Object(schema)),
            ("outputSchema", json!(output_schema)),
            ("annotations", json!(self.annotations)),
            ("icons", icons(self.icons.as_deref())),
        ]))
    }
}

fn object_schema(key: &str, schema: &mut Map<String, Value>) -> Result<(), String> {
    let kind = schema.entry("type").or_insert_with(|| "object".into());
    if kind != "object" {
        return Err(format!("`{key}` must be of type object, not {kind}"));
    }
    for (part, fits) in [
        ("properties", Value::is_object as fn(&Value) -> bool),
        ("required", Value::is_array),
    ] {
        if schema.get(part).is_some_and(|value| !fits(value)) {
            return Err(format!("`{key}.{part}` is of the wrong type"));
        }
    }
    Ok(())
}

// === impl ResourceMeta ===

impl ResourceMeta {
    /// The resource as clients see it; `key` is `uri` or `uriTemplate`.
    pub(super) fn definition(&self, name: &str, key: &str, uri: &str) -> Value {
        object([
            ("name", name.into()),
            (key, uri.into()),
            ("title", json!(self.title)),
            ("description", json!(self.description)),
            ("mimeType", json!(self.mime_type)),
            ("annotations", json!(self.annotations)),
            ("icons", icons(self.icons.as_deref())),
        ])
    }
}

// === impl PromptMeta ===

impl PromptMeta {
    pub(super) fn role(&self) -> Result<String, String> {
        match self.role.as_deref().unwrap_or("user") {
            role @ ("user" | "assistant") => Ok(role.to_owned()),
            // MCP has no system role; such a prompt is shown as the user's.
            "system" => Ok("user".to_owned()),
            other => Err(format!(
                "`role` is `{other}`, but must be user or assistant"
            )),
        }
    }

    /// The arguments, declared as a JSON schema or as a list as in MCP; `None` if they are
    /// not declared.
    pub(super) fn arguments(&self) -> Result<Option<Vec<PromptArgument>>, String> {
        match &self.arguments {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(list)) => {
                let read = |one: &Value| {
                    from_value(one.clone()).map_err(|error| format!("`arguments`: {error}"))
                };
                list.iter().map(read).collect::<Result<_, _>>().map(Some)
            }
            Some(Value::Object(schema)) => {
                let mut schema = schema.clone();
                object_schema("arguments", &mut schema)?;
                let required = |name: &str| {
                    let list = schema.get("required").and_then(Value::as_array);
                    list.is_some_and(|list| list.iter().any(|one| one == name))
                };
                let properties = schema.get("properties").and_then(Value::as_object);
                let read = |(name, about): (&String, &Value)| PromptArgument {
                    name: name.clone(),
                    description: about["description"].as_str().map(str::to_owned),
                    required: required(name),
                };
                Ok(Some(properties.into_iter().flatten().map(read).collect()))
            }
            Some(_) => Err("`arguments` must be a schema or a list".to_owned()),
        }
    }

    /// The prompt as clients see it.
    pub(super) fn definition(&self, name: &str, arguments: &[PromptArgument]) -> Value {
        object([
            ("name", name.into()),
            ("title", json!(self.title)),
            ("description", json!(self.description)),
            ("arguments", json!(arguments)),
            ("icons", icons(self.icons.as_deref())),
        ])
    }
}

/// A JSON object of the fields that are not null.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let given = fields.into_iter().filter(|(_, value)| !value.is_null());
    given.collect()
}

/// The icons that a client can load; one in the project folder it cannot. Null without any.
fn icons(icons: Option<&[Value]>) -> Value {
    let reachable = |icon: &&Value| {
        let source = icon["src"].as_str().unwrap_or_default();
        source.starts_with("https:") || source.starts_with("data:")
    };
    let icons: Vec<_> = icons.into_iter().flatten().filter(reachable).collect();
    if icons.is_empty() {
        Value::Null
    } else {
        json!(icons)
    }
}

/// Checks the name of a tool, with the characters of the protocol.
pub(super) fn tool_name(name: &str) -> Result<(), String> {
    let fits = (1..=TOOL_NAME_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|one| one.is_ascii_alphanumeric() || b"_-.".contains(&one));
    if fits {
        Ok(())
    } else {
        Err(format!(
            "`{name}` is not a name of a tool: letters, digits, `_`, `-` and `.`, at most {TOOL_NAME_MAX}"
        ))
    }
}

/// Checks the name of any other item.
pub(super) fn plain_name(name: &str) -> Result<(), String> {
    let fits = (1..=NAME_MAX).contains(&name.chars().count()) && !name.contains(char::is_control);
    if fits {
        Ok(())
    } else {
        Err(format!("its name must have 1 to {NAME_MAX} characters"))
    }
}

/// Checks that a text is a URI: a scheme, and no control characters or spaces.
pub(super) fn check_uri(uri: &str) -> Result<(), String> {
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme);
    let is_scheme = scheme.is_some_and(|scheme| {
        scheme.starts_with(|one: char| one.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|one| one.is_ascii_alphanumeric() || "+-.".contains(one))
    });
    let odd = |one: char| one.is_control() || one.is_whitespace();
    if is_scheme && uri.len() <= URI_MAX && !uri.contains(odd) {
        Ok(())
    } else {
        Err(format!("`{uri}` is not a URI"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(value: Value) -> Result<Value, String> {
        from_value::<ToolMeta>(value)?.definition("t")
    }

    #[test]
    fn an_input_schema_is_an_object() {
        let definition = tool(json!({"description": "d", "_comment": 1})).unwrap();
        let schema = json!({"type": "object", "properties": {}});
        assert_eq!(
            definition,
            json!({"name": "t", "description": "d", "inputSchema": schema})
        );
        for bad in [
            json!({"inputSchema": []}),
            json!({"inputSchema": {"type": "string"}}),
            json!({"inputSchema": {"properties": []}}),
            json!({"outputSchema": {"type": "array"}}),
            json!({"description": 7}),
            json!([]),
        ] {
            assert!(tool(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_timeout_is_within_its_limits() {
        let timeout = |value| from_value::<ToolMeta>(value).unwrap().timeout();
        assert_eq!(timeout(json!({})), Ok(TIMEOUT));
        assert_eq!(
            timeout(json!({"timeoutSecs": 5})),
            Ok(Duration::from_secs(5))
        );
        assert!(timeout(json!({"timeoutSecs": 0})).is_err());
        assert!(timeout(json!({"timeoutSecs": 3601})).is_err());
    }

    #[test]
    fn names_and_uris_are_checked() {
        for good in ["a", "check-disk_2", "manual.progress", &"x".repeat(64)] {
            assert!(tool_name(good).is_ok(), "{good}");
        }
        for bad in ["", "a/b", "a b", "ä", &"x".repeat(65)] {
            assert!(tool_name(bad).is_err(), "{bad}");
        }
        assert!(plain_name("prompt.greeting").is_ok());
        assert!(plain_name("a\nb").is_err());
        assert!(check_uri("file://./resources/a.txt").is_ok());
        for bad in ["", "a", "a b:c", ":x", "x:a b", "x:\n"] {
            assert!(check_uri(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn prompt_arguments_are_a_schema_or_a_list() {
        let arguments = |value| {
            from_value::<PromptMeta>(json!({"arguments": value}))
                .unwrap()
                .arguments()
        };
        let expected = vec![PromptArgument {
            name: "who".to_owned(),
            description: Some("d".to_owned()),
            required: true,
        }];
        let schema = json!({"type": "object", "required": ["who"],
            "properties": {"who": {"type": "string", "description": "d"}}});
        assert_eq!(arguments(schema), Ok(Some(expected.clone())));
        let list = json!([{"name": "who", "description": "d", "required": true}]);
        assert_eq!(arguments(list), Ok(Some(expected)));
        assert_eq!(arguments(Value::Null), Ok(None));
        assert!(arguments(json!("who")).is_err());
    }

    const KINDS: [ItemKind; 4] = [
        ItemKind::Tool,
        ItemKind::Resource,
        ItemKind::ResourceTemplate,
        ItemKind::Prompt,
    ];

    proptest::proptest! {
        #[test]
        fn fuzz_a_meta_file_is_parsed_or_refused(
            text in r#"\{("(name|uri|uriTemplate|arguments|inputSchema|path|role|icons)":("[a-z:/{}+.]{0,9}"|\[\]|\{\}|null|7),?){0,4}\}"#,
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40),
        ) {
            for kind in KINDS {
                let _either = (parse_meta(kind, text.as_bytes()), parse_meta(kind, &bytes));
            }
        }
    }

    #[test]
    fn each_kind_of_meta_file_becomes_a_definition() {
        let all = br#"{"name": "a", "uri": "x://a", "uriTemplate": "x://{b}", "description": "d"}"#;
        for kind in KINDS {
            let definition = parse_meta(kind, all).unwrap();
            assert_eq!(definition["name"], "a", "{kind:?}");
            assert!(parse_meta(kind, b"{").is_err());
        }
        assert!(parse_meta(ItemKind::ResourceTemplate, b"{}").is_err());
    }

    #[test]
    fn only_icons_that_a_client_can_load_are_shown() {
        let icons = json!([{"src": "./icon.svg"}, {"src": "https://x.test/i.png"}]);
        let definition = tool(json!({"icons": icons})).unwrap();
        assert_eq!(
            definition["icons"],
            json!([{"src": "https://x.test/i.png"}])
        );
    }
}
