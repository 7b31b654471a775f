//! URI templates, a part of RFC 6570: `{name}` matches one segment, `{+name}` any number
//! of segments. A value never leads upwards: what a URI says decides which file is read.

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
    variables: Vec<(String, Segments)>,
}

/// The number of segments that a variable stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segments {
    One,
    Any,
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
    /// A character that no URI can have.
    #[error("a template cannot have {0:?}: percent-encode it (a space is `%20`)")]
    NotOfAUri(char),
}

/// Says why a URI that matches a template names nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{{{name}}}` of `{template}` cannot be `{}`: {why}", value.escape_debug())]
pub struct UriError {
    template: String,
    name: String,
    value: String,
    why: &'static str,
}

// === impl Template ===

impl Template {
    /// Parses a template.
    pub(super) fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > TEXT_MAX {
            return Err(TemplateError::Long);
        }
        let odd = |one: char| one.is_control() || one.is_whitespace();
        if let Some(one) = text.chars().find(|one| odd(*one)) {
            return Err(TemplateError::NotOfAUri(one));
        }
        let mut pattern = String::from("^");
        let mut variables: Vec<(String, Segments)> = Vec::new();
        let mut rest = text;
        while let Some((plain, after)) = rest.split_once('{') {
            pattern.push_str(&regex::escape(plain));
            let (inner, next) = after
                .split_once('}')
                .ok_or_else(|| TemplateError::Variable(after.to_owned()))?;
            let (name, segments) = match inner.strip_prefix('+') {
                Some(name) => (name, Segments::Any),
                None => (inner, Segments::One),
            };
            let is_name = !name.is_empty()
                && name
                    .chars()
                    .all(|one| one.is_ascii_alphanumeric() || one == '_');
            if !is_name {
                return Err(TemplateError::Variable(inner.to_owned()));
            }
            if variables.iter().any(|(known, _)| known == name) {
                return Err(TemplateError::Twice(name.to_owned()));
            }
            pattern.push_str(match segments {
                Segments::One => "([^/?#]+)",
                Segments::Any => "(.+)",
            });
            variables.push((name.to_owned(), segments));
            rest = next;
        }
        pattern.push_str(&regex::escape(rest));
        pattern.push('$');
        if variables.is_empty() {
            return Err(TemplateError::Constant);
        }
        // Compiles in any case: all text of the template is escaped.
        let pattern = Regex::new(&pattern).map_err(|_| TemplateError::Long)?;
        Ok(Self {
            text: text.to_owned(),
            pattern,
            variables,
        })
    }

    /// The percent-decoded variables of a URI; `None` if it does not match.
    pub(super) fn variables(
        &self,
        uri: &str,
    ) -> Option<Result<BTreeMap<String, String>, UriError>> {
        let found = self.pattern.captures(uri)?;
        let mut variables = BTreeMap::new();
        for (at, (name, segments)) in self.variables.iter().enumerate() {
            let raw = found.get(at + 1)?.as_str();
            let value = percent_decode_str(raw).decode_utf8().ok()?.into_owned();
            if let Err(why) = check_value(&value, *segments) {
                return Some(Err(UriError {
                    template: self.text.clone(),
                    name: name.clone(),
                    value,
                    why,
                }));
            }
            variables.insert(name.clone(), value);
        }
        Some(Ok(variables))
    }

    /// The names of its variables.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(name, _)| name.as_str())
    }
}

