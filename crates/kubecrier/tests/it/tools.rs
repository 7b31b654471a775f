//! Each tool against the real API server.

use serde_json::json;
use testbed::{LogScript, User, event, namespace, pod};

use crate::harness::{Http, one_context};

#[tokio::test]
async fn contexts_are_listed_without_asking_any_cluster() {
    let Some(bed) = testbed::shared() else { return };
    let file = crate::harness::kubeconfig(|file| {
        file.context("dev", bed.dev(), User::Reader)
            .namespace("team-a")
            .server_context("dead", "https://127.0.0.1:1", bed.dev().authority_pem())
            .current("dev")
    });
    let http = Http::start(&file.path, &[]).await;
    let answer = http
        .call("configuration_contexts_list", json!({}))
        .await
        .ok();
    assert_eq!(answer.data["contexts"][0]["name"], "dev");
    assert_eq!(answer.data["contexts"][0]["default"], true);
    assert_eq!(answer.data["contexts"][0]["namespace"], "team-a");
    assert_eq!(answer.data["contexts"][1]["name"], "dead");
    assert!(
        !answer.text.contains("token"),
        "no credentials: {}",
        answer.text
    );
}

#[tokio::test]
async fn namespaces_are_listed_and_a_cut_list_says_how_many_are_missing() {
    let Some(bed) = testbed::shared() else { return };
    for n in 0..3 {
        let mut one = namespace(&format!("cut-{n}"));
        one.metadata.labels = Some([("cut".to_owned(), "yes".to_owned())].into());
        bed.dev().create_cluster_wide(&one).await.unwrap();
    }
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let all = http
        .call("namespaces_list", json!({"labelSelector": "cut=yes"}))
        .await
        .ok();
    assert_eq!(all.data["namespaces"].as_array().unwrap().len(), 3);
    assert_eq!(all.data["more"], json!({"exactly": 0}));
    // With a selector the API server does not say how many remain: we count.
    let cut = json!({"labelSelector": "cut=yes", "limit": 1});
    let cut = http.call("namespaces_list", cut).await.ok();
    assert_eq!(cut.data["more"], json!({"exactly": 2}));
    assert!(
        cut.text.contains("cut-0") && cut.text.contains("... 2 more"),
        "{}",
        cut.text
    );
    assert!(!cut.text.contains("cut-1"), "{}", cut.text);
}

#[tokio::test]
async fn pods_show_what_kubectl_shows_and_no_managed_fields() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    cluster
        .create_cluster_wide(&namespace("pods"))
        .await
        .unwrap();
    for name in ["web-0", "web-1"] {
        cluster
            .create(&pod("pods", name, &["app", "proxy"]))
            .await
            .unwrap();
    }
    let crashing = json!({"phase": "Running", "containerStatuses": [
        {"name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 7,
         "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        {"name": "proxy", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
         "state": {"running": {}}},
    ]});
    cluster
        .set_pod_status("pods", "web-0", crashing)
        .await
        .unwrap();
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let answer = http
        .call("pods_list", json!({"namespace": "pods"}))
        .await
        .ok();
    let line = answer
        .text
        .lines()
        .find(|line| line.contains("web-0"))
        .unwrap();
    let cells: Vec<_> = line.split_whitespace().collect();
    assert_eq!(
        cells[..5],
        ["pods", "web-0", "1/2", "CrashLoopBackOff", "7"]
    );
    assert_eq!(cells[6], "node-1");
    assert!(
        !answer.text.contains("managedFields")
            && !answer.data.to_string().contains("managedFields")
    );
    let filtered = http
        .call("pods_list", json!({"labelSelector": "app=web-1"}))
        .await
        .ok();
    assert!(filtered.text.contains("web-1") && !filtered.text.contains("web-0"));
    let by_field = json!({"namespace": "pods", "fieldSelector": "metadata.name=web-0"});
    let by_field = http.call("pods_list", by_field).await.ok();
    assert_eq!(by_field.data["pods"].as_array().unwrap().len(), 1);
    let none = http
        .call("pods_list", json!({"namespace": "no-such-namespace"}))
        .await
        .ok();
    assert_eq!(none.text, "no pods found\n");
}

#[tokio::test]
async fn a_list_stays_within_the_output_limit() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create_cluster_wide(&namespace("many"))
        .await
        .unwrap();
    for n in 0..30 {
        let name = format!("a-pod-with-quite-a-long-name-{n:02}");
        bed.dev()
            .create(&pod("many", &name, &["app"]))
            .await
            .unwrap();
    }
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &["--max-output-bytes", "4096"]).await;
    let answer = http
        .call("pods_list", json!({"namespace": "many"}))
        .await
        .ok();
    let shown = answer.data["pods"].as_array().unwrap().len();
    assert!((5..30).contains(&shown), "{shown} rows");
    assert_eq!(answer.data["more"]["exactly"], 30 - shown);
    assert!(answer.text.len() + answer.data.to_string().len() < 4096 + 512);
}

