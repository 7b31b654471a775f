//! `tools/call`, with progress and log messages while it runs.

use std::{future::Future, panic::AssertUnwindSafe};

use futures_util::FutureExt;
use mcp_notify::{
    DefaultSink, Level, LoggingService, Progress, ProgressToken, Session, rmcp::PeerSink,
};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, JsonObject,
        NumberOrString,
    },
    service::RequestContext,
};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Server,
    handler::{Handler, is_modern},
    tasks::takes_tasks,
};
use crate::{
    output::ToolError,
    reporter::{LogTarget, RequestReporter},
    tasks::TaskRights,
    tools::{self, ToolClient, ToolContext, ToolEntry},
};
use kubecrier_k8s::ErrorKind;
use kubecrier_lifecycle::InFlight;
use kubecrier_project::TaskSupport;
use kubecrier_redact::Redactor;

/// The key of the log level in a request of the newest protocol.
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

impl Handler {
    /// Calls a tool: a built-in one, or one of a provider.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _busy = self.server.shared.lifecycle.begin(InFlight::ToolCall);
        let requester = self.requester(context);
        let (name, tool_filter) = (&*request.name, &self.server.shared.tool_filter);
        let _call = self.tool_permit(&requester, name)?;
        let built_in = tools::find(name);
        if let Err(off) = tool_filter.check_tool(name) {
            return Err(ErrorData::invalid_params(off.to_string(), None));
        }
        if let Some(entry) = built_in {
            if entry.name == tools::FAULTS_WAIT && takes_tasks(context) {
                return self.start_wait(entry, request, context);
            }
            let client = self.client(context);
            let arguments = request.arguments.unwrap_or_default();
            let result = self
                .with_reporter(context, async |reporter| {
                    let server = &self.server;
                    server
                        .call_entry(entry, arguments, &client, &reporter, &context.ct, None)
                        .await
                })
                .await?;
            return result.map(CallToolResponse::from);
        }
        let _after = self.server.rescan().await;
        let mut providers = self.server.shared.tool_providers.iter();
        match providers.find_map(|one| one.task_support(&request.name)) {
            Some(_) if takes_tasks(context) => return self.start_provided(request, context),
            Some(TaskSupport::Required) => {
                let tasks = ClientCapabilities::builder().enable_tasks().build();
                return Err(ErrorData::missing_required_client_capability(tasks));
            }
            Some(TaskSupport::Optional) | None => {}
        }
        let found = self
            .with_reporter(context, async |reporter| {
                let mut providers = self.server.shared.tool_providers.iter();
                let call = providers.find_map(|one| one.call(&request, &reporter, context))?;
                let _process = tokio::select! {
                    permit = self.server.shared.work.process_permit(&requester) => Some(permit),
                    // The call itself ends then.
                    () = context.ct.cancelled() => None,
                };
                Some(call.await)
            })
            .await?;
        if let Some(answer) = found {
            // A call may change what there is to call.
            self.server.publish_list_changes().await;
            return answer;
        }
        let names: Vec<_> = self
            .server
            .tools()
            .into_iter()
            .map(|tool| tool.name)
            .collect();
        let text = format!(
            "no tool `{}`; there are: {}",
            request.name,
            names.join(", ")
        );
        Err(ErrorData::invalid_params(text, None))
    }

    /// Runs what may report progress and log while it runs.
    async fn with_reporter<F: Future>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl FnOnce(RequestReporter) -> F,
    ) -> Result<F::Output, ErrorData> {
        let token = context
            .meta
            .get_progress_token()
            .map(|token| match token.0 {
                NumberOrString::Number(number) => ProgressToken::Number(number),
                NumberOrString::String(text) => ProgressToken::Text(text),
            });
        // rmcp has the way to the stream of this request's answer.
        let stream = || {
            let sink = PeerSink::new(context.peer.clone());
            Session::builder().channel(sink).build("request")
        };
        let (stream, log) = if is_modern(context) {
            match level(context)? {
                None => (token.is_some().then(stream), LogTarget::Disabled),
                Some(level) => {
                    let stream = stream();
                    let logging = LoggingService::new(self.server.delivery(DefaultSink));
                    logging.set_level(&stream, level);
                    (Some(stream), LogTarget::Stream(logging))
                }
            }
        } else {
            let (session, shared) = (self.session(&context.extensions), &self.server.shared);
            let log = session.map(|session| LogTarget::Session(shared.logging.clone(), session));
            (
                token.is_some().then(stream),
                log.unwrap_or(LogTarget::Disabled),
            )
        };
        let Some(stream) = stream else {
            return Ok(work(RequestReporter::new(Progress::disabled(), log)).await);
        };
        let delivery = self.server.delivery(DefaultSink);
        let work = |progress| work(RequestReporter::new(progress, log));
        Ok(Progress::scope(&stream, token, &delivery, work).await)
    }
}

