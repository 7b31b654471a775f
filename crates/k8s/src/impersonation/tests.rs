use std::collections::BTreeMap;

use proptest::{
    collection::{btree_map, vec},
    prelude::*,
};

use super::*;

/// The user that an API server reads out of headers (`processImpersonationHeaders`): blanks at
/// the ends of values are gone, names are in lower case, keys are decoded.
fn received(
    headers: &HeaderMap,
) -> (
    String,
    Option<String>,
    Vec<String>,
    BTreeMap<String, Vec<String>>,
) {
    let text = |value: &HeaderValue| {
        let text = String::from_utf8(value.as_bytes().to_vec()).unwrap();
        text.trim_matches([' ', '\t']).to_owned()
    };
    let mut extra = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            let key = key.to_lowercase();
            let key = crate::read_only::percent_decoded(&key).unwrap();
            extra.entry(key).or_default().push(text(value));
        }
    }
    (
        text(&headers[USER]),
        headers.get(UID).map(text),
        headers.get_all(GROUP).iter().map(text).collect(),
        extra,
    )
}

fn names(user: &KubernetesUser) -> Vec<String> {
    user.groups().iter().map(ToString::to_string).collect()
}

proptest! {
    /// Whatever a user is called: it arrives as it is, or it is not sent.
    #[test]
    fn fuzz_a_user_arrives_as_it_is_or_not_at_all(
        name in "\\PC{1,20}|[ -~]{1,20}|system:serviceaccount:[a-z]{1,4}:[a-z]{1,4}",
        groups in vec("\\PC{1,12}|[ -~]{1,12}", 0..5),
        uid in proptest::option::of("\\PC{0,12}|[\\x00-\\x20a-z]{0,6}"),
        extra in btree_map("\\PC{1,12}|[A-Za-z./%+]{1,12}|[\\x00-\\x20]{1,3}", vec("\\PC{0,8}|[\\x00-\\x20a-z]{0,6}", 1..3), 0..4),
    ) {
        let Ok(user) = KubernetesUser::new(&name, &groups) else { return Ok(()) };
        let user = user.reviewed(uid.as_deref(), extra.clone());
        let Ok(headers) = impersonation_headers(&user) else { return Ok(()) };
        let (sent_name, sent_uid, sent_groups, sent_extra) = received(&headers);
        prop_assert_eq!(sent_name, name);
        if is_plain_service_account(&user) {
            prop_assert_eq!(headers.len(), 1);
            return Ok(());
        }
        prop_assert_eq!(sent_uid.as_deref(), user.uid());
        prop_assert_eq!(sent_groups, names(&user));
        prop_assert_eq!(&sent_extra, user.extra());
    }
}

#[test]
fn what_would_arrive_as_something_else_is_not_sent() {
    let user = |uid: &str, key: &str, one: &str| {
        let extra = BTreeMap::from([(key.to_owned(), vec![one.to_owned()])]);
        let user = KubernetesUser::new("ann", ["dev"]).unwrap();
        impersonation_headers(&user.reviewed(Some(uid), extra))
    };
    assert!(user("1", "key", "one").is_ok());
    for (uid, key, one) in [
        (" 1", "key", "one"),
        ("1\r\nimpersonate-group: x", "key", "one"),
        ("1", "key", "one "),
        ("1", "key", "a\nb"),
        ("1", "key", ""),
    ] {
        assert!(user(uid, key, one).is_err(), "{uid:?} {key:?} {one:?}");
    }
    let long = "k".repeat(100_000);
    assert!(
        user("1", &long, "one")
            .unwrap_err()
            .to_string()
            .contains("too long")
    );
}

#[test]
fn keys_are_encoded_as_the_api_server_decodes_them() {
    let extra = BTreeMap::from([("Example.com/Team Ä".to_owned(), vec!["a b".to_owned()])]);
    let user = KubernetesUser::new("J\u{fc}rgen", ["dev"]).unwrap();
    let headers = impersonation_headers(&user.reviewed(None, extra)).unwrap();
    let key = "impersonate-extra-%45xample.com%2f%54eam%20%c3%84";
    assert_eq!(headers[key], "a b");
    assert_eq!(headers[USER].as_bytes(), "J\u{fc}rgen".as_bytes());
}

#[test]
fn a_service_account_is_named_alone_unless_it_has_other_groups() {
    let own = ["system:serviceaccounts", "system:serviceaccounts:ops"];
    let account = KubernetesUser::new("system:serviceaccount:ops:crier", own).unwrap();
    let account = account.reviewed(Some("7"), BTreeMap::new());
    assert_eq!(impersonation_headers(&account).unwrap().len(), 1);
    for groups in [
        &["system:serviceaccounts", "system:serviceaccounts:other"][..],
        &[
            "system:serviceaccounts",
            "system:serviceaccounts:ops",
            "dev",
        ],
        &[],
    ] {
        let user = KubernetesUser::new("system:serviceaccount:ops:crier", groups).unwrap();
        let headers = impersonation_headers(&user).unwrap();
        assert_eq!(headers.len(), 1 + groups.len() + 1, "{groups:?}");
    }
    let user = KubernetesUser::new("system:serviceaccounts:ops:crier", own).unwrap();
    assert_eq!(impersonation_headers(&user).unwrap().len(), 4);
}

