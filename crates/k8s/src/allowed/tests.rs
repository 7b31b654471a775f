use http::header::ACCEPT;
use proptest::prelude::*;

use super::*;

const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

fn names(entries: &[&str]) -> Vec<String> {
    entries.iter().map(ToString::to_string).collect()
}

fn confined(entries: &[&str]) -> ReadScope {
    ReadScope {
        namespaces: AllowedNames::namespaces(&names(entries)).unwrap(),
        ..ReadScope::default()
    }
}

fn passes(scope: &ReadScope, path: &str, accept: &str) -> bool {
    let request = Request::builder().uri(path).header(ACCEPT, accept);
    scope.check(&request.body(()).unwrap()).is_ok()
}

#[test]
fn only_requests_for_allowed_namespaces_leave() {
    let scope = confined(&["shop", "team-?-*"]);
    for path in [
        "/version",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps/v1",
        "/api/v1/namespaces/shop",
        "/api/v1/namespaces/shop/pods",
        "/api/v1/namespaces/shop/pods?watch=true",
        "/api/v1/namespaces/team-a-dev/pods/web/log?follow=true",
        "/apis/apps/v1/namespaces/shop/deployments/web",
        "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods",
        "/api/v1/namespaces?fieldSelector=metadata.name%3Dshop",
        "/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Dshop%2Ckind%3Dx",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    ] {
        assert!(passes(&scope, path, JSON), "{path}");
        assert!(passes(&ReadScope::default(), path, JSON), "{path}");
    }
    for path in [
        "/api/v1/pods",
        "/api/v1/pods?watch=true&fieldSelector=metadata.name%3Dshop",
        "/api/v1/nodes",
        "/api/v1/nodes/node-1",
        "/api/v1/events",
        "/api/v1/persistentvolumes/x",
        "/api/v1/namespaces",
        "/api/v1/namespaces/other",
        "/api/v1/namespaces/other/pods",
        "/api/v1/namespaces/team-a/pods",
        "/api/v1/namespaces/sho%70/pods",
        "/api/v1/namespaces/shop/../other/pods",
        "/api/v1/namespaces//pods",
        "/api/v1/watch/namespaces/shop/pods",
        "/apis/apps/v1/deployments",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/authorization.k8s.io/v1/localsubjectaccessreviews",
        "/api/v1/namespaces?fieldSelector=metadata.name%3Dother",
        "/api/v1/namespaces?fieldSelector=metadata.name%21%3Dshop",
        "/api/v1/namespaces?fieldSelector=a%21%3Db%5C%2Cmetadata.name%3Dshop",
        "/api/v1/namespaces?fieldSelector=metadata.name%3Dshop&fieldSelector=x",
        "/api/v1/namespaces?fieldSelector=metadata.name%3Dshop%5C%2Cx",
        "/api/v1/namespaces?labelSelector=metadata.name%3Dshop",
    ] {
        assert!(!passes(&scope, path, JSON), "{path}");
        assert!(passes(&ReadScope::default(), path, JSON), "{path}");
    }
}

#[test]
fn where_logs_are_switched_off_no_request_for_one_leaves() {
    let log = "/api/v1/namespaces/shop/pods/web/log?follow=true";
    let scope = ReadScope {
        hides_logs: true,
        ..ReadScope::default()
    };
    assert!(!passes(&scope, log, JSON) && passes(&ReadScope::default(), log, JSON));
    let encoded = "/api/v1/namespaces/shop/pods/web/%6cog";
    assert!(!passes(&scope, encoded, JSON), "the API server decodes it");
    assert!(passes(&scope, "/api/v1/namespaces/shop/pods/web", JSON));
}

/// Patterns need the names of all namespaces to be found; names do not.
#[test]
fn only_patterns_read_the_names_of_all_namespaces() {
    let list = "/api/v1/namespaces?limit=500";
    assert!(passes(&confined(&["team-*"]), list, METADATA));
    assert!(!passes(&confined(&["team-*"]), list, JSON));
    assert!(!passes(
        &confined(&["team-*"]),
        list,
        &format!("{METADATA},{JSON}")
    ));
    assert!(!passes(&confined(&["shop", "web"]), list, METADATA));
}

