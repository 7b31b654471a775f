//! How much is asked, and that nobody holds up others.

use super::*;

/// One user with thousands of namespaces neither floods the cluster nor starves another user.
#[tokio::test(start_paused = true)]
async fn reviews_are_bounded_and_shared_fairly() {
    let authorizer = Authorizer::default();
    let decisions = authorizer.decisions();
    let greedy = view(&decisions, "greedy");
    let asking = (0..3000).map(|n| {
        let right = greedy.right("dev", Action::LIST_EVENTS, &format!("ns-{n}"));
        async move { right.decide().await }
    });
    let mut many = JoinSet::new();
    many.spawn(join_all(asking.collect::<Vec<_>>()));
    tokio::task::yield_now().await;
    advance(Duration::from_millis(500)).await;
    authorizer.set("ann", SHOP, true);
    let began = Instant::now();
    assert_eq!(
        shop(&view(&decisions, "ann")).decide().await,
        Answer::Allowed
    );
    assert!(began.elapsed() < Duration::from_secs(1));
    let answers = many.join_next().await.unwrap().unwrap();
    assert!(answers.contains(&Answer::Denied) && answers.contains(&Answer::Unknown));
    assert!(authorizer.0.running_max.load(Ordering::Relaxed) <= 16);
    let asked = authorizer.asked().len();
    assert!(asked < 300 + 50 * 12, "{asked} in a few seconds");
    advance(Duration::from_mins(2)).await;
    decisions.remove_expired();
    let left = format!("{decisions:?}");
    assert!(left.contains("rights: 0"), "{left}");
}

/// A cluster that does not answer, or fails at once, holds up no decision about another: neither
/// of the same user nor of others.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_away_delays_no_decision_about_another() {
    for is_silent in [true, false] {
        let authorizer = Authorizer::default();
        let decisions = authorizer.decisions();
        let away = if is_silent {
            &authorizer.0.silent
        } else {
            &authorizer.0.failing
        };
        away.lock().insert("away".to_owned());
        let mut waiting = JoinSet::new();
        for user in 0..20 {
            let view = view(&decisions, &format!("user-{user}"));
            for namespace in 0..40 {
                let namespace = format!("ns-{namespace}");
                let right = view.right("away", Action::LIST_EVENTS, &namespace);
                waiting.spawn(async move { right.decide().await });
            }
        }
        for _ in 0..20 {
            advance(Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
        for name in ["user-0", "ann"] {
            authorizer.set(name, SHOP, true);
            let began = Instant::now();
            let right = shop(&view(&decisions, name));
            assert_eq!(right.decide().await, Answer::Allowed);
            let took = began.elapsed();
            assert!(
                took <= Authorizer::TAKES * 2,
                "{name}: {took:?}, silent: {is_silent}"
            );
        }
        let answers = waiting.join_all().await;
        assert!(answers.iter().all(|answer| *answer == Answer::Unknown));
    }
}

/// While a review that failed waits to be tried again, others of its cluster are asked.
#[tokio::test(start_paused = true)]
async fn a_review_that_waits_to_be_tried_again_has_no_turn() {
    let authorizer = Authorizer::default();
    let decisions = authorizer.decisions();
    let ann = view(&decisions, "ann");
    authorizer.set_down(true);
    let asks = |resource: &str| ann.right("dev", Action::list_named("", resource), "");
    let mut waiting = JoinSet::new();
    for resource in ["pods", "services", "secrets", "leases"] {
        let right = asks(resource);
        waiting.spawn(async move { right.decide().await });
    }
    sleep(Authorizer::TAKES + Duration::from_millis(10)).await;
    assert_eq!(
        authorizer.asked().len(),
        4,
        "as many as one user may ask at a time"
    );
    let nodes = asks("nodes");
    waiting.spawn(async move { nodes.decide().await });
    sleep(Duration::from_millis(10)).await;
    assert_eq!(authorizer.asked(), ["list nodes in the whole cluster"]);
}
