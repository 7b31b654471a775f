use std::pin::pin;

use rmcp::model::EmptyResult;
use serde_json::{Value, json};

use super::*;

fn sent(requests: &ServerRequests) -> Option<Value> {
    let mut cx = Context::from_waker(Waker::noop());
    match requests.poll_next(&mut cx) {
        Poll::Ready(frame) => Some(serde_json::from_slice(&frame).unwrap()),
        Poll::Pending => None,
    }
}

fn poll(ping: std::pin::Pin<&mut impl Future<Output = bool>>) -> Poll<bool> {
    ping.poll(&mut Context::from_waker(Waker::noop()))
}

fn empty() -> ClientResult {
    ClientResult::EmptyResult(EmptyResult {})
}

#[test]
fn each_ping_has_its_own_id_and_only_its_own_answer_counts() {
    let requests = ServerRequests::default();
    let mut first = pin!(requests.ping());
    let mut second = pin!(requests.ping());
    let mut third = pin!(requests.ping());
    for ping in [first.as_mut(), second.as_mut(), third.as_mut()] {
        assert_eq!(poll(ping), Poll::Pending);
    }
    for id in 1..=3 {
        let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        assert_eq!(sent(&requests), Some(ping));
    }
    assert_eq!(sent(&requests), None);
    requests.reply(&RequestId::Number(9), Some(&empty()));
    requests.reply(&RequestId::String("2".into()), Some(&empty()));
    assert_eq!(poll(second), Poll::Ready(true), "a number as a string");
    assert_eq!(poll(first.as_mut()), Poll::Pending);
    requests.reply(&RequestId::Number(1), None);
    assert_eq!(poll(first), Poll::Ready(false), "an error is no answer");
    requests.end();
    assert_eq!(poll(third), Poll::Ready(false), "the session has ended");
}

#[test]
fn pings_that_were_given_up_are_forgotten_and_those_that_nobody_takes_are_bounded() {
    let requests = ServerRequests::default();
    for _ in 0..1000 {
        let mut ping = pin!(requests.ping());
        let _pending = poll(ping.as_mut());
    }
    let state = requests.state.lock();
    assert_eq!(state.waiting.len(), WAITING_MAX);
    assert!(state.unanswered.len() <= WAITING_MAX, "of them, none waits");
}
