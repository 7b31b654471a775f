//! Tasks, on paused time.

use std::{
    future::pending,
    sync::atomic::{AtomicU8, Ordering},
};

use futures_util::future::BoxFuture;
use mcp_notify::{Admission, Gate as _};
use rmcp::model::{ContentBlock, TaskStatus};
use tokio::time::sleep;

use kubecrier_core::{
    KubernetesUser,
    access::{AccessDecisions, AccessQuestion, AccessReviewer, Action, ReviewError},
    metrics::Metrics,
};

use super::*;

type Answer = Result<CallToolResult, ErrorData>;

fn tasks() -> Tasks {
    Tasks::new(Lifecycle::default())
}

fn done() -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text("done")])
}

/// Starts a task that needs no rights.
fn start(
    tasks: &Tasks,
    caller: &Caller,
    timeout: Duration,
    work: impl Future<Output = Answer> + Send + 'static,
) -> Task {
    let rights = TaskRights::default();
    tasks.start(caller, TaskKind::Wait, rights, timeout, "working", work)
}

async fn shown(entry: &TaskEntry) -> DetailedTask {
    entry.show().await.unwrap().task
}

async fn status(tasks: &Tasks, caller: &Caller, id: &str) -> Option<TaskStatus> {
    let entry = tasks.get(caller, id)?;
    Some(shown(&entry).await.status())
}