#[test]
fn an_entry_that_can_name_nothing_is_refused() {
    for bad in ["", " ", "Shop", "a/b", "a b", "a,b"] {
        assert_eq!(
            AllowedNames::namespaces(&names(&[bad])),
            Err(bad.to_owned())
        );
    }
    assert_eq!(AllowedNames::namespaces(&[]), Err(String::new()));
    assert_eq!(AllowedNames::contexts(&names(&[""])), Err(String::new()));
    let arn = "arn:aws:eks:eu-west-1:1:cluster/dev";
    assert!(
        AllowedNames::contexts(&names(&[" arn:*/dev"]))
            .unwrap()
            .allows(arn)
    );
    assert!(AllowedNames::default().allows("anything") && !AllowedNames::default().is_restricted());
}

#[test]
fn what_is_named_elsewhere_is_hidden_too() {
    let event_about = |scope: &ReadScope, api_version, kind, namespace, name| {
        scope.hides(ObjectRef {
            api_version,
            kind,
            namespace,
            name,
        })
    };
    let scope = confined(&["shop"]);
    assert!(!event_about(&scope, "v1", "Pod", "shop", "web"));
    assert!(!event_about(&scope, "v1", "Namespace", "", "shop"));
    assert!(event_about(&scope, "v1", "Namespace", "", "other"));
    assert!(event_about(&scope, "v1", "Node", "", "node-1"));
    assert!(event_about(&scope, "v1", "Pod", "other", "web"));
    let scope = ReadScope {
        denied: DeniedKinds::new(&names(&["deploy", "certificates.v1.cert-manager.io"])).unwrap(),
        ..ReadScope::default()
    };
    let by_group = ReadScope {
        denied: DeniedKinds::new(&names(&["deployments.apps"])).unwrap(),
        ..ReadScope::default()
    };
    assert!(event_about(&scope, "apps/v1", "Deployment", "a", "web"));
    assert!(event_about(&scope, "", "Deployment", "a", "web"));
    assert!(
        event_about(&by_group, "v1", "Deployment", "a", "web"),
        "a wrong apiVersion"
    );
    assert!(!event_about(
        &by_group,
        "apps/v1",
        "StatefulSet",
        "a",
        "web"
    ));
    assert!(event_about(
        &scope,
        "cert-manager.io/v1",
        "Certificate",
        "a",
        "web"
    ));
    assert!(event_about(&scope, "", "Certificate", "a", "web"));
    assert!(!event_about(&scope, "x.io/v1", "Certificate", "a", "web"));
    assert!(!event_about(&scope, "v1", "Node", "", "node-1"));
}

#[test]
fn a_request_without_a_namespace_goes_to_an_allowed_one() {
    let of = |entries: &[&str], context: &'static str| {
        confined(entries)
            .default_namespace(context)
            .map(str::to_owned)
    };
    assert_eq!(of(&["shop", "web"], "web").as_deref(), Some("web"));
    assert_eq!(of(&["team-*", "web"], "default").as_deref(), Some("web"));
    assert_eq!(of(&["team-*"], "default"), None);
    assert_eq!(
        ReadScope::default().default_namespace("default"),
        Some("default")
    );
}

proptest! {
    /// Whatever the path, a request that leaves names an allowed namespace right after the
    /// version, or is no request for objects.
    #[test]
    fn fuzz_no_path_leads_out_of_the_allowed_namespaces(
        parts in prop::collection::vec("api|apis|v1|namespaces|shop|other|pods|nodes|\\.\\.|%2e|[a-z.%/]{0,6}|watch", 0..8),
        query in "(watch=1&)?(fieldSelector=metadata.name(%3D|=)(shop|other)(%2Ca%3Db|,x|x)?)?",
    ) {
        let path = format!("/{}?{query}", parts.join("/"));
        prop_assume!(path.parse::<Uri>().is_ok());
        if passes(&confined(&["shop"]), &path, JSON) {
            let uri: Uri = path.parse().unwrap();
            let segments: Vec<_> = uri.path().split('/').skip(1).collect();
            let below = match segments.as_slice() {
                ["api", _, below @ ..] | ["apis", _, _, below @ ..] => below,
                _ => &[],
            };
            let is_inside = match below {
                [] => true,
                ["namespaces"] => query.contains("name%3Dshop") || query.contains("name=shop"),
                ["namespaces", name, ..] => *name == "shop",
                _ => false,
            };
            prop_assert!(is_inside, "{path}");
        }
    }
}
