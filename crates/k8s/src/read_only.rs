//! The read-only layer of every client: only reads pass, whatever request the code above
//! sends.
//!
//! A request passes if it is a GET of an object, a list, a watch or a log, or, of the server
//! itself, a review: of its own user and permissions, of the permissions of a caller, or of a
//! token that it was given (`token_review`). The headers that name another user are written
//! here, for the requests of a caller's handle, and pass from nowhere else (`impersonation`).
//! Requests for kinds that the operator denied are
//! refused, and so is every request whose response would have the content of a Secret. `path`
//! reads the path as the API server does; what it cannot read is refused.

mod path;

use std::sync::Arc;

use self::path::RequestTarget;
pub(super) use self::path::{RequestPath, percent_decoded};
use http::{HeaderMap, Method, Request, Uri, header::ACCEPT};
use kubecrier_k8s_api::{
    BuiltinKind, kinds,
    names::{self, is_plural_of},
};
use tower::{BoxError, filter::FilterLayer};

use super::{allowed::ReadScope, impersonation, token_review::ForServer};

/// A request that was not sent, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RefusedRequest {
    /// It could change something.
    #[error("this server only reads from clusters: {0} is not sent")]
    NotReadOnly(String),
    /// Its path may mean something else to an API server.
    #[error("this server sends no request for the path {0:?}")]
    UnclearPath(String),
    /// The operator has denied the kind.
    #[error("`{0}` is denied by --denied-kinds")]
    Denied(String),
    /// Its response would have the values of Secrets.
    #[error("this server does not read the content of Secrets")]
    Secret,
    /// The operator does not allow the namespace.
    #[error("namespace `{0}` is not among --allowed-namespaces")]
    Namespace(String),
    /// It is not for one namespace, and the operator allows only some.
    #[error("`{0}` belongs to the whole cluster, and --allowed-namespaces excludes that")]
    ClusterWide(String),
    /// The operator has switched logs off.
    #[error("logs are switched off by --disabled-tools or --toolsets")]
    Logs,
    /// It names another user, and is not made by the handle of a caller.
    #[error("this server names no other user than that of the caller")]
    NamesUser,
    /// It is made for a caller and names no user.
    #[error("a request for a caller names no user")]
    NoUser,
}

/// Kinds that must not be read through this server. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeniedKinds(Arc<[KindPattern]>);

/// A kind as an operator names it: `Secret`, `secrets`, `certificates.cert-manager.io`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KindPattern {
    word: String,
    group: Option<String>,
}

// === impl DeniedKinds ===

impl DeniedKinds {
    /// Parses the operator's list; the error is the entry that is not a kind.
    pub fn new(entries: &[String]) -> Result<Self, String> {
        let patterns = entries.iter().map(|entry| {
            let text = entry.trim().to_lowercase();
            let (word, group) = match text.split_once('.') {
                Some((word, group)) => (word, Some(group)),
                None => (text.as_str(), None),
            };
            let is_valid = |part: &str| {
                let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
                !part.is_empty() && part.bytes().all(inside)
            };
            if !is_valid(word) || !group.is_none_or(is_valid) {
                return Err(entry.clone());
            }
            Ok(KindPattern {
                word: names::full_name(word).to_owned(),
                // Events of both groups are the same objects.
                group: (group.map(names::without_version))
                    .filter(|group| *group != kinds::EVENTS_K8S_IO_EVENT.group)
                    .map(str::to_owned),
            })
        });
        Ok(Self(patterns.collect::<Result<_, _>>()?))
    }

    /// Whether nothing is denied.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a kind of that group is denied under one of its names.
    pub(super) fn denies<'a>(
        &self,
        group: &str,
        names: impl IntoIterator<Item = &'a str> + Clone,
    ) -> bool {
        self.0.iter().any(|pattern| {
            let is_group_match = pattern
                .group
                .as_deref()
                .is_none_or(|denied_group| denied_group == group);
            is_group_match && names.clone().into_iter().any(|name| pattern.matches(name))
        })
    }

    /// Whether an object is of a denied kind. Without an `apiVersion` its group is not known,
    /// so that of a pattern does not count.
    pub(super) fn denies_object(&self, api_version: &str, kind: &str) -> bool {
        if api_version.is_empty() {
            return self.0.iter().any(|pattern| pattern.matches(kind));
        }
        let (group, _version) = names::split_group_version(api_version);
        // Whoever writes an event chooses its apiVersion: a built-in kind is known by its own.
        let own = BuiltinKind::of_kind(kind).map(|builtin| builtin.group);
        self.denies(group, [kind]) || own.is_some_and(|group| self.denies(group, [kind]))
    }

    /// Whether a resource is denied, by its plural.
    pub fn denies_resource(&self, group: &str, plural: &str) -> bool {
        self.denies(group, [plural])
    }
}

// === impl Pattern ===

