//! The caller of a request: the one module that establishes its identity.
//!
//! The caller travels as a task-local of the HTTP request. rmcp makes a handler inside
//! of that request and runs it on another task, so the handler takes the caller with it
//! when it is made.

mod tokens;

use std::{fmt, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode, header};

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
    /// All callers are the same one.
    Anonymous,
    /// By the bearer token they present.
    Tokens(Tokens),
}

// === impl Caller ===

impl Caller {
    /// The caller where there is no authentication.
    pub(crate) const ANONYMOUS: Self = Self(None);

    /// The caller of the request under way.
    pub(crate) fn current() -> Self {
        CALLER.try_with(Clone::clone).unwrap_or(Self::ANONYMOUS)
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
    /// Returns the caller, or the `WWW-Authenticate` challenge of the answer.
    fn establish(&self, headers: &HeaderMap) -> Result<Caller, &'static str> {
        let Self::Tokens(tokens) = self else {
            return Ok(Caller::ANONYMOUS);
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

/// Middleware: establishes the caller for the rest of the request, or refuses it.
pub(super) async fn identify(
    State(identity): State<Arc<Identity>>,
    request: Request,
    next: Next,
) -> Response {
    match identity.establish(request.headers()) {
        Ok(caller) => CALLER.scope(caller, next.run(request)).await,
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

    const FILE: &str = "ann:0123456789abcdef-ann\nbob:0123456789abcdef-bob\n";

    /// A token, and the name of its owner.
    fn token() -> impl Strategy<Value = (String, Option<&'static str>)> {
        let of = |name| Just((format!("0123456789abcdef-{name}"), Some(name)));
        let wrong = prop_oneof!["[a-z0-9-]{0,24}", "0123456789abcdef-(an|bo|ann?[a-z])?"];
        let wrong = wrong.prop_filter_map("a right one", |token| {
            (!FILE
                .lines()
                .any(|line| line.ends_with(&format!(":{token}"))))
            .then_some((token, None))
        });
        prop_oneof![of("ann"), of("bob"), wrong]
    }

    /// The bytes of an `Authorization` header, and the caller that they make.
    fn authorization() -> impl Strategy<Value = (Vec<u8>, Option<&'static str>)> {
        let anything = prop::collection::vec(any::<u8>(), 0..80).prop_map(|bytes| (bytes, None));
        let scheme = prop_oneof![3 => "(?i)bearer", 1 => "(?i)(basic|bearer-?)?"];
        let parts = (scheme, " {0,3}", token(), " {0,2}");
        let close = parts.prop_map(|(scheme, gap, (token, owner), rest)| {
            let bearer = scheme.eq_ignore_ascii_case("bearer") && !gap.is_empty();
            let bytes = format!("{scheme}{gap}{token}{rest}").into_bytes();
            (bytes, owner.filter(|_| bearer))
        });
        prop_oneof![1 => anything, 3 => close]
    }

    proptest! {
        #[test]
        fn fuzz_no_header_but_the_right_one_is_a_caller((bytes, expected) in authorization()) {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), FILE).unwrap();
            let identity = Identity::Tokens(Tokens::read(file.path()).unwrap());
            let mut headers = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                headers.insert(header::AUTHORIZATION, value);
            }
            let caller = identity.establish(&headers).ok();
            prop_assert_eq!(caller, expected.map(Caller::named));
        }
    }
}
