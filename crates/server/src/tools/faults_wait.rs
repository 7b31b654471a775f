//! `faults_wait`: waits for the next incident, for clients in which no notification starts a
//! turn. As a call that blocks, or as a task of the protocol (`server::tasks`).

mod answer;

use rmcp::{model::JsonObject, schemars};
use serde::Deserialize;
use tokio::time::Duration;

use super::{
    Output, ToolContext, ToolEntry, ToolError, arguments,
    events_subscribe::{FilterArgs, check_mode},
    schema,
};
use crate::waits::{WaitRequest, WaitUntil};

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: NAME,
    title: "Faults: wait",
    description: "Wait for the next incident; returns it with its evidence, and a cursor. Wait again \
                  with that: it also tells what happened in between. \"Nothing yet\" is no error.",
    schema: schema::of::<FaultsWaitArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

/// The name, which the limits of requests know: a wait counts as none of them.
pub(crate) const NAME: &str = "faults_wait";

/// Below the 300 s after which some clients give up.
const TIMEOUT_SECONDS: u64 = 240;

/// Nobody holds a connection while a task waits, and each end costs a turn.
const TASK_TIMEOUT_SECONDS: u64 = TIMEOUT_SECONDS_MAX;

const TIMEOUT_SECONDS_MAX: u64 = 12 * 60 * 60;

#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schemars(crate = "rmcp::schemars")]
struct FaultsWaitArgs {
    /// What to wait for (default: opened)
    until: Option<UntilArg>,
    /// Cursor of the previous answer
    cursor: Option<String>,
    /// Seconds to wait (1-43200, default 240)
    timeout_seconds: Option<u64>,
    /// Kubeconfig context
    context: Option<String>,
    /// Only this namespace
    namespace: Option<String>,
    /// Only about this object, e.g. deployment/web
    r#for: Option<String>,
    // Taken as events_subscribe takes them, and not shown: every model pays for what is.
    #[schemars(skip)]
    namespaces: Option<Vec<String>>,
    #[schemars(skip)]
    namespace_selector: Option<Vec<String>>,
    #[schemars(skip)]
    involved_kind: Option<String>,
    #[schemars(skip)]
    involved_name: Option<String>,
    #[schemars(skip)]
    involved_namespace: Option<String>,
}

#[derive(Clone, Copy, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(crate = "rmcp::schemars")]
enum UntilArg {
    Opened,
    Changed,
    Resolved,
    Any,
}

async fn call(context: ToolContext<'_>, args: FaultsWaitArgs) -> Result<Output, ToolError> {
    let request = args.request(context.task.is_some())?;
    check_mode(&context, &request.filters)?;
    let seconds = request.timeout.as_secs_f64();
    let on_progress = |waited: Duration| {
        let far = waited.as_secs_f64();
        context.reporter.step(far, seconds, "nothing yet");
    };
    let requester = &context.client.requester;
    let waiting = (context.waits).wait(requester, &request, on_progress, context.draining);
    let outcome = waiting.await?;
    let told = outcome.notices.iter().map(|notice| notice.incident());
    context.needs(outcome.read.rights_of(told));
    Ok(answer::show(&context, &request, &outcome).await)
}

/// How long a task waits whose call has these arguments: the time that it must be kept for.
pub(crate) fn task_timeout(given: &JsonObject) -> Duration {
    let asked = given
        .get("timeoutSeconds")
        .and_then(serde_json::Value::as_u64);
    let asked = asked.unwrap_or(TASK_TIMEOUT_SECONDS);
    Duration::from_secs(asked.clamp(1, TIMEOUT_SECONDS_MAX))
}

// === impl FaultsWaitArgs ===

impl FaultsWaitArgs {
    fn request(self, is_task: bool) -> Result<WaitRequest, ToolError> {
        let default = if is_task {
            TASK_TIMEOUT_SECONDS
        } else {
            TIMEOUT_SECONDS
        };
        let timeout = match self.timeout_seconds.unwrap_or(default) {
            seconds @ 1..=TIMEOUT_SECONDS_MAX => Duration::from_secs(seconds),
            seconds => {
                return Err(ToolError::Arguments(format!(
                    "`timeoutSeconds` is {seconds}, but must be from 1 to {TIMEOUT_SECONDS_MAX}"
                )));
            }
        };
        let until = match self.until {
            None | Some(UntilArg::Opened) => WaitUntil::Opened,
            Some(UntilArg::Changed) => WaitUntil::Changed,
            Some(UntilArg::Resolved) => WaitUntil::Resolved,
            Some(UntilArg::Any) => WaitUntil::Any,
        };
        let filters = FilterArgs::of_incidents(
            self.namespace,
            self.namespaces,
            self.namespace_selector,
            self.r#for,
        )
        .about(
            self.involved_kind,
            self.involved_name,
            self.involved_namespace,
        );
        Ok(WaitRequest {
            context: self.context.filter(|name| !name.is_empty()),
            filters: filters.filters()?,
            until,
            cursor: self.cursor.filter(|cursor| !cursor.is_empty()),
            timeout,
        })
    }
}

#[cfg(test)]
mod tests;