impl KindPattern {
    /// Whether a name of a kind matches: kinds are singular, resources are plural.
    fn matches(&self, name: &str) -> bool {
        let (word, name) = (self.word.as_str(), name.to_lowercase());
        word == name || is_plural_of(&name, word) || is_plural_of(word, &name)
    }
}

/// The layer of a client.
pub(super) fn layer<B>(
    scope: ReadScope,
) -> FilterLayer<impl Fn(Request<B>) -> Result<Request<B>, BoxError> + Clone> {
    FilterLayer::new(move |request: Request<B>| {
        check(&scope.denied, &request)?;
        scope.check(&request)?;
        Ok(impersonation::write_headers(request)?)
    })
}

/// Refuses a request that is not a permitted read.
fn check<B>(denied: &DeniedKinds, request: &Request<B>) -> Result<(), RefusedRequest> {
    let (method, uri) = (request.method(), request.uri());
    let refused = || RefusedRequest::NotReadOnly(format!("{method} {}", uri.path()));
    let target = match RequestPath::parse(uri.path()) {
        None => return Err(RefusedRequest::UnclearPath(uri.path().to_owned())),
        Some(RequestPath::Discovery) if method == Method::GET => return Ok(()),
        Some(RequestPath::Discovery) => return Err(refused()),
        Some(RequestPath::Resource(target)) => target,
    };
    let is_own_review = is_review(method, &target) || is_token_review(request, &target);
    if impersonation::is_servers(request) && is_own_review {
        return Ok(());
    }
    // Exec, attach, port-forward and proxy begin with a GET too.
    let is_read = method == Method::GET
        && matches!(target.subresource.as_deref(), None | Some("log"))
        && !target.goes_on;
    if !is_read || request.headers().contains_key(http::header::UPGRADE) {
        return Err(refused());
    }
    if denied.denies(&target.group, [target.resource.as_str()]) {
        return Err(RefusedRequest::Denied(target.resource));
    }
    if kinds::SECRET.is_resource(&target.group, &target.resource)
        && !is_partial(request.headers(), uri)
    {
        return Err(RefusedRequest::Secret);
    }
    Ok(())
}

/// Whether a request is a review: a POST that writes nothing.
fn is_review(method: &Method, target: &RequestTarget) -> bool {
    let is_review = is_review_resource(&target.group, &target.resource);
    method == Method::POST && is_review && target.namespace.is_none() && target.name.is_none()
}

/// Whether a resource is one of the reviews that this server asks for.
pub(super) fn is_review_resource(group: &str, resource: &str) -> bool {
    let reviews = [
        kinds::SELF_SUBJECT_REVIEW,
        kinds::SELF_SUBJECT_ACCESS_REVIEW,
        kinds::SUBJECT_ACCESS_REVIEW,
    ];
    reviews.iter().any(|kind| kind.is_resource(group, resource))
}

/// Whether a request is the review of a token that this server was given. It writes nothing, and
/// no caller can send it.
fn is_token_review<B>(request: &Request<B>, target: &RequestTarget) -> bool {
    let is_own = request.extensions().get::<ForServer>().is_some();
    let resource = (&*target.group, &*target.resource);
    is_own
        && request.method() == Method::POST
        && (&target.namespace, &target.name, &target.subresource) == (&None, &None, &None)
        && resource == ("authentication.k8s.io", "tokenreviews")
        && !is_impersonating(request.headers())
}

/// Whether a request is on behalf of a caller.
fn is_impersonating(headers: &HeaderMap) -> bool {
    let mut names = headers.keys();
    names.any(|name| name.as_str().starts_with("impersonate-"))
}

/// Whether every accepted media type leaves the content of objects out.
fn is_partial(headers: &HeaderMap, uri: &Uri) -> bool {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    // The rows of a table may have whole objects in them.
    let mut parameters = uri.query().unwrap_or_default().split('&').map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((percent_decoded(key)?, percent_decoded(value)?))
    });
    let is_without_objects = parameters.all(|pair| {
        pair.is_some_and(|(key, value)| {
            key != "includeObject" || matches!(value.as_str(), "None" | "Metadata")
        })
    });
    accepts.is_some_and(|accepts| accepts.split(',').all(is_partial_form)) && is_without_objects
}

/// Whether a media type asks for a table, or for metadata alone.
fn is_partial_form(media_type: &str) -> bool {
    media_type.split(';').skip(1).any(|parameter| {
        matches!(
            parameter.trim(),
            "as=Table" | "as=PartialObjectMetadata" | "as=PartialObjectMetadataList"
        )
    })
}

/// Whether every accepted media type is metadata alone.
pub(super) fn is_metadata_only(headers: &HeaderMap) -> bool {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let is_metadata = |form: &str| form.contains("as=PartialObjectMetadata");
    accepts.is_some_and(|accepts| accepts.split(',').all(is_metadata))
}

#[cfg(test)]
mod tests;
