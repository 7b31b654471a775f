use std::collections::HashMap;

use kubecrier_incidents::{Severity, Transition};
use proptest::prelude::*;

use super::*;
use crate::{payload::alert::fingerprint, testing::incident};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn board() -> Board {
    Board::new(Labels::new(), Arc::default(), 5)
}

fn notice(second: i64, transition: Transition) -> Notice {
    Notice {
        context: "dev".into(),
        at: at(second),
        transition,
    }
}

/// An incident that ended then.
fn resolved(second: i64, incident: Incident) -> Transition {
    Transition::Resolved {
        after: at(second).duration_since(incident.since),
        incident,
    }
}

/// Name of the object and whether it fires, of all alerts of a batch.
fn sent(batch: &Batch, now: Timestamp) -> Vec<(String, bool)> {
    let alerts = batch.alerts.iter();
    alerts
        .map(|one| {
            let name = format!("{} {}", one.labels["name"], one.labels["severity"]);
            (name, one.ends_at > now)
        })
        .collect()
}

#[test]
fn what_fires_is_sent_until_it_is_over_and_its_end_once() {
    let mut board = board();
    board.apply(&notice(0, Transition::Opened(incident("web"))));
    for second in [0, 60] {
        let batch = board.batch(at(second));
        assert_eq!(
            sent(&batch, at(second)),
            [("web critical".to_owned(), true)]
        );
        assert_eq!(batch.alerts[0].ends_at, at(second + 300));
        board.delivered(&batch);
        assert_eq!(board.waiting(), 0);
    }
    board.apply(&notice(70, resolved(50, incident("web"))));
    assert_eq!(board.waiting(), 1);
    let batch = board.batch(at(71));
    assert_eq!(sent(&batch, at(71)), [("web critical".to_owned(), false)]);
    assert_eq!(batch.alerts[0].ends_at, at(50), "when it ended");
    // It was not delivered, so it is sent again.
    assert_eq!(board.batch(at(72)), batch);
    board.delivered(&batch);
    assert!(board.is_empty() && board.batch(at(73)).alerts.is_empty());
}

#[test]
fn what_came_and_went_before_it_could_be_told_is_not_told() {
    let mut board = board();
    board.apply(&notice(0, Transition::Opened(incident("web"))));
    board.apply(&notice(9, resolved(8, incident("web"))));
    assert!(board.is_empty());
}

/// The end waited, the incident came back and went again: Alertmanager still has to be told.
#[test]
fn what_fired_before_is_ended_however_often_it_came_and_went_since() {
    let mut board = board();
    board.apply(&notice(0, Transition::Opened(incident("web"))));
    let batch = board.batch(at(0));
    board.delivered(&batch);
    board.apply(&notice(2, resolved(1, incident("web"))));
    board.apply(&notice(3, Transition::Opened(incident("web"))));
    board.apply(&notice(5, resolved(4, incident("web"))));
    let sent = sent(&board.batch(at(6)), at(6));
    assert_eq!(sent, [("web critical".to_owned(), false)]);
}

#[test]
fn other_labels_are_another_alert_and_the_former_is_over() {
    let mut board = board();
    let worse = incident("web");
    let slight = Incident {
        severity: Severity::Warning,
        ..worse.clone()
    };
    board.apply(&notice(0, Transition::Opened(slight.clone())));
    let batch = board.batch(at(0));
    board.delivered(&batch);
    // What is seen in between changes the words, not the labels.
    board.refresh(&"dev".into(), [&worse], at(1));
    assert_eq!(
        sent(&board.batch(at(1)), at(1)),
        [("web warning".to_owned(), true)]
    );
    board.apply(&notice(2, Transition::Changed(worse)));
    let expected = [
        ("web warning".to_owned(), false),
        ("web critical".to_owned(), true),
    ];
    assert_eq!(sent(&board.batch(at(3)), at(3)), expected);
}

#[test]
fn the_words_of_an_alert_are_those_of_now() {
    let mut board = board();
    board.apply(&notice(0, Transition::Opened(incident("web"))));
    let mut later = incident("web");
    later.headline = "worse".to_owned();
    board.refresh(&"dev".into(), [&later], at(1));
    board.refresh(&"prod".into(), [&incident("web")], at(2));
    assert_eq!(board.batch(at(3)).alerts[0].annotations["summary"], "worse");
}

#[test]
fn what_cannot_be_seen_any_more_is_left_to_end_by_itself() {
    let mut board = board();
    board.apply(&notice(0, Transition::Opened(incident("web"))));
    board.refresh(&"prod".into(), [], at(0));
    assert_eq!(
        board.batch(at(1000)).alerts.len(),
        1,
        "nothing is said of it"
    );
    board.refresh(&"dev".into(), [&incident("web")], at(0));
    assert_eq!(board.batch(at(1000)).alerts.len(), 1);
    board.refresh(&"dev".into(), [], at(0));
    // A crash loop has to be gone for 30 s.
    assert_eq!(board.batch(at(150)).alerts.len(), 1);
    assert_eq!(board.batch(at(151)).alerts.len(), 0);
    assert!(board.is_empty());
}

#[test]
fn there_is_room_for_so_many_and_the_others_are_counted() {
    let mut board = board();
    let dropped: usize = (0..7)
        .map(|one| board.apply(&notice(0, Transition::Opened(incident(&format!("n{one}"))))))
        .sum();
    assert_eq!((dropped, board.batch(at(0)).alerts.len()), (2, 5));
}

proptest! {
    /// Whatever happens to incidents, Alertmanager never has two alerts that fire for one, and
    /// once all is delivered it has exactly those that are open.
    #[test]
    fn alertmanager_has_one_alert_per_open_incident(
        steps in prop::collection::vec((0..4_u8, 0..3_u8, any::<bool>(), any::<bool>()), 1..60),
    ) {
        let mut board = Board::new(Labels::new(), Arc::default(), 100);
        let mut alertmanager: HashMap<String, Alert> = HashMap::new();
        let mut open: HashMap<String, Incident> = HashMap::new();
        for (step, (word, name, is_worse, arrives)) in steps.into_iter().enumerate() {
            let second = i64::try_from(step).unwrap();
            let mut one = incident(&format!("n{name}"));
            if !is_worse {
                one.severity = Severity::Warning;
            }
            let transition = match (word, open.contains_key(&one.id)) {
                (0, true) => resolved(second, open.remove(&one.id).unwrap()),
                (_, true) => Transition::Changed(one.clone()),
                (0, false) => continue,
                (_, false) => Transition::Opened(one.clone()),
            };
            if !matches!(transition, Transition::Resolved { .. }) {
                open.insert(one.id.clone(), one);
            }
            board.apply(&notice(second, transition));
            if arrives {
                let batch = board.batch(at(second));
                for alert in &batch.alerts {
                    let key = fingerprint(&alert.labels);
                    if alert.ends_at <= at(second) {
                        alertmanager.remove(&key);
                    }
                }
                for alert in &batch.alerts {
                    if alert.ends_at > at(second) {
                        alertmanager.insert(fingerprint(&alert.labels), alert.clone());
                    }
                }
                board.delivered(&batch);
                prop_assert_eq!(board.waiting(), 0);
                let mut firing: Vec<_> = alertmanager.values()
                    .map(|alert| (alert.labels["incident"].clone(), alert.labels["severity"].clone()))
                    .collect();
                firing.sort();
                let mut expected: Vec<_> = open.values()
                    .map(|one| (one.id.clone(), one.severity.as_str().to_owned()))
                    .collect();
                expected.sort();
                prop_assert_eq!(firing, expected);
            }
        }
    }
}
