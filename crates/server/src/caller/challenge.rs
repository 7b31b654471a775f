//! What a client is told that has to authenticate, or to ask for more: the `WWW-Authenticate`
//! header of RFC 6750, with the metadata of RFC 9728.

use std::fmt::Write;

use http::HeaderValue;

/// What all challenges of a server have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Challenge {
    /// Where clients find the authorization servers; without OAuth, nowhere.
    pub(crate) resource_metadata: Option<String>,
    /// The scopes to ask for first.
    pub(crate) scope: String,
}

/// Why a client is challenged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChallengeError<'a> {
    /// It presents nothing.
    Missing,
    /// Its token is not accepted.
    InvalidToken(&'a str),
    /// Its token does not permit what it asks for; these scopes would.
    InsufficientScope {
        scope: &'a str,
        description: &'a str,
    },
}

// === impl Challenge ===

impl Challenge {
    /// The header.
    pub(crate) fn header(&self, error: ChallengeError<'_>) -> HeaderValue {
        let mut text = "Bearer realm=\"kubecrier\"".to_owned();
        let mut add = |name: &str, value: &str| {
            if !value.is_empty() {
                let _never_fails = write!(text, ", {name}=\"{}\"", quotable(value));
            }
        };
        let scope = match error {
            ChallengeError::Missing => &*self.scope,
            ChallengeError::InvalidToken(description) => {
                add("error", "invalid_token");
                add("error_description", description);
                &self.scope
            }
            ChallengeError::InsufficientScope { scope, description } => {
                add("error", "insufficient_scope");
                add("error_description", description);
                scope
            }
        };
        add("scope", scope);
        add(
            "resource_metadata",
            self.resource_metadata.as_deref().unwrap_or_default(),
        );
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("Bearer"))
    }
}

/// Text without the characters that RFC 6750 does not allow in a value.
fn quotable(text: &str) -> String {
    const CHARS_MAX: usize = 400;
    let allowed = text.chars().take(CHARS_MAX).map(|c| match c {
        '"' | '\\' | '`' => '\'',
        ' '..='~' => c,
        _ => '?',
    });
    allowed.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn challenge() -> Challenge {
        Challenge {
            resource_metadata: Some(
                "https://crier.example/.well-known/oauth-protected-resource/mcp".to_owned(),
            ),
            scope: "kubecrier:read".to_owned(),
        }
    }

    #[test]
    fn a_client_is_told_where_to_log_in_and_for_what() {
        let metadata =
            "resource_metadata=\"https://crier.example/.well-known/oauth-protected-resource/mcp\"";
        let header = challenge().header(ChallengeError::Missing);
        assert_eq!(
            header.to_str().unwrap(),
            format!("Bearer realm=\"kubecrier\", scope=\"kubecrier:read\", {metadata}")
        );
        let header = challenge().header(ChallengeError::InvalidToken("the token has expired"));
        assert_eq!(
            header.to_str().unwrap(),
            format!(
                "Bearer realm=\"kubecrier\", error=\"invalid_token\", error_description=\"the token has \
                 expired\", scope=\"kubecrier:read\", {metadata}"
            )
        );
        let header = Challenge::default().header(ChallengeError::Missing);
        assert_eq!(header, "Bearer realm=\"kubecrier\"");
    }

    proptest! {
        /// What a token says of itself cannot leave its quotes.
        #[test]
        fn fuzz_a_description_stays_in_its_quotes(text in prop_oneof![".{0,60}", "[\"\\\\, =a-z]{0,30}"]) {
            let header = challenge().header(ChallengeError::InvalidToken(&text));
            let header = header.to_str().unwrap().to_owned();
            let quotes = if text.is_empty() { 8 } else { 10 };
            prop_assert_eq!(header.matches('"').count(), quotes, "{}", header);
            prop_assert!(!header.contains('\\'));
        }
    }
}
