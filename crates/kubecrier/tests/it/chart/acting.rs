//! The chart with callers who act as themselves: it grants what `kubecrier doctor` prints.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testbed::{Mount, User, namespace};

use super::{
    applied::apply_all,
    least,
    rendered::{Rendered, on_top_of},
};
use crate::{
    harness::{command, one_context},
    impersonation::{ANN, TokenFile},
    in_cluster::in_pod,
};

/// The values of a chart whose callers act as themselves.
fn values(rbac: Value) -> Value {
    let acting = json!({"auth": {"clusterIdentity": "impersonate"}, "rbac": rbac});
    on_top_of(&least(), &acting)
}

/// The rules of all roles that are about acting as others, one text each.
fn caller_rules(objects: &[Value]) -> BTreeSet<String> {
    let roles = objects.iter().filter_map(|one| one["rules"].as_array());
    let is_about_callers = |rule: &&Value| {
        let text = rule["verbs"].to_string() + &rule["resources"].to_string();
        text.contains("impersonate") || text.contains("subjectaccessreviews")
    };
    let rules = roles.flatten().filter(is_about_callers);
    rules.map(ToString::to_string).collect()
}

/// The section of doctor's report on acting as callers.
fn about_callers(report: &[u8]) -> Value {
    let report: Value = serde_json::from_slice(report).unwrap();
    let mut sections = report["sections"].as_array().unwrap().iter();
    let is_about = |one: &&Value| {
        one["about"]
            .as_str()
            .unwrap()
            .ends_with("acting as callers")
    };
    let found = sections.find(is_about);
    found.unwrap_or_else(|| panic!("{report:#}")).clone()
}

const ACTING: [&str; 4] = ["--port", "0", "--cluster-identity", "impersonate"];

#[tokio::test]
async fn the_chart_grants_what_doctor_prints() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let Some(all) = Rendered::of("tools", &values(json!({"scope": "cluster"}))) else {
        return;
    };
    let tokens = TokenFile::new(&[&format!("ann:{ANN} user=ann")]);
    let file = one_context(cluster, User::Reader);
    let done = command()
        .args(ACTING)
        .arg("--auth-token-file")
        .arg(&tokens.path)
        .args(["doctor", "-o", "json", "--kubeconfig"])
        .arg(&file.path)
        .output()
        .unwrap();
    let section = about_callers(&done.stdout);
    let printed = section["manifest"].as_str().unwrap().split("---\n");
    let printed: Vec<Value> = printed
        .map(|one| serde_saphyr::from_str(one).unwrap())
        .collect();
    let rules = caller_rules(&printed);
    assert_eq!(rules.len(), 3);
    assert_eq!(caller_rules(&all.objects), rules);
    let one = Rendered::of("tools", &values(json!({"scope": "namespace"}))).unwrap();
    assert_eq!(caller_rules(&one.objects), rules);
    let plain = json!({"scope": "cluster", "impersonation": "plain"});
    let plain = caller_rules(&Rendered::of("tools", &values(plain)).unwrap().objects);
    assert_eq!(plain.len(), 2);
    assert!(
        plain.iter().any(|rule| rule.contains(r#"["impersonate"]"#)),
        "{plain:?}"
    );
    let shared = Rendered::of("tools", &least()).unwrap();
    assert_eq!(caller_rules(&shared.objects), BTreeSet::new());
    assert_eq!(
        all.settings()["cluster_identity"].as_str(),
        Some("impersonate")
    );
    assert!(!shared.settings().contains_key("cluster_identity"));
}

#[tokio::test]
async fn the_account_of_the_chart_may_act_as_callers() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    for (space, rbac, part) in [
        (
            "acting-one",
            json!({"scope": "namespace"}),
            "in the namespaces that were checked",
        ),
        (
            "acting-all",
            json!({"scope": "cluster"}),
            "to read only (constrained",
        ),
        (
            "acting-plain",
            json!({"scope": "namespace", "impersonation": "plain"}),
            "also to write",
        ),
    ] {
        let Some(rendered) = Rendered::of(space, &values(rbac)) else {
            return;
        };
        cluster
            .create_cluster_wide(&namespace(space))
            .await
            .unwrap();
        apply_all(cluster, &rendered).await;
        let token = cluster.bound_token(space, "crier-kubecrier").await.unwrap();
        let mount = Mount::new(cluster, space, &token).unwrap();
        let tokens = TokenFile::new(&[&format!("ann:{ANN} user=ann")]);
        let mut found = Value::Null;
        // The API server's own view of roles follows within moments.
        for _ in 0..50 {
            let mut doctor = in_pod(cluster, mount.path());
            let doctor = doctor
                .args(ACTING)
                .arg("--auth-token-file")
                .arg(&tokens.path);
            let doctor = doctor.args(["doctor", "-o", "json"]);
            found = about_callers(&doctor.output().unwrap().stdout);
            if found["findings"][0]["verdict"] != "fail" {
                break;
            }
        }
        let text = found["findings"][0]["text"].as_str().unwrap();
        assert!(text.contains(part), "{space}: {text}");
        assert_eq!(found["findings"][1]["verdict"], "ok", "{space}: {found:#}");
    }
}

#[test]
fn groups_of_a_proxy_need_users() {
    for (auth, words) in [
        (
            json!({"proxy": {"groupsHeader": "X-Groups"}}),
            "needs auth.proxy.userHeader",
        ),
        (
            json!({"proxy": {"userHeader": "X-User", "groupsHeader": "X-Groups",
                             "trustedProxies": ["10.0.0.0/8"]}}),
            "needs auth.clusterIdentity=impersonate",
        ),
        (json!({"clusterIdentity": "both"}), "clusterIdentity"),
    ] {
        let wrong = on_top_of(&least(), &json!({"auth": auth}));
        let Some(text) = super::refusal(&wrong) else {
            return;
        };
        assert!(text.contains(words), "no {words} in {text}");
    }
    let tokens = json!({"tokens": {"existingSecret": "",
        "values": {"ann": "0123456789abcdef user=ann groups=dev,ops"}}, "clusterIdentity": "impersonate"});
    let rendered = Rendered::of("tools", &on_top_of(&least(), &json!({"auth": tokens}))).unwrap();
    let secret = rendered.one("Secret", "crier-kubecrier-tokens");
    let text = secret["stringData"]["tokens"].as_str().unwrap();
    assert_eq!(text.trim(), "ann:0123456789abcdef user=ann groups=dev,ops");
}
