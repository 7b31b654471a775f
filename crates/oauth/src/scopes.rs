//! What a token permits.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The scopes of a token. A token that says nothing about scopes has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(BTreeSet<String>);

// === impl Scopes ===

impl Scopes {
    /// Of the claims `scope` (RFC 9068: words in one text) and `scp` (Entra: words in one text;
    /// Okta: a list). A list is taken for either.
    pub(crate) fn of_claims(claims: &Map<String, Value>) -> Self {
        let mut scopes = BTreeSet::new();
        for claim in ["scope", "scp"] {
            match claims.get(claim) {
                Some(Value::String(words)) => {
                    scopes.extend(words.split_whitespace().map(str::to_owned));
                }
                Some(Value::Array(list)) => {
                    let words = list.iter().filter_map(Value::as_str);
                    scopes.extend(words.map(str::to_owned));
                }
                _ => {}
            }
        }
        Self(scopes)
    }

    /// Whether the scope is among them.
    pub fn contains(&self, scope: &str) -> bool {
        self.0.contains(scope)
    }

    /// All of them, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> FromIterator<&'a str> for Scopes {
    fn from_iter<I: IntoIterator<Item = &'a str>>(scopes: I) -> Self {
        Self(scopes.into_iter().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scopes_are_words_or_a_list_in_either_claim() {
        let check = |claims: Value, expected: &[&str]| {
            let Value::Object(claims) = claims else {
                unreachable!("claims are an object")
            };
            let scopes = Scopes::of_claims(&claims);
            assert_eq!(scopes.iter().collect::<Vec<_>>(), expected);
        };
        check(json!({"scope": "b  a"}), &["a", "b"]);
        check(json!({"scp": "a b"}), &["a", "b"]);
        check(json!({"scp": ["a", "b", 7]}), &["a", "b"]);
        check(json!({"scope": "a", "scp": ["b"]}), &["a", "b"]);
        for none in [json!({}), json!({"scope": 7}), json!({"scope": ""})] {
            check(none, &[]);
        }
    }
}
