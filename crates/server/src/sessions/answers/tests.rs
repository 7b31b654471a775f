use kubecrier_core::{metrics::AnswerMetrics, shares::ShareKey};
use proptest::prelude::*;
use rmcp::model::NumberOrString;
use serde_json::{Value, json};
use tokio::time::advance;

use super::*;
use crate::sessions::{SessionLimits, parking::Parking};

const PARK_FOR: Duration = Duration::from_mins(2);

fn request(id: i64) -> ClientJsonRpcMessage {
    serde_json::from_value(json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "slow", "_meta": {"progressToken": id}},
    }))
    .unwrap()
}

fn progress(id: i64, step: u64) -> ServerJsonRpcMessage {
    serde_json::from_value(json!({
        "jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": id, "progress": step},
    }))
    .unwrap()
}

fn response(id: i64) -> ServerJsonRpcMessage {
    let result = json!({"content": [{"type": "text", "text": "done"}]});
    serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "result": result})).unwrap()
}

fn parking() -> Parking {
    Parking::new(&SessionLimits::default(), AnswerMetrics::default())
}

/// Parks what is to be parked, as a session does.
fn park(answers: &mut Answers, parking: &Parking, unread: Option<u64>, now: Instant) {
    let Some(answer) = unread else { return };
    let events = answers.unread(answer).unwrap();
    let frames: Vec<_> = events.iter().map(AnswerEvent::frame).collect();
    let bytes = frames.iter().map(Bytes::len).sum();
    let permit = parking.acquire(&ShareKey::Process, bytes).unwrap();
    answers.park(answer, frames, permit, now + PARK_FOR);
}

fn unread(routed: Routed) -> Option<u64> {
    match routed {
        Routed::Unread(answer) => Some(answer),
        Routed::Taken => None,
        Routed::Other(message) => panic!("it belongs to a request: {message:?}"),
    }
}

