//! A request to the API: its path, query and headers, parsed once.

use http::{HeaderMap, Method, request::Parts};
use kubecrier_k8s_api::names::group_resource;

use crate::status::{InvalidObject, StatusError};

/// A request, as authorization and fault injection see it.
#[derive(Clone, Debug)]
pub(crate) struct RequestInfo {
    pub(crate) verb: &'static str,
    pub(crate) path: String,
    pub(crate) target: RequestTarget,
    pub(crate) query: Query,
    pub(crate) user: Option<String>,
    pub(crate) accept: String,
}

/// What a request addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestTarget {
    /// `/version`, `/apis/apps`.
    NonResource,
    /// `/api/v1/namespaces/shop/pods/web/log`.
    Resource(ResourcePath),
}

/// The parts of a path below a group and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// The parameters of a request, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// The resourceVersions that a list may be answered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// The most recent one.
    Latest,
    /// Any: from the watch cache, without a limit.
    Any,
    /// This one or a newer one.
    NotOlderThan(u64),
    /// This one.
    Exact(u64),
}

// === impl RequestInfo ===

impl RequestInfo {
    pub(crate) fn parse(parts: &Parts) -> Self {
        let path = parts.uri.path().to_owned();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let segments: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (target, legacy_watch) = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => resource_path("", version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                resource_path(group, version, rest)
            }
            _ => (RequestTarget::NonResource, false),
        };
        Self {
            verb: verb(&parts.method, &target, legacy_watch || query.flag("watch")),
            user: header(&parts.headers, "impersonate-user"),
            accept: header(&parts.headers, "accept").unwrap_or_default(),
            path,
            target,
            query,
        }
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

fn resource_path(group: &str, version: &str, rest: &[&str]) -> (RequestTarget, bool) {
    // `/api/v1/watch/pods` is the deprecated form of a watch, which the API server still has.
    let (rest, watch) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (rest, true),
        rest => (rest, false),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, "status" | "finalize"] => (Some(*namespace), rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
        // The path of a namespace has the namespace as its scope, too.
        ["namespaces", namespace] => (Some(*namespace), rest),
        rest => (None, rest),
    };
    let part = |index: usize| rest.get(index).map(|part| (*part).to_owned());
    let target = RequestTarget::Resource(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: part(0).unwrap_or_default(),
        namespace: namespace.map(str::to_owned),
        name: part(1),
        subresource: (rest.len() > 2).then(|| rest[2..].join("/")),
    });
    (target, watch)
}

fn verb(method: &Method, target: &RequestTarget, watch: bool) -> &'static str {
    let named = matches!(target, RequestTarget::Resource(object) if object.name.is_some());
    match *method {
        Method::GET | Method::HEAD => match target {
            RequestTarget::Resource(_) if named => "get",
            RequestTarget::Resource(_) if watch => "watch",
            RequestTarget::Resource(_) => "list",
            RequestTarget::NonResource => "get",
        },
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        _ => "",
    }
}

// === impl ResourcePath ===

impl ResourcePath {
    /// `pods`, `pods/log`.
    pub(crate) fn full_resource(&self) -> String {
        match &self.subresource {
            Some(part) => format!("{}/{part}", self.resource),
            None => self.resource.clone(),
        }
    }

    /// `deployments.apps`.
    pub(crate) fn group_resource(&self) -> String {
        group_resource(&self.group, &self.resource)
    }
}

