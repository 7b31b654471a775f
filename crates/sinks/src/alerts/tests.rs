use std::sync::Arc;

use jiff::SignedDuration;
use kubecrier_core::metrics::Metrics;
use kubecrier_incidents::Transition;
use parking_lot::Mutex;
use tokio::time::advance;

use super::*;
use crate::{
    config::{HttpTarget, TargetUrl},
    payload::alert::Labels,
    sink::Sink,
    testing::{filter, incident},
};

/// Keeps what is sent, unless it is away.
#[derive(Default)]
struct Kept {
    sent: Mutex<Vec<Vec<String>>>,
    answer: Mutex<Option<DeliveryError>>,
}

impl SendAlerts for Arc<Kept> {
    async fn send(&self, alerts: &[Alert]) -> Result<(), DeliveryError> {
        if let Some(error) = self.answer.lock().clone() {
            return Err(error);
        }
        let word = |alert: &Alert| {
            let is_over = alert.ends_at <= Timestamp::now();
            let word = if is_over { "over" } else { "fires" };
            format!("{word} {}", alert.labels["name"])
        };
        self.sent.lock().push(alerts.iter().map(word).collect());
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "the test ends the task itself")]
fn start() -> (Sink, Arc<Kept>, CancellationToken) {
    let config = SinkConfig {
        name: "am".to_owned(),
        filter: filter(),
        target: TargetConfig::Alertmanager {
            http: HttpTarget {
                url: TargetUrl::Known("http://alertmanager.example".parse().unwrap()),
                credentials: None,
                signing_secrets: None,
                ca_file: None,
                allowed: crate::AllowedAddresses::default(),
            },
            labels: Labels::new(),
        },
        queue_max: 10,
        timeout: Duration::from_secs(10),
    };
    let metrics = Metrics::new();
    let sink = Sink::new(
        config,
        &Arc::default(),
        metrics.sinks(),
        Redactor::default(),
    );
    let (kept, stop) = (Arc::<Kept>::default(), CancellationToken::new());
    let (shared, target, end) = (Arc::clone(sink.shared()), Arc::clone(&kept), stop.clone());
    tokio::spawn(async move { run(&shared, &target, &end).await });
    (sink, kept, stop)
}

async fn settle_down() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

fn tell(sink: &Sink, transition: Transition, open: &[&str]) {
    let open: Vec<_> = open.iter().map(|name| Arc::new(incident(name))).collect();
    sink.on_update(&"dev".into(), Timestamp::now(), &[transition], &open);
}

fn resolved(name: &str) -> Transition {
    let incident = incident(name);
    Transition::Resolved {
        after: SignedDuration::from_secs(1),
        incident,
    }
}

#[tokio::test(start_paused = true)]
async fn what_fires_is_sent_at_once_and_each_minute_and_its_end_once() {
    let (sink, kept, _stop) = start();
    let old = [Arc::new(incident("old"))];
    sink.on_start(&"dev".into(), &old, Timestamp::now());
    settle_down().await;
    assert_eq!(
        kept.sent.lock().clone(),
        [["fires old"]],
        "a restart loses nothing"
    );
    tell(&sink, Transition::Opened(incident("new")), &["old", "new"]);
    settle_down().await;
    for _ in 0..2 {
        advance(Duration::from_secs(59)).await;
        settle_down().await;
        advance(Duration::from_secs(2)).await;
        settle_down().await;
    }
    tell(&sink, resolved("old"), &["new"]);
    tell(&sink, resolved("new"), &[]);
    settle_down().await;
    advance(Duration::from_mins(10)).await;
    settle_down().await;
    let both = vec!["fires new".to_owned(), "fires old".to_owned()];
    let sent = kept.sent.lock().clone();
    assert_eq!(sent[1..4], [both.clone(), both.clone(), both]);
    assert_eq!(sent[4..], [["over old", "over new"]]);
}

#[tokio::test(start_paused = true)]
async fn an_alertmanager_that_was_away_has_everything_a_minute_later() {
    let (sink, kept, _stop) = start();
    *kept.answer.lock() = Some(DeliveryError::unavailable("away"));
    for name in ["a", "b"] {
        tell(&sink, Transition::Opened(incident(name)), &["a", "b"]);
    }
    settle_down().await;
    tell(&sink, resolved("a"), &["b"]);
    for _ in 0..20 {
        advance(Duration::from_mins(1)).await;
        settle_down().await;
    }
    *kept.answer.lock() = None;
    advance(Duration::from_secs(61)).await;
    settle_down().await;
    assert_eq!(kept.sent.lock().first().unwrap(), &["over a", "fires b"]);
}

#[tokio::test(start_paused = true)]
async fn what_an_alertmanager_rejects_does_not_keep_the_rest_from_it() {
    let (sink, kept, stop) = start();
    *kept.answer.lock() = Some(DeliveryError::rejected("400"));
    tell(&sink, Transition::Opened(incident("a")), &["a"]);
    settle_down().await;
    tell(&sink, resolved("a"), &[]);
    settle_down().await;
    advance(Duration::from_secs(3)).await;
    settle_down().await;
    *kept.answer.lock() = None;
    advance(Duration::from_secs(61)).await;
    tell(&sink, Transition::Opened(incident("b")), &["b"]);
    settle_down().await;
    assert_eq!(kept.sent.lock().clone(), [["fires b"]]);
    stop.cancel();
    settle_down().await;
    assert_eq!(kept.sent.lock().len(), 2, "a last word");
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_turn_is_over_sends_no_alert_again_and_the_next_one_sends_all() {
    let (sink, kept, _stop) = start();
    let sink = sink.in_turns();
    let context: Arc<str> = "dev".into();
    let both = ["old", "new"].map(|name| Arc::new(incident(name)));
    sink.on_start(&context, &both, Timestamp::now());
    advance(Duration::from_mins(10)).await;
    settle_down().await;
    assert_eq!(kept.sent.lock().len(), 0, "another one sends");
    assert!(sink.set_turn(&context, true, &both));
    settle_down().await;
    assert_eq!(kept.sent.lock().clone(), [["fires new", "fires old"]]);
    assert!(sink.set_turn(&context, false, &both));
    advance(Duration::from_mins(10)).await;
    settle_down().await;
    assert_eq!(kept.sent.lock().len(), 1, "the other one resolves it");
    // What ends while the other one vanishes is over.
    tell(&sink, resolved("old"), &["new"]);
    assert!(sink.set_turn(&context, true, &both[1..]));
    settle_down().await;
    let last = kept.sent.lock().last().cloned();
    assert_eq!(last.unwrap(), ["over old", "fires new"]);
}
