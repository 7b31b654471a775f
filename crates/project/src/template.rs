//! URI templates, a part of RFC 6570: `{name}` matches one segment, `{+name}` any number
//! of segments.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use regex::Regex;
use serde::{Serialize, Serializer};

const TEXT_MAX: usize = 2_048;

/// Matches URIs and extracts their variables.
#[derive(Clone, Debug)]
pub struct Template {
    text: String,
    pattern: Regex,
    names: Vec<String>,
}

/// Says why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateError {
    /// The template has no variable.
    #[error("a template needs at least one `{{variable}}`; use `uri` for a single address")]
    Constant,
    /// A brace without its partner, or something that is not a name inside.
    #[error("`{{{0}}}` is not a variable; `{{name}}` and `{{+name}}` are")]
    Variable(String),
    /// A variable occurs twice.
    #[error("the variable `{0}` stands twice")]
    Twice(String),
    /// The template is too long.
    #[error("a template may have {TEXT_MAX} characters")]
    Long,
}

// === impl Template ===

impl Template {
    /// Parses a template.
    pub(super) fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > TEXT_MAX {
            return Err(TemplateError::Long);
        }
        let mut pattern = String::from("^");
        let mut names = Vec::new();
        let mut rest = text;
        while let Some((plain, after)) = rest.split_once('{') {
            pattern.push_str(&regex::escape(plain));
            let (inner, next) = after
                .split_once('}')
                .ok_or_else(|| TemplateError::Variable(after.to_owned()))?;
            let (name, any) = match inner.strip_prefix('+') {
                Some(name) => (name, true),
                None => (inner, false),
            };
            let is_name = !name.is_empty()
                && name
                    .chars()
                    .all(|one| one.is_ascii_alphanumeric() || one == '_');
            if !is_name {
                return Err(TemplateError::Variable(inner.to_owned()));
            }
            if names.iter().any(|known| known == name) {
                return Err(TemplateError::Twice(name.to_owned()));
            }
            pattern.push_str(if any { "(.+)" } else { "([^/?#]+)" });
            names.push(name.to_owned());
            rest = next;
        }
        pattern.push_str(&regex::escape(rest));
        pattern.push('$');
        if names.is_empty() {
            return Err(TemplateError::Constant);
        }
        // Compiles in any case: all text of the template is escaped.
        let pattern = Regex::new(&pattern).map_err(|_| TemplateError::Long)?;
        Ok(Self {
            text: text.to_owned(),
            pattern,
            names,
        })
    }

    /// The percent-decoded variables of a URI; `None` if it does not match.
    pub(super) fn variables(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        let found = self.pattern.captures(uri)?;
        let values = self.names.iter().enumerate().map(|(at, name)| {
            let raw = found.get(at + 1)?.as_str();
            let value = percent_decode_str(raw).decode_utf8().ok()?;
            Some((name.clone(), value.into_owned()))
        });
        values.collect()
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Fills variables into a path such as `runbooks/{name}.md`.
pub(super) fn fill(path: &str, variables: &BTreeMap<String, String>) -> String {
    let mut filled = path.to_owned();
    for (name, value) in variables {
        for braces in [format!("{{{name}}}"), format!("{{+{name}}}")] {
            filled = filled.replace(&braces, value);
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn variables(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        let found = Template::parse(template).unwrap().variables(uri)?;
        Some(found.into_iter().collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    #[test]
    fn a_variable_matches_one_segment_or_many() {
        let one = "runbook://{team}/{name}";
        assert_eq!(
            variables(one, "runbook://db/full%20disk"),
            Some(pairs(&[("name", "full disk"), ("team", "db")]))
        );
        assert_eq!(variables(one, "runbook://db/a/b"), None);
        assert_eq!(variables(one, "runbook://db/"), None);
        assert_eq!(
            variables("file:///{+path}", "file:///a/b.txt"),
            Some(pairs(&[("path", "a/b.txt")]))
        );
        assert_eq!(variables("a.b/{x}", "aXb/1"), None, "a dot is a dot");
        assert_eq!(variables("a/{x}", "a/%ff"), None, "not UTF-8");
    }

    #[test]
    fn invalid_templates_are_rejected() {
        use TemplateError::{Constant, Long, Twice, Variable};
        let error = |text: &str| Template::parse(text).unwrap_err();
        assert_eq!(error("plain://a"), Constant);
        assert_eq!(error("a/{"), Variable(String::new()));
        assert_eq!(error("a/{?x}"), Variable("?x".to_owned()));
        assert_eq!(error("{a}/{a}"), Twice("a".to_owned()));
        assert_eq!(error(&"{a}".repeat(1000)), Long);
    }

    #[test]
    fn variables_go_into_a_path() {
        let variables = [("name".to_owned(), "x".to_owned())].into();
        assert_eq!(fill("runbooks/{name}.md", &variables), "runbooks/x.md");
    }

    proptest! {
        #[test]
        fn filled_in_variables_are_extracted_again(team in "[a-z0-9]{1,9}", name in "[a-zA-Z0-9 ä/]{1,9}") {
            let encoded = percent_encoding::utf8_percent_encode(&name, percent_encoding::NON_ALPHANUMERIC);
            let uri = format!("x://{team}/{encoded}");
            let found = Template::parse("x://{team}/{name}").unwrap().variables(&uri).unwrap();
            prop_assert_eq!(&found["team"], &team);
            prop_assert_eq!(&found["name"], &name);
        }
    }
}
