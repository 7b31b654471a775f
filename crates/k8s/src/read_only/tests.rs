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
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    ] {
        assert_eq!(check_request(&[], "POST", path, "application/json"), Ok(()));
        // A caller asks for nothing but objects.
        let user = kubecrier_core::KubernetesUser::new("ann", ["dev"]).unwrap();
        let request = Request::post(path).body(()).unwrap();
        let request = impersonation::marked(request, &user);
        let refused = check(&DeniedKinds::default(), &request);
        assert!(
            matches!(refused, Err(RefusedRequest::NotReadOnly(_))),
            "{path}"
        );
    }
}

#[test]
fn tokens_are_reviewed_for_the_server_itself_alone() {
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let check_marked = |method: &str, path: &str, header: Option<&str>| {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(header) = header {
            request = request.header(header, "ann");
        }
        let mut request = request.body(()).unwrap();
        request.extensions_mut().insert(ForServer);
        check(&DeniedKinds::default(), &request)
    };
    assert_eq!(check_marked("POST", path, None), Ok(()));
    for (method, path, header) in [
        ("POST", path, Some("Impersonate-User")),
        ("PUT", path, None),
        (
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews/a",
            None,
        ),
        (
            "POST",
            "/apis/authentication.k8s.io/v1/namespaces/a/tokenreviews",
            None,
        ),
        ("POST", "/apis/eve.example/v1/tokenreviews", None),
        ("POST", "/api/v1/namespaces/a/pods", None),
        ("POST", "/api/v1/namespaces/a/serviceaccounts/b/token", None),
    ] {
        assert!(
            check_marked(method, path, header).is_err(),
            "{method} {path} {header:?}"
        );
    }
    let unmarked = check_request(&[], "POST", path, "application/json");
    assert!(unmarked.is_err(), "a request of a caller");
}

#[test]
fn nothing_that_could_change_a_cluster_gets_through() {
    for (method, path) in [
        ("POST", "/api/v1/namespaces/a/pods"),
        ("DELETE", "/api/v1/namespaces/a"),
        ("PATCH", "/apis/apps/v1/namespaces/a/deployments/b/scale"),
        ("PUT", "/api/v1/namespaces/a/finalize"),
        ("POST", "/api/v1/namespaces/a/pods/b/eviction"),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/namespaces/a/localsubjectaccessreviews",
        ),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews/a",
        ),
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

#[test]
fn a_path_is_read_as_the_api_server_reads_it() {
    for path in [
        "/api/v1/watch/secrets",
        "/api/v1/watch/namespaces/a/secrets/b",
        "/api/v1/proxy/nodes/a",
        "/api/v1//secrets",
        "//api/v1/secrets",
        "/api/v1/pods/",
        "/api/v1/namespaces/a/../../secrets",
        "/api/v1/./secrets",
        "/api/v1/%2e%2e/secrets",
        "/api/v1/namespaces/a%2fsecrets",
        "/api/v1/%2573ecrets",
        "/api/v1/Secrets",
        "/API/v1/secrets",
        "/api/V1/secrets",
        "/api/v1/secrets%00",
        "/api/v1/%ff",
        "/api/v1/%7",
        "/openapi/v2",
        "/debug/pprof",
        "/",
    ] {
        let result = check_request(&[], "GET", path, "application/json");
        assert!(
            matches!(result, Err(RefusedRequest::UnclearPath(_))),
            "{path}: {result:?}"
        );
    }
    for path in [
        "/api/v1/%73ecrets",
        "/api/v1/namespaces/a/%73%65crets/b",
        "/%61pi/v1/secrets",
    ] {
        let result = check_request(&[], "GET", path, "application/json");
        assert_eq!(result, Err(RefusedRequest::Secret), "{path}");
        let denied = check_request(&["Secret"], "GET", path, TABLE);
        assert_eq!(denied, Err(RefusedRequest::Denied("secrets".to_owned())));
    }
    let encoded = "/api/v1/namespaces/a/secrets?includeObject=%4Fbject";
    assert_eq!(
        check_request(&[], "GET", encoded, TABLE),
        Err(RefusedRequest::Secret)
    );
    let quoted = "application/json;x=\"as=Table\"";
    assert_eq!(
        check_request(&[], "GET", "/api/v1/secrets", quoted),
        Err(RefusedRequest::Secret)
    );
    // A name may have any character that is no separator.
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode";
    assert_eq!(check_request(&[], "GET", role, "application/json"), Ok(()));
}

