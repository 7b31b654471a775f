use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const NAME: LimitName = LimitName::new("watches", "--max-watches");

fn caller(number: usize) -> ShareKey {
    ShareKey::Caller(number.to_string().into())
}

#[test]
fn what_is_held_already_is_never_refused() {
    let claims = Claims::new(NAME, 2);
    let _first = claims.claim(&caller(1), vec!["a", "b"]).unwrap();
    let again = claims.claim(&caller(1), vec!["b"]).unwrap();
    let refused = claims.claim(&caller(1), vec!["b", "c"]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "this caller has 2 watches, and may have 2 (--caller-share of --max-watches)"
    );
    drop(again);
    // The same thing counts for another caller too, and leaves the first one's count alone.
    let _other = claims.claim(&caller(2), vec!["a", "c"]).unwrap();
    assert!(claims.claim(&caller(1), vec!["c"]).is_err());
}

#[test]
fn a_thing_that_is_several_counts_as_several() {
    let claims = Claims::new(NAME, 3);
    let whole = claims.claim(&caller(1), vec!["*"]).unwrap();
    claims.resolve(&"*", vec!["a", "b", "c"]).unwrap();
    let _one_of_them = claims.claim(&caller(1), vec!["b"]).unwrap();
    assert!(claims.claim(&caller(1), vec!["d"]).is_err());
    assert!(claims.resolve(&"*", vec!["a", "b", "c", "d"]).is_err());
    // It counts for everybody who claims it, and only for them.
    let _other = claims.claim(&caller(2), vec!["*"]).unwrap();
    assert!(claims.claim(&caller(2), vec!["d"]).is_err());
    let _third = claims.claim(&caller(3), vec!["d", "e", "f"]).unwrap();
    // Two names of one thing are one thing.
    let alias = claims.claim(&caller(4), vec!["all", "*.*"]).unwrap();
    claims.resolve(&"all", vec!["whole"]).unwrap();
    claims.resolve(&"*.*", vec!["whole"]).unwrap();
    let _two_more = claims.claim(&caller(4), vec!["x", "y"]).unwrap();
    drop((whole, alias));
    let _room = claims.claim(&caller(1), vec!["d", "e"]).unwrap();
}

#[test]
fn what_is_too_much_for_one_of_several_is_granted_to_the_others() {
    let claims = Claims::new(NAME, 2);
    let _full = claims.claim(&caller(1), vec!["x", "*"]).unwrap();
    let roomy = claims.claim(&caller(2), vec!["*"]).unwrap();
    claims.resolve(&"*", vec!["a", "b"]).unwrap();
    // The first one keeps what it has, and gets nothing more.
    assert!(claims.claim(&caller(1), vec!["y"]).is_err());
    let _again = claims.claim(&caller(1), vec!["x"]).unwrap();
    drop(roomy);
}

proptest! {
    #[test]
    fn a_caller_never_has_more_distinct_things_than_its_share(
        max in 1..6_usize,
        steps in prop::collection::vec((0..3_usize, prop::collection::vec(0..8_u8, 1..4), any::<bool>()), 0..80),
    ) {
        let claims = Claims::new(NAME, max);
        let mut held: Vec<(usize, Claim<u8>)> = Vec::new();
        for (who, things, release) in steps {
            if release && !held.is_empty() {
                let at = usize::from(things[0]) % held.len();
                held.swap_remove(at);
                continue;
            }
            let mut distinct: BTreeSet<u8> = BTreeSet::new();
            for (_, claim) in held.iter().filter(|(one, _)| *one == who) {
                distinct.extend(&claim.things);
            }
            distinct.extend(&things);
            let got = claims.claim(&caller(who), things);
            prop_assert_eq!(got.is_ok(), distinct.len() <= max);
            held.extend(got.ok().map(|claim| (who, claim)));
        }
        held.clear();
        let state = claims.inner.state.lock();
        prop_assert!(state.by_caller.is_empty() && state.things.is_empty(), "nothing is left");
    }
}
