//! Cursors that survive a restart.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testbed::{LogScript, User, pod};

use super::{happen, space, start, until_kept};
use crate::harness::{Http, HttpSession, one_context};

fn reasons(page: &Value) -> Vec<&str> {
    let events = page["events"].as_array().unwrap().iter();
    events
        .map(|one| one["event"]["reason"].as_str().unwrap_or("gap"))
        .collect()
}

async fn poll(session: &HttpSession, filters: &Value, cursor: &Value, more: Value) -> Value {
    let mut arguments = filters.clone();
    let fields = arguments.as_object_mut().unwrap();
    fields.insert("cursor".to_owned(), cursor.clone());
    fields.extend(more.as_object().unwrap().clone());
    session.call("events_poll", arguments).await.ok().data
}

#[tokio::test]
async fn a_poll_goes_on_after_a_restart_without_a_gap() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "kept-cursors");
    space(cluster, name).await;
    let file = one_context(cluster, User::Reader);
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("history");
    let filters = json!({"namespace": name, "types": ["Warning"]});
    let http = start(&file.path, &folder, &[]).await;
    let began = poll(&http, &filters, &Value::Null, json!({})).await;
    happen(cluster, name, "Pod/web-0", "First").await;
    let first = poll(
        &http,
        &filters,
        &began["cursor"],
        json!({"waitSeconds": 20}),
    )
    .await;
    assert_eq!(reasons(&first), ["First"]);
    happen(cluster, name, "Pod/web-0", "Unread").await;
    until_kept(&http, name, 2).await;
    // Killed, not stopped.
    drop(http);
    happen(cluster, name, "Pod/web-0", "WhileAway").await;
    let http = start(&file.path, &folder, &[]).await;
    happen(cluster, name, "Pod/web-0", "BeforeThePoll").await;
    let next = poll(
        &http,
        &filters,
        &first["cursor"],
        json!({"waitSeconds": 20}),
    )
    .await;
    assert_eq!(reasons(&next), ["Unread", "WhileAway", "BeforeThePoll"]);
    assert_eq!((&next["missed"], &next["more"]), (&json!(0), &json!(false)));
    // The cursor of before any event leads to all of them.
    let all = poll(
        &http,
        &filters,
        &began["cursor"],
        json!({"waitSeconds": 20}),
    )
    .await;
    assert_eq!(
        reasons(&all),
        ["First", "Unread", "WhileAway", "BeforeThePoll"]
    );
    // It goes on live, each event once.
    happen(cluster, name, "Pod/web-0", "Live").await;
    let live = poll(&http, &filters, &next["cursor"], json!({"waitSeconds": 20})).await;
    assert_eq!(reasons(&live), ["Live"]);
    let quiet = poll(&http, &filters, &live["cursor"], json!({})).await;
    assert_eq!(reasons(&quiet), [""; 0]);
    // Other filters are another subscription's.
    let other = json!({"namespace": name, "cursor": first["cursor"]});
    let refused = http.call("events_poll", other).await;
    refused.refused("invalid", &["cursor", "another subscription"]);
}

/// Their evidence is captured when they are delivered.
#[tokio::test]
async fn a_poll_of_faults_goes_on_after_a_restart() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "kept-fault-cursors");
    space(cluster, name).await;
    cluster.create(&pod(name, "web-0", &["app"])).await.unwrap();
    let log = LogScript::lines(["starting", "panic: no config"]);
    cluster.node().set_log(&format!("{name}/web-0/app"), log);
    let file = one_context(cluster, User::Reader);
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("history");
    let filters = json!({"mode": "faults", "namespace": name});
    let wait = json!({"waitSeconds": 20});
    let http = start(&file.path, &folder, &[]).await;
    let began = poll(&http, &filters, &Value::Null, json!({})).await;
    happen(cluster, name, "Pod/web-0", "First").await;
    let first = poll(&http, &filters, &began["cursor"], wait.clone()).await;
    assert_eq!(reasons(&first), ["First"]);
    until_kept(&http, name, 1).await;
    // Killed, not stopped.
    drop(http);
    happen(cluster, name, "Pod/web-0", "WhileAway").await;
    let http = start(&file.path, &folder, &[]).await;
    let (mut cursor, mut faults) = (first["cursor"].clone(), Vec::new());
    while !faults
        .iter()
        .any(|one: &Value| one["event"]["reason"] == "Live")
    {
        let page = poll(&http, &filters, &cursor, wait.clone()).await;
        assert!(!reasons(&page).contains(&"gap"), "{page}");
        if reasons(&page).contains(&"WhileAway") {
            happen(cluster, name, "Pod/web-0", "Live").await;
        }
        faults.extend(page["events"].as_array().unwrap().clone());
        cursor = page["cursor"].clone();
    }
    // One of right before the cursor may come twice, and is recognised.
    let known = &first["events"][0]["eventId"];
    faults.retain(|one| one["eventId"] != *known);
    let told: Vec<_> = faults.iter().map(|one| &one["event"]["reason"]).collect();
    assert_eq!(told, ["WhileAway", "Live"]);
    let ids: BTreeSet<_> = faults.iter().map(|one| one["faultId"].as_str()).collect();
    assert_eq!(ids.len(), 2);
    for one in &faults {
        assert!(
            one["logs"].to_string().contains("panic: no config"),
            "{one}"
        );
    }
}

