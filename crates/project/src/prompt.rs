//! Prompts: texts with placeholders in double braces.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use super::item::{PromptArgument, PromptItem};

static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{\s*([A-Za-z0-9_.-]{1,64})\s*\}\}").expect("a constant that a test uses")
});

/// Says why a prompt cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// A required argument is missing.
    #[error("the prompt needs the argument `{0}`")]
    Missing(String),
}

/// Renders a prompt. Values are not searched for placeholders, so that one argument cannot
/// read another. A placeholder that is neither declared nor given stays as it is.
pub fn render(prompt: &PromptItem, given: &Map<String, Value>) -> Result<String, PromptError> {
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
    let filled = PLACEHOLDER.replace_all(&prompt.text, |found: &Captures<'_>| {
        let name = &found[1];
        match value(name) {
            Some(text) => text,
            None if declared(name) => String::new(),
            None => found[0].to_owned(),
        }
    });
    Ok(filled.into_owned())
}

/// The arguments of a text without declared ones: its placeholders.
pub(super) fn placeholders(text: &str) -> Vec<PromptArgument> {
    let mut found: Vec<PromptArgument> = Vec::new();
    for one in PLACEHOLDER.captures_iter(text) {
        if !found.iter().any(|known| known.name == one[1]) {
            found.push(PromptArgument {
                name: one[1].to_owned(),
                description: None,
                required: false,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            role: "user".to_owned(),
            text: text.into(),
        }
    }

    fn filled(prompt: &PromptItem, given: Value) -> Result<String, PromptError> {
        render(prompt, given.as_object().unwrap())
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
    fn values_are_not_searched_for_placeholders() {
        let prompt = prompt("{{a}}{{b}}", &[("a", false), ("b", false)]);
        let given = json!({"a": "{{b}}$1", "b": "secret"});
        assert_eq!(filled(&prompt, given).unwrap(), "{{b}}$1secret");
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
