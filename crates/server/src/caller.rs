//! Who calls: the one place where a caller's identity is established.

mod tokens;

use std::{fmt, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode, header, request::Parts};

pub(super) use self::tokens::Tokens;

tokio::task_local! {
    static CALLER: Caller;
}

/// A caller, by name. Without authentication all are the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller(Option<Arc<str>>);

/// How callers are told apart.
#[derive(Debug)]
pub(super) enum Identity {
    /// They are not.
    Anonymous,
    /// By the bearer token they present.
    Tokens(Tokens),
}

// === impl Caller ===

impl Caller {
    /// The caller of the request under way.
    pub(crate) fn current() -> Self {
        CALLER.try_with(Clone::clone).unwrap_or(Self(None))
    }

    /// The caller whose request this was.
    pub(crate) fn of(parts: &Parts) -> Self {
        parts.extensions.get().cloned().unwrap_or(Self(None))
    }

    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self(Some(name.into()))
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("anonymous"))
    }
}

// === impl Identity ===

impl Identity {
    /// The caller, or what the answer's `WWW-Authenticate` says.
    fn establish(&self, headers: &HeaderMap) -> Result<Caller, &'static str> {
        let Self::Tokens(tokens) = self else {
            return Ok(Caller(None));
        };
        let Some(given) = headers.get(header::AUTHORIZATION) else {
            return Err("Bearer realm=\"kubecrier\"");
        };
        let text = given.to_str().unwrap_or_default();
        let known = text
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .and_then(|(_, token)| tokens.name_of(token.trim()));
        match known {
            Some(name) => Ok(Caller(Some(name))),
            None => Err("Bearer realm=\"kubecrier\", error=\"invalid_token\""),
        }
    }
}

/// Middleware: says who calls for the rest of the request, or ends it.
pub(super) async fn identify(
    State(identity): State<Arc<Identity>>,
    mut request: Request,
    next: Next,
) -> Response {
    match identity.establish(request.headers()) {
        Ok(caller) => {
            // For the handler, which runs on another task.
            request.extensions_mut().insert(caller.clone());
            CALLER.scope(caller, next.run(request)).await
        }
        Err(challenge) => {
            let text = "present a token of --auth-token-file as `Authorization: Bearer TOKEN`\n";
            (
                StatusCode::UNAUTHORIZED,
                [(header::WWW_AUTHENTICATE, challenge)],
                text,
            )
                .into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fuzz_no_header_but_the_right_one_is_a_caller(
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..80),
                "(?i)(bearer|basic)? {0,3}[a-z0-9-]{0,24}".prop_map(String::into_bytes),
            ],
        ) {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), "ann:0123456789abcdef-ann\n").unwrap();
            let identity = Identity::Tokens(Tokens::read(file.path()).unwrap());
            let mut headers = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                headers.insert(header::AUTHORIZATION, value);
            }
            let right = bytes.ends_with(b"0123456789abcdef-ann");
            prop_assert_eq!(identity.establish(&headers).is_ok(), right);
        }
    }
}
