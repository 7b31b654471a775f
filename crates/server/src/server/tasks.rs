//! Calls that are answered with a task, and the requests about tasks.

use std::sync::Arc;

use mcp_notify::Progress;
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, CreateTaskResult},
    service::RequestContext,
};
use tokio::time::Duration;
use tokio_util::sync::CancellationToken;

use super::handler::{Handler, is_modern};
use crate::{
    audit::TaskRecord,
    known_clients,
    reporter::{LogTarget, RequestReporter},
    resources::Requester,
    tasks::{ShownTask, TaskEntry, TaskKind, TaskRights},
    tools::{self, ToolEntry},
};
use kubecrier_core::{access::Undecided, shares::Permit};

/// The longest timeout of a tool of a project, and as long for a permit to run it.
const PROVIDED_TIMEOUT: Duration = Duration::from_hours(2);

/// Whether the client of a call can fetch its answer later: it says so, and is not known to
/// refuse it.
pub(super) fn takes_tasks(context: &RequestContext<RoleServer>) -> bool {
    let declares = || {
        let declared = context.client_capabilities();
        declared.is_some_and(|declared| declared.supports_tasks())
    };
    let refuses = || {
        let client = context.client_info();
        client.is_some_and(|client| known_clients::refuses_tasks(&client))
    };
    is_modern(context) && declares() && !refuses()
}

impl Handler {
    /// Starts a wait.
    pub(super) fn start_wait(
        &self,
        entry: &'static ToolEntry,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = self.client(context);
        let permit = self.task_permit(&client.requester)?;
        let arguments = request.arguments.unwrap_or_default();
        let timeout = tools::task_timeout(&arguments);
        let server = self.server.clone();
        let rights = TaskRights::default();
        let needed = rights.clone();
        let record = TaskRecord::of(context);
        let work = async move {
            let _permit = permit;
            // The task itself is dropped when it is cancelled.
            let never = CancellationToken::new();
            let reporter = silent();
            let calling =
                server.call_entry(entry, arguments, &client, &reporter, &never, Some(&needed));
            let answer = calling.await;
            record.note(&answer);
            answer
        };
        let tasks = &self.server.shared.tasks;
        let message = "waiting for an incident";
        let task = tasks.start(&self.caller, TaskKind::Wait, rights, timeout, message, work);
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    /// Starts a call of a provider's tool.
    pub(super) fn start_provided(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let requester = self.requester(context);
        let permit = self.task_permit(&requester)?;
        let server = self.server.clone();
        let record = TaskRecord::of(context);
        // Without the permits of the request, which ends here.
        let context = RequestContext::new(context.id.clone(), context.peer.clone());
        let work = async move {
            let _permit = permit;
            let reporter = silent();
            let mut providers = server.shared.tool_providers.iter();
            let call = providers.find_map(|one| one.call(&request, &reporter, &context));
            let Some(call) = call else {
                let text = format!("no tool `{}` any more", request.name);
                return Err(ErrorData::invalid_params(text, None));
            };
            let _process = server.shared.work.process_permit(&requester).await;
            let answer = call.await?;
            server.publish_list_changes().await;
            let result = match answer {
                CallToolResponse::Complete(result) => Ok(result),
                _ => Err(ErrorData::internal_error("the tool has no result", None)),
            };
            record.note(&result);
            result
        };
        let tasks = &self.server.shared.tasks;
        // Programs of a project run with the rights of the server, where they run at all.
        let rights = TaskRights::default();
        let (kind, timeout) = (TaskKind::Tool, PROVIDED_TIMEOUT);
        let task = tasks.start(&self.caller, kind, rights, timeout, "running", work);
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    /// A task has a permit of its own, because its request ends when it begins.
    fn task_permit(&self, requester: &Requester) -> Result<Permit, ErrorData> {
        let limit = self.server.shared.work.waits();
        let permit = limit.acquire(&requester.share_key());
        permit.map_err(|reached| {
            let text =
                format!("{reached}; cancel a task with tasks/cancel, or wait until one ends");
            ErrorData::internal_error(text, None)
        })
    }

    /// The state of one of the caller's tasks.
    pub(super) async fn task_state(&self, id: &str) -> Result<ShownTask, ErrorData> {
        let undecided = |undecided: Undecided| {
            ErrorData::internal_error(format!("{undecided}; ask again"), None)
        };
        let shown = self.task(id)?.show().await;
        shown.map_err(undecided)
    }

    /// Cancels one of the caller's tasks; once more does no harm.
    pub(super) fn cancel_one(&self, id: &str) -> Result<(), ErrorData> {
        self.task(id)?.cancel();
        Ok(())
    }

    /// One of the caller's tasks. The same error for an unknown one and for another's.
    pub(super) fn task(&self, id: &str) -> Result<Arc<TaskEntry>, ErrorData> {
        let found = self.server.shared.tasks.get(&self.caller, id);
        found.ok_or_else(|| {
            let id: String = id.chars().take(80).collect();
            let text = format!("no task `{id}`; it may have ended long ago");
            ErrorData::invalid_params(text, None)
        })
    }
}

/// Reports to nobody: the stream of the request is gone.
fn silent() -> RequestReporter {
    RequestReporter::new(Progress::disabled(), LogTarget::Disabled)
}
