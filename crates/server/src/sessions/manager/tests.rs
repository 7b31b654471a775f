use proptest::prelude::*;
use tokio::{task::JoinSet, time::advance};

use super::*;
use crate::sessions::http_session::ActivityKind;

fn sessions(idle_timeout: Duration) -> Arc<Sessions> {
    let limits = SessionLimits {
        idle_timeout,
        ..SessionLimits::default()
    };
    let metrics = mcp_notify::Metrics::default();
    Arc::new(Sessions::new(limits, metrics, AnswerMetrics::default()))
}

fn begin(sessions: &Sessions) -> Arc<HttpSession> {
    sessions.create().unwrap()
}

/// Lets time pass, with every sweep that is due in it.
async fn pass(sessions: &Sessions, time: Duration) {
    let mut left = time;
    while !left.is_zero() {
        let step = left.min(Duration::from_secs(1));
        advance(step).await;
        left -= step;
        sessions.sweep_once();
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_stream_is_gone_ends_in_45_seconds_whatever_its_idle_timeout() {
    for idle_timeout in [Duration::from_mins(5), Duration::from_hours(10)] {
        let sessions = sessions(idle_timeout);
        let vanished = begin(&sessions);
        let never_had_one = begin(&sessions);
        let stays = begin(&sessions);
        let open = stays.begin_activity(ActivityKind::Stream);
        let ended = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        (vanished.session())
            .on_close(move |_| seen.store(true, std::sync::atomic::Ordering::SeqCst));
        let stop = CancellationToken::new();
        let mut sweeping = JoinSet::new();
        sweeping.spawn(Arc::clone(&sessions).sweep(stop.clone()));
        drop(vanished.begin_activity(ActivityKind::Stream));
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert_eq!(sessions.count(), 3, "it may still come back");
        tokio::time::sleep(Duration::from_secs(16)).await;
        assert_eq!(sessions.count(), 2, "45 s");
        assert!(
            ended.load(std::sync::atomic::Ordering::SeqCst),
            "with all that it had"
        );
        for left in [&stays, &never_had_one] {
            assert!(sessions.get(left.session().id()).is_some());
        }
        drop(open);
        stop.cancel();
        sweeping.join_all().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_comes_back_in_time_is_kept_and_one_that_only_posts_has_its_idle_timeout() {
    let sessions = sessions(Duration::from_mins(5));
    let back = begin(&sessions);
    drop(back.begin_activity(ActivityKind::Stream));
    pass(&sessions, Duration::from_secs(25)).await;
    // A newer stream takes over; the older one ends after it has begun.
    let first = back.begin_activity(ActivityKind::Stream);
    let second = back.begin_activity(ActivityKind::Stream);
    drop(first);
    pass(&sessions, Duration::from_mins(20)).await;
    assert_eq!(sessions.count(), 1);
    // It goes on without a stream: a client may never open another one.
    drop(second);
    pass(&sessions, Duration::from_secs(20)).await;
    drop(back.begin_activity(ActivityKind::Post));
    pass(&sessions, Duration::from_secs(299)).await;
    assert_eq!(sessions.count(), 1);
    pass(&sessions, Duration::from_secs(2)).await;
    assert_eq!(sessions.count(), 0);
    // A request that was under way when the stream broke is no sign of life.
    let gone = begin(&sessions);
    let stream = gone.begin_activity(ActivityKind::Stream);
    let post = gone.begin_activity(ActivityKind::Post);
    drop(stream);
    drop(post);
    pass(&sessions, Duration::from_secs(40)).await;
    assert_eq!(sessions.count(), 0);
}

/// What a client does next, and for how long it is silent then.
#[derive(Clone, Copy, Debug)]
enum Step {
    OpenStream,
    CloseStream,
    Post,
    Silence(u64),
}

proptest! {
    #[test]
    fn a_session_ends_by_its_rule_whatever_it_has_done(steps in prop::collection::vec(
        prop_oneof![
            Just(Step::OpenStream),
            Just(Step::CloseStream),
            Just(Step::Post),
            (1..400_u64).prop_map(Step::Silence),
        ],
        1..12,
    )) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let idle_timeout = Duration::from_mins(5);
            let sessions = sessions(idle_timeout);
            let entry = begin(&sessions);
            let mut streams = Vec::new();
            let (mut silent, mut lost) = (Duration::ZERO, false);
            for step in steps {
                match step {
                    Step::OpenStream => {
                        streams.push(entry.begin_activity(ActivityKind::Stream));
                        (silent, lost) = (Duration::ZERO, false);
                    }
                    Step::CloseStream => if streams.pop().is_some() {
                        silent = Duration::ZERO;
                        lost |= streams.is_empty();
                    }
                    Step::Post => {
                        entry.touch();
                        (silent, lost) = (Duration::ZERO, false);
                    }
                    Step::Silence(seconds) => {
                        let time = Duration::from_secs(seconds);
                        pass(&sessions, time).await;
                        if streams.is_empty() {
                            silent += time;
                        }
                    }
                }
                let limit = if lost { VANISHED_AFTER } else { idle_timeout };
                let is_there = sessions.get(entry.session().id()).is_some();
                assert_eq!(is_there, silent < limit, "{step:?} {silent:?}");
                if !is_there {
                    return;
                }
            }
        });
    }
}
