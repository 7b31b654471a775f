use serde_json::{Value, json};

use super::*;
use crate::session::CloseReason;

fn tracker() -> ListChangedTracker {
    ListChangedTracker::new(ProtocolVersion::V_2025_11_25)
}

fn filled(hash: &str) -> ListChangedTracker {
    let tracker = tracker();
    for kind in ListKind::ALL {
        tracker.update(kind, ContentHash::from(hash));
    }
    tracker
}

#[test]
fn the_payload_is_the_method_with_empty_parameters() {
    for (kind, name) in ListKind::ALL
        .into_iter()
        .zip(["tools", "resources", "prompts"])
    {
        let notification = Notification::list_changed(kind);
        let frame: Value = serde_json::from_slice(notification.frame().unwrap()).unwrap();
        let method = format!("notifications/{name}/list_changed");
        assert_eq!(
            frame,
            json!({"jsonrpc": "2.0", "method": method, "params": {}})
        );
    }
}

#[test]
fn suppressed_consuming_returns_nothing_and_keeps_the_state_for_later() {
    let (tracker, session) = (filled("abc123"), Session::new("s"));
    for kind in ListKind::ALL {
        assert!(tracker.consume(&session, kind, Emit::No).is_none());
        assert_eq!(tracker.last_notified(&session, kind), None);
        let notification = tracker.consume(&session, kind, Emit::Yes).unwrap();
        assert_eq!(*notification.method(), kind.method());
        assert_eq!(
            tracker.last_notified(&session, kind),
            Some(ContentHash::from("abc123"))
        );
    }
    assert_eq!(Emit::default(), Emit::Yes);
}

#[test]
fn a_fresh_session_gets_exactly_one_of_each_and_nothing_more() {
    let (tracker, session) = (filled("a"), Session::new("s"));
    let methods: Vec<_> = tracker
        .due(&session)
        .iter()
        .map(|n| n.method().clone())
        .collect();
    assert_eq!(methods, ListKind::ALL.map(ListKind::method));
    for _ in 0..10 {
        for kind in ListKind::ALL {
            tracker.update(kind, ContentHash::from("a"));
        }
        assert!(
            tracker.due(&session).is_empty(),
            "the same content is silent"
        );
    }
}

#[test]
fn an_empty_hash_means_not_known_yet_and_nothing_is_due() {
    let (tracker, session) = (filled(""), Session::new("s"));
    assert!(tracker.due(&session).is_empty());
    assert_eq!(tracker.current(ListKind::Tools), None);
    assert!(tracker.is_empty());
}

#[test]
fn only_the_registry_that_changed_is_told() {
    let (tracker, session) = (filled("a"), Session::new("s"));
    tracker.due(&session);
    for kind in ListKind::ALL {
        tracker.update(kind, ContentHash::from("b"));
        let due = tracker.due(&session);
        assert_eq!(due.len(), 1);
        assert_eq!(*due[0].method(), kind.method());
    }
}

#[test]
fn content_that_goes_and_comes_back_is_told_twice() {
    let (tracker, session) = (filled("a"), Session::new("s"));
    tracker.due(&session);
    for hash in ["b", "a"] {
        tracker.update(ListKind::Tools, ContentHash::from(hash));
        assert_eq!(tracker.due(&session).len(), 1);
    }
}

#[test]
fn whatever_state_it_was_in_the_next_differing_hash_is_told() {
    let (tracker, session) = (filled("corrupt"), Session::new("s"));
    tracker.due(&session);
    tracker.update(ListKind::Prompts, ContentHash::from(""));
    assert!(tracker.due(&session).is_empty());
    tracker.update(ListKind::Prompts, ContentHash::from("sound"));
    assert_eq!(tracker.due(&session).len(), 1);
}

#[test]
fn a_new_session_starts_afresh_and_nothing_is_shared() {
    let tracker = filled("a");
    let (first, second) = (Session::new("s"), Session::new("s"));
    assert_eq!(tracker.due(&first).len(), 3);
    assert_eq!(tracker.due(&second).len(), 3, "even under the same id");
    drop(first);
    assert_eq!(tracker.len(), 1, "a session that ended leaves no state");
    second.close(CloseReason::Requested);
    assert!(tracker.due(&second).is_empty() && tracker.is_empty());
}

#[test]
fn old_versions_are_told_nothing_and_their_state_is_kept() {
    let tracker = filled("a");
    for version in [ProtocolVersion::V_2024_11_05, ProtocolVersion::V_2025_03_26] {
        let session = Session::builder().protocol_version(version).build("old");
        assert!(!tracker.allows(&session), "and it is not to be advertised");
        assert!(tracker.due(&session).is_empty());
        assert!(tracker.is_empty(), "nothing was consumed");
        session.set_protocol_version(ProtocolVersion::V_2025_06_18);
        assert_eq!(
            tracker.due(&session).len(),
            3,
            "the state was left for a later time"
        );
    }
    for version in ["2025-06-18", "2025-11-25", "2026-07-28", "2031-01-01"] {
        assert!(
            ProtocolVersion::new(version).allows_list_changed(),
            "{version}"
        );
    }
}

#[test]
fn two_sessions_of_different_versions_in_one_process_do_not_disturb_each_other() {
    let tracker = filled("a");
    let old = Session::builder()
        .protocol_version(ProtocolVersion::V_2025_03_26)
        .build("old");
    let new = Session::builder()
        .protocol_version(ProtocolVersion::V_2025_06_18)
        .build("new");
    for (hash, expected) in [("a", 3), ("a", 0), ("b", 3)] {
        for kind in ListKind::ALL {
            tracker.update(kind, ContentHash::from(hash));
        }
        assert!(tracker.due(&old).is_empty());
        assert_eq!(tracker.due(&new).len(), expected);
    }
}

#[test]
fn the_version_is_the_negotiated_one_else_the_servers_own() {
    let session = Session::new("s");
    let check = |default: ProtocolVersion| ListChangedTracker::new(default).allows(&session);
    assert!(check(ProtocolVersion::V_2025_11_25));
    assert!(!check(ProtocolVersion::V_2025_03_26));
    session.set_protocol_version(ProtocolVersion::V_2025_06_18);
    assert!(check(ProtocolVersion::V_2025_03_26));
}

#[test]
fn of_many_polls_at_once_exactly_one_gets_the_notification() {
    let (tracker, session) = (tracker(), Session::new("s"));
    for round in 0..200 {
        tracker.update(
            ListKind::Tools,
            ContentHash::from(round.to_string().as_str()),
        );
        let got: usize = std::thread::scope(|scope| {
            let polls: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| tracker.due(&session).len()))
                .collect();
            polls.into_iter().map(|poll| poll.join().unwrap()).sum()
        });
        assert_eq!(got, 1);
    }
}

#[test]
fn a_notification_that_was_not_delivered_can_be_made_due_again() {
    let (tracker, session) = (filled("a"), Session::new("s"));
    tracker.due(&session);
    tracker.rearm(&session, ListKind::Resources);
    assert_eq!(tracker.due(&session).len(), 1);
}
