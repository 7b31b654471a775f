//! Error statuses, in the API server's own words.

use http::StatusCode;
use serde_json::{Value, json};

/// A `Status` of a failed request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatusError {
    pub(crate) code: u16,
    reason: &'static str,
    message: String,
    details: Option<Value>,
    /// The token that continues an expired list at the current version.
    continue_token: Option<String>,
}

// === impl StatusError ===

impl StatusError {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code: code.as_u16(),
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    fn with(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).with(json!({}))
    }

    /// An object that does not exist; `resource` is qualified by its group.
    pub(crate) fn not_found(resource: &str, group: &str, plural: &str, name: &str) -> Self {
        let mut details = json!({"name": name, "kind": plural});
        if !group.is_empty() {
            details["group"] = group.into();
        }
        let message = format!("{resource} \"{name}\" not found");
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).with(details)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message).with(json!({}))
    }

    pub(crate) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    pub(crate) fn no_representation(available: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
        Self::not_acceptable(message).with(json!({}))
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden(message: impl Into<String>, details: Value) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).with(details)
    }

    pub(crate) fn watch_expired() -> Self {
        let message = "The resourceVersion for the provided watch is too old.";
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The watch cache's error: the resourceVersion of the request, and the oldest one that
    /// the cache has.
    pub(crate) fn cache_expired(requested: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {requested} ({oldest})");
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub(crate) fn list_expired() -> Self {
        let message = "The resourceVersion for the provided list is too old.";
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub(crate) fn continue_expired(continue_token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list \
                       result. You can start a new list without the continue parameter, or use the \
                       continue token in this response to retrieve the remainder of the results. \
                       Continuing with the provided token results in an inconsistent list - objects \
                       that were created, modified, or deleted between the time the first chunk was \
                       returned and now may show up in the list.";
        Self {
            continue_token: Some(continue_token),
            ..Self::new(StatusCode::GONE, "Expired", message)
        }
    }

    pub(crate) fn version_too_large(requested: u64, current: u64, retry: bool) -> Self {
        let message =
            format!("Timeout: Too large resource version: {requested}, current: {current}");
        let mut details = json!({"causes": [{
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        }]});
        if retry {
            details["retryAfterSeconds"] = 1.into();
        }
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message).with(details)
    }

    /// An invalid field of an object or of options; `error` is worded as in
    /// `Invalid value: 0: must be greater than 0`.
    pub(crate) fn invalid(
        object: &InvalidObject<'_>,
        cause: &'static str,
        field: &str,
        error: &str,
    ) -> Self {
        let InvalidObject { group, kind, name } = *object;
        let message = format!(
            "{kind}{}{group} \"{name}\" is invalid: {field}: {error}",
            if group.is_empty() { "" } else { "." },
        );
        let mut details = json!({
            "causes": [{"reason": cause, "message": error, "field": field}],
        });
        for (key, value) in [("group", group), ("kind", kind), ("name", name)] {
            if !value.is_empty() {
                details[key] = value.into();
            }
        }
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with(details)
    }

    pub(crate) fn internal(cause: &str) -> Self {
        let message = format!("Internal error occurred: {cause}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
            .with(json!({"causes": [{"message": cause}]}))
    }

    pub(crate) fn internal_without_reason(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    pub(crate) fn unavailable() -> Self {
        let message = "apiserver is shutting down.";
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            message,
        )
    }

    /// Any other code, with the phrase that HTTP has for it.
    pub(crate) fn of_code(code: StatusCode) -> Self {
        let phrase = code.canonical_reason().unwrap_or("an error on the server");
        Self::new(code, "Unknown", phrase)
    }

    /// The seconds after which the client should retry, if there are any.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?["retryAfterSeconds"].as_u64()
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        if let Some(continue_token) = &self.continue_token {
            status["metadata"]["continue"] = continue_token.as_str().into();
        }
        status
    }
}

/// The object, or the options, of which a field is invalid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InvalidObject<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
}
