//! What may not be read, and clusters that go away and come back.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_left_out_with_what_is_not_seen_and_comes_when_it_may() {
    let fixture = Fixture::new();
    fixture.crash("no");
    let sick =
        json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": fixture.ago(600)}]);
    fixture.cluster.modify("nodes", "", "node-1", |node| {
        node["status"]["conditions"] = sick;
    });
    for resource in ["nodes", "storageclasses.storage.k8s.io"] {
        let denied = RequestMatcher::any().resource(resource);
        fixture.cluster.deny(denied);
    }
    let view = fixture.follow().await.unwrap();
    let notes = view.snapshot().notes.clone();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("nodes, storageclasses"), "{notes:?}");
    let unseen = "not seen without: budget, node, node-flapping, node-pressure";
    assert!(notes[0].contains(unseen), "{notes:?}");
    assert_eq!(open(&view), ["shop/deployment/web crash-loop"]);
    fixture.cluster.allow_everything();
    let retried = Duration::from_mins(5) + Duration::from_secs(5);
    fixture.pass(retried).await;
    assert_eq!(open(&view), ["node/node-1 node"]);
    assert_eq!(view.snapshot().notes, [""; 0]);
}

/// What cannot be seen any more is not over.
#[tokio::test(start_paused = true)]
async fn rights_that_are_taken_away_resolve_nothing() {
    let fixture = Fixture::new();
    fixture.crash("no");
    let view = fixture.follow().await.unwrap();
    fixture.cluster.deny(RequestMatcher::any().resource("pods"));
    fixture.cluster.close_watches();
    fixture.pass(Duration::from_mins(2)).await;
    let notes = view.snapshot().notes.clone();
    assert!(notes[0].contains("crash-loop"), "{notes:?}");
    assert_eq!(open(&view), [""; 0], "it may not be shown");
    assert_eq!(fixture.follower.announced(), [""; 0]);
}

/// A kind that is tried again in vain takes nothing away.
#[tokio::test(start_paused = true)]
async fn a_kind_that_stays_left_out_swallows_no_end() {
    let fixture = Fixture::new();
    fixture
        .cluster
        .deny(RequestMatcher::any().resource("nodes"));
    let _view = fixture.follow().await.unwrap();
    fixture.pass(Duration::from_secs(270)).await;
    fixture.crash("no");
    fixture.pass(Duration::from_secs(15)).await;
    fixture.well();
    // It is tried again after five minutes, while the incident may still come back.
    fixture.pass(Duration::from_mins(1)).await;
    assert!(fixture.cluster.requests("list", "nodes") > 1);
    let both = ["opened shop/deployment/web", "resolved shop/deployment/web"];
    assert_eq!(fixture.follower.announced(), both);
}

#[tokio::test(start_paused = true)]
async fn nothing_that_may_be_read_is_an_error_and_the_next_one_tries_again() {
    let fixture = Fixture::new();
    fixture.cluster.deny(RequestMatcher::any());
    let error = fixture.follow().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
    fixture.settle().await;
    assert_eq!(fixture.watches.len(), 0, "nothing is kept of it");
    fixture.cluster.allow_everything();
    fixture.cluster.refuse();
    let error = fixture.follow().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    fixture.cluster.accept();
    assert_eq!(open(&fixture.follow().await.unwrap()), [""; 0]);
}

/// The history is gone after an outage, so everything is listed anew: what is still there was
/// there all the time, and what is gone is over once.
#[tokio::test(start_paused = true)]
async fn an_outage_neither_ends_nor_reopens_what_is_still_there() {
    let fixture = Fixture::new();
    fixture.crash("no");
    let view = fixture.follow().await.unwrap();
    fixture.cluster.refuse();
    fixture.cluster.cut_connections();
    fixture.pass(Duration::from_mins(2)).await;
    let notes = view.snapshot().notes.clone();
    assert!(notes[0].starts_with("may be out of date: "), "{notes:?}");
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(open(&view), ["shop/deployment/web crash-loop"]);
    fixture.crash("no");
    fixture.cluster.skip_versions(1000);
    fixture.cluster.compact();
    fixture.cluster.accept();
    fixture.pass(Duration::from_mins(2)).await;
    assert_eq!(open(&view), ["shop/deployment/web crash-loop"]);
    assert_eq!(view.snapshot().notes, [""; 0]);
    assert_eq!(fixture.follower.announced(), [""; 0]);
    assert!(fixture.cluster.delete("pods", "shop", "web-1-a"));
    fixture.cluster.expire_watches();
    fixture.pass(Duration::from_mins(2)).await;
    let announced = fixture.follower.announced();
    assert_eq!(announced, ["resolved shop/deployment/web"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_fails_at_the_start_is_left_out_and_tried_again_soon() {
    let fixture = Fixture::new();
    fixture.crash("no");
    let jobs = RequestMatcher::any().verb("list").resource("jobs.batch");
    fixture.cluster.fail_next(jobs, 1, Fault::Unavailable);
    let view = fixture.follow().await.unwrap();
    let notes = view.snapshot().notes.clone();
    assert!(notes[0].starts_with("left out: jobs: "), "{notes:?}");
    assert_eq!(open(&view), ["shop/deployment/web crash-loop"]);
    fixture.pass(Duration::from_secs(33)).await;
    assert_eq!(view.snapshot().notes, [""; 0]);
}

/// After an outage, pods are listed before the ReplicaSets that lead to their Deployments.
#[tokio::test(start_paused = true)]
async fn kinds_that_do_not_fit_together_yet_announce_nothing() {
    let fixture = Fixture::new();
    fixture.crash("no");
    let view = fixture.follow().await.unwrap();
    fixture.cluster.refuse();
    fixture.cluster.cut_connections();
    fixture.settle().await;
    // A rollout meanwhile, which did not help.
    let deployment = fixture
        .cluster
        .get("deployments.apps", "shop", "web")
        .unwrap();
    let set = json!({
        "metadata": {"name": "web-2", "namespace": "shop", "ownerReferences": owner("Deployment", &deployment)},
        "spec": {"replicas": 1}, "status": {"replicas": 1},
    });
    let set = fixture.put("apps/v1", "ReplicaSet", set);
    let pod = fixture.cluster.get("pods", "shop", "web-1-a").unwrap();
    let mut pod = Value::clone(&pod);
    assert!(fixture.cluster.delete("pods", "shop", "web-1-a"));
    pod["metadata"] = json!({"name": "web-2-b", "namespace": "shop", "ownerReferences": owner("ReplicaSet", &set)});
    fixture.put("v1", "Pod", pod);
    fixture.cluster.skip_versions(1000);
    fixture.cluster.compact();
    let sets = RequestMatcher::any()
        .verb("list")
        .resource("replicasets.apps");
    fixture.cluster.fail_next(sets, 2, Fault::Unavailable);
    fixture.cluster.accept();
    fixture.pass(Duration::from_mins(2)).await;
    assert_eq!(open(&view), ["shop/deployment/web crash-loop"]);
    assert_eq!(fixture.follower.announced(), [""; 0]);
}