#[tokio::test(start_paused = true)]
async fn a_task_is_its_callers_and_is_gone_after_its_time() {
    let tasks = tasks();
    let (ann, bob) = (Caller::named("ann"), Caller::named("bob"));
    let work = async {
        sleep(Duration::from_secs(30)).await;
        Ok(done())
    };
    let task = start(&tasks, &ann, Duration::from_hours(1), work);
    assert_eq!(task.poll_interval_ms, Some(2000));
    assert_eq!(task.ttl_ms, Some(70 * 60 * 1000));
    let id = task.task_id.as_str();
    assert_eq!(status(&tasks, &ann, id).await, Some(TaskStatus::Working));
    assert_eq!(status(&tasks, &bob, id).await, None);
    assert_eq!(status(&tasks, &Caller::ANONYMOUS, id).await, None);
    sleep(Duration::from_secs(31)).await;
    let ended = shown(&tasks.get(&ann, id).unwrap()).await;
    let TaskPayload::Completed { result } = &ended.payload else {
        panic!("{ended:?}");
    };
    assert_eq!(result["content"][0]["text"], "done");
    // Kept for as long as it says, and no longer.
    let kept = Duration::from_millis(ended.task.ttl_ms.unwrap());
    sleep(kept.saturating_sub(Duration::from_secs(32))).await;
    assert_eq!(status(&tasks, &ann, id).await, Some(TaskStatus::Completed));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(status(&tasks, &ann, id).await, None);
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
    let id = start(&tasks, &ann, Duration::from_hours(1), work).task_id;
    let entry = tasks.get(&ann, &id).unwrap();
    entry.cancel();
    held.cancelled().await;
    entry.ended().await;
    assert_eq!(status(&tasks, &ann, &id).await, Some(TaskStatus::Cancelled));
    entry.cancel();
    assert_eq!(status(&tasks, &ann, &id).await, Some(TaskStatus::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_nobody_asks_for_ends_and_one_that_is_polled_or_listened_to_does_not() {
    let (tasks, ann) = (tasks(), Caller::named("ann"));
    let start = || {
        let task = start(&tasks, &ann, Duration::from_hours(2), pending());
        tasks.get(&ann, &task.task_id).unwrap()
    };
    let (left, polled, listened) = (start(), start(), start());
    let listening = listened.ended();
    let polling = async {
        for _ in 0..30 {
            sleep(Duration::from_mins(2)).await;
            assert_eq!(
                status(&tasks, &ann, &polled.id).await,
                Some(TaskStatus::Working)
            );
        }
    };
    tokio::select! {
        () = listening => panic!("nothing ends it"),
        () = polling => {}
    }
    assert_eq!(shown(&listened).await.status(), TaskStatus::Working);
    let ended = shown(&left).await;
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
    let failed = start(&tasks, &ann, Duration::from_secs(1), async { Err(error) });
    let refused = CallToolResult::error(vec![ContentBlock::text("no")]);
    let completed = start(&tasks, &ann, Duration::from_secs(1), async { Ok(refused) });
    for id in [&failed.task_id, &completed.task_id] {
        tasks.get(&ann, id).unwrap().ended().await;
    }
    let failed = shown(&tasks.get(&ann, &failed.task_id).unwrap()).await;
    let TaskPayload::Failed { error } = &failed.payload else {
        panic!("{failed:?}");
    };
    assert_eq!(error["message"], "broken");
    let completed = shown(&tasks.get(&ann, &completed.task_id).unwrap()).await;
    assert_eq!(completed.status(), TaskStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn the_oldest_answers_of_a_caller_make_room() {
    let (tasks, ann, bob) = (tasks(), Caller::named("ann"), Caller::named("bob"));
    let start = |caller: &Caller| {
        start(&tasks, caller, Duration::from_hours(1), async {
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

/// A user with other groups, or another user of the same caller, is another owner.
#[tokio::test(start_paused = true)]
async fn a_task_belongs_to_the_user_and_groups_that_it_was_started_with() {
    let tasks = tasks();
    let ann = |user: &str, groups: &[&str]| {
        let user = KubernetesUser::new(user, groups.iter().copied()).unwrap();
        Caller::named("ann").acting_as(Arc::new(user))
    };
    let ops = ann("ann", &["ops", "dev"]);
    let id = start(&tasks, &ops, Duration::from_hours(1), async { Ok(done()) }).task_id;
    for other in [
        ann("ann", &["dev"]),
        ann("ann", &["ops", "dev", "more"]),
        ann("root", &["ops", "dev"]),
        Caller::named("ann"),
    ] {
        assert_eq!(status(&tasks, &other, &id).await, None, "{other:?}");
    }
    // A new token names the same user.
    let again = ann("ann", &["dev", "ops"]);
    assert!(status(&tasks, &again, &id).await.is_some());
}

/// An authorizer that allows, denies, or does not answer.
#[derive(Clone, Default)]
struct Authorizer(Arc<AtomicU8>);

impl Authorizer {
    const DENIES: u8 = 1;
    const FAILS: u8 = 2;
}

impl AccessReviewer for Authorizer {
    fn review<'a>(
        &'a self,
        _context: &'a str,
        _user: &'a KubernetesUser,
        _question: &'a AccessQuestion,
    ) -> BoxFuture<'a, Result<bool, ReviewError>> {
        let answer = match self.0.load(Ordering::Relaxed) {
            Self::DENIES => Ok(false),
            Self::FAILS => Err(ReviewError("away".to_owned())),
            _ => Ok(true),
        };
        Box::pin(async move { answer })
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_shown_while_its_user_has_the_rights_for_it() {
    let (tasks, ann, authorizer) = (tasks(), Caller::named("ann"), Authorizer::default());
    let access = Metrics::new().access();
    let decisions = AccessDecisions::new(authorizer.clone(), Lifecycle::default(), access);
    let user = Arc::new(KubernetesUser::new("ann", ["dev"]).unwrap());
    let viewer = decisions.viewer(&user);
    let rights = TaskRights::default();
    let (needed, right) = (
        rights.clone(),
        viewer
            .user()
            .unwrap()
            .right("dev", Action::GET_PODS, "shop"),
    );
    let work = async move {
        needed.add([right]);
        Ok(done())
    };
    let hour = Duration::from_hours(1);
    let task = tasks.start(&ann, TaskKind::Wait, rights, hour, "working", work);
    let entry = tasks.get(&ann, &task.task_id).unwrap();
    entry.ended().await;
    let told = async || {
        let shown = entry.show().await.unwrap();
        let text = serde_json::to_string(&shown.task).unwrap();
        assert_eq!(shown.task.status(), TaskStatus::Completed);
        assert_eq!(text.contains("done"), !shown.is_withheld, "{text}");
        assert_eq!(text.contains("forbidden"), shown.is_withheld, "{text}");
        shown
    };
    let shown = told().await;
    assert!(!shown.is_withheld);
    // It waits to be sent, and the right is gone meanwhile.
    authorizer.0.store(Authorizer::DENIES, Ordering::Relaxed);
    sleep(Duration::from_secs(40)).await;
    let gate = shown.gate.unwrap();
    let is_sent = match gate.admit() {
        Admission::Open => true,
        Admission::Pending(answer) => answer.await,
        _ => false,
    };
    assert!(!is_sent);
    assert!(told().await.is_withheld);
    authorizer.0.store(Authorizer::FAILS, Ordering::Relaxed);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(entry.show().await.unwrap_err(), Undecided);
    authorizer.0.store(0, Ordering::Relaxed);
    assert!(!told().await.is_withheld);
}
