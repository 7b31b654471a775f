//! Names of users and groups as the API server reads them out of headers.

use kubecrier_core::KubernetesUser;
use kubecrier_k8s::impersonation_headers;
use proptest::{
    collection::vec,
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use serde_json::{Value, json};
use testbed::User;

use super::{ANN, Acting};
use crate::harness::HttpSession;

/// Users that are tried; each is a request.
const CASES: usize = 300;

/// What the API server takes a request with these headers for.
async fn who_am_i(client: &kube::Client, user: &KubernetesUser) -> Value {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let mut request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .unwrap();
    request
        .headers_mut()
        .extend(impersonation_headers(user).unwrap());
    let answer: Value = client.request(request).await.unwrap();
    answer["status"]["userInfo"].clone()
}

/// The admin may act as anyone, by plain impersonation.
#[tokio::test]
async fn every_user_arrives_as_it_is() {
    let Some(bed) = testbed::shared() else { return };
    let client = bed.dev().client(User::Admin).await.unwrap();
    let name = "\\PC{1,20}|[ -~]{1,20}";
    let users = (name, vec(name, 0..4));
    let mut runner = TestRunner::deterministic();
    let mut tried = 0;
    while tried < CASES {
        let (name, groups) = users.new_tree(&mut runner).unwrap().current();
        let Ok(user) = KubernetesUser::new(&name, &groups) else {
            continue;
        };
        if impersonation_headers(&user).is_err() {
            continue;
        }
        tried += 1;
        let seen = who_am_i(&client, &user).await;
        assert_eq!(seen["username"], name, "{user:?}");
        let groups: Vec<_> = user.groups().iter().map(AsRef::as_ref).collect();
        assert_eq!(seen["groups"], json!(groups), "{user:?}");
        assert_eq!(seen["extra"], Value::Null, "{user:?}");
    }
}

#[tokio::test]
async fn a_service_account_has_the_groups_of_its_namespace() {
    let Some(bed) = testbed::shared() else { return };
    let client = bed.dev().client(User::Admin).await.unwrap();
    let groups = ["system:serviceaccounts", "system:serviceaccounts:ops"];
    let user = KubernetesUser::new("system:serviceaccount:ops:crier", groups).unwrap();
    let seen = who_am_i(&client, &user).await;
    assert_eq!(seen["username"], user.name());
    let mut seen: Vec<_> = seen["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap())
        .collect();
    seen.sort_unstable();
    let expected: Vec<_> = user.groups().iter().map(AsRef::as_ref).collect();
    assert_eq!(seen, expected);
}

/// From the token file to the audit log.
#[tokio::test]
async fn a_name_that_needs_quotes_is_the_user_in_the_audit_log() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let line = format!(r#"j:{ANN} user="Jürgen \"J\" Groß, 東京" groups="ops: a=b","日本""#);
    let acting = Acting::start(cluster, &[&line]);
    let session = HttpSession::signed(&acting.base, ANN).await;
    let answer = session
        .call("pods_list", json!({"namespace": "default"}))
        .await;
    answer.refused("forbidden", &["Groß"]);
    let audit = cluster.audit_of(User::ActsAsCallers).unwrap();
    let user = "Jürgen \"J\" Groß, 東京";
    let of_user = |request: &&Value| request["impersonatedUser"]["username"] == user;
    let request = audit.iter().find(of_user).unwrap();
    let groups = json!(["ops: a=b", "system:authenticated", "日本"]);
    assert_eq!(request["impersonatedUser"]["groups"], groups);
}
