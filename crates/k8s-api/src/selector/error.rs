//! Why a text is not a label selector, in kubecrier's words and in the API server's.

use crate::names;

/// A text that is not a label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{selector}` is no label selector: {}", cause.explain())]
pub struct InvalidSelector {
    selector: String,
    cause: Cause,
}

/// The first thing that is wrong. The text found is empty at the end of the selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    ExpectedRequirement(String),
    ExpectedKeyAfterComma(String),
    ExpectedComma(String),
    ExpectedKey(String),
    ExpectedOperator {
        key: String,
        found: String,
    },
    ExpectedValue(String),
    ExpectedOpenParenthesis(String),
    /// A list of values is not closed; `expected` is the API server's word for what may
    /// follow.
    UnclosedValues {
        found: String,
        expected: &'static str,
    },
    InvalidKey(String),
    InvalidValue {
        key: String,
        index: usize,
        value: String,
    },
    NotAnInteger(String),
}

// === impl InvalidSelector ===

impl InvalidSelector {
    pub(super) fn new(selector: &str, cause: Cause) -> Self {
        Self {
            selector: selector.to_owned(),
            cause,
        }
    }

    /// The message of the API server's answer to such a selector.
    pub fn api_message(&self) -> String {
        self.cause.api_message()
    }
}

// === impl Cause ===

impl Cause {
    fn explain(&self) -> String {
        match self {
            Self::ExpectedKeyAfterComma(found) if found.is_empty() => {
                "it ends with a comma".to_owned()
            }
            Self::ExpectedRequirement(found)
            | Self::ExpectedKeyAfterComma(found)
            | Self::ExpectedKey(found) => {
                format!("{} where a label's name was due", shown(found))
            }
            Self::ExpectedComma(found) => format!("{} where a comma was due", shown(found)),
            Self::ExpectedOperator { key, found } => {
                format!("{} after `{key}` is no operator", shown(found))
            }
            Self::ExpectedValue(found) => format!("{} where a value was due", shown(found)),
            Self::ExpectedOpenParenthesis(_) => {
                "`in` and `notin` take values in brackets".to_owned()
            }
            Self::UnclosedValues { .. } => "a bracket is not closed".to_owned(),
            Self::InvalidKey(key) => match foreign(key) {
                Some(char) => format!("`{char}` cannot stand in a label"),
                None => format!("no label is called `{key}`"),
            },
            Self::InvalidValue { value, .. } => match foreign(value) {
                Some(char) => format!("`{char}` cannot stand in a label"),
                None => format!("no label has the value `{value}`"),
            },
            Self::NotAnInteger(value) if value.is_empty() => {
                "nothing where a number was due".to_owned()
            }
            Self::NotAnInteger(value) => format!("`{value}` is not a whole number"),
        }
    }

    fn api_message(&self) -> String {
        let of_requirement = match self {
            Self::ExpectedRequirement(found) => {
                return format!("found '{found}', expected: !, identifier, or 'end of string'");
            }
            Self::ExpectedKeyAfterComma(found) => {
                return format!("found '{found}', expected: identifier after ','");
            }
            Self::ExpectedComma(found) => {
                return format!("found '{found}', expected: ',' or 'end of string'");
            }
            Self::ExpectedKey(found) | Self::ExpectedValue(found) => {
                format!("found '{found}', expected: identifier")
            }
            Self::ExpectedOperator { found, .. } => {
                format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt")
            }
            Self::ExpectedOpenParenthesis(found) => format!("found '{found}' expected: '('"),
            Self::UnclosedValues { found, expected } => {
                format!("found '{found}', expected: {expected}")
            }
            Self::InvalidKey(key) => {
                let problems = key_problems(key).join("; ");
                format!("<nil>: Invalid value: {key:?}: {problems}")
            }
            Self::InvalidValue { key, index, value } => {
                let problems = value_problems(value).join("; ");
                format!("values[{index}][{key}]: Invalid value: {value:?}: {problems}")
            }
            Self::NotAnInteger(value) => format!(
                "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be \
                 an integer"
            ),
        };
        format!("unable to parse requirement: {of_requirement}")
    }
}

fn shown(found: &str) -> String {
    if found.is_empty() {
        "nothing".to_owned()
    } else {
        format!("`{found}`")
    }
}

/// The first character that neither keys nor values may have.
fn foreign(text: &str) -> Option<char> {
    text.chars()
        .find(|char| !(char.is_ascii_alphanumeric() || "-_./".contains(*char)))
}

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
                         and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                         '123-abc', regex used for validation is \
                         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const PREFIX_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                           characters, '-' or '.', and must start and end with an alphanumeric \
                           character (e.g. 'example.com', regex used for validation is \
                           '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric \
                          characters, '-', '_' or '.', and must start and end with an alphanumeric \
                          character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
                          validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What the API server has against a label's key; nothing if it is valid.
pub(super) fn key_problems(key: &str) -> Vec<String> {
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((prefix, name)) if !name.contains('/') => (Some(prefix), name),
        Some(_) => {
            return vec![format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
    };
    let mut problems = Vec::new();
    match prefix {
        Some("") => problems.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            if prefix.len() > 253 {
                problems.push("prefix part must be no more than 253 bytes".to_owned());
            } else if !names::is_dns_subdomain(prefix) {
                problems.push(format!("prefix part {PREFIX_RULE}"));
            }
        }
        None => {}
    }
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified_name(name) {
        problems.push(format!("name part {NAME_RULE}"));
    }
    problems
}

/// What the API server has against a label's value; nothing if it is valid.
pub(super) fn value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_qualified_name(value) {
        problems.push(VALUE_RULE.to_owned());
    }
    problems
}

fn is_qualified_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(inside)
}
