//! Event subscriptions, end to end: what arrives, and what must not.

mod ends;
mod filters;
mod polls;

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use testbed::{Cluster, User, event, namespace, pod};

use crate::harness::{
    Http, HttpSession, Stream, Subscriber, initialize, kubeconfig, message, one_context,
};

async fn space(cluster: &Cluster, name: &str) {
    cluster.create_cluster_wide(&namespace(name)).await.unwrap();
}

async fn warn(cluster: &Cluster, space: &str, object: &str, reason: &str) -> Event {
    let new_event = event(space, object, "Warning", reason, "it went wrong");
    cluster.create(&new_event).await.unwrap()
}

/// Waits until the client's only subscription has this last sequence number.
async fn until_last_seq(session: &HttpSession, count: u64) {
    let last_seq = async || {
        let own = session.call("events_list_subscriptions", json!({}));
        let own = own.await.ok();
        own.data["subscriptions"][0]["lastSeq"].clone()
    };
    let all_received = async {
        while last_seq().await != count {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), all_received)
        .await
        .expect("all events arrive");
}

/// Counts an event up, as a kubelet does.
async fn again(cluster: &Cluster, mut event: Event, count: i32) -> Event {
    let client = cluster.client(User::Admin).await.unwrap();
    let api: Api<Event> = Api::namespaced(client, event.metadata.namespace.as_deref().unwrap());
    event.count = Some(count);
    let name = event.metadata.name.clone().unwrap();
    api.replace(&name, &PostParams::default(), &event)
        .await
        .unwrap()
}

/// S3-6, S3-7, S3-13 to S3-19: document 3's first scenarios.
#[tokio::test]
async fn a_subscription_tells_what_document_3_says() {
    let Some(bed) = testbed::shared() else { return };
    space(bed.dev(), "sub-raw").await;
    let labelled: ConfigMap = serde_json::from_value(json!({
        "metadata": {"namespace": "sub-raw", "name": "settings", "labels": {"app": "shop"}},
    }))
    .unwrap();
    bed.dev().create(&labelled).await.unwrap();
    // Events from before the subscription are not sent.
    warn(bed.dev(), "sub-raw", "ConfigMap/settings", "Before").await;
    let file = one_context(bed.dev(), User::Admin);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    let arguments =
        json!({"cluster": "dev", "namespace": "sub-raw", "types": ["Normal", "Warning"]});
    let answer = http.call("events_subscribe", arguments).await.ok().data;
    let id = answer["subscriptionId"].as_str().unwrap();
    assert_eq!(answer["mode"], "events");
    assert_eq!(answer["cluster"], "dev");
    let filters = json!({"namespaces": ["sub-raw"], "types": ["Normal", "Warning"]});
    assert_eq!(answer["filters"], filters);
    let delivery = json!({"via": "notifications/message", "level": "info", "streamOpen": true,
        "pushed": true});
    assert_eq!(answer["delivery"], delivery);
    assert_eq!(answer["warnings"], json!([]), "all is as it should be");
    let new_event = event(
        "sub-raw",
        "ConfigMap/settings",
        "Normal",
        "Updated",
        "a new value",
    );
    let created = bed.dev().create(&new_event).await.unwrap();
    let message = client.message().await;
    assert_eq!(message["level"], "info");
    assert_eq!(message["logger"], "kubernetes/events");
    let data = &message["data"];
    assert_eq!(data["subscriptionId"], id);
    assert_eq!(data["cluster"], "dev");
    assert_eq!(data["seq"], 1);
    assert_eq!(data["cursor"], format!("{id}.1"));
    assert_eq!(
        data["eventId"],
        format!("{}:1", created.metadata.uid.clone().unwrap())
    );
    let last = created.last_timestamp.as_ref().unwrap().0;
    let expected = json!({
        "namespace": "sub-raw",
        "type": "Normal",
        "reason": "Updated",
        "message": "a new value",
        "labels": {"app": "shop"},
        "involvedObject": {
            "apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "namespace": "sub-raw",
        },
        "count": 1,
        "timestamp": last,
        "firstTimestamp": last,
        "lastTimestamp": last,
        "source": "testbed",
    });
    assert_eq!(data["event"], expected);
    // A repeat that is counted up is an event; the same count again is not.
    let second = again(bed.dev(), created, 2).await;
    assert_eq!(client.event(id).await["event"]["count"], 2);
    let mut touched = second;
    touched.metadata.annotations = Some([("seen".to_owned(), "yes".to_owned())].into());
    again(bed.dev(), touched, 2).await;
    warn(bed.dev(), "sub-raw", "ConfigMap/settings", "Marker").await;
    assert_eq!(client.event(id).await["event"]["reason"], "Marker");
    // Through the same watch, so that its events come in order with those of the first.
    let arguments = json!({"namespace": "sub-raw", "reason": "Marker"});
    let marker = client.subscribe(arguments).await;
    for already in [false, true] {
        let ended = http
            .call("events_unsubscribe", json!({"subscriptionId": id}))
            .await
            .ok();
        assert_eq!(ended.data["alreadyEnded"], already);
    }
    for reason in ["After", "Marker"] {
        warn(bed.dev(), "sub-raw", "ConfigMap/settings", reason).await;
    }
    client.event(&marker).await;
}