/// A value is a segment of a path, or several. Whatever reads it, a file system or a
/// provider's shell, it stays where its template puts it.
fn check_value(value: &str, segments: Segments) -> Result<(), &'static str> {
    if value.contains(['\0', '\\']) {
        return Err("a NUL character and `\\` are not allowed");
    }
    match segments {
        Segments::One if value.contains('/') => {
            Err("it stands for one segment, and `/` is not allowed in it")
        }
        Segments::One if value == "." => Err("the segments `.` and `..` are not allowed"),
        _ if value.split('/').any(|segment| segment == "..") => {
            Err("the segments `.` and `..` are not allowed")
        }
        Segments::One | Segments::Any => Ok(()),
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

/// Fills variables into a path such as `runbooks/{name}.md`. Values are not searched for
/// variables.
pub(super) fn fill(path: &str, variables: &BTreeMap<String, String>) -> String {
    let mut filled = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((plain, after)) = rest.split_once('{') {
        filled.push_str(plain);
        let value = after.split_once('}').and_then(|(inner, next)| {
            let name = inner.strip_prefix('+').unwrap_or(inner);
            Some((variables.get(name)?, next))
        });
        match value {
            Some((value, next)) => {
                filled.push_str(value);
                rest = next;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

/// Checks a path below the project: relative, without `..`, and without hidden parts such as
/// `.env` and `.git`, which are never served.
pub(super) fn check_path(path: &str) -> Result<(), String> {
    if path.is_empty() || path.starts_with('/') || path.contains('\0') {
        return Err("a path must be relative and without `..`".to_owned());
    }
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => return Err("a path must be relative and without `..`".to_owned()),
            hidden if hidden.starts_with('.') => {
                return Err(format!(
                    "`{hidden}` is hidden, and hidden files are not served"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn variables(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        let found = Template::parse(template).unwrap().variables(uri)?;
        Some(found.unwrap().into_iter().collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    #[test]
    fn a_template_has_only_characters_of_uris() {
        for odd in ['\0', '\n', ' ', '\u{85}', '\u{a0}'] {
            let text = format!("runbook://{{team}}/a{odd}b");
            assert_eq!(
                Template::parse(&text).err(),
                Some(TemplateError::NotOfAUri(odd))
            );
        }
        assert!(Template::parse("runbook://{team}/a%20b").is_ok());
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
        assert_eq!(fill("{+name}/{other}/{", &variables), "x/{other}/{");
        let variables = [("a", "{b}"), ("b", "x")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(fill("{a}/{b}", &variables.into()), "{b}/x");
    }

    #[test]
    fn a_value_stays_where_its_template_puts_it() {
        let refused = |template: &str, uri: &str| {
            let found = Template::parse(template).unwrap().variables(uri).unwrap();
            found.map_err(|error| error.to_string())
        };
        for (bad, why) in [
            ("..%2F..%2FREADME", "`/` is not allowed"),
            ("..", "segments `.` and `..`"),
            (".", "segments `.` and `..`"),
            ("%2e%2e", "segments `.` and `..`"),
            ("a%2Fb", "one segment"),
            ("..%5C..%5Cx", "NUL"),
            ("a%00", "NUL"),
        ] {
            let error = refused("runbook://{name}", &format!("runbook://{bad}")).unwrap_err();
            assert!(error.contains(why) && error.contains("`{name}`"), "{error}");
        }
        for bad in ["../x", "a/../x", "a/%2e%2e/x", "a/..", "a%2F..%2Fb"] {
            assert!(
                refused("x://{+path}", &format!("x://{bad}")).is_err(),
                "{bad}"
            );
        }
        for good in ["a", "a..b", "...", ".hidden", "%252e%252e%252f"] {
            assert!(
                refused("x://{name}", &format!("x://{good}")).is_ok(),
                "{good}"
            );
        }
        for good in ["a/b.txt", "./a", "..a/b.."] {
            assert!(
                refused("x://{+path}", &format!("x://{good}")).is_ok(),
                "{good}"
            );
        }
    }

    #[test]
    fn hidden_files_and_the_way_up_are_no_paths() {
        for good in ["a", "resources/a.md", "./a", "a//b", "a..b", "a.b/c"] {
            assert!(check_path(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/a",
            "../a",
            "a/..",
            ".env",
            ".git/config",
            "a/.b",
            "a\0",
        ] {
            assert!(check_path(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn filled_in_variables_are_extracted_again(team in "[a-z0-9]{1,9}", name in "[a-zA-Z0-9 ä]{1,9}") {
            let encoded = percent_encoding::utf8_percent_encode(&name, percent_encoding::NON_ALPHANUMERIC);
            let uri = format!("x://{team}/{encoded}");
            let found = Template::parse("x://{team}/{name}").unwrap().variables(&uri).unwrap().unwrap();
            prop_assert_eq!(&found["team"], &team);
            prop_assert_eq!(&found["name"], &name);
        }

        #[test]
        fn no_value_leads_out_of_its_place(rest in "[a./\\\\%25eEfFcC0]{1,20}", any in any::<bool>()) {
            let template = if any { "x://{+v}" } else { "x://{v}" };
            let parsed = Template::parse(template).unwrap().variables(&format!("x://{rest}"));
            if let Some(Ok(found)) = parsed {
                let path = fill("books/{v}.md", &found);
                let parts: Vec<_> = std::path::Path::new(&path).components().collect();
                let normal = |part: &std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
                prop_assert!(parts.iter().all(normal) && path.starts_with("books/"), "{}", path);
                prop_assert!(any || parts.len() == 2, "{}", path);
            }
        }
    }
}
