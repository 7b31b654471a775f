//! Who calls: the one place where a caller's identity is established.

use std::{fmt, sync::Arc};

use axum::{extract::Request, middleware::Next, response::Response};

tokio::task_local! {
    static CALLER: Caller;
}

/// A caller, by name. Without authentication all are the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller(Option<Arc<str>>);

impl Caller {
    /// The caller of the request under way.
    pub(crate) fn current() -> Self {
        CALLER.try_with(Clone::clone).unwrap_or(Self(None))
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

/// Middleware: says who calls for the rest of the request.
pub(super) async fn identify(request: Request, next: Next) -> Response {
    CALLER.scope(Caller(None), next.run(request)).await
}
