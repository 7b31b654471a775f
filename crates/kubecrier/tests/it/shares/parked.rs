//! Answers that are kept for lost connections.

use super::{Shared, no_cluster};
use crate::resumed::{LARGE, call_and_lose, go, resume, slow_tools, text, until_metrics};

/// What does not fit into the share of one caller is an error that says so, and the other
/// keeps everything.
#[tokio::test]
async fn parked_answers() {
    let (file, project) = (no_cluster(), slow_tools());
    // Half of it is two large answers, and not three; all of it is five.
    let most = (5 * LARGE + 15_000).to_string();
    let arguments = [
        "--project-root",
        project.text(),
        "--max-parked-answer-bytes",
        &most,
    ];
    let shared = Shared::start(&file.path, &arguments).await;
    let more = shared.another("greedy").await;
    let mut lost = Vec::new();
    for (session, request) in [
        (shared.greedy(), 1),
        (&more, 1),
        (shared.greedy(), 2),
        (shared.modest(), 1),
        (shared.modest(), 2),
    ] {
        let id = call_and_lose(session, request, "large").await;
        lost.push((session, request, id));
    }
    go(&project, "large");
    let lines = [
        "kubecrier_parked_answers 4",
        r#"kubecrier_parked_answers_lost_total{reason="no_room"} 1"#,
    ];
    until_metrics(shared.modest(), &lines).await;
    let mut refused = Vec::new();
    for (index, (session, request, id)) in lost.iter().enumerate() {
        let (messages, _) = resume(session, id).await;
        let answer = messages.last().unwrap();
        assert_eq!(answer["id"], *request);
        match answer.get("error") {
            None => assert!(text(answer).len() >= LARGE - 1),
            Some(error) => refused.push((index, error.clone())),
        }
    }
    // Which of the greedy caller's calls was the last to be answered is open.
    let [(index, error)] = &refused[..] else {
        panic!("one too many: {refused:?}");
    };
    assert!(*index < 3, "the modest caller keeps what it has");
    assert_eq!(error["data"]["reason"], "no_room");
    let message = error["message"].as_str().unwrap();
    for word in [
        "this caller",
        "--caller-share of --max-parked-answer-bytes",
        "send the request again",
    ] {
        assert!(message.contains(word), "{message}");
    }
}
