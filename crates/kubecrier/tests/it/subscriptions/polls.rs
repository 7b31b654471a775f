//! `events_poll`.

use serde_json::{Value, json};
use testbed::User;

use super::{space, until_last_seq, warn};
use crate::harness::{Http, StdioSession, Subscriber, command, one_context};

/// S3-63 to S3-65, S3-72; C39: the poll takes the filters instead.
#[tokio::test]
async fn on_stdio_one_polls() {
    let Some(bed) = testbed::shared() else { return };
    space(bed.dev(), "sub-stdio").await;
    let file = one_context(bed.dev(), User::Reader);
    let mut client = StdioSession::start(command().arg("--kubeconfig").arg(&file.path));
    client.handshake();
    for mode in ["events", "faults"] {
        let asked = json!({"namespace": "sub-stdio", "mode": mode});
        let refused = client.call("events_subscribe", asked);
        refused.refused("unsupported", &["--port", "HTTP", "SSE", "events_poll"]);
    }
    let filters = json!({"namespace": "sub-stdio", "types": ["Warning"]});
    let first = client.call("events_poll", filters.clone()).ok();
    assert_eq!(first.data["events"], json!([]));
    let cursor = first.data["cursor"].clone();
    warn(bed.dev(), "sub-stdio", "Pod/web-0", "BackOff").await;
    let mut on = filters;
    on["cursor"] = cursor;
    on["waitSeconds"] = json!(20);
    let second = client.call("events_poll", on).ok();
    assert_eq!(second.data["events"][0]["event"]["reason"], "BackOff");
    assert_eq!(second.data["events"].as_array().unwrap().len(), 1);
    assert!(
        second.text.contains("Warning BackOff pod/web-0"),
        "{}",
        second.text
    );
}

/// S3-64; C39, C49: without a session there is nobody to push to. The newest protocol has no
/// sessions, and its listens are pushed to: see `without_sessions_one_listens_to_the_resource`.
#[tokio::test]
async fn without_the_id_of_a_session_nothing_is_subscribed_to() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let call = json!({"name": "events_subscribe", "arguments": {"namespace": "default"}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let header = "mcp-protocol-version";
        let without = http.fresh_with(&call, header, version).await;
        assert!(without.status().is_client_error(), "{version}: {without:?}");
        // An id that is empty is none.
        let empty = http.moved_to(&http.base).without_id().post(&call).await;
        assert!(empty.status().is_client_error(), "{version}: {empty:?}");
    }
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    assert_eq!(stats["subscriptions"], 0, "{stats}");
    assert_eq!(stats["watches"], json!([]), "{stats}");
}

/// Polls with the same filters share one subscription, also if the first calls are
/// concurrent.
#[tokio::test]
async fn polls_that_begin_together_share_a_subscription() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    for namespace in ["sub-twin-1", "sub-twin-2", "sub-twin-3"] {
        let filters = json!({"namespace": namespace});
        let calls = (0..8).map(|_| http.call("events_poll", filters.clone()));
        let answers = futures_util::future::join_all(calls).await;
        let mut ids: Vec<_> = answers
            .into_iter()
            .map(|answer| answer.ok().data["subscriptionId"].to_string())
            .collect();
        ids.dedup();
        assert_eq!(ids.len(), 1, "{ids:?}");
    }
    let all = http
        .call("events_list_subscriptions", json!({}))
        .await
        .ok()
        .data;
    assert_eq!(all["subscriptions"].as_array().unwrap().len(), 3, "{all}");
}

/// A feed drops the oldest events and reports how many.
#[tokio::test]
async fn a_poll_pages_waits_and_says_what_it_missed() {
    let Some(bed) = testbed::shared() else { return };
    space(bed.dev(), "sub-poll").await;
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &["--max-feed-events", "5"]).await;
    let client = Subscriber::at(&http, None).await;
    let id = client.subscribe(json!({"namespace": "sub-poll"})).await;
    for number in 0..8 {
        warn(
            bed.dev(),
            "sub-poll",
            &format!("Pod/web-{number}"),
            "BackOff",
        )
        .await;
    }
    until_last_seq(&http, 8).await;
    let mut cursor = format!("{id}.0");
    let mut seqs = Vec::new();
    let mut missed = 0;
    while seqs.len() < 5 {
        let arguments =
            json!({"subscriptionId": id, "cursor": cursor, "limit": 2, "waitSeconds": 10});
        let page = http.call("events_poll", arguments).await.ok().data;
        let events = page["events"].as_array().unwrap();
        assert!((1..=2).contains(&events.len()));
        seqs.extend(events.iter().map(|one| one["seq"].as_u64().unwrap()));
        missed += page["missed"].as_u64().unwrap();
        assert_eq!(page["truncated"], page["missed"].as_u64().unwrap() > 0);
        cursor = page["cursor"].as_str().unwrap().to_owned();
    }
    assert_eq!((missed, seqs), (3, vec![4, 5, 6, 7, 8]));
    let bad = |arguments: Value| http.call("events_poll", arguments);
    let range = "must be from 0 to 25";
    for wait in [-1, 26] {
        let answer = bad(json!({"subscriptionId": id, "waitSeconds": wait})).await;
        answer.refused("invalid", &[range]);
    }
    let other = client.subscribe(json!({"namespace": "sub-poll"})).await;
    let foreign = bad(json!({"subscriptionId": other, "cursor": cursor})).await;
    foreign.refused("invalid", &["another subscription"]);
    let both = bad(json!({"subscriptionId": id, "namespace": "x"})).await;
    both.refused("invalid", &["both given"]);
    // An invalid cursor starts no watch.
    let had = http.call("events_list_subscriptions", json!({})).await.ok();
    bad(json!({"cursor": "junk", "namespace": "sub-poll"}))
        .await
        .refused("invalid", &["no cursor"]);
    let gone = format!("sub-{}.7", "0".repeat(32));
    for cursor in [gone, cursor] {
        bad(json!({"cursor": cursor, "namespace": "sub-poll"}))
            .await
            .refused(
                "invalid",
                &["another subscription", "call again without it"],
            );
    }
    let has = http.call("events_list_subscriptions", json!({})).await.ok();
    assert_eq!(has.data, had.data);
}
