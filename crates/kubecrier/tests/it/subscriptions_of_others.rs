//! The owners of subscriptions, their limits, and the cleanup at their end.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::{Options, User, event, namespace};

use crate::{
    harness::{Http, HttpSession, Subscriber, TIMEOUT, one_context},
    upstream::{open_watches, until_watches},
};

async fn stats(http: &Http) -> Value {
    http.get("/stats").await.json().await.unwrap()
}

/// Waits until the two subscriptions of a session have these last sequence numbers.
async fn until_last_seq(session: &HttpSession, counts: [u64; 2]) {
    let all_received = async {
        loop {
            let own = session.call("events_list_subscriptions", json!({})).await;
            let mut last_seqs: Vec<_> = own.ok().data["subscriptions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["lastSeq"].as_u64().unwrap())
                .collect();
            last_seqs.sort_unstable();
            if last_seqs == counts {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, all_received)
        .await
        .expect("both watches see it");
}

/// D6, D18, S3-4, S3-40, S3-41, S3-43, S3-73: as the API server sees it.
#[tokio::test]
async fn many_share_one_watch_and_none_is_left_when_they_go() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("sharing", Options::default());
    let file = one_context(&cluster, User::Reader);
    let arguments = [
        "--max-subscriptions-per-session",
        "300",
        "--max-subscriptions-global",
        "500",
    ];
    let http = Http::start(&file.path, &arguments).await;
    assert_eq!(open_watches(&cluster).await, 0, "no subscription yet");
    let mut client = Subscriber::new(&http).await;
    let mut ids = Vec::new();
    for number in 0..300 {
        let filters = match number % 3 {
            0 => json!({}),
            1 => json!({"namespaceSelector": [format!("ns-{number}-*")]}),
            _ => json!({"labelSelector": format!("n={number}"), "types": ["Warning"]}),
        };
        ids.push(client.subscribe(filters).await);
    }
    assert_eq!(open_watches(&cluster).await, 1);
    let refused = http
        .call("events_subscribe", json!({"namespace": "elsewhere"}))
        .await;
    refused.refused("limit", &["300", "--max-subscriptions-per-session"]);
    assert_eq!(
        open_watches(&cluster).await,
        1,
        "no watch for what was refused"
    );
    // One message for each without a filter; a duplicate would arrive before the second.
    let mut expected: Vec<_> = ids.iter().step_by(3).cloned().collect();
    expected.sort();
    for reason in ["Started", "Marker"] {
        let one = event("default", "Pod/web-0", "Normal", reason, "x");
        cluster.create(&one).await.unwrap();
        let mut notified = Vec::new();
        while notified.len() < expected.len() {
            let data = client.message().await["data"].clone();
            assert_eq!(data["event"]["reason"], reason, "{data}");
            notified.push(data["subscriptionId"].as_str().unwrap().to_owned());
        }
        notified.sort();
        assert_eq!(notified, expected);
    }
    for id in &ids[..299] {
        http.call("events_unsubscribe", json!({"subscriptionId": id}))
            .await
            .ok();
    }
    assert_eq!(
        open_watches(&cluster).await,
        1,
        "another subscription still needs it"
    );
    http.call("events_unsubscribe", json!({"subscriptionId": ids[299]}))
        .await
        .ok();
    until_watches(&cluster, 0).await;
    // The end of a session ends what it had, and coming and going leaves nothing.
    for _ in 0..50 {
        let id = client.subscribe(json!({})).await;
        http.call("events_unsubscribe", json!({"subscriptionId": id}))
            .await
            .ok();
    }
    let other = http.another("2025-06-18").await;
    other
        .call("events_subscribe", json!({"namespace": "default"}))
        .await
        .ok();
    assert_eq!(stats(&http).await["subscriptions"], 1);
    assert_eq!(other.delete().await, 204);
    assert_eq!(stats(&http).await["subscriptions"], 0);
    until_watches(&cluster, 0).await;
    assert_eq!(stats(&http).await["watches"], json!([]));
}

/// S3-41, S3-45: a session without a DELETE expires.
#[tokio::test]
async fn a_session_that_idles_away_takes_its_subscriptions_along() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &["--session-idle-timeout", "4s"]).await;
    let other = http.another("2025-11-25").await;
    other
        .call("events_subscribe", json!({"namespace": "default"}))
        .await
        .ok();
    assert_eq!(stats(&http).await["subscriptions"], 1);
    let gone = async {
        while stats(&http).await["subscriptions"] != 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone)
        .await
        .expect("it is swept");
}

