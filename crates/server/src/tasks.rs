//! Tasks of the protocol (`io.modelcontextprotocol/tasks`, 2026-07-28): calls whose answer is
//! fetched later. Waits are tasks, and tools of a project that say so: a client that polls is
//! told within seconds and holds no connection meanwhile.
//!
//! ```text
//!  tools/call ──▶ Tasks::start ──▶ TaskEntry: working ──▶ completed, failed, cancelled ──▶ gone
//!                                     ▲     │                    after the time that it is kept
//!                          tasks/get ─┘     └─▶ notifications/tasks, on a listen that asked
//! ```
//!
//! A task is its caller's; for others it does not exist, nor for the same caller as another user
//! or with other groups. Its answer is shown as long as its user has the `rights` that it was
//! derived with. What it holds (a permit, a lease) is dropped when it ends, not when it is gone.

mod rights;

use std::{collections::HashMap, fmt, future::Future, sync::Arc};

use jiff::Timestamp;
use parking_lot::Mutex;
use rmcp::{
    ErrorData,
    model::{CallToolResult, ContentBlock, DetailedTask, JsonObject, Task, TaskPayload},
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Duration, Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

pub(crate) use self::rights::TaskRights;
use crate::caller::Caller;
use kubecrier_core::access::{Gate, Undecided};
use kubecrier_k8s::ErrorKind;
use kubecrier_lifecycle::Lifecycle;

/// How often a client should ask.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How long a task is kept after its end.
const KEPT_AFTER_END: Duration = Duration::from_mins(10);

/// A task that nobody asks for this long is one whose client is gone.
const UNSEEN_MAX: Duration = Duration::from_mins(10);

/// Tasks that have ended and are kept, of one caller; the oldest make room.
const ENDED_PER_CALLER_MAX: usize = 64;

/// The same of all callers.
const ENDED_MAX: usize = 512;

/// What runs as a task. The id says it: who asks for the answer needs the scopes of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// A wait for an incident.
    Wait,
    /// A tool of a project.
    Tool,
}

/// The tasks of all callers. A clone is the same.
#[derive(Clone)]
pub(crate) struct Tasks {
    inner: Arc<Inner>,
}

struct Inner {
    lifecycle: Lifecycle,
    // Tasks come and go on many tasks of the runtime; held for operations of the map.
    entries: Mutex<HashMap<Arc<str>, Arc<TaskEntry>>>,
}

/// A task that its caller may ask for.
pub(crate) struct TaskEntry {
    id: Arc<str>,
    owner: Caller,
    rights: TaskRights,
    created_at: Timestamp,
    created: Instant,
    state: watch::Sender<TaskState>,
    /// When the caller last asked for it.
    seen: Mutex<Instant>,
    cancelled: CancellationToken,
    /// Cancelled when it is not kept any more.
    gone: CancellationToken,
}

/// A task as its caller may see it.
#[derive(Debug)]
pub(crate) struct ShownTask {
    pub(crate) task: DetailedTask,
    /// What is asked again where it waits before it is sent, if it shows an answer.
    pub(crate) gate: Option<Gate>,
    /// Whether its answer is left out, because a right for it is gone.
    pub(crate) is_withheld: bool,
}

#[derive(Clone, Debug)]
struct TaskState {
    payload: TaskPayload,
    message: Option<&'static str>,
    updated_at: Timestamp,
    /// How long it is kept, from its creation.
    ttl: Duration,
    /// When it ended.
    ended: Option<Instant>,
}

// === impl TaskKind ===

impl TaskKind {
    const ALL: [Self; 2] = [Self::Wait, Self::Tool];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Wait => "wait-",
            Self::Tool => "tool-",
        }
    }

    /// The kind of the task with an id; `None` if there can be no such task.
    pub(crate) fn of_id(id: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| id.starts_with(kind.prefix()))
    }
}

// === impl Tasks ===

impl Tasks {
    pub(crate) fn new(lifecycle: Lifecycle) -> Self {
        Self {
            inner: Arc::new(Inner {
                lifecycle,
                entries: Mutex::default(),
            }),
        }
    }

    /// Starts work that takes up to `timeout`, and adds to `rights` what its answer needs. It is
    /// dropped when the task is cancelled, when its caller is revoked, and when nobody asks for it
    /// any more.
    pub(crate) fn start(
        &self,
        caller: &Caller,
        kind: TaskKind,
        rights: TaskRights,
        timeout: Duration,
        message: &'static str,
        work: impl Future<Output = Result<CallToolResult, ErrorData>> + Send + 'static,
    ) -> Task {
        let id = format!("{}{}", kind.prefix(), uuid::Uuid::new_v4().simple());
        let id: Arc<str> = id.into();
        let (now, created) = (Timestamp::now(), Instant::now());
        let state = TaskState {
            payload: TaskPayload::Working,
            message: Some(message),
            updated_at: now,
            ttl: timeout + KEPT_AFTER_END,
            ended: None,
        };
        let entry = Arc::new(TaskEntry {
            id: Arc::clone(&id),
            owner: caller.clone(),
            rights,
            created_at: now,
            created,
            state: watch::Sender::new(state),
            seen: Mutex::new(created),
            cancelled: CancellationToken::new(),
            gone: CancellationToken::new(),
        });
        let task = entry.with(TaskPayload::Working).task;
        self.inner.entries.lock().insert(id, Arc::clone(&entry));
        let (tasks, caller) = (self.clone(), caller.clone());
        let run = async move { tasks.run(&entry, &caller, work).await };
        self.inner.lifecycle.spawn("task of a client", run);
        task
    }

