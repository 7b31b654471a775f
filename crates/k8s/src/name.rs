//! Names in the path of a request: only names that Kubernetes itself accepts, because another
//! text could lead to another path than that of the tool.

use std::fmt;

use super::error::ClusterError;

/// The name of a namespace, pod or container, safe in a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(String);

impl Name {
    /// A DNS label, as namespaces and containers are named.
    pub fn label(what: &str, text: &str) -> Result<Self, ClusterError> {
        Self::validated(what, text, 63, |byte| byte == b'-')
    }

    /// A DNS name, as pods are named.
    pub fn dns(what: &str, text: &str) -> Result<Self, ClusterError> {
        Self::validated(what, text, 253, |byte| matches!(byte, b'-' | b'.'))
    }

    /// Any object's name: some kinds allow more than a DNS name, such as
    /// `system:node`.
    pub fn object(what: &str, text: &str) -> Result<Self, ClusterError> {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:@".contains(&byte);
        let is_valid = (1..=253).contains(&text.len())
            && !matches!(text, "." | "..")
            && text.bytes().all(is_inner);
        if is_valid {
            return Ok(Self(text.to_owned()));
        }
        let shown: String = text.chars().take(300).collect();
        Err(ClusterError::invalid(
            format!(
                "cannot use `{}` as the name of a {what}",
                shown.escape_debug()
            ),
            "names have letters, digits and `-._:@`, at most 253 of them",
            "names are exact, without namespace or kind",
        ))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn validated(
        what: &str,
        text: &str,
        length_max: usize,
        is_inner: fn(u8) -> bool,
    ) -> Result<Self, ClusterError> {
        let is_edge = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        let bytes = text.as_bytes();
        let is_valid = bytes.len() <= length_max
            && is_edge(bytes.first())
            && is_edge(bytes.last())
            && bytes
                .iter()
                .all(|byte| is_edge(Some(byte)) || is_inner(*byte));
        if is_valid {
            return Ok(Self(text.to_owned()));
        }
        Err(ClusterError::invalid(
            format!(
                "cannot use `{}` as the name of a {what}",
                text.escape_debug()
            ),
            format!("a {what} is named with a-z, 0-9 and `-`, at most {length_max} of them"),
            "names are exact, without namespace or kind",
        ))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_what_kubernetes_accepts() {
        for name in ["a", "kube-system", "0", "a-1", &"x".repeat(63)] {
            assert_eq!(Name::label("namespace", name).unwrap().as_str(), name);
        }
        Name::object("ClusterRole", "system:controller:Job_x@y").unwrap();
        Name::dns("pod", "web-0.example").unwrap();
        Name::dns("pod", &"x".repeat(253)).unwrap();
    }

    #[test]
    fn nothing_else_reaches_a_path() {
        for text in [
            "",
            "-a",
            "a-",
            "A",
            "a/b",
            "a?x=",
            "..",
            "a b",
            "a%2fb",
            "ä",
            "a.b",
            &"x".repeat(64),
            "x/secrets/s?y=",
            "kube-system/services/https:x:443/proxy/",
        ] {
            assert!(Name::label("namespace", text).is_err(), "{text}");
        }
        for text in [
            "",
            ".",
            "..",
            "a/b",
            "a%2fb",
            "a?b",
            "a#b",
            "a b",
            "\\",
            &"x".repeat(254),
        ] {
            assert!(Name::object("role", text).is_err(), "{text}");
        }
        for text in ["sidecar?x=", "a/log", ".a", "a.", &"x".repeat(254)] {
            assert!(Name::dns("pod", text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_name_can_leave_its_place_in_a_path(text in ".{0,40}") {
            for name in [Name::dns("pod", &text), Name::object("role", &text)].into_iter().flatten() {
                prop_assert!(!name.as_str().contains(['/', '?', '#', '%', '\\', ' ']));
                prop_assert!(name.as_str() != "." && name.as_str() != "..");
            }
        }
    }

    proptest! {
        #[test]
        fn fuzz_any_bytes_are_a_name_or_named(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let text = String::from_utf8_lossy(&bytes);
            for (validated, length_max) in [(Name::label("namespace", &text), 63), (Name::dns("pod", &text), 253)] {
                match validated {
                    Ok(name) => prop_assert!(name.as_str() == text && text.len() <= length_max),
                    Err(error) => prop_assert!(!error.to_string().contains(char::from(27))),
                }
            }
        }
    }
}
