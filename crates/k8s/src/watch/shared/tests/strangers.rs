//! Servers that have less in common than it seems: another cluster, a holder that writes nothing
//! or was only slow.

use kubecrier_history::{Appended, ReadFrom, Registry};

use super::*;

fn named(cluster: &DemoCluster, uid: &str) {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": uid},
    });
    cluster.put(namespace).unwrap();
}

#[tokio::test(start_paused = true)]
async fn clusters_whose_contexts_have_one_name_have_a_watch_each() {
    let mut here = Fixture::new();
    let mut there = Fixture {
        log: here.log.clone(),
        registry: Arc::clone(&here.registry),
        ..Fixture::new()
    };
    named(&here.cluster, "5f1c");
    named(&there.cluster, "77aa");
    here.start_server().await;
    there.start_server().await;
    for _ in 0..10 {
        here.happen();
        here.pass(SECOND).await;
        there.happen();
        there.pass(SECOND).await;
    }
    for fixture in [&here, &there] {
        fixture.check(0, 1);
        assert_eq!(fixture.roles(), [WatchRole::Holder]);
        assert_eq!(fixture.cluster.open_watches(), 1);
    }
}

/// A server has the lease, and writes nothing: the log does not let it.
#[tokio::test(start_paused = true)]
async fn events_do_not_wait_again_and_again_for_a_log_that_nobody_writes_to() {
    let mut fixture = Fixture::new();
    let scope = crate::watch::scope::Scope::whole("demo", &Filters::default());
    let cluster = Contexts::of_demo(&fixture.cluster).cluster_id("demo").await;
    let lease = format!("lease.{}", topic(&scope, &cluster.unwrap()));
    let mut late = 0;
    for second in 0..90 {
        let stranger = fixture.registry.put(&lease, "x".into(), 5 * SECOND);
        stranger.await.unwrap();
        if second == 0 {
            fixture.start_server().await;
        }
        fixture.happen();
        fixture.pass(SECOND).await;
        let received = fixture.servers[0].received.events.lock().len();
        late += usize::from(second > 10 && received < second + 1);
    }
    assert_eq!((late, fixture.roles()), (0, vec![WatchRole::Alone]));
    fixture.check(0, 1);
}

#[tokio::test(start_paused = true)]
async fn two_messages_that_say_the_same_are_told_apart() {
    let mut fixture = Fixture::with_servers(1).await;
    fixture.pass(10 * SECOND).await;
    let cluster = fixture.servers[0].watches.shared_cluster("demo").await;
    let scope = crate::watch::scope::Scope::whole("demo", &Filters::default());
    let topic = topic(&scope, &cluster.unwrap().unwrap());
    let messages = fixture.log.follow(&topic, ReadFrom::After(0)).await;
    let mut messages = messages.unwrap();
    let (mut seen, mut last) = (Vec::new(), 0);
    while let Ok(Some(Ok(message))) =
        tokio::time::timeout(Duration::from_millis(1), messages.recv()).await
    {
        last = message.number;
        // Signs of life are alike but for who wrote them, and when.
        let mut message: serde_json::Value = serde_json::from_slice(&message.bytes).unwrap();
        message.as_object_mut().unwrap().remove("at");
        assert!(!seen.contains(&message), "{message}");
        seen.push(message);
    }
    assert!(seen.len() > 5);
    // What another server has written is no message of this one, whatever it says.
    let other = serde_json::to_vec(&seen[seen.len() - 1]).unwrap();
    let written = fixture.log.append(&topic, last, other.into()).await;
    assert!(matches!(written, Ok(Appended::At(_))));
    fixture.pass(20 * SECOND).await;
    fixture.happen();
    fixture.pass(10 * SECOND).await;
    fixture.check(0, 1);
}

/// A server that had the lease, and is only slow, writes once more when another one has begun.
#[tokio::test(start_paused = true)]
async fn who_had_the_lease_before_cannot_write_after_another_has_begun() {
    let mut fixture = Fixture::with_servers(2).await;
    fixture.happen();
    fixture.pass(3 * SECOND).await;
    let cluster = fixture.servers[0].watches.shared_cluster("demo").await;
    let scope = crate::watch::scope::Scope::whole("demo", &Filters::default());
    let topic = topic(&scope, &cluster.unwrap().unwrap());
    let holder = fixture.holder().unwrap();
    fixture.servers[holder]
        .link
        .is_cut
        .store(true, Ordering::Relaxed);
    let known = fixture.log.last(&topic).await.unwrap().unwrap();
    // The API server takes no watch: who takes the lease over sees nothing yet.
    fixture.cluster.refuse();
    for _ in 0..200 {
        fixture.pass(Duration::from_millis(50)).await;
        if fixture.holder() == Some(1 - holder) {
            break;
        }
    }
    fixture.pass(Duration::from_millis(50)).await;
    let late = fixture
        .log
        .append(&topic, known.number, known.bytes.clone());
    assert!(matches!(late.await, Ok(Appended::Conflict)));
    fixture.cluster.accept();
    fixture.servers[holder]
        .link
        .is_cut
        .store(false, Ordering::Relaxed);
    fixture.pass(60 * SECOND).await;
    fixture.happen();
    fixture.pass(2 * SECOND).await;
    let messages = fixture
        .log
        .follow(&topic, ReadFrom::After(known.number))
        .await;
    let first = messages.unwrap().recv().await.unwrap().unwrap();
    let first = message::WatchMessage::parse(&first.bytes).unwrap();
    assert!(matches!(first.seen, message::Seen::Begun), "{first:?}");
}