/// A watch that covers several namespaces of a subscription sends each event once.
#[tokio::test]
async fn events_of_several_namespaces_in_one_watch_are_sent_once() {
    let Some(bed) = testbed::shared() else { return };
    for name in ["sub-one", "sub-two"] {
        bed.dev()
            .create_cluster_wide(&namespace(name))
            .await
            .unwrap();
    }
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let other = http.another("2025-11-25").await;
    other.call("events_subscribe", json!({})).await.ok();
    let mut client = Subscriber::new(&http).await;
    let id = client
        .subscribe(json!({"namespaces": ["sub-one", "sub-two"]}))
        .await;
    assert_eq!(stats(&http).await["watches"].as_array().unwrap().len(), 1);
    // A duplicate would arrive before the next one.
    for (name, reason) in [
        ("sub-one", "First"),
        ("sub-two", "Second"),
        ("sub-one", "Marker"),
    ] {
        bed.dev()
            .create(&event(name, "Pod/x", "Normal", reason, "x"))
            .await
            .unwrap();
        let received = client.event(&id).await;
        assert_eq!(received["event"]["namespace"], name);
        assert_eq!(received["event"]["reason"], reason);
    }
}

/// With one watch of a single namespace and one of all namespaces, a subscription to two
/// namespaces receives each event once.
#[tokio::test]
async fn overlapping_watches_send_each_event_once() {
    let Some(bed) = testbed::shared() else { return };
    for name in ["sub-over", "sub-lap"] {
        let space = namespace(name);
        bed.dev().create_cluster_wide(&space).await.unwrap();
    }
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let other = http.another("2025-11-25").await;
    let one = json!({"namespace": "sub-over"});
    other.call("events_subscribe", one).await.ok();
    let all = json!({"reason": "Overlapping"});
    other.call("events_subscribe", all).await.ok();
    assert_eq!(stats(&http).await["watches"].as_array().unwrap().len(), 2);
    let mut client = Subscriber::new(&http).await;
    let both = json!({"namespaces": ["sub-lap", "sub-over"]});
    let id = client.subscribe(both).await;
    // The second watch has processed an event before the next one is created, so that a
    // duplicate would arrive before that.
    for (name, message, last_seqs) in [
        ("sub-over", "first", [1, 1]),
        ("sub-lap", "second", [1, 2]),
        ("sub-over", "marker", [2, 3]),
    ] {
        let new_event = event(name, "Pod/x", "Normal", "Overlapping", message);
        bed.dev().create(&new_event).await.unwrap();
        let received = client.event(&id).await;
        assert_eq!(received["event"]["namespace"], name);
        assert_eq!(received["event"]["message"], message);
        until_last_seq(&other, last_seqs).await;
    }
}

