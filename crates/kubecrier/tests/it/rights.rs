//! What is missing is said before it is needed: rights at subscription, clusters by `/readyz`.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::{Kubeconfig, User, event, namespace};
use tokio::time::Instant;

use crate::harness::{Http, Subscriber, TIMEOUT, kubeconfig, one_context};

/// All but the advice to narrow: how much happens in the cluster depends on the other tests.
fn warnings(made: &Value) -> Vec<&str> {
    let warnings = made["warnings"].as_array().unwrap().iter();
    let warnings = warnings.map(|one| one.as_str().unwrap());
    let of_rights = |one: &&str| !(one.starts_with("about ") && one.contains("events a minute"));
    warnings.filter(of_rights).collect()
}

#[tokio::test]
async fn faults_without_a_right_to_logs_are_announced_when_they_are_subscribed_to() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    for space in ["rights-a", "rights-b"] {
        cluster
            .create_cluster_wide(&namespace(space))
            .await
            .unwrap();
    }
    let file = kubeconfig(|file| {
        file.context("dev", cluster, User::NoLogs)
            .context("full", cluster, User::Reader)
            .current("dev")
    });
    let http = Http::start(&file.path, &[]).await;
    let _listening = Subscriber::new(&http).await;
    let subscribe = async |mut arguments: Value, context: &str| {
        arguments["context"] = json!(context);
        http.call("events_subscribe", arguments).await.ok().data
    };
    let everywhere = json!({"mode": "faults"});
    let two = json!({"mode": "faults", "namespaces": ["rights-a", "rights-b"]});
    for _ in 0..2 {
        let made = subscribe(two.clone(), "dev").await;
        let [warning] = warnings(&made)[..] else {
            panic!("one warning: {made}");
        };
        for part in [
            "without logs",
            "`pods/log`",
            "`rights-a`, `rights-b`",
            "verbs: [\"get\"]",
        ] {
            assert!(warning.contains(part), "no {part} in {warning}");
        }
    }
    let made = subscribe(everywhere.clone(), "dev").await;
    let [warning] = warnings(&made)[..] else {
        panic!("one warning: {made}");
    };
    assert!(
        warning.contains("`pods/log` is forbidden in namespaces"),
        "{warning}"
    );
    for arguments in [everywhere, two] {
        let made = subscribe(arguments, "full").await;
        assert!(warnings(&made).is_empty(), "{made}");
    }
    let events = subscribe(json!({"namespace": "rights-a"}), "dev").await;
    assert!(
        warnings(&events).is_empty(),
        "events need no logs: {events}"
    );
}

#[tokio::test]
async fn a_forbidden_namespace_among_others_is_a_warning_and_alone_a_refusal() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    for space in ["rights-closed", "rights-shut"] {
        cluster
            .create_cluster_wide(&namespace(space))
            .await
            .unwrap();
    }
    let file = one_context(cluster, User::TeamA);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    let filters = json!({"namespaces": ["team-a", "rights-closed", "rights-shut"],
                         "reason": "RightsMixed"});
    let made = http.call("events_subscribe", filters).await.ok().data;
    let [warning] = warnings(&made)[..] else {
        panic!("one warning: {made}");
    };
    assert!(
        warning.contains("events of `rights-closed`, `rights-shut` may not be read"),
        "{warning}"
    );
    assert!(!warning.contains("team-a"), "{warning}");
    for space in ["rights-closed", "team-a"] {
        let event = event(space, "Pod/web-0", "Warning", "RightsMixed", "x");
        cluster.create(&event).await.unwrap();
    }
    let id = made["subscriptionId"].as_str().unwrap();
    assert_eq!(client.event(id).await["event"]["namespace"], "team-a");
    let none = json!({"namespaces": ["rights-closed", "rights-shut"]});
    let refused = http.call("events_subscribe", none).await;
    refused.refused(
        "forbidden",
        &["cannot list events", "grant it with the rule"],
    );
}

#[tokio::test]
async fn readyz_fails_when_no_context_can_be_reached_and_not_for_one_of_many() {
    let Some(bed) = testbed::shared() else { return };
    let (url, authority) = ("https://127.0.0.1:1", bed.dev().authority_pem());
    let gone = |file: Kubeconfig| file.server_context("gone", url, authority).current("gone");
    let file = kubeconfig(gone);
    let http = Http::start(&file.path, &[]).await;
    // The answer may take longer than a probe waits; then the server counts as ready.
    let until = async |status: u16| {
        let began = Instant::now();
        loop {
            let answer = http.get("/readyz").await;
            let is = answer.status().as_u16();
            let text = answer.text().await.unwrap();
            if is == status {
                return text;
            }
            assert!(began.elapsed() < TIMEOUT, "{is} {text}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let why = until(503).await;
    assert_eq!(
        why,
        "no context can be reached: unreachable; see `kubecrier doctor`\n"
    );
    assert_eq!(
        http.get("/healthz").await.status(),
        200,
        "it need not be restarted"
    );
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    assert_eq!(stats["contextsUnreachable"], json!({"gone": "unreachable"}));
    let both = gone(Kubeconfig::new()).context("dev", bed.dev(), User::Reader);
    both.write(&file.path).unwrap();
    assert_eq!(until(200).await, "ok\n");
}