/// How the API server finds verb prefix, resource and subresource, and whether the resource is
/// of the core group, of a path that its HTTP
/// server has decoded: written down a second time, without what this server refuses.
fn meaning(path: &str) -> Option<(Option<String>, bool, String, Option<String>)> {
    let decoded = percent_decoded(path)?;
    let mut parts: Vec<&str> = decoded.trim_matches('/').split('/').collect();
    let is_core = *parts.first()? == "api";
    match *parts.first()? {
        "api" => drop(parts.drain(..parts.len().min(2))),
        "apis" => drop(parts.drain(..parts.len().min(3))),
        _ => return None,
    }
    let prefix = (parts.first().copied()).filter(|part| matches!(*part, "watch" | "proxy"));
    if prefix.is_some() {
        parts.remove(0);
    }
    if parts.len() > 2 && parts[0] == "namespaces" && !matches!(parts[2], "status" | "finalize") {
        parts.drain(..2);
    }
    let text = |index: usize| parts.get(index).map(ToString::to_string);
    Some((prefix.map(str::to_owned), is_core, text(0)?, text(2)))
}

/// Some characters of a text, percent-encoded.
fn encoded(text: &'static str) -> impl Strategy<Value = String> {
    (text, prop::collection::vec(0..8_u8, 12)).prop_map(|(text, choices)| {
        let choices = choices.into_iter().chain(std::iter::repeat(7));
        let parts = text
            .bytes()
            .zip(choices)
            .map(|(byte, choice)| match choice {
                0 => format!("%{byte:02x}"),
                1 => format!("%{byte:02X}"),
                _ => char::from(byte).to_string(),
            });
        parts.collect()
    })
}

/// Paths of which most lead to something: others would never meet what is refused.
fn any_path() -> impl Strategy<Value = String> {
    let root = prop_oneof![
        4 => encoded("api/v1"),
        2 => encoded("apis/apps/v1"),
        1 => encoded("[a-z/]{0,8}"),
    ];
    let place = prop_oneof![
        4 => encoded("/"),
        2 => encoded("/namespaces/a/"),
        1 => encoded("/watch/|/watch/namespaces/a/|/proxy/|//|/\\./|/x/\\.\\./"),
    ];
    let resource = prop_oneof![
        2 => encoded("secrets"),
        2 => encoded("pods|Secrets|nodes|[a-z.]{1,8}"),
    ];
    let rest = prop_oneof![
        2 => encoded("|/b"),
        2 => encoded("/b/(log|exec|proxy|status)|/b/proxy/admin|/|//b"),
    ];
    (root, place, resource, rest)
        .prop_map(|(root, place, resource, rest)| format!("/{root}{place}{resource}{rest}"))
}

proptest! {
    #[test]
    fn fuzz_only_gets_and_reviews_are_ever_sent(
        method in "GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT",
        path in any_path(),
    ) {
        if check_request(&[], &method, &path, "application/json").is_ok() {
            prop_assert!(method == "GET" || path.contains("selfsubject"));
            if let Some((prefix, is_core, resource, subresource)) = meaning(&path) {
                prop_assert_eq!(prefix, None);
                prop_assert!(!is_core || resource.to_lowercase() != "secrets");
                prop_assert!(matches!(subresource.as_deref(), None | Some("log")));
            }
        }
    }
}