/// S3-56, S3-57: as narrow as the filters allow, as the API server's audit log shows.
#[tokio::test]
async fn the_api_server_is_asked_for_no_more_than_is_needed() {
    let Some(bed) = testbed::shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (policy, log) = (dir.path().join("policy"), dir.path().join("log"));
    let rules = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]});
    std::fs::write(&policy, rules.to_string()).unwrap();
    let options = Options {
        api_server_args: vec![
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", log.display()),
        ],
        ..Options::default()
    };
    let cluster = bed.fresh("audited", options);
    let file = one_context(&cluster, User::Reader);
    let http = Http::start(&file.path, &["--watch-renewal-seconds", "1"]).await;
    let arguments = json!({"namespace": "default", "for": "pod/worker-0"});
    http.call("events_subscribe", arguments).await.ok();
    http.call(
        "events_subscribe",
        json!({"involvedNamespace": "kube-system"}),
    )
    .await
    .ok();
    let selector = "fieldSelector=involvedObject.kind%3DPod%2CinvolvedObject.name%3Dworker-0";
    let audited = async {
        loop {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let asked: Vec<String> = text
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                .filter(|one| one["user"]["username"] == "reader" && one["verb"] == "watch")
                .map(|one| one["requestURI"].as_str().unwrap().to_owned())
                .collect();
            let one = |path: &str, more: &str| {
                asked
                    .iter()
                    .any(|uri| uri.starts_with(path) && uri.contains(more))
            };
            if one("/api/v1/namespaces/default/events?", selector)
                && one("/api/v1/namespaces/kube-system/events?", "watch=true")
            {
                assert!(!one("/api/v1/events?", ""), "{asked:?}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), audited)
        .await
        .expect("both were asked for");
}

/// S3-39, S3-42, S3-44, D20: to anyone else a subscription does not exist.
#[tokio::test]
async fn nobody_else_can_see_use_or_end_a_subscription() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create_cluster_wide(&namespace("sub-mine"))
        .await
        .unwrap();
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut mine = Subscriber::new(&http).await;
    let id = mine.subscribe(json!({"namespace": "sub-mine"})).await;
    let other = http.another("2025-11-25").await;
    let never = format!("sub-{}", "0".repeat(32));
    for tool in ["events_unsubscribe", "events_poll"] {
        let text = async |id: &str| {
            let answer = other.call(tool, json!({"subscriptionId": id})).await;
            answer
                .refused("not_found", &["subscription not found"])
                .text
                .replace(id, "ID")
        };
        assert_eq!(
            text(&id).await,
            text(&never).await,
            "no way to tell which ids exist"
        );
    }
    let uri = format!("kubecrier://subscriptions/{id}");
    for method in ["resources/read", "resources/subscribe"] {
        let answer = other.rpc(method, json!({"uri": uri})).await;
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
    }
    let listed = other
        .call("events_list_subscriptions", json!({}))
        .await
        .ok();
    assert_eq!(listed.data["total"], 0);
    let new_event = event("sub-mine", "Pod/web-0", "Normal", "Started", "x");
    bed.dev().create(&new_event).await.unwrap();
    mine.event(&id).await;
    let listed = http.call("events_list_subscriptions", json!({})).await.ok();
    assert_eq!(listed.data["subscriptions"][0]["subscriptionId"], id);
    assert_eq!(listed.data["subscriptions"][0]["lastSeq"], 1);
}

/// S3-66, S3-67, S3-70, S3-71, D11.
#[tokio::test]
async fn caps_are_what_the_flags_say() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let usual = Http::start(&file.path, &[]).await;
    for _ in 0..10 {
        usual
            .call("events_subscribe", json!({"namespace": "default"}))
            .await
            .ok();
    }
    let refused = usual
        .call("events_subscribe", json!({"namespace": "default"}))
        .await;
    refused.refused(
        "limit",
        &["10 subscriptions", "--max-subscriptions-per-session"],
    );
    let arguments = [
        "--max-subscriptions-per-session",
        "1",
        "--max-subscriptions-global",
        "2",
    ];
    let narrow = Http::start(&file.path, &arguments).await;
    narrow
        .call("events_subscribe", json!({"namespace": "default"}))
        .await
        .ok();
    let more = json!({"namespace": "kube-system"});
    let refused = narrow.call("events_subscribe", more).await;
    refused.refused("limit", &["--max-subscriptions-per-session"]);
    let watches = stats(&narrow).await["watches"].clone();
    assert_eq!(
        watches.as_array().unwrap().len(),
        1,
        "no watch for what was refused: {watches}"
    );
    let second = narrow.another("2025-11-25").await;
    second.call("events_subscribe", json!({})).await.ok();
    let third = narrow.another("2025-11-25").await;
    third
        .call("events_subscribe", json!({}))
        .await
        .refused("limit", &["--max-subscriptions-global"]);
    assert_eq!(second.delete().await, 204);
    third.call("events_subscribe", json!({})).await.ok();
}

/// RBAC: a narrower scope is reported; no permission at all is an error with the rule.
#[tokio::test]
async fn a_forbidden_watch_is_reported() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Unprivileged);
    let http = Http::start(&file.path, &[]).await;
    let denied = http.call("events_subscribe", json!({})).await;
    denied.refused(
        "forbidden",
        &["cannot list events", "verbs: [\"list\", \"watch\"]"],
    );
    assert_eq!(stats(&http).await["watches"], json!([]));
    let file = one_context(bed.dev(), User::TeamA);
    let http = Http::start(&file.path, &[]).await;
    let elsewhere = http
        .call("events_subscribe", json!({"namespace": "default"}))
        .await;
    elsewhere.refused("forbidden", &["`default`"]);
    let mut client = Subscriber::new(&http).await;
    let own = http
        .call("events_subscribe", json!({"namespace": "team-a"}))
        .await
        .ok();
    let id = own.data["subscriptionId"].as_str().unwrap();
    bed.dev()
        .create(&event("team-a", "Pod/x", "Normal", "Started", "x"))
        .await
        .unwrap();
    client.event(id).await;
    assert_eq!(stats(&http).await["watches"].as_array().unwrap().len(), 1);
}

