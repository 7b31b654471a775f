mod cursors;
mod gates;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    task::{Wake, Waker},
};

use http_body::Body as _;
use mcp_notify::{Method, OutboxConfig, OutboxLimits, Session};
use proptest::prelude::*;

use super::*;
use crate::sessions::{SessionLimits, parking::Parking};
use kubecrier_core::{metrics::AnswerMetrics, shares::ShareKey};

fn entry(messages_max: usize) -> Arc<HttpSession> {
    let metrics = mcp_notify::Metrics::default();
    let sessions = Sessions::new(SessionLimits::default(), metrics, AnswerMetrics::default());
    let limits = OutboxLimits {
        messages_max,
        bytes_max: 1 << 20,
    };
    let session = Session::builder()
        .outbox(OutboxConfig::default().limits(limits))
        .build("s");
    let permit = sessions.acquire_current().unwrap();
    Arc::new(HttpSession::new(
        session,
        permit,
        None,
        Arc::new(Parking::new(
            &SessionLimits::default(),
            AnswerMetrics::default(),
        )),
        ShareKey::Process,
    ))
}

fn numbered(number: usize) -> Notification {
    let params = serde_json::json!({"level": "info", "data": number});
    Notification::builder(Method::MESSAGE)
        .params(&params)
        .build()
}

/// Everything the body has now, and whether it has ended.
fn drain(body: &mut SseStream) -> (String, bool) {
    let mut text = String::new();
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match Pin::new(&mut *body).poll_frame(&mut cx) {
            Poll::Ready(Some(Ok(frame))) => {
                text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
            }
            Poll::Ready(Some(Err(never))) => match never {},
            Poll::Ready(None) => return (text, true),
            Poll::Pending => return (text, false),
        }
    }
}

