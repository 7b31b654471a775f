use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;
use crate::{
    filters::{FilterRequest, Filters},
    subscriptions::{FeedLimits, subscription::tests::deps},
};

/// Counts leases that are held.
struct Held(Arc<AtomicUsize>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct World {
    ledger: Arc<Ledger>,
    held: Arc<AtomicUsize>,
}

impl World {
    fn new(per_session_max: usize, global_max: usize) -> Self {
        Self {
            ledger: Ledger::new(SubscriptionLimits {
                per_session_max,
                per_caller_max: global_max,
                global_max,
            }),
            held: Arc::default(),
        }
    }

    fn subscribe(&self, owner: &Owner) -> Result<String, LimitReached> {
        self.subscribe_as(owner, &anybody())
    }

    fn subscribe_as(&self, owner: &Owner, caller: &ShareKey) -> Result<String, LimitReached> {
        let reservation = self.ledger.reserve(owner, caller)?;
        let filters = Filters::try_from(FilterRequest::default()).unwrap();
        let one = Subscription::new(filters, "dev", deps(None), FeedLimits::default());
        let id = one.id().to_string();
        self.held.fetch_add(1, Ordering::Relaxed);
        let lease = Box::new(Held(Arc::clone(&self.held)));
        reservation.insert_unless(|_| false, Arc::new(one), lease);
        Ok(id)
    }

    fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

fn anybody() -> ShareKey {
    ShareKey::Process
}

fn session(name: &str) -> Owner {
    Owner::Session(name.into())
}

#[test]
fn caps_are_kept_and_named() {
    let world = World::new(2, 3);
    let (a, b) = (session("a"), session("b"));
    world.subscribe(&a).unwrap();
    let second = world.subscribe(&a).unwrap();
    let refused = world.subscribe(&a).unwrap_err();
    assert_eq!(refused, LimitReached::PerSession { max: 2 });
    assert!(
        refused
            .to_string()
            .contains("--max-subscriptions-per-session")
    );
    world.subscribe(&b).unwrap();
    let refused = world.subscribe(&b).unwrap_err();
    assert_eq!(refused, LimitReached::Global { max: 3 });
    assert!(refused.to_string().contains("--max-subscriptions-global"));
    assert_eq!(world.ledger.end(&a, &second), UnsubscribeOutcome::Ended);
    world.subscribe(&b).unwrap();
    assert_eq!((world.ledger.len(), world.held()), (3, 3));
}

#[test]
fn a_caller_has_its_share_in_all_its_sessions_together() {
    let world = World {
        ledger: Ledger::new(SubscriptionLimits {
            per_session_max: 2,
            per_caller_max: 3,
            global_max: 6,
        }),
        held: Arc::default(),
    };
    let greedy = ShareKey::Caller("greedy".into());
    let taken: Vec<_> = (0..10)
        .map(|number| world.subscribe_as(&session(&number.to_string()), &greedy))
        .collect();
    assert_eq!(taken.iter().filter(|one| one.is_ok()).count(), 3);
    let refused = taken[9].clone().unwrap_err();
    assert_eq!(refused, LimitReached::PerCaller { max: 3 });
    assert!(refused.to_string().contains("--caller-share"));
    let modest = ShareKey::Caller("modest".into());
    for number in 0..3 {
        let own = session(&format!("modest {number}"));
        world.subscribe_as(&own, &modest).unwrap();
    }
    world.ledger.end_owner(&session("0"));
    world.subscribe_as(&session("11"), &greedy).unwrap();
}

#[test]
fn callers_without_a_name_have_a_session_s_worth_each() {
    let world = World::new(1, 10);
    let (near, far) = (
        ShareKey::address([192, 0, 2, 1].into()),
        ShareKey::address([192, 0, 2, 2].into()),
    );
    let anonymous = Owner::Caller("anonymous".into());
    world.subscribe_as(&anonymous, &near).unwrap();
    assert!(world.ledger.reserve(&anonymous, &near).is_err());
    let pending = world.ledger.reserve(&anonymous, &far).unwrap();
    assert!(world.ledger.reserve(&anonymous, &far).is_err());
    drop(pending);
    world.subscribe_as(&anonymous, &far).unwrap();
}

#[test]
fn a_place_that_is_not_filled_is_given_back() {
    let world = World::new(1, 1);
    let reservation = world.ledger.reserve(&session("a"), &anybody()).unwrap();
    assert!(world.ledger.reserve(&session("b"), &anybody()).is_err());
    drop(reservation);
    assert!(world.ledger.is_empty());
    world.subscribe(&session("b")).unwrap();
}

#[test]
fn nobody_else_can_see_or_end_a_subscription() {
    let world = World::new(2, 4);
    let (a, b) = (session("a"), session("b"));
    let id = world.subscribe(&a).unwrap();
    world.subscribe(&b).unwrap();
    let caller = Owner::Caller("a".into());
    for other in [&b, &caller, &session("nobody")] {
        assert_eq!(world.ledger.end(other, &id), UnsubscribeOutcome::Unknown);
        assert!(world.ledger.get(other, &id).is_none());
    }
    assert!(world.ledger.get(&a, &id).is_some());
    // Ended twice is ended; never there is unknown.
    assert_eq!(world.ledger.end(&a, &id), UnsubscribeOutcome::Ended);
    assert_eq!(world.ledger.end(&a, &id), UnsubscribeOutcome::AlreadyEnded);
    assert_eq!(world.ledger.end(&b, &id), UnsubscribeOutcome::Unknown);
    assert_eq!(world.ledger.end(&a, "sub-1"), UnsubscribeOutcome::Unknown);
    assert_eq!(world.ledger.list(&b).len(), 1);
}

#[test]
fn a_subscription_that_came_too_late_can_still_be_ended() {
    let world = World::new(2, 4);
    let a = session("a");
    let reservation = world.ledger.reserve(&a, &anybody()).unwrap();
    assert_eq!(world.ledger.end_owner(&a), 0);
    let filters = Filters::try_from(FilterRequest::default()).unwrap();
    let late = Subscription::new(filters, "dev", deps(None), FeedLimits::default());
    reservation.insert_unless(|_| false, Arc::new(late), Box::new(()));
    assert_eq!(world.ledger.end_owner(&a), 1);
    assert!(world.ledger.is_empty());
}

#[test]
fn where_one_will_do_it_stays_alone() {
    let world = World::new(3, 3);
    let a = session("a");
    let filters = Filters::try_from(FilterRequest::default()).unwrap();
    let fill = |reservation: Reservation, context: &str| {
        let one = Subscription::new(filters.clone(), context, deps(None), FeedLimits::default());
        world.held.fetch_add(1, Ordering::Relaxed);
        let lease = Box::new(Held(Arc::clone(&world.held)));
        reservation.insert_unless(|other| other.cluster() == context, Arc::new(one), lease)
    };
    let slots: Vec<_> = (0..3)
        .map(|_| world.ledger.reserve(&a, &anybody()).unwrap())
        .collect();
    let contexts = ["dev", "dev", "prod"];
    let stand: Vec<_> = (slots.into_iter().zip(contexts))
        .map(|(reservation, context)| fill(reservation, context))
        .collect();
    assert!(Arc::ptr_eq(&stand[0], &stand[1]));
    assert!(!Arc::ptr_eq(&stand[0], &stand[2]));
    assert_eq!((world.ledger.len(), world.held()), (2, 2));
    world.subscribe(&a).unwrap();
    // Another owner's does not count.
    world.ledger.end_owner(&a);
    world.subscribe(&a).unwrap();
    let b = session("b");
    let other = fill(world.ledger.reserve(&b, &anybody()).unwrap(), "dev");
    assert_eq!(world.ledger.list(&b)[0].id(), other.id());
}

#[test]
fn ten_thousand_came_and_went_and_nothing_is_left() {
    let world = World::new(10, 100);
    let a = session("a");
    for _ in 0..10_000 {
        let id = world.subscribe(&a).unwrap();
        assert_eq!(world.ledger.end(&a, &id), UnsubscribeOutcome::Ended);
    }
    assert_eq!((world.ledger.len(), world.held()), (0, 0));
    let tombstones = world.ledger.inner.lock().owners[&a].tombstones.len();
    assert_eq!(tombstones, TOMBSTONES_MAX);
    world.ledger.end_owner(&a);
    assert!(world.ledger.inner.lock().owners.is_empty());
}

proptest! {
    /// However they come and go: as many leases as subscriptions, never over a cap.
    #[test]
    fn leases_and_subscriptions_stay_in_step(
        steps in prop::collection::vec((0..3_u8, 0..3_usize, 0..6_usize), 0..60),
    ) {
        let world = World::new(3, 6);
        let mut ids: Vec<Vec<String>> = vec![Vec::new(); 3];
        for (what, who, which) in steps {
            let owner = session(&who.to_string());
            match what {
                0 => if let Ok(id) = world.subscribe(&owner) { ids[who].push(id); },
                1 => if let Some(id) = ids[who].get(which).cloned() {
                    ids[who].retain(|one| *one != id);
                    prop_assert_eq!(world.ledger.end(&owner, &id), UnsubscribeOutcome::Ended);
                },
                _ => {
                    let ended = world.ledger.end_owner(&owner);
                    prop_assert_eq!(ended, std::mem::take(&mut ids[who]).len());
                }
            }
            let there: usize = ids.iter().map(Vec::len).sum();
            prop_assert_eq!(world.ledger.len(), there);
            prop_assert_eq!(world.held(), there);
            prop_assert!(there <= 6 && ids.iter().all(|own| own.len() <= 3));
        }
    }
}