#[test]
fn only_a_callers_handle_names_a_user() {
    let own = Request::builder().uri("/api/v1/pods").body(()).unwrap();
    assert!(is_servers(&own));
    assert!(write_headers(own).unwrap().headers().is_empty());
    for name in [
        "impersonate-user",
        "Impersonate-Group",
        "Impersonate-Extra-Scopes",
    ] {
        let named = || Request::builder().uri("/api/v1/pods").header(name, "admin");
        let refused = write_headers(named().body(()).unwrap());
        assert_eq!(refused.unwrap_err(), RefusedRequest::NamesUser, "{name}");
        let user = KubernetesUser::new("ann", [""; 0]).unwrap();
        let mark = OnBehalf(Arc::new(impersonation_headers(&user).unwrap()));
        let refused = write_headers(named().extension(mark).body(()).unwrap());
        assert_eq!(refused.unwrap_err(), RefusedRequest::NamesUser, "{name}");
    }
    let nobody = Request::builder().extension(OnBehalf(Arc::default()));
    let refused = write_headers(nobody.body(()).unwrap());
    assert_eq!(refused.unwrap_err(), RefusedRequest::NoUser);
}

/// A client whose service remembers what reached it, and answers with so many bytes.
fn recording(bytes: usize) -> (Client, Arc<parking_lot::Mutex<Vec<HeaderMap>>>) {
    let seen = Arc::<parking_lot::Mutex<Vec<HeaderMap>>>::default();
    let sent = Arc::clone(&seen);
    let service = tower::service_fn(move |request: Request<Body>| {
        sent.lock().push(request.headers().clone());
        let body = Body::from(vec![b'x'; bytes]);
        std::future::ready(Ok::<_, std::io::Error>(http::Response::new(body)))
    });
    let client = kube::client::ClientBuilder::new(service, "default")
        .with_layer(&crate::read_only::layer(
            crate::allowed::ReadScope::default(),
        ))
        .with_layer(&crate::body_limit::BodyLimitLayer)
        .build();
    (client, seen)
}

fn request(method: &str, path: &str) -> Request<Vec<u8>> {
    let request = Request::builder().method(method).uri(path);
    request.body(Vec::new()).unwrap()
}

#[tokio::test]
async fn a_caller_and_the_server_share_a_client_and_no_user() {
    let (own, seen) = recording(0);
    let user = KubernetesUser::new("ann", ["dev"]).unwrap();
    let caller = on_behalf(&own, impersonation_headers(&user).unwrap());
    for client in [&own, &caller, &own] {
        client
            .request_text(request("GET", "/api/v1/pods"))
            .await
            .unwrap();
    }
    let users: Vec<_> = seen
        .lock()
        .iter()
        .map(|headers| headers.get(USER).cloned())
        .collect();
    assert_eq!(users, [None, Some("ann".parse().unwrap()), None]);
    assert_eq!(seen.lock()[1].get_all(GROUP).iter().count(), 2);
}

#[tokio::test]
async fn a_caller_only_reads_and_the_reason_arrives() {
    let (own, seen) = recording(0);
    let user = KubernetesUser::new("ann", ["dev"]).unwrap();
    let caller = on_behalf(&own, impersonation_headers(&user).unwrap());
    let review = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    own.request_text(request("POST", review)).await.unwrap();
    assert_eq!(seen.lock().len(), 1);
    let operation = crate::Operation {
        verb: "create",
        resource: "reviews",
        name: None,
        namespace: None,
        context: "dev",
    };
    for (method, path, part) in [
        ("POST", review, "only reads"),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "only reads",
        ),
        ("DELETE", "/api/v1/namespaces/a", "only reads"),
        ("GET", "/api/v1/namespaces/a/secrets/b", "Secrets"),
    ] {
        let refused = caller
            .request_text(request(method, path))
            .await
            .unwrap_err();
        let error = crate::ClusterError::from_kube(&operation, &refused).to_string();
        assert!(error.contains(part), "{method} {path}: {error}");
    }
    let mut named = request("GET", "/api/v1/pods");
    named.headers_mut().insert(USER, "admin".parse().unwrap());
    let refused = own.request_text(named).await.unwrap_err();
    let error = crate::ClusterError::from_kube(&operation, &refused).to_string();
    assert!(error.contains("names no other user"), "{error}");
    assert_eq!(seen.lock().len(), 1, "nothing of it was sent");
}

/// The limit of an answer is known as such through both clients.
#[tokio::test]
async fn an_answer_that_is_too_large_is_told_to_a_caller_as_to_the_server() {
    let (own, _seen) = recording(33 * 1024 * 1024);
    let user = KubernetesUser::new("ann", ["dev"]).unwrap();
    let caller = on_behalf(&own, impersonation_headers(&user).unwrap());
    for client in [own, caller] {
        let error = client
            .request_text(request("GET", "/api/v1/pods"))
            .await
            .unwrap_err();
        assert!(crate::error::too_large(&error).is_some(), "{error:?}");
    }
}
