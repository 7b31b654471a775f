//! `k8s://.../events`.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use testbed::{User, event};

use super::{UpdateStream, create_pod_with_log, read_modern, subscribe};
use crate::harness::{Http, HttpSession, one_context};

async fn read(session: &HttpSession, uri: &str) -> Value {
    let answer = session.rpc("resources/read", json!({"uri": uri})).await;
    let text = answer["result"]["contents"][0]["text"].as_str();
    serde_json::from_str(text.unwrap_or_else(|| panic!("{answer}"))).unwrap()
}

fn messages(content: &Value) -> Vec<&str> {
    let events = content["events"].as_array().unwrap();
    events
        .iter()
        .map(|one| one["message"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_read_shows_the_newest_and_how_to_go_on() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    create_pod_with_log(cluster, "newest").await;
    let now = Timestamp::now();
    for (kind, text, age) in [
        ("Normal", "one", 30),
        ("Warning", "two", 20),
        ("Warning", "three", 10),
    ] {
        let mut one = event("newest", "Pod/web-0", kind, "Reason", text);
        one.last_timestamp = Some(Time(now - SignedDuration::from_secs(age)));
        cluster.create(&one).await.unwrap();
    }
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let all = read(&http, "k8s://dev/newest/events").await;
    assert_eq!(messages(&all), ["three", "two", "one"]);
    let some = read(&http, "k8s://dev/newest/events?types=Warning&limit=1").await;
    assert_eq!(messages(&some), ["three"]);
    assert_eq!(some["more"]["exactly"], 1, "{some}");
    let next = all["next"].as_str().unwrap();
    assert!(next.contains(all["cursor"].as_str().unwrap()), "{all}");
    assert!(messages(&read(&http, next).await).is_empty());
    let four = event("newest", "Pod/web-0", "Normal", "Reason", "four");
    cluster.create(&four).await.unwrap();
    let more = read(&http, next).await;
    assert_eq!(messages(&more), ["four"], "only what is new");
    let modern = read_modern(&http, "k8s://dev/newest/events").await;
    let text = modern["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(text.contains("four") && text.contains("not instructions"));
}

#[tokio::test]
async fn both_eras_are_told_once_of_each_event_through_one_watch() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    create_pod_with_log(cluster, "told").await;
    create_pod_with_log(cluster, "untold").await;
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let (all, warnings) = (
        "k8s://dev/told/events",
        "k8s://dev/told/events?types=Warning&reason=Back",
    );
    let mut session = UpdateStream::of(&http).await;
    subscribe(&http, all).await;
    subscribe(&http, warnings).await;
    for _uri in 0..2 {
        let (_, first) = session.update().await;
        let summary = first["summary"].as_str().unwrap();
        assert!(summary.contains("watched from here on"), "{first}");
    }
    let mut listen = UpdateStream::listen(&http, &[all]).await;
    let (uri, _) = listen.update().await;
    assert_eq!(uri, all, "what was before is not known");
    let happen = async |space: &str, kind: &str, reason: &str| {
        let one = event(space, "Pod/web-0", kind, reason, "it happened");
        cluster.create(&one).await.unwrap();
    };
    happen("untold", "Warning", "BackOff").await;
    happen("told", "Normal", "Pulled").await;
    let (uri, update) = session.update().await;
    assert_eq!(uri, all);
    assert_eq!((&update["seq"], &update["count"]), (&json!(2), &json!(1)));
    assert_eq!(update["summary"], "Normal Pulled pod/web-0: it happened");
    assert_eq!(listen.update().await, (uri, update));
    happen("told", "Warning", "BackOff").await;
    let mut uris = [session.update().await.0, session.update().await.0];
    uris.sort();
    assert_eq!(uris, [all, warnings], "each URI once");
    assert_eq!(listen.update().await.1["seq"], 3);
    // A read has at least the events of the updates so far.
    let content = read(&http, warnings).await;
    assert_eq!(messages(&content), ["it happened"]);
    // No duplicate: it would arrive before the next update.
    happen("told", "Normal", "Pulled").await;
    let next = session.update().await;
    assert_eq!((&*next.0, &next.1["seq"]), (all, &json!(4)));
    assert_eq!(listen.update().await, next);
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    let watches = stats.to_string().matches("dev/told").count();
    assert_eq!(watches, 1, "one watch for all of them: {stats}");
    http.rpc("resources/unsubscribe", json!({"uri": all})).await;
    happen("told", "Normal", "Pulled").await;
    assert_eq!(listen.update().await.1["seq"], 5);
    for seq in [6, 7] {
        happen("told", "Warning", "BackOff").await;
        assert_eq!(listen.update().await.1["seq"], seq);
        assert_eq!(session.update().await.0, warnings);
    }
}
