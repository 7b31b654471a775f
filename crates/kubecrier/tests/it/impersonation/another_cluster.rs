//! A context that comes to name another cluster: what a user may read there is for that one to
//! say.

use serde_json::json;
use testbed::{Cluster, Kubeconfig, User, event, namespace};
use tokio::time::{Duration, Instant};

use super::{ANN, BOB, TokenFile, grant};
use crate::harness::{Http, HttpSession, Stream, TIMEOUT, command, one_context};

const SPACE: &str = "acting-renamed";

async fn happen(cluster: &Cluster, message: &str) {
    let event = event(SPACE, "Pod/web-0", "Warning", "Moved", message);
    cluster.create(&event).await.unwrap();
}

/// Waits until something is told, and returns all that was told on the way.
async fn until(stream: &mut Stream, part: &str) -> String {
    let mut told = String::new();
    let found = async {
        while !told.contains(part) {
            told.push_str(&stream.next().await.to_string());
        }
    };
    let found = tokio::time::timeout(TIMEOUT, found).await;
    assert!(found.is_ok(), "no {part} in {told}");
    told
}

/// Ann may read events in the first cluster, where she was asked about a moment ago, and not in
/// the second; Bob may in both.
#[tokio::test]
async fn rights_in_one_cluster_are_none_in_the_next() {
    let Some(bed) = testbed::shared() else { return };
    let (dev, prod) = (bed.dev(), bed.prod());
    for (cluster, users) in [
        (dev, &["renamed-ann", "renamed-bob"][..]),
        (prod, &["renamed-bob"]),
    ] {
        cluster
            .create_cluster_wide(&namespace(SPACE))
            .await
            .unwrap();
        for user in users {
            grant(cluster, SPACE, user, "User", user).await;
        }
    }
    let tokens = TokenFile::new(&[
        &format!("ann:{ANN} user=renamed-ann"),
        &format!("bob:{BOB} user=renamed-bob"),
    ]);
    let file = one_context(dev, User::Admin);
    let (_server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--cluster-identity", "impersonate", "--auth-token-file"])
            .arg(&tokens.path),
    );
    let mut streams = Vec::new();
    for token in [ANN, BOB] {
        let session = HttpSession::signed(&base, token).await;
        let mut stream = session.stream(None).await;
        let level = json!({"level": "debug"});
        session.rpc("logging/setLevel", level).await;
        let filters = json!({"namespace": SPACE, "reason": "Moved"});
        session.call("events_subscribe", filters).await.ok();
        happen(dev, "of-dev").await;
        until(&mut stream, "of-dev").await;
        streams.push((session, stream));
    }
    let moved = Kubeconfig::new().context("dev", prod, User::Admin);
    moved.current("dev").write(&file.path).unwrap();
    let moved_at = Instant::now();
    let [(_ann, of_ann), (_bob, of_bob)] = &mut streams[..] else {
        unreachable!("there are two");
    };
    // A user is told of the gap, and not why.
    until(of_bob, "\"gap\":{").await;
    happen(prod, "of-prod").await;
    until(of_bob, "of-prod").await;
    let took = moved_at.elapsed();
    assert!(
        took < Duration::from_secs(15),
        "her old right is still fresh: {took:?}"
    );
    // She is told that her right is gone, and nothing of what happened.
    let told = until(of_ann, "withdrawn").await;
    assert!(!told.contains("of-prod"), "{told}");
    happen(prod, "of-prod again").await;
    until(of_bob, "of-prod again").await;
    while let Ok(message) = tokio::time::timeout(Duration::from_secs(1), of_ann.next()).await {
        let told = message.to_string();
        assert!(!told.contains("of-prod"), "{told}");
    }
}
