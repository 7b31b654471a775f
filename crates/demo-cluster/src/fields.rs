//! Field selectors, such as `type=Warning,involvedObject.name=web`.

use serde_json::Value;

use crate::resource::{Resource, UnsupportedField};

/// A conjunction of terms on fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldSelector(Vec<Term>);

#[derive(Clone, Debug)]
struct Term {
    pointer: &'static str,
    value: String,
    equal: bool,
}

// === impl FieldSelector ===

impl FieldSelector {
    pub(crate) fn parse(resource: &Resource, text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in split(text) {
            let Some((field, equal, value)) = operator(part) else {
                return Err(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                ));
            };
            let value = unescape(value)?;
            let pointer = match field {
                "metadata.name" => "/metadata/name",
                "metadata.namespace" if resource.api.namespaced => "/metadata/namespace",
                other => resource
                    .fields
                    .iter()
                    .find(|(name, _)| *name == other)
                    .map(|(_, pointer)| *pointer)
                    .ok_or_else(|| unsupported(resource, other))?,
            };
            terms.push(Term {
                pointer,
                value,
                equal,
            });
        }
        Ok(Self(terms))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|term| {
            let found = object.pointer(term.pointer);
            let equal = match found {
                Some(Value::String(text)) => *text == term.value,
                Some(Value::Bool(truth)) => truth.to_string() == term.value,
                Some(Value::Number(number)) => number.to_string() == term.value,
                _ if matches!(term.pointer, "/spec/unschedulable" | "/spec/hostNetwork") => {
                    term.value == "false"
                }
                _ if term.pointer == "/status/succeeded" => term.value == "0",
                _ => term.value.is_empty(),
            };
            equal == term.equal
        })
    }
}

fn unsupported(resource: &Resource, field: &str) -> String {
    match resource.unsupported_field {
        UnsupportedField::Plain => format!("field label not supported: {field}"),
        UnsupportedField::NamesKind => {
            format!(
                "field label \"{field}\" not supported for {}",
                resource.api.kind
            )
        }
        UnsupportedField::NamesSupported => format!(
            "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ),
    }
}

/// Splits at commas that are not escaped, and leaves out empty parts.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |char| {
        let cut = char == ',' && !escaped;
        escaped = char == '\\' && !escaped;
        cut
    })
    .filter(|part| !part.is_empty())
}

fn operator(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find(['=', '!'])?;
    let (field, rest) = term.split_at(at);
    let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
        (false, value)
    } else if let Some(value) = rest.strip_prefix("==") {
        (true, value)
    } else {
        (true, rest.strip_prefix('=')?)
    };
    Some((field, equal, value))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some(kept @ ('\\' | ',' | '=')) => plain.push(kept),
                other => {
                    let sequence: String = ['\\'].into_iter().chain(other).collect();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    ));
                }
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(char)
                ));
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods() -> &'static Resource {
        Resource::find("", "v1", "pods").unwrap()
    }

    #[track_caller]
    fn check(selector: &str, expected: bool) {
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"nodeName": "node-1"},
            "status": {"phase": "Running"},
        });
        let selector = FieldSelector::parse(pods(), selector).unwrap();
        assert_eq!(selector.matches(&pod), expected);
    }

    #[test]
    fn all_terms_hold() {
        check("", true);
        check("metadata.name=web", true);
        check("metadata.name==web,metadata.namespace=shop", true);
        check("metadata.name=web,metadata.namespace=other", false);
        check("status.phase!=Running", false);
        check("status.phase!=Failed,spec.nodeName=node-1", true);
        check("status.podIP=", true);
        check("spec.hostNetwork=false", true);
        check(r"metadata.name=a\,b", false);
    }

    #[test]
    fn what_cannot_be_parsed_is_an_error() {
        let error = |text| FieldSelector::parse(pods(), text).unwrap_err();
        assert_eq!(error("foo=x"), "field label not supported: foo");
        assert!(error("metadata.name").ends_with("can't understand 'metadata.name'"));
        assert!(error(r"metadata.name=a\").ends_with(r"escape sequence: \"));
    }
}