/// Everything that a connection can read now, and whether that is all there will be.
fn read(answers: &mut Answers, connection: Connection, next: &mut u64) -> (Vec<Value>, bool) {
    let mut all = Vec::new();
    loop {
        match answers.poll(connection, next, Waker::noop()) {
            Poll::Ready(Some(Read::Event(_, event))) => {
                all.push(serde_json::from_slice(&event.frame()).unwrap());
            }
            Poll::Ready(Some(Read::Missing(count))) => all.push(json!({"missing": count})),
            Poll::Ready(None) => return (all, true),
            Poll::Pending => return (all, false),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_asks_nothing_keeps_no_room_for_answers() {
    for is_resumable in [false, true] {
        let mut answers = Answers::default();
        for id in 0..50 {
            let now = Instant::now();
            let connection = answers.register(&request(id), is_resumable, now).unwrap();
            answers.route(response(id));
            assert_eq!(read(&mut answers, connection, &mut 1).0.len(), 1);
            assert_eq!(answers.disconnect(connection, true, now), None);
        }
        assert_eq!(answers.open.capacity(), 0);
        assert_eq!(answers.by_request.capacity(), 0);
        assert_eq!(answers.by_token.capacity(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_written_at_once_is_not_kept_and_its_loss_is_told() {
    let mut answers = Answers::default();
    let began = Instant::now();
    let connection = answers.register(&request(7), true, began).unwrap();
    assert!(
        answers.register(&request(7), true, began).is_none(),
        "taken"
    );
    assert_eq!(unread(answers.route(response(7))), None);
    let (seen, is_all) = read(&mut answers, connection, &mut 1);
    assert!(is_all && seen[0]["id"] == 7, "{seen:?}");
    assert_eq!(answers.disconnect(connection, true, Instant::now()), None);
    assert!(
        answers.open.is_empty() && answers.by_request.is_empty() && answers.by_token.is_empty()
    );
    let primed = EventId {
        answer: 1,
        event: 0,
    };
    let lost = answers.resume(primed).unwrap_err();
    assert!(
        matches!(
            lost,
            NotResumed::Lost(NumberOrString::Number(7), LossReason::Written)
        ),
        "{lost:?}"
    );
    // It has the answer, or claims what was never sent.
    let at = |event| EventId { answer: 1, event };
    assert!(matches!(answers.resume(at(1)), Err(NotResumed::Complete)));
    assert!(matches!(answers.resume(at(2)), Err(NotResumed::NeverSent)));
    let next = EventId {
        answer: 2,
        event: 0,
    };
    assert!(matches!(answers.resume(next), Err(NotResumed::NeverSent)));
    // The id is free again, and what is long gone is gone.
    for _ in 0..=LOST_MAX {
        let connection = answers.register(&request(7), true, began).unwrap();
        answers.route(response(7));
        let (_, is_all) = read(&mut answers, connection, &mut 1);
        answers.disconnect(connection, is_all, Instant::now());
    }
    assert!(matches!(answers.resume(primed), Err(NotResumed::Forgotten)));
    assert_eq!(answers.lost.len(), LOST_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_cannot_resume_leaves_nothing_behind() {
    let mut answers = Answers::default();
    let connection = answers
        .register(&request(1), false, Instant::now())
        .unwrap();
    answers.route(progress(1, 1));
    assert_eq!(answers.disconnect(connection, false, Instant::now()), None);
    answers.route(progress(1, 2));
    assert!(answers.open[&1].events.is_empty());
    assert!(
        answers
            .register(&request(1), false, Instant::now())
            .is_none(),
        "it still runs"
    );
    assert_eq!(unread(answers.route(response(1))), None);
    assert!(answers.open.is_empty());
    let primed = EventId {
        answer: 1,
        event: 0,
    };
    assert!(matches!(answers.resume(primed), Err(NotResumed::Forgotten)));
}

#[tokio::test(start_paused = true)]
async fn a_newer_connection_takes_over() {
    let mut answers = Answers::default();
    let first = answers.register(&request(1), true, Instant::now()).unwrap();
    answers.route(progress(1, 1));
    let second = answers
        .resume(EventId {
            answer: 1,
            event: 0,
        })
        .unwrap();
    assert_eq!(read(&mut answers, first, &mut 1), (Vec::new(), true));
    // That the older one ends changes nothing.
    assert_eq!(answers.disconnect(first, true, Instant::now()), None);
    answers.route(response(1));
    let (seen, is_all) = read(&mut answers, second, &mut 1);
    assert!(is_all && seen.len() == 2, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn of_much_progress_the_last_is_kept_and_the_rest_is_counted() {
    let mut answers = Answers::default();
    let connection = answers.register(&request(1), true, Instant::now()).unwrap();
    answers.disconnect(connection, false, Instant::now());
    for step in 1..=100 {
        answers.route(progress(1, step));
    }
    let again = answers
        .resume(EventId {
            answer: 1,
            event: 0,
        })
        .unwrap();
    let (seen, is_all) = read(&mut answers, again, &mut 1);
    assert!(!is_all);
    assert_eq!((seen.len(), &seen[0]), (65, &json!({"missing": 36})));
    assert_eq!(seen[1]["params"]["progress"], 37.0);
}

#[tokio::test(start_paused = true)]
async fn cancelled_answers_and_those_of_an_ended_session_are_dropped() {
    let (mut answers, parking) = (Answers::default(), parking());
    for id in [1, 2, 3] {
        let connection = answers
            .register(&request(id), true, Instant::now())
            .unwrap();
        answers.disconnect(connection, false, Instant::now());
    }
    let unread = unread(answers.route(response(1)));
    park(&mut answers, &parking, unread, Instant::now());
    assert!(parking.bytes() > 0);
    assert!(answers.cancel(&NumberOrString::Number(1)), "parked");
    assert_eq!(parking.bytes(), 0);
    assert!(!answers.cancel(&NumberOrString::Number(2)), "running");
    assert!(!answers.cancel(&NumberOrString::Number(9)));
    for answer in [1, 2] {
        let lost = answers.resume(EventId { answer, event: 0 });
        assert!(matches!(
            lost,
            Err(NotResumed::Lost(_, LossReason::Cancelled))
        ));
    }
    assert!(
        matches!(answers.route(response(2)), Routed::Other(_)),
        "nobody asks"
    );
    let routed = answers.route(response(3));
    assert!(matches!(routed, Routed::Unread(3)));
    park(&mut answers, &parking, Some(3), Instant::now());
    assert_eq!(answers.end(), 1);
    assert_eq!(parking.bytes(), 0);
    assert!(answers.open.is_empty() && answers.by_request.is_empty());
    // A request that was on its way when the session ended does not wait for ever.
    let late = answers.register(&request(4), true, Instant::now()).unwrap();
    assert_eq!(read(&mut answers, late, &mut 1), (Vec::new(), true));
}

#[test]
fn ids_are_read_as_they_are_written_and_nothing_else_is_one() {
    for (answer, event) in [(1, 0), (7, 12), (u64::MAX, u64::MAX)] {
        let id = EventId { answer, event };
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    for text in [
        "",
        "-",
        "1",
        "1-",
        "-1",
        "1-+2",
        "1-2-3",
        "a-1",
        "1-99999999999999999999",
    ] {
        assert_eq!(text.parse::<EventId>(), Err(()), "{text}");
    }
}

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
enum Step {
    Progress,
    Answer,
    /// The connection takes what there is; whether it arrives.
    Read(bool),
    Cut,
    Resume,
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Progress),
        1 => Just(Step::Answer),
        3 => any::<bool>().prop_map(Step::Read),
        2 => Just(Step::Cut),
        2 => Just(Step::Resume),
        1 => (0..3000_u64).prop_map(Step::Pass),
        1 => (0..200_000_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    /// A client reads every message once and in order, however often its connection breaks
    /// and whatever arrives; or it is told why it cannot.
    #[test]
    fn a_client_that_resumes_misses_nothing_and_gets_nothing_twice(steps in steps()) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (mut answers, parking) = (Answers::default(), parking());
            let began = Instant::now();
            let connection = answers.register(&request(1), true, began).unwrap();
            let mut reading = Some((connection, 1, false, true));
            let (mut sent, mut is_answered, mut seen) = (0, false, 0);
            let mut written_at = None;
            for step in steps.into_iter().chain([Step::Answer, Step::Cut, Step::Resume, Step::Read(true)]) {
                let now = Instant::now();
                match step {
                    Step::Progress | Step::Answer if is_answered => {}
                    Step::Progress => {
                        sent += 1;
                        answers.route(progress(1, sent));
                    }
                    Step::Answer => {
                        (sent, is_answered) = (sent + 1, true);
                        let unread = unread(answers.route(response(1)));
                        park(&mut answers, &parking, unread, now);
                    }
                    Step::Read(arrives) => if let Some((connection, next, took_all, alive)) = &mut reading {
                        *alive &= arrives;
                        let from = *next;
                        let (events, is_all) = read(&mut answers, *connection, next);
                        assert!(events.iter().all(|event| event.get("missing").is_none()));
                        *took_all |= is_all;
                        if is_all && written_at.is_none() {
                            written_at = Some(now);
                        }
                        if *alive {
                            assert_eq!(from, seen + 1, "in order, once");
                            seen += events.len() as u64;
                        }
                    }
                    Step::Cut => if let Some((connection, _, took_all, _)) = reading.take() {
                        let unread = answers.disconnect(connection, took_all, now);
                        park(&mut answers, &parking, unread, now);
                    }
                    Step::Resume => {
                        if let Some((connection, _, took_all, _)) = reading.take() {
                            let unread = answers.disconnect(connection, took_all, now);
                            park(&mut answers, &parking, unread, now);
                        }
                        answers.expire(now);
                        match answers.resume(EventId { answer: 1, event: seen }) {
                            Ok(connection) => reading = Some((connection, seen + 1, false, true)),
                            Err(NotResumed::Complete) => assert_eq!((seen, is_answered), (sent, true)),
                            Err(NotResumed::Lost(_, LossReason::Written)) => {
                                assert!(written_at.unwrap() - began < HEALTHY_FOR);
                            }
                            Err(NotResumed::Lost(_, LossReason::Expired)) => {
                                assert!(is_answered && now - began >= PARK_FOR);
                            }
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                    Step::Pass(millis) => {
                        advance(Duration::from_millis(millis)).await;
                        answers.expire(Instant::now());
                    }
                }
                let parked = answers.open.values().any(|one| matches!(one.state, AnswerState::Parked { .. }));
                assert_eq!(parking.bytes() > 0, parked, "counted while it is parked, and only then");
            }
            assert!(answers.by_request.is_empty() && answers.by_token.is_empty());
            if reading.is_some() {
                assert_eq!(seen, sent, "everything arrived");
            }
            advance(PARK_FOR).await;
            if let Some((connection, _, took_all, _)) = reading.take() {
                answers.disconnect(connection, took_all, Instant::now());
            }
            answers.expire(Instant::now());
            assert_eq!(parking.bytes(), 0, "nothing is kept for ever");
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_goes_on_elsewhere_answers_those_that_wait_here_and_keeps_nothing() {
    let (mut answers, parking) = (Answers::default(), parking());
    let begin = |answers: &mut Answers, id| {
        let connection = answers.register(&request(id), true, Instant::now());
        connection.unwrap()
    };
    let (waits, gone, parked) = (
        begin(&mut answers, 1),
        begin(&mut answers, 2),
        begin(&mut answers, 3),
    );
    for lost in [gone, parked] {
        assert_eq!(answers.disconnect(lost, false, Instant::now()), None);
    }
    let complete = unread(answers.route(response(3)));
    park(&mut answers, &parking, complete, Instant::now());
    let (unread, dropped) = answers.leave();
    assert_eq!(unread, [NumberOrString::Number(2)], "nobody can read it");
    assert_eq!((dropped, parking.bytes()), (1, 0));
    let mut next = 1;
    assert_eq!(read(&mut answers, waits, &mut next), (vec![], false));
    for message in [progress(1, 1), response(1)] {
        assert!(matches!(answers.route(message), Routed::Taken));
    }
    let (all, is_all) = read(&mut answers, waits, &mut next);
    assert!(
        is_all && all.len() == 2 && all[1]["result"].is_object(),
        "{all:?}"
    );
    advance(HEALTHY_FOR).await;
    assert_eq!(answers.disconnect(waits, true, Instant::now()), None);
    assert!(answers.open.is_empty(), "nothing is kept for a resume");
    // One that was on its way when the session left is answered, and then it is over, too.
    let late = begin(&mut answers, 4);
    assert_eq!(answers.abandoned(late), None);
    assert_eq!(answers.disconnect(late, false, Instant::now()), None);
    assert_eq!(answers.abandoned(late), Some(NumberOrString::Number(4)));
}

#[test]
fn the_ids_of_another_process_lead_to_no_answer_of_this_one() {
    let mut before = Answers::beginning_after(1 << 48);
    let mut after = Answers::beginning_after(1 << 49);
    let begin = |answers: &mut Answers| answers.register(&request(1), true, Instant::now());
    let (old, new) = (begin(&mut before).unwrap(), begin(&mut after).unwrap());
    let id = |answer| EventId { answer, event: 0 };
    for elsewheres in [old.answer, new.answer + 1, 1] {
        let resumed = after.resume(id(elsewheres));
        assert!(matches!(resumed, Err(NotResumed::Forgotten)), "{resumed:?}");
    }
    assert!(matches!(after.resume(id(0)), Err(NotResumed::NeverSent)));
    assert_eq!(after.resume(id(new.answer)).unwrap().answer, new.answer);
}
