use std::sync::atomic::AtomicU32;

use super::*;
use crate::{error::ErrorKind, startup::Startup};

const LINGER: Duration = Duration::from_secs(5);
const LIMIT: LimitName = LimitName::new("tasks", "--max-tasks");
const TASKS_MAX: usize = 3;

struct Fixture {
    tasks: SharedTasks<u32, u32>,
    lifecycle: Lifecycle,
    ends: Arc<Mutex<Vec<String>>>,
}

impl Fixture {
    fn new() -> Self {
        let lifecycle = Lifecycle::default();
        Self {
            tasks: SharedTasks::new("test", LINGER, (LIMIT, TASKS_MAX), lifecycle.clone()),
            lifecycle,
            ends: Arc::default(),
        }
    }

    fn start(&self, key: u32, value: u32, fails_after: Option<Duration>) -> Lease<u32> {
        self.start_for(None, key, value, fails_after)
    }

    fn start_for(
        &self,
        caller: Option<&ShareKey>,
        key: u32,
        value: u32,
        fails_after: Option<Duration>,
    ) -> Lease<u32> {
        let task = async move {
            match fails_after {
                Some(after) => sleep(after).await,
                None => std::future::pending().await,
            }
            failed()
        };
        let ends = Arc::clone(&self.ends);
        self.tasks
            .lock()
            .start(key, value, caller, task, move |value, end| {
                let end = match end {
                    TaskEnd::Failed(_) => "failed",
                    TaskEnd::Unused => "unused",
                    TaskEnd::Draining => "draining",
                };
                ends.lock().push(format!("{value} {end}"));
            })
    }

    async fn pass(&self, time: Duration) {
        sleep(time).await;
    }

    fn ends(&self) -> Vec<String> {
        self.ends.lock().clone()
    }
}

fn failed() -> ClusterError {
    ClusterError::new(ErrorKind::Other, "cannot run", "as planned", None)
}

#[tokio::test(start_paused = true)]
async fn a_task_is_shared_and_ends_a_while_after_its_last_lease() {
    let fixture = Fixture::new();
    let first = fixture.start(1, 10, None);
    let second = fixture.tasks.lock().lease(&1).unwrap();
    assert!(first.is_same(&second) && *second == 10);
    drop(first);
    fixture.pass(LINGER * 2).await;
    assert!(fixture.tasks.lock().contains(&1), "there is a lease");
    drop(second);
    fixture.pass(LINGER / 2).await;
    let again = fixture.tasks.lock().lease(&1).unwrap();
    drop(again);
    fixture.pass(LINGER * 9 / 10).await;
    assert!(fixture.tasks.lock().contains(&1), "the time counts anew");
    fixture.pass(LINGER / 5).await;
    assert!(fixture.tasks.lock().lease(&1).is_none());
    assert_eq!(fixture.ends(), ["10 unused"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_failed_leaves_the_one_that_took_its_key() {
    let fixture = Fixture::new();
    let first = fixture.start(1, 10, Some(Duration::from_secs(1)));
    let second = fixture.start(1, 20, None);
    fixture.pass(Duration::from_secs(2)).await;
    assert_eq!(fixture.ends(), ["10 failed"]);
    assert!(
        fixture
            .tasks
            .lock()
            .lease(&1)
            .is_some_and(|lease| *lease == 20)
    );
    drop((first, second));
}

#[tokio::test(start_paused = true)]
async fn only_a_task_without_a_lease_makes_room() {
    let fixture = Fixture::new();
    let _held = [1, 2].map(|key| fixture.start(key, key, None));
    fixture.tasks.lock().make_room(&3, None).unwrap();
    let third = fixture.start(3, 30, None);
    let refused = fixture.tasks.lock().make_room(&4, None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the server has 3 tasks, and may have 3 (--max-tasks)"
    );
    fixture.tasks.lock().make_room(&3, None).unwrap();
    drop(third);
    fixture.tasks.lock().make_room(&4, None).unwrap();
    fixture.pass(Duration::from_millis(1)).await;
    assert_eq!(fixture.ends(), ["30 unused"]);
    assert_eq!(fixture.tasks.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_needs_room_gives_up_its_own_unused_task_first() {
    let fixture = Fixture::new();
    let (greedy, modest) = (
        ShareKey::Caller("greedy".into()),
        ShareKey::Caller("modest".into()),
    );
    drop(fixture.start_for(Some(&modest), 1, 10, None));
    for key in 2..20 {
        fixture.tasks.lock().make_room(&key, Some(&greedy)).unwrap();
        drop(fixture.start_for(Some(&greedy), key, key, None));
        assert!(fixture.tasks.lock().contains(&1), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_every_task() {
    let fixture = Fixture::new();
    let _held = fixture.start(1, 10, None);
    fixture.lifecycle.drain();
    fixture.lifecycle.join_tasks().await;
    assert_eq!(fixture.ends(), ["10 draining"]);
    assert_eq!(fixture.tasks.lock().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn startup_settles_once() {
    let startup = Startup::new();
    let mut waiting = tokio_test::task::spawn(startup.wait());
    assert!(waiting.poll().is_pending() && startup.is_pending());
    startup.ready();
    startup.fail(failed());
    assert!(waiting.poll().is_ready() && startup.is_ready());
    let startup = Startup::new();
    startup.fail(failed());
    startup.ready();
    assert!(startup.wait().await.is_err() && startup.has_failed());
}

#[tokio::test(start_paused = true)]
async fn a_join_is_retried_and_its_first_failure_reported() {
    let (joins, failures) = (AtomicU32::new(0), AtomicU32::new(0));
    let began = tokio::time::Instant::now();
    let joined = Mutex::new(None);
    let holding = hold_lease(
        || {
            let join = joins.fetch_add(1, Ordering::Relaxed);
            async move { if join < 3 { Err(failed()) } else { Ok(join) } }
        },
        |lease| *joined.lock() = Some((*lease, began.elapsed().as_secs())),
        |_error| {
            failures.fetch_add(1, Ordering::Relaxed);
        },
    );
    let _elapsed = tokio::time::timeout(Duration::from_mins(1), holding).await;
    assert_eq!(*joined.lock(), Some((3, 1 + 2 + 4)));
    assert_eq!(failures.load(Ordering::Relaxed), 1);
}