    async fn run(
        &self,
        entry: &Arc<TaskEntry>,
        caller: &Caller,
        work: impl Future<Output = Result<CallToolResult, ErrorData>>,
    ) {
        let ended = tokio::select! {
            biased;
            () = entry.cancelled.cancelled() => (TaskPayload::Cancelled, None),
            () = caller.revoked() => {
                self.remove(entry);
                return;
            }
            () = entry.unseen() => (TaskPayload::Cancelled, Some("nobody asked for it any more")),
            result = work => (payload(result), None),
        };
        entry.end(ended);
        self.make_room(&entry.owner);
        let kept = entry.created + entry.state.borrow().ttl;
        tokio::select! {
            () = sleep_until(kept) => {}
            () = entry.gone.cancelled() => {}
            () = caller.revoked() => {}
            () = self.inner.lifecycle.draining().cancelled() => {}
        }
        self.remove(entry);
    }

    /// A caller's task; it counts as asked for.
    pub(crate) fn get(&self, caller: &Caller, id: &str) -> Option<Arc<TaskEntry>> {
        let entry = self.inner.entries.lock().get(id).cloned();
        let entry = entry.filter(|entry| entry.owner == *caller)?;
        *entry.seen.lock() = Instant::now();
        Some(entry)
    }

    /// The number of tasks that are kept.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.inner.entries.lock().len()
    }

    fn remove(&self, entry: &TaskEntry) {
        self.inner.entries.lock().remove(&entry.id);
    }

    /// Drops the oldest of those that have ended, of a caller that has too many, and of all.
    fn make_room(&self, owner: &Caller) {
        let entries = self.inner.entries.lock();
        let mut ended: Vec<_> = entries
            .values()
            .filter_map(|entry| Some((entry.state.borrow().ended?, entry)))
            .collect();
        ended.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let of_owner = ended.iter().filter(|(_, entry)| entry.owner == *owner);
        let surplus = of_owner
            .skip(ENDED_PER_CALLER_MAX)
            .chain(ended.iter().skip(ENDED_MAX));
        for (_, entry) in surplus {
            entry.gone.cancel();
        }
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tasks")
            .field(&self.inner.entries.lock().len())
            .finish()
    }
}

// === impl TaskEntry ===

impl TaskEntry {
    /// The task, as `tasks/get` and `notifications/tasks` show it now.
    pub(crate) async fn show(&self) -> Result<ShownTask, Undecided> {
        let payload = self.state.borrow().payload.clone();
        let is_answer = matches!(
            payload,
            TaskPayload::Completed { .. } | TaskPayload::Failed { .. }
        );
        let is_withheld = is_answer && !self.rights.are_held().await?;
        let task = self.with(if is_withheld { withheld() } else { payload });
        Ok(ShownTask {
            task,
            gate: (is_answer && !is_withheld).then(|| self.rights.gate()),
            is_withheld,
        })
    }

    fn with(&self, payload: TaskPayload) -> DetailedTask {
        let state = self.state.borrow();
        let mut task = Task::new(
            &*self.id,
            payload.status(),
            self.created_at.to_string(),
            state.updated_at.to_string(),
        )
        .with_ttl_ms(milliseconds(state.ttl))
        .with_poll_interval_ms(milliseconds(POLL_INTERVAL));
        task.status_message = state.message.map(str::to_owned);
        DetailedTask::new(task, payload)
    }

    /// Cancels the work; a task that has ended stays as it is.
    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Waits until it has ended; a caller that waits is one that asks. Cancel-safe.
    pub(crate) async fn ended(&self) {
        let mut state = self.state.subscribe();
        loop {
            *self.seen.lock() = Instant::now();
            tokio::select! {
                ended = state.wait_for(|state| state.ended.is_some()) => {
                    drop(ended);
                    return;
                }
                () = sleep_until(Instant::now() + UNSEEN_MAX / 2) => {}
            }
        }
    }

    fn end(&self, (payload, message): (TaskPayload, Option<&'static str>)) {
        self.state.send_modify(|state| {
            state.payload = payload;
            state.message = message;
            state.updated_at = Timestamp::now();
            state.ended = Some(Instant::now());
            state.ttl = state.ttl.min(self.created.elapsed() + KEPT_AFTER_END);
        });
    }

    /// Waits until nobody has asked for it for too long.
    async fn unseen(&self) {
        loop {
            let until = *self.seen.lock() + UNSEEN_MAX;
            if Instant::now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// A result of the tool is a completed task, also if it is an error; only an error of the
/// protocol is a failed one.
fn payload(result: Result<CallToolResult, ErrorData>) -> TaskPayload {
    match result {
        Ok(result) => TaskPayload::Completed {
            result: object(serde_json::to_value(result)),
        },
        Err(error) => TaskPayload::Failed {
            error: object(serde_json::to_value(error)),
        },
    }
}

/// In place of an answer whose user has lost a right since.
fn withheld() -> TaskPayload {
    let text = "what this task has found is not shown any more: you have lost a right that it needs; \
                call the tool again to get what you may still read";
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.structured_content = Some(json!({"error": {
        "kind": ErrorKind::Forbidden.as_str(),
        "message": text,
        "hint": null,
    }}));
    payload(Ok(result))
}

fn object(value: serde_json::Result<Value>) -> JsonObject {
    match value {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
