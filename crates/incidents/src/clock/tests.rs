use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{incident::incidents, objects::ObjectRef};

const NOW: i64 = 1_790_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW + seconds).unwrap()
}

fn state(objects: impl IntoIterator<Item = Value>) -> State {
    let mut state = State::default();
    for object in objects {
        state.apply_json(object).unwrap();
    }
    state.set_all_known();
    state
}

fn node(created: i64, ready: &str, since: i64, beat: i64) -> Value {
    json!({
        "kind": "Node",
        "metadata": {"name": "worker", "uid": "n", "creationTimestamp": at(created)},
        "status": {"conditions": [
            {"type": "MemoryPressure", "status": "False", "lastTransitionTime": at(since.min(-86_400)), "lastHeartbeatTime": at(beat)},
            {"type": "Ready", "status": ready, "lastTransitionTime": at(since), "lastHeartbeatTime": at(beat)},
        ]},
    })
}

fn pod(created: i64, ready_since: i64) -> Value {
    json!({
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "new", "creationTimestamp": at(created)},
        "spec": {"nodeName": "worker", "restartPolicy": "Always", "containers": [{"name": "app", "image": "web:1"}]},
        "status": {"phase": "Running", "startTime": at(ready_since), "conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": at(ready_since)},
        ], "containerStatuses": [{"name": "app", "state": {"running": {"startedAt": at(ready_since)}}}]},
    })
}

fn event(uid: &str, reason: &str, message: &str, seen: i64) -> Value {
    json!({
        "kind": "Event", "type": "Warning", "reason": reason, "message": message,
        "metadata": {"name": format!("web-0.{seen}"), "namespace": "shop", "creationTimestamp": at(seen)},
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web-0", "uid": uid},
        "firstTimestamp": at(seen), "lastTimestamp": at(seen),
    })
}

fn told(objects: impl IntoIterator<Item = Value>) -> Vec<(String, String)> {
    let found = incidents(&state(objects), at(0));
    found
        .into_iter()
        .map(|one| (one.object.to_string(), one.why))
        .collect()
}

#[test]
fn a_live_cluster_has_our_time_and_its_uids() {
    let live = state([node(-90_000, "True", -90_000, -290), pod(-600, -599)]);
    let clock = Clock::of(&live, at(0));
    assert_eq!((clock.now, clock.is_copy), (at(0), false));
    // Its node is dead, and everything has been quiet since.
    let dead = state([
        node(-90_000, "Unknown", -7_200, -7_240),
        pod(-9_000, -7_200),
    ]);
    assert_eq!(Clock::of(&dead, at(0)).now, at(0));
    // A namespace of which only pods may be read, and in which nothing happens.
    let quiet = state([pod(-90_000, -89_999)]);
    assert_eq!(Clock::of(&quiet, at(0)).now, at(0));
    // The clock of its node is three minutes behind.
    let late = state([node(-90_000, "True", -90_180, -200), pod(-600, -780)]);
    let clock = Clock::of(&late, at(0));
    assert_eq!((clock.now, clock.is_copy), (at(0), false));
    // Our own clock is an hour behind.
    let behind = state([node(-90_000, "True", -90_000, 3_580), pod(3_590, 3_591)]);
    assert_eq!(Clock::of(&behind, at(0)).now, at(3_590));
}

#[test]
fn a_copy_that_nobody_keeps_up_to_date_has_the_time_of_its_newest_sign() {
    let fresh = state([node(0, "True", -90_000, -20), pod(0, -600)]);
    let clock = Clock::of(&fresh, at(1));
    assert_eq!((clock.now, clock.is_copy), (at(1), true));
    let old = [node(0, "True", -990_000, -900_020), pod(0, -900_600)];
    let clock = Clock::of(&state(old), at(1));
    let taken = at(-900_020) + TAKEN_AFTER;
    assert_eq!((clock.now, clock.is_copy), (taken, true));
    // A recording that kept its times of creation.
    let kept = state([node(-990_000, "True", -990_000, -900_020)]);
    let clock = Clock::of(&kept, at(1));
    assert_eq!((clock.now, clock.is_copy), (taken, false));
}

#[test]
fn events_of_an_earlier_object_of_the_name_are_told_only_by_their_time_in_a_copy() {
    let before = || event("old", "Unhealthy", "said by the earlier one", -700);
    let after = || event("old", "Unhealthy", "said by this one", -300);
    let web = "shop/pod/web-0".to_owned();
    let live = || [node(-90_000, "True", -90_000, -20), pod(-600, -599)];
    let silent = [(web.clone(), String::new())];
    assert_eq!(told(live().into_iter().chain([before(), after()])), silent);
    let copy = || [node(-3, "True", -90_000, -20), pod(-3, -599)];
    assert_eq!(told(copy().into_iter().chain([before()])), silent);
    let said = [(web, "said by this one".to_owned())];
    assert_eq!(told(copy().into_iter().chain([before(), after()])), said);
}

#[test]
fn what_tells_no_time_is_as_old_as_the_copy_and_new_in_a_live_cluster() {
    let service = |created: i64| {
        json!({
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop", "uid": "s", "creationTimestamp": at(created)},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        })
    };
    let names = |objects: Vec<Value>| -> Vec<String> {
        told(objects)
            .into_iter()
            .map(|(object, _)| object)
            .collect()
    };
    let live = |created| vec![node(-90_000, "True", -90_000, -20), service(created)];
    assert_eq!(names(live(-3)), [""; 0]);
    assert_eq!(names(live(-300)), ["shop/service/web"]);
    let copy = vec![node(-3, "True", -90_000, -20), service(-3)];
    assert_eq!(names(copy), ["shop/service/web"]);
}

#[test]
fn a_clock_of_a_node_that_is_ahead_hides_nothing() {
    let named = |since| {
        let found = told([node(-90_000, "True", -90_000, -20), pod(-3_600, since)]);
        found
            .into_iter()
            .map(|(object, _)| object)
            .collect::<Vec<_>>()
    };
    assert_eq!(named(40_000_000), ["shop/pod/web-0"]);
    assert_eq!(named(-3_500), ["shop/pod/web-0"]);
}

proptest! {
    /// Whatever times there are, none of them, or some from the future: nothing panics, nothing
    /// begins after now, and what is wrong for long is told.
    #[test]
    fn any_times_are_taken(
        created in prop::option::of(-200_000_000..200_000_000_i64),
        since in prop::option::of(-200_000_000..200_000_000_i64),
        beat in prop::option::of(-200_000_000..200_000_000_i64),
        now in -1_000..1_000_i64,
    ) {
        let time = |seconds: Option<i64>| seconds.map(|seconds| at(seconds).to_string());
        let mut node = node(0, "False", 0, 0);
        node["metadata"]["creationTimestamp"] = time(created).into();
        for condition in node["status"]["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = time(since).into();
            condition["lastHeartbeatTime"] = time(beat).into();
        }
        let state = state([node]);
        let found = incidents(&state, at(now));
        for incident in &found {
            prop_assert!(incident.since <= Clock::of(&state, at(now)).now);
        }
        let worker = ObjectRef::new("Node", "", "worker");
        let is_old = |time: Option<i64>| time.is_none_or(|time| time < now - 600);
        if is_old(created) && is_old(since) && is_old(beat) && since.is_some() {
            // Unless it is a picture of the moment that the node failed.
            let is_told = found.iter().any(|one| one.object == worker);
            let taken = Clock::of(&state, at(now)).now;
            let failed = at(since.unwrap());
            prop_assert!(is_told || taken.duration_since(failed) < SignedDuration::from_mins(5));
        }
    }
}