#[tokio::test]
async fn events_come_newest_first_and_filtered() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    cluster
        .create_cluster_wide(&namespace("events"))
        .await
        .unwrap();
    let now = jiff::Timestamp::now();
    let at = |seconds_ago: i64, object: &str, kind: &str, reason: &str| {
        let mut one = event(
            "events",
            object,
            kind,
            reason,
            &format!("{reason} of {object}"),
        );
        let seen = now - jiff::SignedDuration::from_secs(seconds_ago);
        one.last_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(seen));
        one
    };
    cluster
        .create(&at(300, "Pod/web-0", "Warning", "BackOff"))
        .await
        .unwrap();
    cluster
        .create(&at(10, "Pod/web-1", "Normal", "Pulled"))
        .await
        .unwrap();
    cluster
        .create(&at(7200, "Deployment/web", "Normal", "ScalingReplicaSet"))
        .await
        .unwrap();
    cluster
        .create(&at(60, "Pod/web-1", "Warning", "FailedMount"))
        .await
        .unwrap();
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let reasons = async |arguments: serde_json::Value| {
        let mut arguments = arguments;
        arguments["namespace"] = "events".into();
        let answer = http.call("events_list", arguments).await.ok();
        let rows = answer.data["events"].as_array().unwrap().clone();
        rows.iter()
            .map(|row| row["reason"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let all = ["Pulled", "FailedMount", "BackOff", "ScalingReplicaSet"];
    assert_eq!(reasons(json!({})).await, all);
    assert_eq!(
        reasons(json!({"types": ["Warning"]})).await,
        ["FailedMount", "BackOff"]
    );
    assert_eq!(reasons(json!({"types": ["Warning", "Normal"]})).await, all);
    assert_eq!(reasons(json!({"reason": "Fail"})).await, ["FailedMount"]);
    assert_eq!(
        reasons(json!({"since": "2m"})).await,
        ["Pulled", "FailedMount"]
    );
    assert_eq!(
        reasons(json!({"for": "deploy/web"})).await,
        ["ScalingReplicaSet"]
    );
    assert_eq!(
        reasons(json!({"for": "pod/web-1", "types": ["Normal"]})).await,
        ["Pulled"]
    );
    assert_eq!(
        reasons(json!({"limit": 2})).await,
        ["Pulled", "FailedMount"]
    );
    let cut = http
        .call("events_list", json!({"namespace": "events", "limit": 1}))
        .await
        .ok();
    assert!(cut.text.contains("... 3 more; narrow by"), "{}", cut.text);
}

#[tokio::test]
async fn a_log_is_its_end_filtered_and_bounded() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    cluster
        .create(&pod("default", "talker", &["app", "proxy"]))
        .await
        .unwrap();
    let lines: Vec<_> = (0..500)
        .map(|n| format!("line {n} {}", if n % 100 == 0 { "ERROR" } else { "ok" }))
        .collect();
    cluster
        .node()
        .set_log("default/talker/app", LogScript::lines(lines));
    cluster
        .node()
        .set_log("default/talker/proxy", LogScript::lines(["quiet"]));
    cluster
        .node()
        .set_previous_log("default/talker/app", LogScript::lines(["panic: boom"]));
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let log = async |arguments: serde_json::Value| {
        let mut arguments = arguments;
        arguments["name"] = "talker".into();
        http.call("pods_log", arguments).await.ok()
    };
    let tail = log(json!({"tail": 2})).await;
    assert_eq!(tail.data["log"], "line 498 ok\nline 499 ok\n");
    assert_eq!(tail.data["truncated"], true);
    assert!(
        tail.text.contains("container app: 2 lines")
            && tail.text.contains("other containers: proxy")
    );
    // The last matching lines, not the matches among the last lines.
    let matching = log(json!({"include": "ERR.R", "tail": 2})).await;
    assert_eq!(matching.data["log"], "line 300 ERROR\nline 400 ERROR\n");
    let without = log(json!({"exclude": "ok", "tail": 10})).await;
    assert_eq!(without.data["lines"], 5);
    let bytes = log(json!({"limitBytes": 15})).await;
    assert_eq!(bytes.data["log"], "line 499 ok\n");
    assert_eq!(
        log(json!({"previous": true})).await.data["log"],
        "panic: boom\n"
    );
    let other = log(json!({"container": "proxy"})).await;
    assert_eq!(
        (&other.data["log"], &other.data["truncated"]),
        (&json!("quiet\n"), &json!(false))
    );
    let asked = cluster.node().requests();
    let ours = asked
        .iter()
        .filter(|one| one.container.starts_with("default/talker/"));
    assert!(ours.clone().count() > 5);
    assert!(
        ours.clone().all(|one| one.selection.tail_lines.is_some()),
        "never the whole log"
    );
}

#[tokio::test]
async fn a_context_per_call_reaches_its_own_cluster() {
    let Some(bed) = testbed::shared() else { return };
    bed.prod()
        .create_cluster_wide(&namespace("only-in-prod"))
        .await
        .unwrap();
    let file = crate::harness::kubeconfig(|file| {
        file.context("dev", bed.dev(), User::Reader)
            .context("prod", bed.prod(), User::Reader)
            .current("dev")
    });
    let http = Http::start(&file.path, &[]).await;
    let names = async |arguments| http.call("namespaces_list", arguments).await.ok().text;
    assert!(!names(json!({})).await.contains("only-in-prod"));
    assert!(
        names(json!({"context": "prod"}))
            .await
            .contains("only-in-prod")
    );
    assert!(
        !names(json!({"context": "dev"}))
            .await
            .contains("only-in-prod")
    );
}

#[tokio::test]
async fn a_changed_kubeconfig_is_read_again() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Unprivileged);
    let http = Http::start(&file.path, &[]).await;
    http.call("namespaces_list", json!({}))
        .await
        .refused("forbidden", &["nobody"]);
    let better = testbed::Kubeconfig::new()
        .context("other", bed.dev(), User::Reader)
        .current("other");
    better.write(&file.path).unwrap();
    http.call("namespaces_list", json!({})).await.ok();
    http.call("namespaces_list", json!({"context": "dev"}))
        .await
        .refused("context", &["other"]);
}
