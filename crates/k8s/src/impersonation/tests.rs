use proptest::{collection::vec, prelude::*};

use super::*;

/// The user that an API server reads out of headers (`processImpersonationHeaders`): blanks at
/// the ends of values are gone.
fn received(headers: &HeaderMap) -> (String, Vec<String>) {
    let text = |value: &HeaderValue| {
        let text = String::from_utf8(value.as_bytes().to_vec()).unwrap();
        text.trim_matches([' ', '\t']).to_owned()
    };
    (
        text(&headers[USER]),
        headers.get_all(GROUP).iter().map(text).collect(),
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
    ) {
        let Ok(user) = KubernetesUser::new(&name, &groups) else { return Ok(()) };
        let Ok(headers) = impersonation_headers(&user) else { return Ok(()) };
        let (sent_name, sent_groups) = received(&headers);
        prop_assert_eq!(sent_name, name);
        if is_plain_service_account(&user) {
            prop_assert_eq!(headers.len(), 1);
            return Ok(());
        }
        prop_assert_eq!(sent_groups, names(&user));
    }
}

#[test]
fn what_would_arrive_as_something_else_is_not_sent() {
    assert!(value("a name", "J\u{fc}rgen \"J\", \u{6771}").is_ok());
    for wrong in [
        "",
        " a",
        "a ",
        "a\tb\t",
        "a\r\nimpersonate-group: x",
        "a\nb",
        "\0",
    ] {
        assert!(value("a name", wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_service_account_is_named_alone_unless_it_has_other_groups() {
    let own = ["system:serviceaccounts", "system:serviceaccounts:ops"];
    let account = KubernetesUser::new("system:serviceaccount:ops:crier", own).unwrap();
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

#[test]
fn a_person_can_ask_as_the_user_with_its_groups() {
    let flags = |name: &str, groups: &[&str]| {
        let user = KubernetesUser::new(name, groups.iter().copied()).unwrap();
        kubectl_flags(&user)
    };
    assert_eq!(flags("ann", &[]), "--as 'ann'");
    assert_eq!(
        flags("o'neil", &["dev", "Team B"]),
        r"--as 'o'\''neil' --as-group 'Team B' --as-group 'dev'"
    );
    let many = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    assert_eq!(flags("ann", &many), "--as 'ann' --as-group ...");
}
