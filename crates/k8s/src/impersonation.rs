//! On whose behalf a request is made, and how it is made as a caller.
//!
//! Every handle of a cluster has an [`Actor`]. The server's own handle is for what is read
//! once for all: discovery, shared watches, reviews. A caller's handle is for answers. With
//! [`ClusterIdentity::Impersonate`] its requests carry the `Impersonate-*` headers of the
//! caller's user. They go through the same client, and so over the same connections, as those
//! of the server: a handle only marks its requests, and the layer that every request passes
//! (`read_only`) writes the headers. No other request can have them.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use kube::{Client, client::Body};
use kubecrier_core::KubernetesUser;

use super::read_only::RefusedRequest;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");

/// All headers that name another user begin so.
const PREFIX: &str = "impersonate-";

/// As whom callers act in clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterIdentity {
    /// As the server.
    #[default]
    Shared,
    /// As themselves: requests for them are made as their Kubernetes user.
    Impersonate,
}

/// On whose behalf a request is made.
#[derive(Clone, Debug)]
pub enum Actor {
    /// The server itself, for what is read once for all callers.
    Server,
    /// A caller, with its user in Kubernetes if it has one.
    Caller(Option<Arc<KubernetesUser>>),
}

/// A part of a user that no header can carry as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} of the user cannot be sent in a header: {why}")]
pub struct UnsendableUser {
    what: &'static str,
    why: &'static str,
}

/// Marks the requests of a caller's handle. The headers are those of its user.
#[derive(Clone, Debug)]
struct OnBehalf(Arc<HeaderMap>);

// === impl ClusterIdentity ===

impl ClusterIdentity {
    /// Whether callers act as themselves.
    pub fn is_impersonate(self) -> bool {
        self == Self::Impersonate
    }
}

/// How a person makes kubectl act as this user: without its groups, the answer would be that to
/// somebody else.
pub(super) fn kubectl_flags(user: &KubernetesUser) -> String {
    /// More are told to be named.
    const GROUPS_MAX: usize = 8;
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let mut flags = format!("--as {}", quoted(user.name()));
    // The API server adds its own.
    let groups = user.groups().iter();
    let groups: Vec<_> = groups
        .filter(|group| !group.starts_with("system:"))
        .collect();
    if groups.len() > GROUPS_MAX {
        flags.push_str(" --as-group ...");
        return flags;
    }
    for group in groups {
        flags.push_str(" --as-group ");
        flags.push_str(&quoted(group));
    }
    flags
}

/// The headers by which an API server takes a request for one of this user.
///
/// Values are sent as they are: the API server takes any UTF-8 without control characters, but
/// blanks at the ends do not arrive.
///
/// # Errors
/// A part of the user would arrive as something else.
pub fn impersonation_headers(user: &KubernetesUser) -> Result<HeaderMap, UnsendableUser> {
    let mut headers = HeaderMap::new();
    headers.insert(USER, value("the name", user.name())?);
    // The API server knows these groups itself. Named without groups, a service account can
    // also be impersonated under the constrained verbs.
    if is_plain_service_account(user) {
        return Ok(headers);
    }
    for group in user.groups() {
        headers.append(GROUP, value("a group", group)?);
    }
    Ok(headers)
}

/// The value of a header, if it arrives as it is.
fn value(what: &'static str, text: &str) -> Result<HeaderValue, UnsendableUser> {
    let error = |why| UnsendableUser { what, why };
    if text.is_empty() {
        return Err(error("it is empty"));
    }
    if text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']) {
        return Err(error("it begins or ends with a blank"));
    }
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| error("it has control characters"))
}

/// Whether a user is a service account with the groups that every one of its namespace has.
fn is_plain_service_account(user: &KubernetesUser) -> bool {
    let account = user.name().strip_prefix("system:serviceaccount:");
    let Some((namespace, _name)) = account.and_then(|account| account.split_once(':')) else {
        return false;
    };
    let of_namespace = format!("system:serviceaccounts:{namespace}");
    let expected = [
        "system:authenticated",
        "system:serviceaccounts",
        of_namespace.as_str(),
    ];
    let groups = user.groups();
    groups.len() == expected.len()
        && expected
            .iter()
            .all(|one| groups.iter().any(|g| **g == **one))
}

/// The same client for a caller: it marks every request with these headers.
pub(super) fn on_behalf(client: &Client, headers: HeaderMap) -> Client {
    let (shared, mark) = (client.clone(), OnBehalf(Arc::new(headers)));
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request.extensions_mut().insert(mark.clone());
        let client = shared.clone();
        async move { client.send(request).await }
    });
    Client::new(service, client.default_namespace()).with_valid_until(*client.valid_until())
}

/// Marks a request as one that is made for a user.
#[cfg(test)]
pub(super) fn marked<B>(mut request: Request<B>, user: &KubernetesUser) -> Request<B> {
    let headers = impersonation_headers(user).expect("a user of a test can be sent");
    request.extensions_mut().insert(OnBehalf(Arc::new(headers)));
    request
}

/// Whether a request is one of the server itself.
pub(super) fn is_servers<B>(request: &Request<B>) -> bool {
    request.extensions().get::<OnBehalf>().is_none()
}

/// Writes the headers of a caller's request. A request that has any before is refused, whoever
/// makes it: only this function names a user.
pub(super) fn write_headers<B>(mut request: Request<B>) -> Result<Request<B>, RefusedRequest> {
    let is_named = |name: &HeaderName| name.as_str().starts_with(PREFIX);
    if request.headers().keys().any(is_named) {
        return Err(RefusedRequest::NamesUser);
    }
    let Some(OnBehalf(headers)) = request.extensions_mut().remove::<OnBehalf>() else {
        return Ok(request);
    };
    if !headers.contains_key(USER) {
        return Err(RefusedRequest::NoUser);
    }
    request.headers_mut().extend(headers.as_ref().clone());
    Ok(request)
}

#[cfg(test)]
mod tests;
