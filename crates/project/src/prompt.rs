//! Prompts: texts, or messages of the protocol, with placeholders: `{{name}}`, or
//! `${name}` of an argument that is declared, as mcp-bash has it.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use super::item::{PromptArgument, PromptItem};

static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{\s*([A-Za-z0-9_.-]{1,64})\s*\}\}|\$\{([A-Za-z0-9_]{1,64})\}")
        .expect("a constant that a test uses")
});

/// The number of messages of a prompt with the content of a file or a resource.
const FETCHED_MAX: usize = 16;

/// Says why a prompt cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// A required argument is missing.
    #[error("the prompt needs the argument `{0}`")]
    Missing(String),
}

/// The messages of a prompt that is written as JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Messages(Vec<Value>);

/// Renders a prompt into messages of the protocol. Values are not searched for placeholders, so
/// that one argument cannot read another. A placeholder that is neither declared nor given stays
/// as it is.
pub fn render(prompt: &PromptItem, given: &Map<String, Value>) -> Result<Vec<Value>, PromptError> {
    let value = |name: &str| match given.get(name)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    for argument in prompt.arguments.iter().filter(|one| one.required) {
        if value(&argument.name).is_none() {
            return Err(PromptError::Missing(argument.name.clone()));
        }
    }
    let declared = |name: &str| prompt.arguments.iter().any(|one| one.name == name);
    let fill = |text: &str| {
        let filled = PLACEHOLDER.replace_all(text, |found: &Captures<'_>| {
            let (name, is_shell) = match (found.get(1), found.get(2)) {
                (Some(name), _) => (name.as_str(), false),
                (None, name) => (name.map_or("", |name| name.as_str()), true),
            };
            match value(name) {
                // `${HOME}` in a text is a part of it, unless there is such an argument.
                _ if is_shell && !declared(name) => found[0].to_owned(),
                Some(text) => text,
                None if declared(name) => String::new(),
                None => found[0].to_owned(),
            }
        });
        filled.into_owned()
    };
    let mut messages = prompt.messages.clone();
    for message in &mut messages {
        fill_texts(message, &fill);
    }
    Ok(messages)
}

/// Whether content is a resource of which there is only the URI: it is read when the prompt is
/// asked for.
pub fn is_reference(content: &Value) -> bool {
    let resource = &content["resource"];
    content["type"] == "resource"
        && resource.get("text").is_none()
        && resource.get("blob").is_none()
}

/// Fills in every text of a value. Base64 has no braces, and stays as it is.
fn fill_texts(value: &mut Value, fill: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) if text.contains('{') => *text = fill(text),
        Value::Array(items) => items.iter_mut().for_each(|item| fill_texts(item, fill)),
        Value::Object(fields) => fields.values_mut().for_each(|one| fill_texts(one, fill)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

// === impl Messages ===

impl Messages {
    /// Parses `{"messages": [{"role": ..., "content": {...}}]}`.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut value: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
        let Some(Value::Array(messages)) = value.get_mut("messages").map(Value::take) else {
            return Err("a prompt in JSON must have a list `messages`".to_owned());
        };
        for (index, message) in messages.iter().enumerate() {
            check_message(message).map_err(|why| format!("`messages[{index}]`: {why}"))?;
        }
        let fetched = |message: &&Value| {
            let content = &message["content"];
            content.get("path").is_some() || is_reference(content)
        };
        if messages.iter().filter(fetched).count() > FETCHED_MAX {
            return Err(format!(
                "at most {FETCHED_MAX} of its messages may show a file or a resource"
            ));
        }
        Ok(Self(messages))
    }

    /// One message with a text.
    pub(super) fn of_text(text: &str, role: &str) -> Self {
        Self(vec![
            json!({"role": role, "content": {"type": "text", "text": text}}),
        ])
    }

    /// The files of images and sounds, relative to `prompts/`.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let paths = self.0.iter().map(|message| &message["content"]["path"]);
        paths.filter_map(Value::as_str)
    }

    /// Puts the content of the files, as base64, in the place of their paths.
    pub(super) fn fill(&mut self, files: impl IntoIterator<Item = String>) {
        let contents = self.0.iter_mut().filter_map(|message| {
            let content = message["content"].as_object_mut()?;
            content.remove("path").map(|_path| content)
        });
        for (content, data) in contents.zip(files) {
            content.insert("data".to_owned(), data.into());
        }
    }

    pub(super) fn into_values(self) -> Vec<Value> {
        self.0
    }
}