/// An object that is recreated under an old name has its own labels.
#[tokio::test]
async fn labels_are_those_of_the_object_and_not_of_its_name() {
    let Some(bed) = testbed::shared() else { return };
    space(bed.dev(), "sub-anew").await;
    let file = one_context(bed.dev(), User::Admin);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    let blue = json!({"namespace": "sub-anew", "labelSelector": "colour=blue"});
    let blue = client.subscribe(blue).await;
    // Shows that an event was processed, with its labels.
    let all = client.subscribe(json!({"namespace": "sub-anew"})).await;
    let api: Api<ConfigMap> =
        Api::namespaced(bed.dev().client(User::Admin).await.unwrap(), "sub-anew");
    for (colour, reason) in [
        ("green", "First"),
        ("blue", "Second"),
        ("green", "Third"),
        ("blue", "Fourth"),
    ] {
        let made: ConfigMap = serde_json::from_value(json!({
            "metadata": {"namespace": "sub-anew", "name": "paint", "labels": {"colour": colour}},
        }))
        .unwrap();
        let made = bed.dev().create(&made).await.unwrap();
        let mut new_event = event("sub-anew", "ConfigMap/paint", "Normal", reason, "dries");
        new_event.involved_object.uid = made.metadata.uid;
        bed.dev().create(&new_event).await.unwrap();
        // A wrong notification would arrive before the next one.
        let mut expected = vec![&all];
        if colour == "blue" {
            expected.push(&blue);
        }
        while !expected.is_empty() {
            let data = client.message().await["data"].clone();
            expected.retain(|id| data["subscriptionId"] != **id);
            assert_eq!(data["event"]["reason"], reason, "{data}");
            assert_eq!(data["event"]["labels"], json!({"colour": colour}));
        }
        api.delete("paint", &DeleteParams::default()).await.unwrap();
    }
}