/// Without permission for the whole cluster, the permitted namespaces are watched, and the
/// result lists them.
#[tokio::test]
async fn a_cluster_that_may_be_read_in_part_is_watched_in_part() {
    let Some(bed) = testbed::shared() else { return };
    // The one that may be read is not among the first.
    for nth in 0..60 {
        let one = namespace(&format!("others-{nth}"));
        bed.dev().create_cluster_wide(&one).await.unwrap();
    }
    let file = one_context(bed.dev(), User::TeamAAndNames);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    let made = http
        .call("events_subscribe", json!({"reason": "InPart"}))
        .await
        .ok();
    let warnings = made.data["warnings"].to_string();
    assert!(warnings.contains("only these 1 of"), "{warnings}");
    assert!(warnings.contains("team-a"), "{warnings}");
    for (space, message) in [("default", "not"), ("team-a", "told"), ("team-a", "marker")] {
        let new_event = event(space, "Pod/x", "Normal", "InPart", message);
        bed.dev().create(&new_event).await.unwrap();
    }
    let id = made.data["subscriptionId"].as_str().unwrap();
    for message in ["told", "marker"] {
        assert_eq!(client.event(id).await["event"]["message"], message);
    }
    // A namespace that is requested by name without permission is an error.
    let outside = json!({"namespaceSelector": ["kube-*"]});
    let outside = http.call("events_subscribe", outside).await;
    outside.refused("forbidden", &["verbs: [\"list\", \"watch\"]"]);
}

/// Bad input: a clear error, and no watch left behind.
#[tokio::test]
async fn bad_filters_are_refused_before_anything_is_watched() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let bad = [
        (json!({"labelSelector": "app in (web"}), "not closed"),
        (json!({"labelSelector": "=x"}), "label's name"),
        (json!({"namespace": "Not_A_Name"}), "Not_A_Name"),
        (
            json!({"involvedNamespace": "../../secrets"}),
            "involvedNamespace",
        ),
        (
            json!({"involvedName": "a,involvedObject.kind=Secret"}),
            "involvedName",
        ),
        (
            json!({"mode": "faults", "type": "Normal"}),
            "Warning events only",
        ),
        (
            json!({"mode": "faults", "involvedKind": "Node"}),
            "pods only",
        ),
        (json!({"mode": "everything"}), "`events`"),
        (json!({"types": ["Odd"]}), "Warning"),
        (json!({"for": "web"}), "kind/name"),
        (json!({"for": "widget/x"}), "spell it as"),
        (
            json!({"for": "pod/x", "involvedName": "y"}),
            "give one of them",
        ),
        (json!({"namespce": "x"}), "namespce"),
        (json!({"context": "nope"}), "contexts are"),
    ];
    for (arguments, words) in bad {
        let answer = http.call("events_subscribe", arguments.clone()).await;
        assert!(answer.is_error, "{arguments}");
        assert!(answer.text.contains(words), "{arguments}: {}", answer.text);
    }
    let now = stats(&http).await;
    assert_eq!(
        (&now["subscriptions"], &now["watches"]),
        (&json!(0), &json!([]))
    );
    let missing = http
        .call("events_subscribe", json!({"namespace": "not-there-yet"}))
        .await
        .ok();
    let warnings = missing.data["warnings"].to_string();
    assert!(
        warnings.contains("no namespace `not-there-yet` yet"),
        "{warnings}"
    );
}
