//! The read-only layer of every client: only reads pass, whatever request the code above
//! sends.
//!
//! A request passes if it is a GET of an object, a list, a watch or a log, or a self subject
//! review (of the user and its permissions). Requests for kinds that the operator denied are
//! refused, and so is every request whose response would have the content of a Secret.

use std::sync::Arc;

use http::{HeaderMap, Method, Request, Uri, header::ACCEPT};
use kubecrier_k8s_api::{
    BuiltinKind, kinds,
    names::{self, is_plural_of},
};
use tower::{BoxError, filter::FilterLayer};

use super::allowed::ReadScope;

/// A request that was not sent, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RefusedRequest {
    /// It could change something.
    #[error("this server only reads from clusters: {0} is not sent")]
    NotReadOnly(String),
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

/// The resource that a path of the API names.
#[derive(Debug, PartialEq, Eq)]
struct RequestTarget<'a> {
    group: &'a str,
    resource: &'a str,
    subresource: Option<&'a str>,
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

// === impl Target ===

impl<'a> RequestTarget<'a> {
    /// `None` for a path that names no resource: discovery, the version, health.
    fn parse(path: &'a str) -> Option<Self> {
        let mut parts = path.trim_start_matches('/').split('/');
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let _version = parts.next()?;
        let rest: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        let rest = match rest.as_slice() {
            // Below a namespace; `namespaces/x` itself is an object.
            ["namespaces", _, below @ ..] if !below.is_empty() => below,
            all => all,
        };
        Some(Self {
            group,
            resource: rest.first()?,
            subresource: rest.get(2).copied(),
        })
    }
}

/// The layer of a client.
pub(super) fn layer<B>(
    scope: ReadScope,
) -> FilterLayer<impl Fn(Request<B>) -> Result<Request<B>, BoxError> + Clone> {
    FilterLayer::new(move |request: Request<B>| {
        check(&scope.denied, &request)?;
        scope.check(&request)?;
        Ok(request)
    })
}

/// Refuses a request that is not a permitted read.
fn check<B>(denied: &DeniedKinds, request: &Request<B>) -> Result<(), RefusedRequest> {
    let (method, uri) = (request.method(), request.uri());
    let target = RequestTarget::parse(uri.path());
    let refused = || RefusedRequest::NotReadOnly(format!("{method} {}", uri.path()));
    let Some(target) = target else {
        return if method == Method::GET {
            Ok(())
        } else {
            Err(refused())
        };
    };
    if is_review(method, &target) {
        return Ok(());
    }
    // Exec, attach, port-forward and proxy begin with a GET too.
    let is_read = method == Method::GET && matches!(target.subresource, None | Some("log"));
    if !is_read || request.headers().contains_key(http::header::UPGRADE) {
        return Err(refused());
    }
    if denied.denies(target.group, [target.resource]) {
        return Err(RefusedRequest::Denied(target.resource.to_owned()));
    }
    if kinds::SECRET.is_resource(target.group, target.resource)
        && !is_partial(request.headers(), uri)
    {
        return Err(RefusedRequest::Secret);
    }
    Ok(())
}

/// Whether a request is a self subject review: a POST that writes nothing.
fn is_review(method: &Method, target: &RequestTarget<'_>) -> bool {
    let reviews = [
        kinds::SELF_SUBJECT_REVIEW,
        kinds::SELF_SUBJECT_ACCESS_REVIEW,
    ];
    let is_target = |kind: &BuiltinKind| kind.is_resource(target.group, target.resource);
    method == Method::POST && target.subresource.is_none() && reviews.iter().any(is_target)
}

/// Whether every accepted media type leaves the content of objects out.
fn is_partial(headers: &HeaderMap, uri: &Uri) -> bool {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let whole_objects = uri
        .query()
        .is_some_and(|query| query.contains("includeObject=Object"));
    accepts.is_some_and(|accepts| {
        let mut forms = accepts.split(',');
        forms.all(|form| form.contains("as=Table") || form.contains("as=PartialObjectMetadata"))
    }) && !whole_objects
}

