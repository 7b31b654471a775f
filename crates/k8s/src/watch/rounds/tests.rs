use std::sync::Arc;

use proptest::prelude::*;
use tokio::{sync::Notify, task::JoinSet, time::advance};

use super::*;

/// The time from the beginning of a round whose streams take so long until the next may
/// begin.
async fn until_next(rounds: &mut Rounds, streams: usize, each: Duration) -> Duration {
    let woken = Arc::new(Notify::new());
    let mut writing = JoinSet::new();
    for _ in 0..streams {
        let woken = Arc::clone(&woken);
        writing.spawn(async move {
            woken.notified().await;
            advance(each).await;
        });
    }
    // All streams wait for a message, before there is one.
    for _ in 0..=streams {
        yield_now().await;
    }
    let began = Instant::now();
    rounds.begin(|| {
        woken.notify_waiters();
        streams
    });
    rounds.rested().await;
    let until_next = began.elapsed();
    assert!(until_next >= each * u32::try_from(streams).unwrap());
    until_next
}

#[tokio::test(start_paused = true)]
async fn a_round_begins_when_the_one_before_is_written_and_has_rested() {
    let mut rounds = Rounds::default();
    let micros = Duration::from_micros;
    assert_eq!(until_next(&mut rounds, 0, micros(0)).await, micros(0));
    let few = until_next(&mut rounds, 2, micros(20)).await;
    assert_eq!(few, micros(40), "few subscribers: no rest");
    let many = until_next(&mut rounds, 100, micros(10)).await;
    // The clock has whole milliseconds.
    let expected = micros(1000) * (1 + REST);
    assert!(
        (expected..expected + micros(1001)).contains(&many),
        "{many:?}"
    );
    let long = Duration::from_secs(5);
    let rest = until_next(&mut rounds, 100, long)
        .await
        .saturating_sub(long * 100);
    assert!(
        (REST_MAX..REST_MAX + micros(1001)).contains(&rest),
        "{rest:?}"
    );
}

/// A single subscriber's round takes long only if something else has the cores.
#[tokio::test(start_paused = true)]
async fn a_busy_machine_makes_no_single_subscriber_wait() {
    let mut rounds = Rounds::default();
    let long = Duration::from_millis(50);
    assert_eq!(until_next(&mut rounds, 1, long).await, long);
}

/// The time of a round is that of its writing, and not that until the next event.
#[tokio::test(start_paused = true)]
async fn a_long_silence_is_no_long_round() {
    let mut rounds = Rounds::default();
    rounds.begin(|| 1);
    rounds.written().await;
    advance(Duration::from_mins(5)).await;
    let before = Instant::now();
    rounds.rested().await;
    assert_eq!(before.elapsed(), Duration::ZERO);
}

proptest! {
    #[test]
    fn a_rest_is_earned_and_bounded(micros in 0..10_000_000_u64, reached in 0..10_000_usize) {
        let written_in = Duration::from_micros(micros);
        let own = written_in.min(WRITING_EACH_MAX * u32::try_from(reached).unwrap());
        match rest_after(written_in, reached) {
            Some(rest) => {
                prop_assert!(rest <= written_in * REST && rest <= REST_MAX);
                prop_assert!(rest == own * REST || rest == REST_MAX);
            }
            None => prop_assert!(own * REST < REST_MIN),
        }
    }
}
