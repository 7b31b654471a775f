//! What logs tell of containers that ended.

use super::*;

/// A restart whose last run printed these lines.
fn restarted(fixture: &Fixture, lines: &[&str]) {
    for line in lines {
        fixture.cluster.log("shop", "web-1-a", "app", line);
    }
    fixture.cluster.restart_log("shop", "web-1-a", "app");
    fixture.crash("");
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_has_the_words_of_the_log() {
    let fixture = Fixture::new();
    let lines = [
        "starting",
        "FATAL: cannot connect to db:5432 as shop, password=hunter2-verysecret",
    ];
    restarted(&fixture, &lines);
    let view = fixture.follow().await.unwrap();
    let snapshot = view.snapshot();
    let shown = format!("{snapshot:?}");
    assert!(
        snapshot.open[0].why.contains("cannot connect to db:5432"),
        "{shown}"
    );
    assert!(!shown.contains("hunter2"), "{shown}");
    assert_eq!(fixture.cluster.requests("get", "pods/log"), 1);
    fixture.pass(Duration::from_mins(2)).await;
    assert_eq!(
        fixture.cluster.requests("get", "pods/log"),
        1,
        "once for each end"
    );
}

#[tokio::test(start_paused = true)]
async fn a_slow_log_keeps_nobody_waiting_and_its_words_come_later() {
    let fixture = Fixture::new();
    restarted(&fixture, &["panic: no provider for eur"]);
    let slow = RequestMatcher::any().resource("pods/log");
    (fixture.cluster).fail_next(slow, 1, Fault::Delay(Duration::from_secs(3)));
    let began = Instant::now();
    let view = fixture.follow().await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(1500));
    assert_eq!(view.snapshot().open[0].why, "");
    fixture.pass(Duration::from_secs(4)).await;
    let why = view.snapshot().open[0].why.clone();
    assert!(why.contains("no provider for eur"), "{why}");
    assert_eq!(fixture.follower.announced(), [""; 0], "words are no news");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_said_why_itself_is_not_asked() {
    let fixture = Fixture::new();
    fixture.crash("cannot bind :8080");
    let view = fixture.follow().await.unwrap();
    assert_eq!(open(&view).len(), 1);
    assert_eq!(fixture.cluster.requests("get", "pods/log"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_cannot_be_read_is_asked_for_once() {
    let fixture = Fixture::new();
    restarted(&fixture, &["panic: no provider for eur"]);
    let logs = RequestMatcher::any().resource("pods/log");
    fixture.cluster.deny(logs);
    let view = fixture.follow().await.unwrap();
    fixture.pass(Duration::from_mins(2)).await;
    assert_eq!(open(&view), ["shop/deployment/web crash-loop"]);
    let asked = fixture.cluster.requests("get", "pods/log");
    assert!((1..=2).contains(&asked), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn an_incident_is_announced_with_the_words_of_its_log() {
    let fixture = Fixture::new();
    let _view = fixture.follow().await.unwrap();
    restarted(&fixture, &["panic: no provider for eur"]);
    fixture.pass(Duration::from_secs(3)).await;
    let headlines = fixture.follower.headlines();
    assert_eq!(headlines.len(), 1, "{headlines:?}");
    assert!(
        headlines[0].contains("panic: no provider for eur"),
        "{headlines:?}"
    );
    // A kubelet that needs a second is waited for, too.
    let fixture = Fixture::new();
    let _view = fixture.follow().await.unwrap();
    let slow = RequestMatcher::any().resource("pods/log");
    (fixture.cluster).fail_next(slow, 1, Fault::Delay(Duration::from_secs(1)));
    restarted(&fixture, &["panic: no provider for eur"]);
    fixture.pass(Duration::from_secs(3)).await;
    let headlines = fixture.follower.headlines();
    assert!(
        headlines.len() == 1 && headlines[0].contains("no provider"),
        "{headlines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_incident_waits_two_seconds_for_a_log_and_tells_its_words_later() {
    let fixture = Fixture::new();
    let _view = fixture.follow().await.unwrap();
    let slow = RequestMatcher::any().resource("pods/log");
    (fixture.cluster).fail_next(slow, 1, Fault::Delay(Duration::from_secs(4)));
    restarted(&fixture, &["panic: no provider for eur"]);
    fixture.pass(Duration::from_secs(3)).await;
    let told = std::mem::take(&mut *fixture.follower.0.lock());
    let opened = told.iter().flat_map(|update| &update.transitions);
    let opened: Vec<_> = opened.collect();
    let [Transition::Opened(first)] = opened.as_slice() else {
        panic!("{opened:?}");
    };
    assert_eq!(first.why, "");
    // Changes come once a minute at most.
    fixture.pass(Duration::from_secs(40)).await;
    assert_eq!(fixture.follower.announced(), [""; 0]);
    fixture.pass(Duration::from_secs(40)).await;
    let headlines = fixture.follower.headlines();
    assert!(
        headlines.len() == 1 && headlines[0].contains("no provider"),
        "{headlines:?}"
    );
    fixture.pass(Duration::from_mins(3)).await;
    assert_eq!(fixture.follower.headlines(), [""; 0], "once");
}
