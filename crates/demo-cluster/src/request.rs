//! What a request asks for: its path, query and headers, understood once.

use http::{HeaderMap, Method, request::Parts};

use crate::{
    resource,
    status::{Refusal, Subject},
};

/// One request, as authorization and scripts see it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) verb: &'static str,
    pub(crate) path: String,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) user: Option<String>,
    pub(crate) accept: String,
}

/// What it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/version`, `/apis/apps`.
    Path,
    /// `/api/v1/namespaces/shop/pods/web/log`.
    Object(Coordinates),
}

/// Where in the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coordinates {
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

/// Which versions a list may be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The newest.
    Latest,
    /// Any will do: from the cache, whole.
    Any,
    /// Not older than that.
    NotOlderThan(u64),
    /// Exactly that.
    Exactly(u64),
}

// === impl Asked ===

impl Asked {
    pub(crate) fn parse(parts: &Parts) -> Self {
        let path = parts.uri.path().to_owned();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let segments: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (target, old_watch) = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => coordinates("", version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                coordinates(group, version, rest)
            }
            _ => (Target::Path, false),
        };
        Self {
            verb: verb(&parts.method, &target, old_watch || query.truth("watch")),
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

fn coordinates(group: &str, version: &str, rest: &[&str]) -> (Target, bool) {
    // `/api/v1/watch/pods` is how watches were asked for long ago, and still may be.
    let (rest, watch) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (rest, true),
        rest => (rest, false),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, "status" | "finalize"] => (Some(*namespace), rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
        // A namespace is in itself.
        ["namespaces", namespace] => (Some(*namespace), rest),
        rest => (None, rest),
    };
    let part = |index: usize| rest.get(index).map(|part| (*part).to_owned());
    let target = Target::Object(Coordinates {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: part(0).unwrap_or_default(),
        namespace: namespace.map(str::to_owned),
        name: part(1),
        subresource: (rest.len() > 2).then(|| rest[2..].join("/")),
    });
    (target, watch)
}

fn verb(method: &Method, target: &Target, watch: bool) -> &'static str {
    let named = matches!(target, Target::Object(object) if object.name.is_some());
    match *method {
        Method::GET | Method::HEAD => match target {
            Target::Object(_) if named => "get",
            Target::Object(_) if watch => "watch",
            Target::Object(_) => "list",
            Target::Path => "get",
        },
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        _ => "",
    }
}

// === impl Coordinates ===

impl Coordinates {
    /// `pods`, `pods/log`.
    pub(crate) fn full_resource(&self) -> String {
        match &self.subresource {
            Some(part) => format!("{}/{part}", self.resource),
            None => self.resource.clone(),
        }
    }

    /// `deployments.apps`.
    pub(crate) fn qualified(&self) -> String {
        resource::qualified(&self.group, &self.resource)
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

    /// A parameter, if it is there and not empty.
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

    /// Whatever is neither false nor 0 is true.
    pub(crate) fn truth(&self, name: &str) -> bool {
        let given = self.0.iter().find(|(key, _)| key == name);
        given.is_some_and(|(_, value)| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            let message = format!("strconv.ParseInt: parsing \"{text}\": invalid syntax");
            Refusal::bad_request(message)
        })
    }

    /// A resourceVersion; the refusal is worded as the API server words it, but for
    /// what it puts before.
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

    /// Which version a list is asked for.
    pub(crate) fn at(&self, limit: Option<usize>) -> Result<At, Refusal> {
        let given = self.get("resourceVersion");
        let forbidden = |why: &str| {
            let wrong = format!("Forbidden: {why}");
            Err(Refusal::invalid(
                &LIST_OPTIONS,
                "FieldValueForbidden",
                "resourceVersionMatch",
                &wrong,
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
                let wrong = format!(
                    "Unsupported value: \"{other}\": supported values: \"Exact\", \
                     \"NotOlderThan\", \"\""
                );
                return Err(Refusal::invalid(
                    &LIST_OPTIONS,
                    "FieldValueNotSupported",
                    "resourceVersionMatch",
                    &wrong,
                ));
            }
        }
        let version = self
            .version()
            .map_err(|why| Refusal::bad_request(format!("invalid resource version: {why}")))?;
        Ok(match (version, rule) {
            (None, _) => At::Latest,
            (Some(0), _) => At::Any,
            (Some(version), Some("Exact")) => At::Exactly(version),
            // Before there was a rule to name, a limit made it exact.
            (Some(version), None) if limit.is_some() => At::Exactly(version),
            (Some(version), _) => At::NotOlderThan(version),
        })
    }

    /// Whether a watch begins with what there is.
    pub(crate) fn initial_events(&self) -> Result<bool, Refusal> {
        if !self.truth("sendInitialEvents") {
            return Ok(false);
        }
        if self.get("resourceVersionMatch") != Some("NotOlderThan") {
            let wrong = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to \
                         NotOlderThan";
            return Err(Refusal::invalid(
                &LIST_OPTIONS,
                "FieldValueForbidden",
                "resourceVersionMatch",
                wrong,
            ));
        }
        Ok(true)
    }
}

const LIST_OPTIONS: Subject<'_> = Subject {
    group: "meta.k8s.io",
    kind: "ListOptions",
    name: "",
};

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, uri: &str) -> Asked {
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .body(())
            .unwrap();
        Asked::parse(&request.into_parts().0)
    }

    #[track_caller]
    fn check(method: &str, uri: &str, verb: &str, expected: &str) {
        let asked = asked(method, uri);
        let found = match asked.target {
            Target::Path => String::new(),
            Target::Object(at) => format!(
                "{} {} {}",
                at.full_resource(),
                at.namespace.as_deref().unwrap_or("-"),
                at.name.as_deref().unwrap_or("-"),
            ),
        };
        assert_eq!((asked.verb, &*found), (verb, expected), "{uri}");
    }

    #[test]
    fn paths_are_understood() {
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
        let query = asked("GET", "/api/v1/pods?labelSelector=a%20in%20(b,c)&limit=5").query;
        assert_eq!(query.text("labelSelector"), "a in (b,c)");
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert_eq!(query.number("timeoutSeconds").unwrap(), None);
    }

    #[test]
    fn a_version_is_asked_for_in_four_ways() {
        let at = |text: &str, limit| Query::parse(text).at(limit).unwrap();
        assert_eq!(at("", None), At::Latest);
        assert_eq!(at("resourceVersion=0", Some(1)), At::Any);
        assert_eq!(at("resourceVersion=7", None), At::NotOlderThan(7));
        assert_eq!(at("resourceVersion=7", Some(1)), At::Exactly(7));
        let exact = "resourceVersion=7&resourceVersionMatch=Exact";
        assert_eq!(at(exact, None), At::Exactly(7));
    }
}