/// A client that is far behind reads the history page by page.
#[tokio::test]
async fn a_long_backlog_is_read_in_pages() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "kept-pages");
    space(cluster, name).await;
    let file = one_context(cluster, User::Reader);
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("history");
    let filters = json!({"namespace": name});
    let http = start(&file.path, &folder, &[]).await;
    let began = poll(&http, &filters, &Value::Null, json!({})).await;
    let expected: Vec<_> = (0..8).map(|number| format!("Number{number}")).collect();
    for reason in &expected {
        happen(cluster, name, "Pod/web-0", reason).await;
    }
    until_kept(&http, name, 8).await;
    drop(http);
    let mut http = start(&file.path, &folder, &[]).await;
    let (mut seen, mut cursor, mut pages) = (Vec::new(), began["cursor"].clone(), 0);
    while seen.len() < 8 {
        let page = poll(
            &http,
            &filters,
            &cursor,
            json!({"limit": 3, "waitSeconds": 10}),
        )
        .await;
        seen.extend(reasons(&page).into_iter().map(str::to_owned));
        assert!(reasons(&page).len() <= 3, "{page}");
        cursor = page["cursor"].clone();
        pages += 1;
        assert!(pages < 10, "{seen:?}");
        // Half-way the server is killed once more.
        if pages == 1 {
            drop(http);
            http = start(&file.path, &folder, &[]).await;
        }
    }
    assert_eq!(seen, expected);
}

/// A cursor belongs to its caller.
#[tokio::test]
async fn a_cursor_of_another_caller_leads_nowhere() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "kept-callers");
    space(cluster, name).await;
    let file = one_context(cluster, User::Reader);
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("history");
    let tokens = held.path().join("tokens");
    std::fs::write(
        &tokens,
        "alice:alices-token-of-32-characters\nbob:bobs-token-of-thirty-2-characters\n",
    )
    .unwrap();
    let arguments = [
        "--history",
        folder.to_str().unwrap(),
        "--auth-token-file",
        tokens.to_str().unwrap(),
    ];
    let begin = async || {
        Http::start_with_token(&file.path, &arguments, "alices-token-of-32-characters").await
    };
    let first = begin().await;
    first
        .server
        .wait_for("the history has the events of a context");
    let alice = HttpSession::signed(&first.base, "alices-token-of-32-characters").await;
    let filters = json!({"namespace": name});
    let began = poll(&alice, &filters, &Value::Null, json!({})).await;
    happen(cluster, name, "Pod/web-0", "First").await;
    poll(
        &alice,
        &filters,
        &began["cursor"],
        json!({"waitSeconds": 20}),
    )
    .await;
    drop(first);
    let second = begin().await;
    second
        .server
        .wait_for("the history has the events of a context");
    let bob = HttpSession::signed(&second.base, "bobs-token-of-thirty-2-characters").await;
    let stolen = json!({"namespace": name, "cursor": began["cursor"]});
    let refused = bob.call("events_poll", stolen).await;
    refused.refused("invalid", &["another subscription"]);
    let alice = HttpSession::signed(&second.base, "alices-token-of-32-characters").await;
    let own = poll(
        &alice,
        &filters,
        &began["cursor"],
        json!({"waitSeconds": 20}),
    )
    .await;
    assert_eq!(reasons(&own), ["First"]);
}