/// Whether every accepted media type is metadata alone.
pub(super) fn is_metadata_only(headers: &HeaderMap) -> bool {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let is_metadata = |form: &str| form.contains("as=PartialObjectMetadata");
    accepts.is_some_and(|accepts| accepts.split(',').all(is_metadata))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

    fn check_request(
        denied: &[&str],
        method: &str,
        path: &str,
        accept: &str,
    ) -> Result<(), RefusedRequest> {
        let denied: Vec<_> = denied.iter().map(ToString::to_string).collect();
        let request = Request::builder().method(method).uri(path);
        let request = request.header(ACCEPT, accept).body(()).unwrap();
        check(&DeniedKinds::new(&denied).unwrap(), &request)
    }

    #[test]
    fn reading_gets_through() {
        for path in [
            "/version",
            "/api",
            "/apis",
            "/apis/apps/v1",
            "/api/v1/pods?watch=true",
            "/api/v1/namespaces/a",
            "/api/v1/namespaces/a/pods/b",
            "/api/v1/namespaces/a/pods/b/log?follow=true",
            "/apis/apps/v1/namespaces/a/deployments",
            "/apis/metrics.k8s.io/v1beta1/nodes",
        ] {
            assert_eq!(
                check_request(&[], "GET", path, "application/json"),
                Ok(()),
                "{path}"
            );
        }
        for path in [
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        ] {
            assert_eq!(check_request(&[], "POST", path, "application/json"), Ok(()));
        }
    }

    #[test]
    fn nothing_that_could_change_a_cluster_gets_through() {
        for (method, path) in [
            ("POST", "/api/v1/namespaces/a/pods"),
            ("DELETE", "/api/v1/namespaces/a"),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/b/scale"),
            ("PUT", "/api/v1/namespaces/a/finalize"),
            ("POST", "/api/v1/namespaces/a/pods/b/eviction"),
            ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
            ("POST", "/version"),
            ("GET", "/api/v1/namespaces/a/pods/b/exec?command=rm"),
            ("GET", "/api/v1/namespaces/a/pods/b/portforward"),
            ("GET", "/api/v1/namespaces/a/services/b/proxy/admin"),
            ("GET", "/api/v1/nodes/b/proxy/run"),
        ] {
            let result = check_request(&[], method, path, "application/json");
            assert!(
                matches!(result, Err(RefusedRequest::NotReadOnly(_))),
                "{method} {path}: {result:?}"
            );
        }
    }

    #[test]
    fn secrets_are_counted_and_never_read() {
        let list = "/api/v1/namespaces/a/secrets";
        assert_eq!(check_request(&[], "GET", list, TABLE), Ok(()));
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(
            check_request(&[], "GET", "/api/v1/namespaces/a/secrets/b", metadata),
            Ok(())
        );
        let whole = format!("{list}?includeObject=Object");
        for (path, accept) in [
            (list, "application/json"),
            (list, "*/*"),
            (list, &format!("{TABLE},application/json")),
            (&whole, TABLE),
            ("/api/v1/secrets?watch=1", "application/json"),
        ] {
            assert_eq!(
                check_request(&[], "GET", path, accept),
                Err(RefusedRequest::Secret),
                "{path} {accept}"
            );
        }
    }

    #[test]
    fn what_is_denied_stays_in() {
        let is_denied = |denied: &str, path: &str| {
            let result = check_request(&[denied], "GET", path, "application/json");
            matches!(result, Err(RefusedRequest::Denied(_)))
        };
        let (pods, policies) = ("/api/v1/namespaces/a/pods/b", "/apis/x.io/v1/policies");
        for denied in ["Pod", "pods", "pod", "Pods"] {
            assert!(is_denied(denied, pods), "{denied}");
            assert!(
                is_denied(denied, "/api/v1/namespaces/a/pods/b/log"),
                "{denied}"
            );
        }
        assert!(is_denied("Policy", policies) && is_denied("policies.x.io", policies));
        assert!(is_denied("Ingress", "/apis/networking.k8s.io/v1/ingresses"));
        for denied in ["policies.y.io", "PolicyBinding", "p", "polic"] {
            assert!(!is_denied(denied, policies), "{denied}");
        }
        assert!(!is_denied("Pod", "/api/v1/namespaces/pods/services"));
        assert_eq!(DeniedKinds::new(&["a/b".to_owned()]), Err("a/b".to_owned()));
        assert_eq!(DeniedKinds::new(&[String::new()]), Err(String::new()));
    }

    proptest! {
        #[test]
        fn fuzz_only_gets_and_reviews_are_ever_sent(
            method in "GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT",
            parts in prop::collection::vec("api|apis|v1|namespaces|pods|[a-z.]{1,8}|secrets|exec", 0..8),
        ) {
            let path = format!("/{}", parts.join("/"));
            if check_request(&[], &method, &path, "application/json").is_ok() {
                prop_assert!(method == "GET" || path.contains("selfsubject"));
                prop_assert!(!path.starts_with("/api/v1/secrets"));
            }
        }
    }
}
