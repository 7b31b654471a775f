//! A call under way. Its record is written when the last part of the server has done with it.

use std::sync::Arc;

use http::{StatusCode, request::Parts};
use jiff::Timestamp;
use parking_lot::Mutex;
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolResponse, CallToolResult, ErrorCode},
    service::RequestContext,
};
use tokio::time::Instant;

use super::{Audit, Outcome, Record, Subject};
use crate::caller::Caller;

/// A record that is not written yet. An extension of the request, and so of what the handler
/// gets; the last one of its clones writes it.
#[derive(Clone, Debug)]
pub(crate) struct PendingRecord(Arc<Pending>);

#[derive(Debug)]
struct Pending {
    audit: Audit,
    caller: Caller,
    subject: Subject,
    time: Timestamp,
    began: Instant,
    // Held to note one thing at a time.
    ending: Mutex<Ending>,
}

/// What is known of the end.
#[derive(Debug, Default)]
struct Ending {
    status: Option<StatusCode>,
    /// Of the handler: how it ended, and why.
    handled: Option<(Outcome, Option<String>)>,
}

// === impl PendingRecord ===

impl PendingRecord {
    pub(super) fn new(audit: Audit, caller: Caller, subject: Subject) -> Self {
        Self(Arc::new(Pending {
            audit,
            caller,
            subject,
            time: Timestamp::now(),
            began: Instant::now(),
            ending: Mutex::default(),
        }))
    }

    /// Notes the status of the answer.
    pub(crate) fn answered(&self, status: StatusCode) {
        self.0.ending.lock().status = Some(status);
    }

    fn handled(&self, outcome: Outcome, reason: Option<String>) {
        self.0.ending.lock().handled = Some((outcome, reason));
    }
}

/// Notes how a tool has answered, for the record of its call.
pub(crate) fn note_answer(
    context: &RequestContext<RoleServer>,
    answer: &Result<CallToolResponse, ErrorData>,
) {
    let Some(record) = record_of(context) else {
        return;
    };
    match answer {
        Ok(CallToolResponse::Complete(result)) => {
            let (outcome, reason) = judge(result);
            record.handled(outcome, reason);
        }
        Ok(_) => record.handled(Outcome::Allowed, None),
        Err(error) => record.handled(Outcome::Refused, Some(error.message.to_string())),
    }
}

/// The same for a request that is no call of a tool. Its status says nothing: an error is the
/// content of an answer.
pub(crate) fn note_result<T>(context: &RequestContext<RoleServer>, answer: &Result<T, ErrorData>) {
    if let (Some(record), Err(error)) = (record_of(context), answer) {
        let (outcome, reason) = judge_error(error);
        record.handled(outcome, Some(reason));
    }
}

fn record_of(context: &RequestContext<RoleServer>) -> Option<&PendingRecord> {
    let parts = context.extensions.get::<Parts>()?;
    parts.extensions.get()
}

/// How an error is recorded that is the whole answer: by its kind, or else by its code.
fn judge_error(error: &ErrorData) -> (Outcome, String) {
    let kind = error.data.as_ref().and_then(|data| data["kind"].as_str());
    let reason = kind.unwrap_or(match error.code {
        ErrorCode::RESOURCE_NOT_FOUND => "not_found",
        ErrorCode::INVALID_PARAMS | ErrorCode::INVALID_REQUEST => "invalid",
        _ => "failed",
    });
    (outcome_of(Some(reason)), reason.to_owned())
}

/// `forbidden` is what Kubernetes refuses; the others are refused here.
fn outcome_of(kind: Option<&str>) -> Outcome {
    match kind {
        Some("forbidden" | "unauthorized" | "refused" | "limit" | "switched_off") => {
            Outcome::Refused
        }
        _ => Outcome::Failed,
    }
}

/// How a result is recorded. A tool names the kind of its error.
fn judge(result: &CallToolResult) -> (Outcome, Option<String>) {
    if !result.is_error.unwrap_or_default() {
        return (Outcome::Allowed, None);
    }
    let data = result.structured_content.as_ref();
    let kind = data.and_then(|data| data["kind"].as_str().or(data["error"]["kind"].as_str()));
    (outcome_of(kind), kind.map(str::to_owned))
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Self {
            audit,
            caller,
            subject,
            time,
            began,
            ending,
        } = self;
        if !subject.is_recorded() {
            return;
        }
        let Ending { status, handled } = std::mem::take(ending.get_mut());
        let (outcome, reason) = match (handled, status) {
            (Some(handled), _) => handled,
            (None, None) => (Outcome::Cancelled, None),
            (None, Some(status)) if status.is_success() => (Outcome::Allowed, None),
            (None, Some(status)) if status.is_client_error() => (Outcome::Refused, None),
            (None, Some(_)) => (Outcome::Failed, None),
        };
        let scope = status
            .filter(|status| *status == StatusCode::FORBIDDEN)
            .map(|_| "scope");
        audit.write(&Record {
            time: *time,
            caller: Some(caller.to_string()),
            kubernetes_user: caller.kubernetes_user().map(|user| user.name()),
            subject,
            outcome,
            reason: reason.as_deref().or(scope),
            status: status.map(|status| status.as_u16()),
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
}