// === impl Query ===

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(
            form_urlencoded::parse(text.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// A parameter that is given and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self
            .0
            .iter()
            .find(|(key, value)| key == name && !value.is_empty())?;
        Some(value)
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// A boolean parameter: as in the API server, any value but `false` and `0` is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        let given = self.0.iter().find(|(key, _)| key == name);
        given.is_some_and(|(_, value)| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, StatusError> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            let message = format!("strconv.ParseInt: parsing \"{text}\": invalid syntax");
            StatusError::bad_request(message)
        })
    }

    /// The resourceVersion. The API server puts a prefix of the operation before the error.
    pub(crate) fn version(&self) -> Result<Option<u64>, String> {
        let Some(text) = self.get("resourceVersion") else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            format!(
                "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \
                 \"{text}\": invalid syntax"
            )
        })
    }

    /// The resourceVersions that a list may be answered from.
    pub(crate) fn version_match(&self, limit: Option<usize>) -> Result<VersionMatch, StatusError> {
        let given = self.get("resourceVersion");
        let forbidden = |reason: &str| {
            let error = format!("Forbidden: {reason}");
            Err(StatusError::invalid(
                &LIST_OPTIONS,
                "FieldValueForbidden",
                "resourceVersionMatch",
                &error,
            ))
        };
        let rule = self.get("resourceVersionMatch");
        match (rule, given) {
            (Some(_), _) if self.get("continue").is_some() => {
                return forbidden("resourceVersionMatch is forbidden for continue");
            }
            (Some(_), None) => {
                return forbidden(
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                );
            }
            (Some("Exact"), Some("0")) => {
                return forbidden(
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                );
            }
            (None | Some("Exact" | "NotOlderThan"), _) => {}
            (Some(other), Some(_)) => {
                let error = format!(
                    "Unsupported value: \"{other}\": supported values: \"Exact\", \
                     \"NotOlderThan\", \"\""
                );
                return Err(StatusError::invalid(
                    &LIST_OPTIONS,
                    "FieldValueNotSupported",
                    "resourceVersionMatch",
                    &error,
                ));
            }
        }
        let version = self.version().map_err(|error| {
            StatusError::bad_request(format!("invalid resource version: {error}"))
        })?;
        Ok(match (version, rule) {
            (None, _) => VersionMatch::Latest,
            (Some(0), _) => VersionMatch::Any,
            (Some(version), Some("Exact")) => VersionMatch::Exact(version),
            // Without resourceVersionMatch, a limit makes the match exact.
            (Some(version), None) if limit.is_some() => VersionMatch::Exact(version),
            (Some(version), _) => VersionMatch::NotOlderThan(version),
        })
    }

    /// Whether a watch begins with the existing objects.
    pub(crate) fn initial_events(&self) -> Result<bool, StatusError> {
        if !self.flag("sendInitialEvents") {
            return Ok(false);
        }
        if self.get("resourceVersionMatch") != Some("NotOlderThan") {
            let error = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to \
                         NotOlderThan";
            return Err(StatusError::invalid(
                &LIST_OPTIONS,
                "FieldValueForbidden",
                "resourceVersionMatch",
                error,
            ));
        }
        Ok(true)
    }
}

const LIST_OPTIONS: InvalidObject<'_> = InvalidObject {
    group: "meta.k8s.io",
    kind: "ListOptions",
    name: "",
};

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, uri: &str) -> RequestInfo {
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .body(())
            .unwrap();
        RequestInfo::parse(&request.into_parts().0)
    }

    #[track_caller]
    fn check(method: &str, uri: &str, verb: &str, expected: &str) {
        let request = parse(method, uri);
        let found = match request.target {
            RequestTarget::NonResource => String::new(),
            RequestTarget::Resource(at) => format!(
                "{} {} {}",
                at.full_resource(),
                at.namespace.as_deref().unwrap_or("-"),
                at.name.as_deref().unwrap_or("-"),
            ),
        };
        assert_eq!((request.verb, &*found), (verb, expected), "{uri}");
    }

    #[test]
    fn paths_are_parsed() {
        check("GET", "/version", "get", "");
        check("GET", "/apis/apps/v1", "get", "");
        check("GET", "/api/v1/pods", "list", "pods - -");
        check("GET", "/api/v1/pods?watch=true", "watch", "pods - -");
        check("GET", "/api/v1/pods?watch=0", "list", "pods - -");
        check(
            "GET",
            "/api/v1/watch/namespaces/a/pods",
            "watch",
            "pods a -",
        );
        check("GET", "/api/v1/namespaces/a", "get", "namespaces a a");
        check(
            "GET",
            "/api/v1/namespaces/a/pods/b/log?watch=1",
            "get",
            "pods/log a b",
        );
        check(
            "DELETE",
            "/apis/apps/v1/namespaces/a/deployments/b",
            "delete",
            "deployments a b",
        );
    }

    #[test]
    fn parameters_are_decoded() {
        let query = parse("GET", "/api/v1/pods?labelSelector=a%20in%20(b,c)&limit=5").query;
        assert_eq!(query.text("labelSelector"), "a in (b,c)");
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert_eq!(query.number("timeoutSeconds").unwrap(), None);
    }

    #[test]
    fn a_list_has_four_ways_to_match_a_version() {
        let at = |text: &str, limit| Query::parse(text).version_match(limit).unwrap();
        assert_eq!(at("", None), VersionMatch::Latest);
        assert_eq!(at("resourceVersion=0", Some(1)), VersionMatch::Any);
        assert_eq!(at("resourceVersion=7", None), VersionMatch::NotOlderThan(7));
        assert_eq!(at("resourceVersion=7", Some(1)), VersionMatch::Exact(7));
        let exact = "resourceVersion=7&resourceVersionMatch=Exact";
        assert_eq!(at(exact, None), VersionMatch::Exact(7));
    }
}