impl Server {
    /// Calls a built-in tool, until it answers or is cancelled.
    pub(super) async fn call_entry(
        &self,
        entry: &'static ToolEntry,
        arguments: JsonObject,
        client: &ToolClient,
        reporter: &RequestReporter,
        cancelled: &CancellationToken,
        task: Option<&TaskRights>,
    ) -> Result<CallToolResult, ErrorData> {
        let shared = &self.shared;
        let began = Instant::now();
        let tool_context = ToolContext {
            contexts: &shared.contexts,
            history: self.history(),
            tool_filter: &shared.tool_filter,
            limits: shared.limits,
            subscriptions: &shared.subscriptions,
            event_lists: &shared.event_lists,
            graphs: &shared.graphs,
            incidents: &shared.incidents,
            waits: &shared.waits,
            work: &shared.work,
            client,
            reporter,
            redactor: &shared.redactor,
            draining: shared.lifecycle.draining(),
            task,
        };
        let call = async {
            let _read = match entry.name {
                // They wait, for events, incidents or a graph, and hold no large answer meanwhile.
                "events_poll" | "faults_wait" | "resources_graph" => None,
                _ => Some(shared.work.read_permit(&client.requester).await),
            };
            (entry.call)(tool_context, arguments).await
        };
        // rmcp would swallow a panic, and leave the client waiting.
        let call = AssertUnwindSafe(call).catch_unwind();
        let outcome = tokio::select! {
            biased;
            () = cancelled.cancelled() => None,
            outcome = call => Some(outcome.unwrap_or_else(|_panic| {
                shared.lifecycle.fail(format!("tool `{}` panicked", entry.name));
                Err(ToolError::Bug)
            })),
        };
        let label = match &outcome {
            None => "cancelled",
            Some(Ok(_)) => "ok",
            Some(Err(error)) => error.kind(),
        };
        let seconds = began.elapsed().as_secs_f64();
        shared.metrics.called(entry.name, label, seconds);
        match outcome {
            None => Err(ErrorData::internal_error("the call was cancelled", None)),
            Some(Ok(output)) => {
                tracing::debug!(tool = entry.name, seconds, "tool answered");
                Ok(output.into_result())
            }
            Some(Err(error)) => {
                let acts_as_callers = shared.contexts.impersonates();
                log_failure(
                    entry.name,
                    seconds,
                    &error,
                    acts_as_callers,
                    &shared.redactor,
                );
                Ok(error.into_result(&shared.redactor))
            }
        }
    }
}

/// A call that makes no sense is its caller's affair; a cluster that fails is the
/// operator's. Where callers act as themselves, so is what one of them may not do; but not that
/// the server may not act as them.
fn log_failure(
    tool: &str,
    seconds: f64,
    error: &ToolError,
    acts_as_callers: bool,
    redactor: &Redactor,
) {
    let (kind, (message, _hint)) = (error.kind(), error.redacted(redactor));
    let is_denied = acts_as_callers
        && kind == ErrorKind::Forbidden.as_str()
        && !message.contains("cannot impersonate");
    if error.is_client_error() || is_denied {
        tracing::debug!(tool, seconds, kind, error = message, "tool refused");
    } else {
        tracing::warn!(tool, seconds, kind, error = message, "tool failed");
    }
}

/// The level in a request of the newest protocol; rmcp takes one that it does not
/// know for none.
fn level(context: &RequestContext<RoleServer>) -> Result<Option<Level>, ErrorData> {
    let Some(given) = context.meta.get(LOG_LEVEL) else {
        return Ok(None);
    };
    match given {
        Value::String(name) => super::level::parse(name).map(Some),
        other => super::level::parse(&other.to_string()).map(Some),
    }
}
