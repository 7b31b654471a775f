use serde_json::json;

use super::*;
use crate::event_log::{ALL_EVENTS_MAX, EVENTS_MAX};

fn event(object: &str, name: &str, seen: i64) -> Event {
    let seen = Timestamp::from_second(1_700_000_000 + seen).unwrap();
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "shop"},
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": object},
        "lastTimestamp": seen,
    }))
    .unwrap()
}

#[test]
fn events_make_room_for_newer_ones() {
    let mut state = State::default();
    for seen in 0..40 {
        state.apply_event(event("web", &format!("web.{seen}"), seen));
        state.apply_event(event("web", "web.again", seen));
    }
    let web = ObjectRef::new("Pod", "shop", "web");
    let kept: Vec<_> = state
        .events(&web)
        .iter()
        .map(|one| &*one.metadata.name)
        .collect();
    assert_eq!(kept.len(), EVENTS_MAX);
    assert!(
        kept.contains(&"web.39") && kept.contains(&"web.again"),
        "{kept:?}"
    );
    for number in 0..=i64::try_from(ALL_EVENTS_MAX).unwrap() {
        state.apply_event(event(&number.to_string(), "one", 1_000 + number));
    }
    let count = state.all_events().count();
    assert_eq!(count, state.events.len());
    assert!(
        count <= ALL_EVENTS_MAX && count > ALL_EVENTS_MAX / 3,
        "{count}"
    );
    assert!(state.events(&web).is_empty());
    state.forget_events(Timestamp::MAX);
    assert_eq!((state.all_events().count(), state.events.len()), (0, 0));
}

#[test]
fn lines_of_logs_go_with_their_pod() {
    let mut state = State::default();
    let pod = json!({"kind": "Pod", "metadata": {"namespace": "shop", "name": "web"}});
    state.apply_json(pod).unwrap();
    state.set_log_line("shop", "web", "app", &"é".repeat(LOG_LINE_BYTES_MAX));
    let web = ObjectRef::new("Pod", "shop", "web");
    let kept = state.log_line(&web, "app").map(str::len);
    assert_eq!(kept, Some(LOG_LINE_BYTES_MAX));
    for number in 0..2 * LOG_LINES_MAX {
        state.set_log_line("shop", &format!("gone-{number}"), "app", "panic");
    }
    assert!(state.log_lines.len() <= LOG_LINES_MAX);
    assert!(state.log_line(&web, "app").is_some());
    state.delete("Pod", "shop", "web");
    assert_eq!(state.log_line(&web, "app"), None);
    assert!(state.pods.is_empty());
}
