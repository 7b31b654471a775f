//! CORS: what a browser needs to hear before it hands an answer to a page of another
//! origin.
//!
//! Cookies are not used, so no credentials are allowed: a token is a header, and the page
//! has to know it.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

/// How long a browser need not ask again, in seconds.
const MAX_AGE: &str = "600";

/// Headers of answers that a page reads; without this, browsers hide them.
const EXPOSED: &str = "mcp-session-id, mcp-protocol-version, retry-after, www-authenticate";

/// The answer to a browser that asks whether it may send a request.
pub(super) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response> {
    let asks =
        *method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if !asks {
        return None;
    }
    let mut answer = StatusCode::NO_CONTENT.into_response();
    let head = answer.headers_mut();
    let methods = HeaderValue::from_static("GET, POST, DELETE");
    head.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    // Any header: those of parameters have names that are not known here.
    if let Some(wanted) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        head.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    head.insert(
        header::ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static(MAX_AGE),
    );
    Some(answer)
}

/// Lets the pages of an origin read an answer, whatever it is: an error that a page cannot
/// read is a riddle.
pub(super) fn allow(head: &mut HeaderMap, origin: HeaderValue) {
    head.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    head.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(EXPOSED),
    );
    head.append(header::VARY, HeaderValue::from_static("origin"));
}
