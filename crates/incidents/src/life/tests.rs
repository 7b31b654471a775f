use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::objects::ObjectRef;

fn incident(name: &str, since: Timestamp, severity: Severity) -> Incident {
    Incident {
        id: name.to_owned(),
        detector: "crash-loop",
        object: ObjectRef::new("Deployment", "shop", name),
        severity,
        since,
        headline: String::new(),
        reason: Box::default(),
        why: String::new(),
        effects: Vec::new(),
        changes: Vec::new(),
        symptoms: Vec::new(),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

#[test]
fn a_crash_loop_that_is_well_between_its_crashes_opens_once_and_resolves_once() {
    let mut life = Life::default();
    assert_eq!(life.update(&[], at(0)), []);
    let mut seen = Vec::new();
    for second in 0..600 {
        // Well for twenty seconds of every minute.
        let is_sick = second % 60 < 40;
        let now = [incident("web", at(second), Severity::Critical)];
        let now = if is_sick { &now[..] } else { &[] };
        seen.extend(life.update(now, at(second)));
    }
    for second in 600..700 {
        seen.extend(life.update(&[], at(second)));
    }
    assert!(
        matches!(
            seen.as_slice(),
            [Transition::Opened(_), Transition::Resolved { after, .. }]
                if *after == SignedDuration::from_secs(580)
        ),
        "{seen:?}"
    );
}

#[test]
fn what_is_there_at_the_start_is_not_new_and_its_end_is_announced() {
    let mut life = Life::default();
    let old = incident("web", at(-3600), Severity::Warning);
    assert_eq!(life.update(std::slice::from_ref(&old), at(0)), []);
    assert_eq!(life.open().count(), 1);
    assert_eq!(life.update(&[], at(1)), []);
    assert!(matches!(
        life.update(&[], at(31)).as_slice(),
        [Transition::Resolved { .. }]
    ));
    assert_eq!(life.open().count(), 0);
}

#[test]
fn what_nobody_can_see_any_more_is_not_over() {
    let mut life = Life::default();
    let [web, api] = ["web", "api"].map(|name| incident(name, at(-60), Severity::Warning));
    life.update(&[web.clone(), api], at(0));
    life.forget_absent(std::slice::from_ref(&web));
    for second in [1, 600] {
        assert_eq!(life.update(std::slice::from_ref(&web), at(second)), []);
    }
    assert_eq!(life.open().count(), 1);
}

#[test]
fn a_change_is_announced_once_a_minute_at_most() {
    let mut life = Life::default();
    life.update(&[], at(0));
    let mut changes = 0;
    for second in 0..600 {
        let severity = if second % 2 == 0 {
            Severity::Warning
        } else {
            Severity::Critical
        };
        let found = life.update(&[incident("web", at(0), severity)], at(second));
        changes += found
            .iter()
            .filter(|one| matches!(one, Transition::Changed(_)))
            .count();
    }
    assert!((1..=10).contains(&changes), "{changes}");
}

proptest! {
    /// Whatever comes and goes: opened, then changed, then resolved, and never twice.
    #[test]
    fn transitions_are_in_order(steps in prop::collection::vec((prop::collection::btree_set(0..4_u8, 0..4), 0..90_i64), 0..60)) {
        let mut life = Life::default();
        life.update(&[], at(0));
        let (mut open, mut time) = (BTreeSet::new(), 0);
        for (names, pause) in steps {
            time += pause;
            let now: Vec<_> = names
                .iter()
                .map(|name| incident(&name.to_string(), at(time), Severity::Critical))
                .collect();
            for transition in life.update(&now, at(time)) {
                match transition {
                    Transition::Opened(one) => prop_assert!(open.insert(one.id)),
                    Transition::Changed(one) => prop_assert!(open.contains(&one.id)),
                    Transition::Resolved { incident, .. } => prop_assert!(open.remove(&incident.id)),
                }
            }
            let told: BTreeSet<_> = life.open().map(|one| one.id.clone()).collect();
            prop_assert_eq!(&told, &open);
        }
    }
}
