//! `tools/call`, and what a call may say while it runs.

use std::{future::Future, panic::AssertUnwindSafe};

use futures_util::FutureExt;
use mcp_notify::{
    DefaultSink, Level, LoggingService, Progress, ProgressToken, Session, rmcp::PeerSink,
};
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, NumberOrString},
    service::RequestContext,
};
use serde_json::Value;
use tokio::time::Instant;

use super::{Server, is_modern};
use crate::{
    output::{ToolError, cleaned},
    running::{Log, Running},
    tools::{self, Entry, ToolContext},
};
use kubecrier_lifecycle::Work;

/// Where a request of the newest protocol says which log messages it wants.
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

impl Server {
    /// Calls a tool: one of ours, or of a catalog.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _busy = self.shared.lifecycle.busy(Work::Call);
        let (name, offer) = (&*request.name, &self.shared.offer);
        let ours = tools::find(name);
        if ours.is_some_and(|entry| !offer.has(entry)) || !offer.allows(name) {
            let text = format!("tool `{name}` is switched off by whoever runs this server");
            return Err(ErrorData::invalid_params(text, None));
        }
        if let Some(entry) = ours {
            return self
                .speaking(context, async |running| {
                    self.run(entry, request, &running, context).await
                })
                .await?;
        }
        let _after = self.look().await;
        let found = self
            .speaking(context, async |running| {
                let mut catalogs = self.shared.catalogs.iter();
                let call = catalogs.find_map(|one| one.call(&request, &running, context))?;
                Some(call.await)
            })
            .await?;
        if let Some(answer) = found {
            // A call may change what there is to call.
            self.refresh();
            return answer;
        }
        let names: Vec<_> = self.tools().into_iter().map(|tool| tool.name).collect();
        let text = format!(
            "no tool `{}`; there are: {}",
            request.name,
            names.join(", ")
        );
        Err(ErrorData::invalid_params(text, None))
    }

    /// Runs what may report progress and log while it runs.
    async fn speaking<F: Future>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl FnOnce(Running) -> F,
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
                None => (token.is_some().then(stream), Log::Nowhere),
                Some(level) => {
                    let stream = stream();
                    let logging = LoggingService::new(self.delivery(DefaultSink));
                    logging.set_level(&stream, level);
                    (Some(stream), Log::Stream(logging))
                }
            }
        } else {
            let session = self.session(&context.extensions);
            let log = session.map(|session| Log::Session(self.shared.push.logging(), session));
            (token.is_some().then(stream), log.unwrap_or(Log::Nowhere))
        };
        let Some(stream) = stream else {
            return Ok(work(Running::new(Progress::disabled(), log)).await);
        };
        let delivery = self.delivery(DefaultSink);
        let work = |progress| work(Running::new(progress, log));
        Ok(Progress::scope(&stream, token, &delivery, work).await)
    }

    async fn run(
        &self,
        entry: &'static Entry,
        request: CallToolRequestParams,
        running: &Running,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let shared = &self.shared;
        let began = Instant::now();
        let client = self.client(context);
        let tool_context = ToolContext {
            contexts: &shared.contexts,
            limits: shared.limits,
            subscriptions: &shared.subscriptions,
            graphs: &shared.graphs,
            client: &client,
            running,
            draining: shared.lifecycle.draining(),
        };
        let call = (entry.call)(tool_context, request.arguments.unwrap_or_default());
        // rmcp would swallow a panic, and leave the client waiting.
        let call = AssertUnwindSafe(call).catch_unwind();
        let outcome = tokio::select! {
            biased;
            () = context.ct.cancelled() => None,
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
                Ok(cleaned(&shared.redactor, output.into_result()).into())
            }
            Some(Err(error)) => {
                log_failure(entry.name, seconds, &error);
                Ok(cleaned(&shared.redactor, error.into_result()).into())
            }
        }
    }
}

/// A call that makes no sense is its caller's affair; a cluster that fails is the
/// operator's.
fn log_failure(tool: &str, seconds: f64, error: &ToolError) {
    if error.is_the_callers() {
        tracing::debug!(tool, seconds, kind = error.kind(), %error, "tool refused");
    } else {
        tracing::warn!(tool, seconds, kind = error.kind(), %error, "tool failed");
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