fn ids(text: &str) -> Vec<u64> {
    text.lines()
        .filter_map(|line| line.strip_prefix("id: ")?.parse().ok())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_written_in_order_and_counted_as_delivered() {
    let entry = entry(100);
    for number in 0..3 {
        let _queued = entry.session.push(numbered(number));
    }
    assert_eq!(
        entry.session.outbox().stats().pending,
        3,
        "no stream: pending, no success"
    );
    let mut body = SseStream::new(Arc::clone(&entry), None);
    let (text, ended) = drain(&mut body);
    assert_eq!(ids(&text), [1, 2, 3]);
    let places: Vec<_> = (0..3)
        .map(|n| text.find(&format!("\"data\":{n}")).unwrap())
        .collect();
    assert!(places.is_sorted(), "{text}");
    assert!(!ended);
    let stats = entry.session.outbox().stats();
    assert_eq!((stats.delivered, stats.pending, stats.dropped), (3, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_a_stalled_reader_lost_is_announced_in_its_place() {
    let entry = entry(4);
    for number in 0..10 {
        let _accounted = entry.session.push(numbered(number));
    }
    let (text, _) = drain(&mut SseStream::new(Arc::clone(&entry), None));
    let gap = text
        .find("notifications/stream/gap")
        .expect("the gap is told");
    assert!(text.contains("\"missing\":6"), "{text}");
    assert!(
        gap < text.find("\"data\":6").unwrap(),
        "before what came after it: {text}"
    );
    assert!(!text.contains("\"data\":5"));
    let stats = entry.session.outbox().stats();
    assert_eq!((stats.pushed, stats.delivered, stats.dropped), (10, 4, 6));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_away_for_too_long_is_told_how_much_it_missed() {
    let entry = entry(2000);
    for number in 0..1000 {
        let _queued = entry.session.push(numbered(number));
    }
    drop(drain(&mut SseStream::new(Arc::clone(&entry), None)));
    let (text, _) = drain(&mut SseStream::new(
        Arc::clone(&entry),
        StreamId::parse("10"),
    ));
    let shown = ids(&text);
    assert_eq!(shown.last(), Some(&1000));
    let missing = shown[0] - 11;
    assert!(
        missing > 0 && text.contains(&format!("\"missing\":{missing}")),
        "{}",
        &text[..200]
    );
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_shows_that_it_lives() {
    let entry = entry(4);
    let mut body = SseStream::new(entry, None);
    assert_eq!(drain(&mut body).0, "retry: 3000\n\n");
    assert_eq!(drain(&mut body).0, "");
    tokio::time::advance(KEEP_ALIVE + Duration::from_millis(1)).await;
    assert_eq!(drain(&mut body).0, ": alive\n\n");
    tokio::time::advance(KEEP_ALIVE / 2).await;
    assert_eq!(drain(&mut body).0, "", "not before it is due again");
    tokio::time::advance(KEEP_ALIVE).await;
    assert_eq!(drain(&mut body).0, ": alive\n\n");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_ends_its_stream() {
    let entry = entry(4);
    let mut body = SseStream::new(Arc::clone(&entry), None);
    drop(drain(&mut body));
    entry.session.close(mcp_notify::CloseReason::Requested);
    let (text, ended) = drain(&mut body);
    assert!(ended && text.contains("the session has ended"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn one_message_is_the_same_bytes_for_every_session() {
    let (one, two) = (entry(4), entry(4));
    let notification = numbered(7);
    let _queued = (
        one.session.push(notification.clone()),
        two.session.push(notification),
    );
    let frames = [&one, &two].map(|entry| {
        drop(drain(&mut SseStream::new(Arc::clone(entry), None)));
        let sending = entry.outbound.lock();
        sending.replay.after(0).messages[0].1.pieces()[0].as_ptr()
    });
    assert_eq!(frames[0], frames[1], "shared, not copied");
}

/// More than one chunk: a stream that takes over writes what the one before took.
#[tokio::test(start_paused = true)]
async fn what_a_stalled_stream_took_the_next_one_writes() {
    let entry = entry(1000);
    let params = serde_json::json!({"level": "info", "data": "x".repeat(10_000)});
    for _ in 0..20 {
        let large = Notification::builder(Method::MESSAGE)
            .params(&params)
            .build();
        let _queued = entry.session.push(large);
    }
    let mut cx = Context::from_waker(Waker::noop());
    let mut stalled = SseStream::new(Arc::clone(&entry), None);
    // The greeting and one chunk, then its socket is full.
    let mut seen = String::new();
    for _ in 0..2 {
        let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut stalled).poll_frame(&mut cx) else {
            panic!("there is more");
        };
        seen.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
    let _queued = entry.session.push(numbered(1));
    let mut next = SseStream::new(Arc::clone(&entry), None);
    let (rest, _) = drain(&mut next);
    let all: Vec<_> = ids(&seen).into_iter().chain(ids(&rest)).collect();
    assert_eq!(
        all,
        (1..=21).collect::<Vec<_>>(),
        "in order, none twice, none lost"
    );
    let last = rest.trim_end().lines().last().unwrap();
    assert!(
        last.contains("\"data\":1,"),
        "what came later comes last: {last}"
    );
    let (late, ended) = drain(&mut stalled);
    assert!(
        ended && ids(&late).is_empty() && late.contains("newer stream"),
        "{late}"
    );
}

proptest! {
    /// Streams that come and go, a reader that reads now and then: what arrives is
    /// in order, without a double, and what is missing is announced.
    #[test]
    fn nothing_is_doubled_and_nothing_is_missing_in_silence(
        steps in prop::collection::vec((0..8_usize, any::<bool>(), any::<bool>()), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _guard = runtime.enter();
        let entry = entry(6);
        let (mut pushed, mut text) = (0, String::new());
        let mut body = None;
        for (count, reads, reopens) in steps {
            for _ in 0..count {
                let _accounted = entry.session.push(numbered(pushed));
                pushed += 1;
            }
            if reopens {
                body = Some(SseStream::new(Arc::clone(&entry), None));
            }
            if let Some(body) = body.as_mut().filter(|_| reads) {
                text.push_str(&drain(body).0);
            }
        }
        let mut last = SseStream::new(Arc::clone(&entry), None);
        text.push_str(&drain(&mut last).0);
        let (mut next, mut missing) = (0, 0);
        for line in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            if let Some(gap) = message["params"]["missing"].as_u64() {
                missing += gap;
                next += gap;
            } else {
                prop_assert_eq!(message["params"]["data"].as_u64(), Some(next));
                next += 1;
            }
        }
        prop_assert_eq!(next, pushed as u64);
        prop_assert_eq!(entry.session.outbox().stats().dropped, missing);
    }
}

proptest! {
    #[test]
    fn fuzz_any_headers_are_answered_and_open_nothing(
        accept in "(text/event-stream|\\*/\\*|[ -~]{0,20})",
        session in prop::collection::vec(any::<u8>(), 0..60),
        version in "(2025-11-25|2026-07-28|[ -~]{0,12})",
        last in "[0-9a-z+ -]{0,24}",
    ) {
        let sessions = Arc::new(Sessions::new(
            SessionLimits::default(),
            mcp_notify::Metrics::default(),
            AnswerMetrics::default(),
        ));
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("accept", accept.as_bytes()),
            ("mcp-session-id", &session),
            ("mcp-protocol-version", version.as_bytes()),
            ("last-event-id", last.as_bytes()),
        ] {
            if let Ok(value) = HeaderValue::from_bytes(value) {
                headers.insert(name, value);
            }
        }
        for answer in [
            tokio_test::block_on(open(State(Arc::clone(&sessions)), headers.clone())),
            tokio_test::block_on(close(State(Arc::clone(&sessions)), headers)),
        ] {
            prop_assert!(answer.status().is_client_error(), "{}", answer.status());
        }
        prop_assert_eq!(sessions.count(), 0);
    }

    #[test]
    fn fuzz_the_last_event_id_is_one_of_ours_or_refused(
        last in "([0-9a-z+. -]{0,24}|[0-9]{0,21}-[0-9]{0,21})",
    ) {
        let mut headers = HeaderMap::new();
        headers.insert("last-event-id", HeaderValue::from_str(&last).unwrap());
        // Without a sign: `parse` would take one.
        let number = |text: &str| {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u64>().ok().filter(|_| is_plain)
        };
        let pair = last.split_once('-');
        let pair = pair.and_then(|(answer, event)| Some((number(answer)?, number(event)?)));
        match last_seen(&headers) {
            Ok(LastSeen::Stream(seen)) => {
                let (digits, _) = last.split_once('.').unwrap_or((&last, ""));
                prop_assert_eq!(Some(seen.number), number(digits));
                prop_assert_eq!(seen.at.is_some(), last.contains('.'));
            }
            Ok(LastSeen::Answer(id)) => prop_assert_eq!(Some((id.answer, id.event)), pair),
            Ok(LastSeen::Nothing) => prop_assert!(false, "there is one"),
            Err(()) => prop_assert!(number(&last).is_none() && pair.is_none()),
        }
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A message is written as soon as its stream has a turn, and everything that has come
/// until then in one write. Nothing else is waited for.
#[tokio::test(start_paused = true)]
async fn what_waits_is_written_at_once_and_together() {
    let entry = entry(100);
    let push = |number| {
        let _queued = entry.session.push(numbered(number));
    };
    let mut body = SseStream::new(Arc::clone(&entry), None);
    drop(drain(&mut body));
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let poll = |body: &mut SseStream| {
        let next = Pin::new(body).poll_frame(&mut Context::from_waker(&waker));
        match next {
            Poll::Ready(Some(Ok(frame))) => {
                let data = frame.into_data().unwrap();
                Some(ids(std::str::from_utf8(&data).unwrap()))
            }
            Poll::Ready(_) => panic!("it has ended"),
            Poll::Pending => None,
        }
    };
    let began = Instant::now();
    assert_eq!(poll(&mut body), None);
    push(0);
    assert_eq!(woken.0.load(Ordering::Relaxed), 1, "for the first");
    assert_eq!(poll(&mut body), Some(vec![1]), "alone");
    assert_eq!(poll(&mut body), None);
    for number in 1..4 {
        push(number);
    }
    assert_eq!(woken.0.load(Ordering::Relaxed), 2, "once for all");
    let mut ping = std::pin::pin!(entry.server_requests.ping());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(ping.as_mut().poll(&mut cx).is_pending());
    assert_eq!(poll(&mut body), Some(vec![2, 3, 4, 5]), "what we ask, too");
    assert_eq!(poll(&mut body), None);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// Messages that come again and again set no timer, and the comment is due a while after
/// the last of them.
#[tokio::test(start_paused = true)]
async fn a_stream_that_has_just_written_shows_that_it_lives_later() {
    let entry = entry(4);
    let mut body = SseStream::new(Arc::clone(&entry), None);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let poll = |body: &mut SseStream| {
        let next = Pin::new(body).poll_frame(&mut Context::from_waker(&waker));
        match next {
            Poll::Ready(Some(Ok(frame))) => Some(frame.into_data().unwrap()),
            Poll::Ready(_) => panic!("it has ended"),
            Poll::Pending => None,
        }
    };
    while poll(&mut body).is_some() {}
    let written = Duration::from_secs(10);
    tokio::time::advance(written).await;
    let _queued = entry.session.push(numbered(0));
    assert!(poll(&mut body).is_some());
    assert_eq!(poll(&mut body), None);
    // The timer is still set for the time before the message.
    let timer = KEEP_ALIVE.saturating_sub(written);
    tokio::time::advance(timer + Duration::from_millis(1)).await;
    assert_eq!(
        woken.0.swap(0, Ordering::Relaxed),
        2,
        "by the message and by the timer"
    );
    assert_eq!(poll(&mut body), None, "not yet");
    tokio::time::advance(written).await;
    assert_eq!(woken.0.load(Ordering::Relaxed), 1, "by the timer");
    assert_eq!(poll(&mut body).as_deref(), Some(&b": alive\n\n"[..]));
}

/// A stream may be polled by another task than before; the timer wakes the last one.
#[tokio::test(start_paused = true)]
async fn the_timer_wakes_who_asked_last() {
    let mut body = SseStream::new(entry(4), None);
    drop(drain(&mut body));
    let all = [Arc::new(Woken::default()), Arc::new(Woken::default())];
    for woken in &all {
        let waker = Waker::from(Arc::clone(woken));
        let next = Pin::new(&mut body).poll_frame(&mut Context::from_waker(&waker));
        assert!(next.is_pending());
    }
    tokio::time::advance(KEEP_ALIVE + Duration::from_millis(1)).await;
    assert_eq!(all.map(|woken| woken.0.load(Ordering::Relaxed)), [0, 1]);
    assert_eq!(drain(&mut body).0, ": alive\n\n");
}
