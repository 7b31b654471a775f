//! A call under way. Its record is written when the last part of the server has done with it.

use std::sync::Arc;

use http::{StatusCode, request::Parts};
use jiff::Timestamp;
use parking_lot::Mutex;
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolResponse, CallToolResult, ErrorCode, Extensions},
    service::RequestContext,
};
use tokio::time::Instant;

use super::{Audit, Outcome, Record, Subject, reason, subject::cut_identity};
use crate::caller::Caller;

/// A record that is not written yet. An extension of the request, and so of what the handler
/// gets; the last one of its clones writes it.
#[derive(Clone, Debug)]
pub(crate) struct PendingRecord(Arc<Pending>);

/// The record of a call whose answer is a task: it ends with the task.
#[derive(Debug)]
pub(crate) struct TaskRecord(Option<PendingRecord>);

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
    handled: Option<(Outcome, Option<&'static str>)>,
    /// Whether there is a record already.
    is_recorded: bool,
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

    /// Another server has answered the request, and records it.
    pub(crate) fn is_recorded_elsewhere(&self) {
        self.0.ending.lock().is_recorded = true;
    }

    fn handled(&self, outcome: Outcome, reason: Option<&'static str>) {
        self.0.ending.lock().handled = Some((outcome, reason));
    }
}

/// Notes how a tool has answered, for the record of its call.
pub(crate) fn note_answer(
    context: &RequestContext<RoleServer>,
    answer: &Result<CallToolResponse, ErrorData>,
) {
    let Some(record) = record_of(&context.extensions) else {
        return;
    };
    let (outcome, reason) = match answer {
        Ok(CallToolResponse::Complete(result)) => judge(result),
        // The task has the record.
        Ok(CallToolResponse::Task(_)) => return,
        Ok(_) => (Outcome::Allowed, None),
        Err(_) if context.ct.is_cancelled() => (Outcome::Cancelled, None),
        Err(error) => (Outcome::Refused, Some(reason_of(error))),
    };
    record.handled(outcome, reason);
}

/// The same for a request that is no call of a tool. Its status says nothing: an error is the
/// content of an answer.
pub(crate) fn note_result<T>(context: &RequestContext<RoleServer>, answer: &Result<T, ErrorData>) {
    let Some(record) = record_of(&context.extensions) else {
        return;
    };
    match answer {
        Ok(_) => record.handled(Outcome::Allowed, None),
        Err(_) if context.ct.is_cancelled() => record.handled(Outcome::Cancelled, None),
        Err(error) => {
            let reason = reason_of(error);
            record.handled(outcome_of(Some(reason)), Some(reason));
        }
    }
}

/// Notes that an answer was left out, because Kubernetes does not let its caller read it any
/// more.
pub(crate) fn note_withheld(context: &RequestContext<RoleServer>) {
    if let Some(record) = record_of(&context.extensions) {
        record.handled(Outcome::Refused, Some(reason::FORBIDDEN));
    }
}

/// Records that something has begun that lasts, such as a stream, with those of its resources
/// that are accepted.
pub(crate) fn record_begun(context: &RequestContext<RoleServer>, accepted: &[String]) {
    if let Some(PendingRecord(pending)) = record_of(&context.extensions) {
        pending.write(Some(accepted));
    }
}

fn record_of(extensions: &Extensions) -> Option<&PendingRecord> {
    let parts = extensions.get::<Parts>()?;
    parts.extensions.get()
}

/// Why there is an error that is the whole answer: by its kind, or else by its code.
fn reason_of(error: &ErrorData) -> &'static str {
    let kind = error.data.as_ref().and_then(|data| data["kind"].as_str());
    kind.map_or(
        match error.code {
            ErrorCode::RESOURCE_NOT_FOUND => reason::NOT_FOUND,
            ErrorCode::INVALID_PARAMS
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::METHOD_NOT_FOUND => reason::INVALID,
            _ => reason::FAILED,
        },
        reason::known,
    )
}

/// `forbidden` is what Kubernetes refuses; the others are refused here.
fn outcome_of(reason: Option<&'static str>) -> Outcome {
    match reason {
        Some("forbidden" | "unauthorized" | "refused" | "limit" | "switched_off") => {
            Outcome::Refused
        }
        _ => Outcome::Failed,
    }
}

/// How a result is recorded. A tool names the kind of its error.
fn judge(result: &CallToolResult) -> (Outcome, Option<&'static str>) {
    if !result.is_error.unwrap_or_default() {
        return (Outcome::Allowed, None);
    }
    let data = result.structured_content.as_ref();
    let kind = data.and_then(|data| data["kind"].as_str().or(data["error"]["kind"].as_str()));
    let reason = kind.map(reason::known);
    (outcome_of(reason), reason)
}

// === impl TaskRecord ===

impl TaskRecord {
    /// The record of the call under way. It was cancelled, unless something else is noted.
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let record = record_of(&context.extensions).cloned();
        if let Some(record) = &record {
            record.handled(Outcome::Cancelled, None);
        }
        Self(record)
    }

    /// Notes what the task is answered with.
    pub(crate) fn note(&self, result: &Result<CallToolResult, ErrorData>) {
        let Some(record) = &self.0 else {
            return;
        };
        let (outcome, reason) = match result {
            Ok(result) => judge(result),
            Err(error) => (Outcome::Refused, Some(reason_of(error))),
        };
        record.handled(outcome, reason);
    }
}

// === impl Pending ===

impl Pending {
    /// Writes the record, unless there is one. `accepted` are the resources of what begins now.
    fn write(&self, accepted: Option<&[String]>) {
        let Ending {
            status, handled, ..
        } = {
            let mut ending = self.ending.lock();
            if ending.is_recorded || !self.subject.is_recorded() {
                return;
            }
            std::mem::replace(
                &mut *ending,
                Ending {
                    is_recorded: true,
                    ..Ending::default()
                },
            )
        };
        // What begins is answered as soon as it has.
        let status = status.or(accepted.map(|_| StatusCode::OK));
        let is_nothing = |these: &[String]| these.is_empty() && self.subject.has_resources();
        let (outcome, reason) = match (handled, status) {
            (Some(handled), _) => handled,
            _ if accepted.is_some_and(is_nothing) => (Outcome::Refused, Some("refused")),
            (None, None) => (Outcome::Cancelled, None),
            // Its client was gone before the handler had it.
            (None, Some(status))
                if status.is_success() && accepted.is_none() && self.subject.is_handled() =>
            {
                (Outcome::Cancelled, None)
            }
            (None, Some(status)) if status.is_success() => (Outcome::Allowed, None),
            (None, Some(status)) if status.is_client_error() => (Outcome::Refused, None),
            (None, Some(_)) => (Outcome::Failed, None),
        };
        let scope = status
            .filter(|status| *status == StatusCode::FORBIDDEN)
            .map(|_| "scope");
        let user = self.caller.kubernetes_user();
        self.audit.write(&Record {
            time: self.time,
            caller: Some(cut_identity(&self.caller.to_string())),
            kubernetes_user: user.map(|user| cut_identity(user.name())),
            subject: &self.subject,
            not_accepted: accepted
                .map_or_else(Vec::new, |these| self.subject.resources_beyond(these)),
            outcome,
            reason: reason.or(scope),
            status: status.map(|status| status.as_u16()),
            duration_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.write(None);
    }
}