/// S3-8, S3-10 to S3-12, and what the answer warns of.
#[tokio::test]
async fn without_a_level_nothing_is_pushed_and_the_poll_has_it_all() {
    let Some(bed) = testbed::shared() else { return };
    space(bed.dev(), "sub-level").await;
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::at(&http, None).await;
    let arguments = json!({"namespace": "sub-level"});
    let answer = http.call("events_subscribe", arguments).await.ok().data;
    let id = answer["subscriptionId"].as_str().unwrap();
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.contains("logging/setLevel"), "{warning}");
    warn(bed.dev(), "sub-level", "Pod/web-0", "First").await;
    until_last_seq(&http, 1).await;
    http.rpc("logging/setLevel", json!({"level": "info"})).await;
    warn(bed.dev(), "sub-level", "Pod/web-0", "Second").await;
    let pushed = client.event(id).await;
    assert_eq!(pushed["event"]["reason"], "Second");
    http.rpc("logging/setLevel", json!({"level": "warning"}))
        .await;
    warn(bed.dev(), "sub-level", "Pod/web-0", "Third").await;
    until_last_seq(&http, 3).await;
    http.rpc("logging/setLevel", json!({"level": "info"})).await;
    warn(bed.dev(), "sub-level", "Pod/web-0", "Fourth").await;
    assert_eq!(client.event(id).await["event"]["reason"], "Fourth");
    let poll = http
        .call("events_poll", json!({"subscriptionId": id}))
        .await
        .ok()
        .data;
    let reasons: Vec<_> = (poll["events"].as_array().unwrap().iter())
        .map(|one| one["event"]["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["First", "Second", "Third", "Fourth"]);
    assert_eq!(poll["events"][1], pushed, "push and poll show the same");
    let metrics = http.get("/metrics").await.text().await.unwrap();
    let failures = metrics
        .lines()
        .filter(|line| line.starts_with("mcp_notification_failures_total"));
    for line in failures {
        assert!(line.ends_with(" 0"), "a drop that was asked for: {line}");
    }
}

/// D1, D2, S3-25, S3-58, S3-61: every filter that was accepted is enforced, in both
/// modes.
#[tokio::test]
async fn every_filter_is_enforced_in_both_modes() {
    let Some(bed) = testbed::shared() else { return };
    for name in ["sub-prod-eu", "sub-prod-us", "sub-test"] {
        space(bed.dev(), name).await;
        for pod_name in ["payments-0", "worker-0"] {
            let mut one = pod(name, pod_name, &["app"]);
            let app = pod_name.split('-').next().unwrap();
            one.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
            bed.dev().create(&one).await.unwrap();
        }
    }
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    let faults = json!({
        "mode": "faults", "namespaceSelector": ["sub-prod-*"], "labelSelector": "app=payments",
    });
    let faults = http.call("events_subscribe", faults).await.ok().data;
    assert_eq!(faults["mode"], "faults");
    let faults = faults["subscriptionId"].as_str().unwrap();
    let object = client
        .subscribe(json!({"namespace": "sub-test", "involvedName": "worker-0", "reason": "Fail"}))
        .await;
    // A prefix, and not any part: nothing begins with it.
    client
        .subscribe(json!({"namespace": "sub-test", "reason": "Mount"}))
        .await;
    // Matches the same faults of the same pods as `faults`, if that matches them.
    let all = json!({"mode": "faults", "namespaceSelector": ["sub-prod-*", "sub-test"]});
    let all = client.subscribe(all).await;
    // Neither: another namespace, another label, another type, another kind.
    warn(bed.dev(), "sub-test", "Pod/payments-0", "FailedMount").await;
    warn(bed.dev(), "sub-prod-eu", "Pod/worker-0", "BackOff").await;
    warn(bed.dev(), "sub-prod-eu", "Pod/worker-0", "FailedMount").await;
    warn(bed.dev(), "sub-test", "Pod/worker-0", "BackOff").await;
    let normal = event(
        "sub-prod-eu",
        "Pod/payments-0",
        "Normal",
        "Pulled",
        "an image",
    );
    bed.dev().create(&normal).await.unwrap();
    warn(
        bed.dev(),
        "sub-prod-us",
        "ReplicaSet/payments-0",
        "FailedCreate",
    )
    .await;
    warn(bed.dev(), "sub-prod-us", "Pod/payments-0", "BackOff").await;
    warn(bed.dev(), "sub-test", "Pod/worker-0", "FailedMount").await;
    // Faults of different pods come in any order.
    let mut received = Vec::new();
    let mut receive = async |count: usize| {
        for _ in 0..count {
            let message = client.message().await;
            let data = &message["data"];
            let name = match data["subscriptionId"].as_str().unwrap() {
                id if id == all => "all",
                id if id == object => "object",
                id => {
                    assert_eq!(id, faults, "{message}");
                    assert_eq!(message["logger"], "kubernetes/faults");
                    assert_eq!(message["level"], "warning");
                    assert!(data["logs"].is_array());
                    assert_eq!(data["event"]["labels"]["app"], "payments");
                    "faults"
                }
            };
            let event = &data["event"];
            let of = |field: &Value| field.as_str().unwrap().to_owned();
            let (space, pod) = (&event["namespace"], &event["involvedObject"]["name"]);
            received.push([name.to_owned(), of(space), of(pod), of(&event["reason"])].join(" "));
        }
    };
    receive(8).await;
    // No other subscription received events of those pods: they would arrive before this.
    warn(bed.dev(), "sub-prod-us", "Pod/payments-0", "Marker").await;
    receive(2).await;
    received.sort();
    let expected = [
        "all sub-prod-eu worker-0 BackOff",
        "all sub-prod-eu worker-0 FailedMount",
        "all sub-prod-us payments-0 BackOff",
        "all sub-prod-us payments-0 Marker",
        "all sub-test payments-0 FailedMount",
        "all sub-test worker-0 BackOff",
        "all sub-test worker-0 FailedMount",
        "faults sub-prod-us payments-0 BackOff",
        "faults sub-prod-us payments-0 Marker",
        "object sub-test worker-0 FailedMount",
    ];
    assert_eq!(received, expected);
}

/// S3-59, S3-60, S3-62.
#[tokio::test]
async fn clusters_are_apart() {
    let Some(bed) = testbed::shared() else { return };
    for cluster in [bed.dev(), bed.prod()] {
        space(cluster, "sub-apart").await;
    }
    let file = kubeconfig(|file| {
        file.context("dev", bed.dev(), User::Reader)
            .context("prod", bed.prod(), User::Reader)
            .server_context("dead", "https://127.0.0.1:1", "")
            .current("dev")
    });
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    let dead = http
        .call("events_subscribe", json!({"context": "dead"}))
        .await;
    dead.refused("unreachable", &["`dead`"]);
    let id = client
        .subscribe(json!({"cluster": "prod", "namespace": "sub-apart"}))
        .await;
    let marked = json!({"cluster": "dev", "namespace": "sub-apart", "reason": "Marker"});
    let in_dev = client.subscribe(marked).await;
    for (cluster, name, reasons, expected) in [
        (bed.dev(), "dev", ["InDev", "Marker"], &["Marker"][..]),
        (
            bed.prod(),
            "prod",
            ["InProd", "Marker"],
            &["InProd", "Marker"],
        ),
        (bed.dev(), "dev", ["InDev", "Marker"], &["Marker"]),
    ] {
        for reason in reasons {
            warn(cluster, "sub-apart", "Pod/web-0", reason).await;
        }
        let id = if name == "dev" { &in_dev } else { &id };
        for reason in expected {
            let data = client.event(id).await;
            assert_eq!(
                (&data["cluster"], &data["event"]["reason"]),
                (&json!(name), &json!(reason))
            );
        }
    }
}

/// The newest protocol: listened to as a resource, read, and polled.
#[tokio::test]
async fn without_sessions_one_listens_to_the_resource() {
    let Some(bed) = testbed::shared() else { return };
    space(bed.dev(), "sub-modern").await;
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let call = async |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        let answer = http.modern("tools/call", Some(name), params).await;
        message(&answer.text().await.unwrap())["result"]["structuredContent"].clone()
    };
    let made = call("events_subscribe", json!({"namespace": "sub-modern"})).await;
    let arguments = json!({"subscriptionId": made["subscriptionId"], "waitSeconds": 25});
    let delivery = json!({"via": "notifications/resources/updated", "level": null,
        "streamOpen": false, "pushed": false,
        "poll": {"tool": "events_poll", "arguments": arguments},
        "wait": {"tool": "faults_wait", "arguments": {"namespace": "sub-modern"}}});
    assert_eq!(
        made["delivery"], delivery,
        "who does not listen is not told"
    );
    let warnings = made["warnings"].to_string();
    for part in "not told,subscriptions/listen,faults_wait,events_poll,cursor".split(',') {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    let uri = made["resourceUri"].as_str().unwrap();
    let wanted = json!({"notifications": {"resourceSubscriptions": [uri]}});
    let mut stream = Stream::new(http.modern("subscriptions/listen", None, wanted).await);
    let ack = stream.next().await;
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    let first = stream.next().await;
    assert_eq!(first["params"]["uri"], uri, "one mark at the beginning");
    warn(bed.dev(), "sub-modern", "Pod/web-0", "BackOff").await;
    let update = stream.next().await;
    assert_eq!(update["method"], "notifications/resources/updated");
    assert_eq!(update["params"]["uri"], uri);
    let what = &update["params"]["_meta"]["kubecrier/update"];
    let expected =
        json!({"seq": 1, "count": 1, "summary": "Warning BackOff pod/web-0: it went wrong"});
    assert_eq!(*what, expected, "{update}");
    let read = http
        .modern("resources/read", Some(uri), json!({"uri": uri}))
        .await;
    let read = message(&read.text().await.unwrap());
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    let content: Value = serde_json::from_str(text).unwrap();
    assert_eq!(content["events"][0]["event"]["reason"], "BackOff");
    let polled = call(
        "events_poll",
        json!({"subscriptionId": made["subscriptionId"]}),
    )
    .await;
    assert_eq!(
        polled["events"], content["events"],
        "read and poll show the same"
    );
    let ended = call(
        "events_unsubscribe",
        json!({"subscriptionId": made["subscriptionId"]}),
    )
    .await;
    assert_eq!(ended["status"], "unsubscribed");
}

/// A session that cannot be told is told so, and how to poll; it may be told later.
#[tokio::test]
async fn a_session_that_cannot_be_told_learns_how_to_poll() {
    let Some(bed) = testbed::shared() else { return };
    space(bed.dev(), "sub-untold").await;
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let made = async |session: &HttpSession, mode: &str| {
        let arguments = json!({"namespace": "sub-untold", "mode": mode});
        let answer = session.call("events_subscribe", arguments).await.ok().data;
        let (delivery, warnings) = (&answer["delivery"], answer["warnings"].to_string());
        assert_eq!(
            delivery["pushed"],
            delivery.get("poll").is_none(),
            "{answer}"
        );
        assert_eq!(
            warnings.contains("events_poll"),
            delivery["pushed"] == false
        );
        (answer, warnings)
    };
    let quiet = http.another("2025-11-25").await;
    let (answer, warnings) = made(&quiet, "events").await;
    assert!(
        warnings.contains("no log level") && warnings.contains("no stream"),
        "{warnings}"
    );
    warn(bed.dev(), "sub-untold", "Pod/web-0", "BackOff").await;
    // As the answer says.
    let poll = &answer["delivery"]["poll"];
    let tool = poll["tool"].as_str().unwrap();
    let polled = quiet.call(tool, poll["arguments"].clone()).await.ok().data;
    assert_eq!(polled["events"][0]["event"]["reason"], "BackOff");
    let client = Subscriber::at(&quiet, Some("error")).await;
    let (_, warnings) = made(&quiet, "events").await;
    assert!(
        warnings.contains("level is `error`") && !warnings.contains("no stream"),
        "{warnings}"
    );
    drop(client);
    let _client = Subscriber::at(&quiet, Some("warning")).await;
    assert_eq!(made(&quiet, "events").await.0["delivery"]["pushed"], false);
    assert_eq!(made(&quiet, "faults").await.0["delivery"]["pushed"], true);
    let initialized = http.fresh(&initialize("2025-11-25")).await;
    let text = message(&initialized.text().await.unwrap());
    let text = text["result"]["instructions"].as_str().unwrap();
    for tool in "faults_list faults_wait events_subscribe events_poll".split(' ') {
        assert!(text.contains(tool), "{text}");
    }
}
