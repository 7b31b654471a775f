//! Tasks, on paused time.

use std::future::pending;

use rmcp::model::{ContentBlock, TaskStatus};
use tokio::time::sleep;

use super::*;

type Answer = Result<CallToolResult, ErrorData>;

fn tasks() -> Tasks {
    Tasks::new(Lifecycle::default())
}

fn done() -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text("done")])
}

fn status(tasks: &Tasks, caller: &Caller, id: &str) -> Option<TaskStatus> {
    Some(tasks.get(caller, id)?.task().status())
}

#[tokio::test(start_paused = true)]
async fn a_task_is_its_callers_and_is_gone_after_its_time() {
    let tasks = tasks();
    let (ann, bob) = (Caller::named("ann"), Caller::named("bob"));
    let work = async {
        sleep(Duration::from_secs(30)).await;
        Ok(done())
    };
    let task = tasks.start(&ann, Duration::from_hours(1), "working", work);
    assert_eq!(task.poll_interval_ms, Some(2000));
    assert_eq!(task.ttl_ms, Some(70 * 60 * 1000));
    let id = task.task_id.as_str();
    assert_eq!(status(&tasks, &ann, id), Some(TaskStatus::Working));
    assert_eq!(status(&tasks, &bob, id), None);
    assert_eq!(status(&tasks, &Caller::ANONYMOUS, id), None);
    sleep(Duration::from_secs(31)).await;
    let ended = tasks.get(&ann, id).unwrap().task();
    let TaskPayload::Completed { result } = &ended.payload else {
        panic!("{ended:?}");
    };
    assert_eq!(result["content"][0]["text"], "done");
    // Kept for as long as it says, and no longer.
    let kept = Duration::from_millis(ended.task.ttl_ms.unwrap());
    sleep(kept.saturating_sub(Duration::from_secs(32))).await;
    assert_eq!(status(&tasks, &ann, id), Some(TaskStatus::Completed));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(status(&tasks, &ann, id), None);
    assert_eq!(tasks.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_frees_what_it_holds_at_once() {
    let (tasks, ann) = (tasks(), Caller::named("ann"));
    let held = CancellationToken::new();
    let guard = held.clone().drop_guard();
    let work = async move {
        let _held = guard;
        pending::<Answer>().await
    };
    let id = tasks
        .start(&ann, Duration::from_hours(1), "working", work)
        .task_id;
    let entry = tasks.get(&ann, &id).unwrap();
    entry.cancel();
    held.cancelled().await;
    entry.ended().await;
    assert_eq!(status(&tasks, &ann, &id), Some(TaskStatus::Cancelled));
    entry.cancel();
    assert_eq!(status(&tasks, &ann, &id), Some(TaskStatus::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_nobody_asks_for_ends_and_one_that_is_polled_or_listened_to_does_not() {
    let (tasks, ann) = (tasks(), Caller::named("ann"));
    let start = || {
        let task = tasks.start(&ann, Duration::from_hours(2), "working", pending());
        tasks.get(&ann, &task.task_id).unwrap()
    };
    let (left, polled, listened) = (start(), start(), start());
    let listening = listened.ended();
    let polling = async {
        for _ in 0..30 {
            sleep(Duration::from_mins(2)).await;
            assert_eq!(status(&tasks, &ann, &polled.id), Some(TaskStatus::Working));
        }
    };
    tokio::select! {
        () = listening => panic!("nothing ends it"),
        () = polling => {}
    }
    assert_eq!(listened.task().status(), TaskStatus::Working);
    let ended = left.task();
    assert_eq!(ended.status(), TaskStatus::Cancelled);
    assert_eq!(
        ended.task.status_message.unwrap(),
        "nobody asked for it any more"
    );
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_protocol_is_a_failed_task_and_one_of_the_tool_is_not() {
    let (tasks, ann) = (tasks(), Caller::named("ann"));
    let error = ErrorData::internal_error("broken", None);
    let failed = tasks.start(&ann, Duration::from_secs(1), "working", async {
        Err(error)
    });
    let refused = CallToolResult::error(vec![ContentBlock::text("no")]);
    let completed = tasks.start(&ann, Duration::from_secs(1), "working", async {
        Ok(refused)
    });
    for id in [&failed.task_id, &completed.task_id] {
        tasks.get(&ann, id).unwrap().ended().await;
    }
    let failed = tasks.get(&ann, &failed.task_id).unwrap().task();
    let TaskPayload::Failed { error } = &failed.payload else {
        panic!("{failed:?}");
    };
    assert_eq!(error["message"], "broken");
    let completed = tasks.get(&ann, &completed.task_id).unwrap().task();
    assert_eq!(completed.status(), TaskStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn the_oldest_answers_of_a_caller_make_room() {
    let (tasks, ann, bob) = (tasks(), Caller::named("ann"), Caller::named("bob"));
    let start = |caller: &Caller| {
        tasks
            .start(caller, Duration::from_hours(1), "working", async {
                Ok(done())
            })
            .task_id
    };
    let other = start(&bob);
    let mut ids = Vec::new();
    for _ in 0..ENDED_PER_CALLER_MAX + 5 {
        ids.push(start(&ann));
        sleep(Duration::from_millis(1)).await;
    }
    let kept = ids.iter().map(|id| tasks.get(&ann, id).is_some());
    let expected = (0..ids.len()).map(|at| at >= 5);
    assert!(kept.eq(expected));
    assert!(tasks.get(&bob, &other).is_some(), "another's stay");
}