fn check_message(message: &Value) -> Result<(), String> {
    if !matches!(message["role"].as_str(), Some("user" | "assistant")) {
        return Err("`role` must be user or assistant".to_owned());
    }
    let content = &message["content"];
    let has = |fields: &Value, name: &str| {
        let text = fields[name].as_str().map(|_text| ());
        text.ok_or_else(|| format!("its content must have a text `{name}`"))
    };
    match content["type"].as_str() {
        Some("text") => has(content, "text"),
        Some("image" | "audio") => {
            has(content, "mimeType")?;
            match (content.get("path"), content.get("data")) {
                (Some(Value::String(_)), None) | (None, Some(Value::String(_))) => Ok(()),
                _ => Err("its content must have `path` or `data`".to_owned()),
            }
        }
        Some("resource") => has(&content["resource"], "uri"),
        Some("resource_link") => has(content, "uri").and_then(|()| has(content, "name")),
        _ => Err(
            "its content must be of type text, image, audio, resource or resource_link".to_owned(),
        ),
    }?;
    match (content["type"].as_str(), content.get("path")) {
        (Some("image" | "audio"), _) | (_, None) => Ok(()),
        _ => Err("only an image or audio has a `path`".to_owned()),
    }
}

/// The arguments of a text without declared ones: its placeholders.
pub(super) fn placeholders(text: &str) -> Vec<PromptArgument> {
    let mut found: Vec<PromptArgument> = Vec::new();
    let names = PLACEHOLDER.captures_iter(text);
    for name in names.filter_map(|one| one.get(1)) {
        let name = name.as_str();
        if !found.iter().any(|known| known.name == name) {
            found.push(PromptArgument {
                name: name.to_owned(),
                description: None,
                required: false,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(text: &str, arguments: &[(&str, bool)]) -> PromptItem {
        let argument = |(name, required): &(&str, bool)| PromptArgument {
            name: (*name).to_owned(),
            description: None,
            required: *required,
        };
        PromptItem {
            name: "p".to_owned(),
            definition: Value::Null,
            arguments: arguments.iter().map(argument).collect(),
            messages: Messages::of_text(text, "user").into_values(),
        }
    }

    fn filled(prompt: &PromptItem, given: Value) -> Result<String, PromptError> {
        let messages = render(prompt, given.as_object().unwrap())?;
        let text = messages[0]["content"]["text"].as_str();
        Ok(text.unwrap().to_owned())
    }

    fn parse(messages: &Value) -> Result<Messages, String> {
        Messages::parse(json!({"messages": messages}).to_string().as_bytes())
    }

    #[test]
    fn placeholders_are_filled_in() {
        let prompt = prompt(
            "Hi {{name}}, {{ name }}: {{n}} {{other}} {{more}}{",
            &[("name", true), ("n", false), ("more", false)],
        );
        assert_eq!(
            filled(&prompt, json!({"name": "Ann", "n": 3})).unwrap(),
            "Hi Ann, Ann: 3 {{other}} {"
        );
        for given in [json!({}), json!({"name": null})] {
            assert_eq!(
                filled(&prompt, given),
                Err(PromptError::Missing("name".to_owned()))
            );
        }
    }

    #[test]
    fn a_variable_of_a_shell_is_a_placeholder_only_if_it_is_declared() {
        let prompt = prompt(
            "${name} ${more} ${HOME} ${x}",
            &[("name", true), ("more", false)],
        );
        let given = json!({"name": "Ann", "x": "no"});
        assert_eq!(filled(&prompt, given).unwrap(), "Ann  ${HOME} ${x}");
        assert!(placeholders("${name}").is_empty());
    }

    #[test]
    fn values_are_not_searched_for_placeholders() {
        let prompt = prompt("{{a}}{{b}}", &[("a", false), ("b", false)]);
        let given = json!({"a": "{{b}}$1", "b": "secret"});
        assert_eq!(filled(&prompt, given).unwrap(), "{{b}}$1secret");
    }

    #[test]
    fn every_text_of_a_message_is_filled_in() {
        let mut item = prompt("", &[("uri", true)]);
        let inner =
            json!({"uri": "{{uri}}", "text": "of {{uri}}", "_meta": {"{{uri}}": ["{{uri}}"]}});
        item.messages =
            vec![json!({"role": "user", "content": {"type": "resource", "resource": inner}})];
        let given = json!({"uri": "x://a"});
        let filled = render(&item, given.as_object().unwrap()).unwrap();
        let expected = json!({"uri": "x://a", "text": "of x://a", "_meta": {"{{uri}}": ["x://a"]}});
        assert_eq!(filled[0]["content"]["resource"], expected);
    }

    #[test]
    fn messages_are_those_of_the_protocol() {
        let message = |content: Value| json!([{"role": "user", "content": content}]);
        for good in [
            json!({"type": "text", "text": ""}),
            json!({"type": "image", "mimeType": "image/png", "path": "a.png"}),
            json!({"type": "audio", "mimeType": "audio/wav", "data": "AA=="}),
            json!({"type": "resource", "resource": {"uri": "x://a"}}),
            json!({"type": "resource_link", "uri": "x://a", "name": "a"}),
        ] {
            assert!(parse(&message(good.clone())).is_ok(), "{good}");
        }
        for bad in [
            json!({"type": "text"}),
            json!({"type": "text", "text": "", "path": "a"}),
            json!({"type": "video", "text": ""}),
            json!({"type": "image", "path": "a.png"}),
            json!({"type": "image", "mimeType": "image/png"}),
            json!({"type": "image", "mimeType": "image/png", "path": "a", "data": "b"}),
            json!({"type": "image", "mimeType": "image/png", "path": 7}),
            json!({"type": "resource", "resource": {}}),
            json!({"type": "resource", "uri": "x://a"}),
            json!("text"),
        ] {
            assert!(parse(&message(bad.clone())).is_err(), "{bad}");
        }
        assert!(
            parse(&json!([{"role": "system", "content": {"type": "text", "text": ""}}])).is_err()
        );
        assert!(parse(&json!("text")).is_err());
        let many = |count| {
            let content = json!({"type": "resource", "resource": {"uri": "x://a"}});
            json!(vec![json!({"role": "user", "content": content}); count])
        };
        assert!(parse(&many(FETCHED_MAX)).is_ok() && parse(&many(FETCHED_MAX + 1)).is_err());
        assert!(Messages::parse(b"no JSON").is_err() && Messages::parse(b"[]").is_err());
    }

    #[test]
    fn the_content_of_a_file_takes_the_place_of_its_path() {
        let mut messages = parse(&json!([
            {"role": "user", "content": {"type": "text", "text": "a"}},
            {"role": "user", "content": {"type": "image", "mimeType": "image/png", "path": "a.png"}},
        ]))
        .unwrap();
        assert_eq!(messages.paths().collect::<Vec<_>>(), ["a.png"]);
        messages.fill(["AA==".to_owned()]);
        let content = &messages.into_values()[1]["content"];
        assert_eq!(
            *content,
            json!({"type": "image", "mimeType": "image/png", "data": "AA=="})
        );
    }

    #[test]
    fn placeholders_of_a_text_are_its_arguments() {
        let names: Vec<_> = placeholders("{{a}} {{b}} {{a}} {c} {{not a name}}")
            .into_iter()
            .map(|one| one.name)
            .collect();
        assert_eq!(names, ["a", "b"]);
    }
}
