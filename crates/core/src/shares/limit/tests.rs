use proptest::prelude::*;
use tokio_test::{assert_pending, assert_ready, task::spawn};

use super::*;

const NAME: LimitName = LimitName::new("calls", "--max-calls");

fn caller(name: &str) -> ShareKey {
    ShareKey::Caller(name.into())
}

#[test]
fn the_error_says_whose_limit_it_is_and_which_flag_sets_it() {
    let limit = SharedLimit::new(NAME, 4, CallerShare::HALF);
    let _greedy = [(); 2].map(|()| limit.acquire(&caller("greedy")).unwrap());
    let refused = limit.acquire(&caller("greedy")).unwrap_err();
    assert!(refused.is_callers());
    assert_eq!(
        refused.to_string(),
        "this caller has 2 calls, and may have 2 (--caller-share of --max-calls)"
    );
    let _modest = limit.acquire_many(&caller("modest"), 2).unwrap();
    let refused = limit.acquire(&caller("third")).unwrap_err();
    assert!(!refused.is_callers());
    assert_eq!(
        refused.to_string(),
        "the server has 4 calls, and may have 4 (--max-calls)"
    );
}

#[test]
fn a_permit_that_cannot_grow_stays_as_it_was() {
    let limit = SharedLimit::new(NAME, 10, CallerShare::HALF);
    let mut permit = limit.acquire_many(&caller("a"), 3).unwrap();
    assert!(permit.grow(3).is_err());
    permit.grow(2).unwrap();
    assert_eq!(limit.used(), 5);
    drop(permit);
    assert_eq!(limit.used(), 0);
}

#[test]
fn one_that_waits_gets_the_next_permit_and_an_abandoned_wait_takes_none() {
    let limit = SharedLimit::new(NAME, 1, CallerShare::WHOLE);
    let first = limit.acquire(&caller("a")).unwrap();
    let key = caller("b");
    let mut abandoned = spawn(limit.wait(&key));
    assert_pending!(abandoned.poll());
    let mut waiting = spawn(limit.wait(&key));
    assert_pending!(waiting.poll());
    drop(abandoned);
    drop(first);
    assert!(waiting.is_woken());
    let second = assert_ready!(waiting.poll());
    assert_eq!(limit.used(), 1);
    drop(second);
    assert_eq!(limit.used(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Acquire { caller: usize, count: usize },
    Grow { at: usize, more: usize },
    Release { at: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4_usize, 1..4_usize).prop_map(|(caller, count)| Step::Acquire { caller, count }),
        1 => (any::<usize>(), 1..4_usize).prop_map(|(at, more)| Step::Grow { at, more }),
        2 => any::<usize>().prop_map(|at| Step::Release { at }),
    ]
}

proptest! {
    #[test]
    fn nobody_has_more_than_its_share_and_nothing_leaks(
        total in 1..40_usize, percent in 1..=100_u8, steps in prop::collection::vec(step(), 0..200),
    ) {
        let share = CallerShare::percent(percent);
        let limit = SharedLimit::new(NAME, total, share);
        let keys: Vec<_> = (0..4).map(|n| caller(&n.to_string())).collect();
        let mut held: Vec<(usize, Permit)> = Vec::new();
        for step in steps {
            let has = |who: usize, held: &[(usize, Permit)]| -> usize {
                held.iter().filter(|(one, _)| *one == who).map(|(_, permit)| permit.count).sum()
            };
            let all = held.iter().map(|(_, permit)| permit.count).sum::<usize>();
            match step {
                Step::Acquire { caller, count } => {
                    let fits = has(caller, &held) + count <= share.of(total) && all + count <= total;
                    let got = limit.acquire_many(&keys[caller], count);
                    prop_assert_eq!(got.is_ok(), fits);
                    held.extend(got.ok().map(|permit| (caller, permit)));
                }
                Step::Grow { at, more } if !held.is_empty() => {
                    let at = at % held.len();
                    let who = held[at].0;
                    let fits = has(who, &held) + more <= share.of(total) && all + more <= total;
                    prop_assert_eq!(held[at].1.grow(more).is_ok(), fits);
                }
                Step::Release { at } if !held.is_empty() => {
                    let at = at % held.len();
                    held.swap_remove(at);
                }
                Step::Grow { .. } | Step::Release { .. } => {}
            }
            let all = held.iter().map(|(_, permit)| permit.count).sum::<usize>();
            prop_assert_eq!(limit.used(), all);
        }
        held.clear();
        prop_assert_eq!(limit.used(), 0);
        prop_assert!(limit.inner.used.lock().by_caller.is_empty(), "no caller is remembered");
    }

    #[test]
    fn others_get_their_half_whatever_one_does(total in 2..60_usize, tries in 0..200_usize) {
        let limit = SharedLimit::new(NAME, total, CallerShare::HALF);
        let greedy: Vec<_> = (0..tries).filter_map(|_| limit.acquire(&caller("greedy")).ok()).collect();
        prop_assert!(greedy.len() <= total / 2);
        let modest: Vec<_> = (0..total / 2).map(|_| limit.acquire(&caller("modest"))).collect();
        prop_assert!(modest.iter().all(Result::is_ok));
    }
}
