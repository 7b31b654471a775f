use tokio_util::sync::CancellationToken;

use super::*;

/// Begins work that can be seen to be cancelled.
fn begin(requests: &RunningRequests, id: Option<i64>) -> (RunNumber, CancellationToken) {
    let token = CancellationToken::new();
    let mut begun = None;
    requests.begin(id.map(RequestId::Number), |number| {
        begun = Some(number);
        token.clone().drop_guard()
    });
    (begun.unwrap_or(RunNumber(0)), token)
}

#[test]
fn a_request_is_cancelled_by_its_id_and_no_other_is() {
    let requests = RunningRequests::default();
    let (first, first_token) = begin(&requests, Some(1));
    let (second, second_token) = begin(&requests, Some(2));
    let (notification, notification_token) = begin(&requests, None);
    requests.cancel(&RequestId::Number(1));
    requests.cancel(&RequestId::Number(7));
    assert!(first_token.is_cancelled() && !requests.is_running(first));
    assert!(!second_token.is_cancelled() && requests.is_running(second));
    assert!(!notification_token.is_cancelled() && requests.is_running(notification));
    // Its id is free, and what is left of the cancelled one is not the new one's.
    let (again, again_token) = begin(&requests, Some(1));
    requests.finish(first);
    assert!(requests.is_running(again) && !again_token.is_cancelled());
}

#[test]
fn an_idle_session_keeps_no_room_and_one_that_has_ended_begins_nothing() {
    let requests = RunningRequests::default();
    let numbers: Vec<_> = (0..50).map(|id| begin(&requests, Some(id)).0).collect();
    for number in numbers {
        requests.finish(number);
    }
    assert_eq!(requests.state.lock().running.capacity(), 0);
    let (number, token) = begin(&requests, Some(1));
    requests.end();
    assert!(token.is_cancelled() && !requests.is_running(number));
    let (_, late) = begin(&requests, Some(2));
    assert!(!late.is_cancelled(), "it was not even started");
    assert_eq!(requests.state.lock().running.len(), 0);
}
