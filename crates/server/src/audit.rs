//! The audit log: one JSON record per line for each call and each subscription over HTTP, with
//! who, what, and whether it was allowed.
//!
//! - `subject`: what a message is about, of which nothing is recorded but names;
//! - `pending`: a call under way, recorded when it ends; `reason`: why it was refused or failed;
//! - `writer`: the task that writes, so that no request waits for a disk.

mod pending;
mod reason;
mod subject;
mod writer;

use std::{path::PathBuf, sync::Arc};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use kubecrier_core::metrics::{RefusalMetrics, RequestRefusal};
use serde::Serialize;

pub(crate) use self::{
    pending::{PendingRecord, TaskRecord, note_answer, note_result, note_withheld, record_begun},
    subject::{KnownNames, Subject},
};
use self::{subject::cut_identity, writer::RecordQueue};
use crate::{caller::Caller, jsonrpc::MESSAGE_BYTES_MAX, log_limit::LogLimit};

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// To stderr, between the records of the log.
    Stderr,
    /// To the end of a file, which is made if there is none.
    File(PathBuf),
}

/// Writes records. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Audit {
    queue: RecordQueue,
    names: Arc<dyn KnownNames>,
    log_limit: Arc<LogLimit>,
    refusals: RefusalMetrics,
}

/// Another server has recorded the request that this is the answer to. An extension of the
/// answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedThere;

/// One record.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    time: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubernetes_user: Option<&'a str>,
    #[serde(flatten)]
    subject: &'a Subject,
    /// Those of its resources that are not part of what has begun.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_accepted: Vec<&'a str>,
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    duration_ms: u64,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    /// It was answered.
    Allowed,
    /// It was refused, by this server or by Kubernetes.
    Refused,
    /// It was allowed, and failed.
    Failed,
    /// Its client did not wait for it.
    Cancelled,
}

// === impl Audit ===

impl Audit {
    /// A record for a call that begins now.
    pub(crate) fn begin(&self, body: &[u8]) -> PendingRecord {
        let subject = Subject::read(body, &*self.names);
        PendingRecord::new(self.clone(), Caller::current(), subject)
    }

    /// Records a request that has no caller. Strangers can send as many as they want, so only
    /// some are recorded; metrics count all.
    pub(crate) fn unidentified(&self, path: &str, reason: RequestRefusal, status: u16) {
        if !self.log_limit.allows() {
            return;
        }
        let subject = Subject::of_path(path);
        self.write(&Record {
            time: Timestamp::now(),
            caller: None,
            kubernetes_user: None,
            subject: &subject,
            not_accepted: Vec::new(),
            outcome: Outcome::Refused,
            reason: Some(reason.as_str()),
            status: Some(status),
            duration_ms: 0,
        });
    }

    /// Records a request that is refused whatever its message is, of a caller whose name is known.
    pub(crate) fn refused(&self, caller: &str, path: &str, reason: RequestRefusal, status: u16) {
        self.write(&Record {
            time: Timestamp::now(),
            caller: Some(cut_identity(caller)),
            kubernetes_user: None,
            subject: &Subject::of_path(path),
            not_accepted: Vec::new(),
            outcome: Outcome::Refused,
            reason: Some(reason.as_str()),
            status: Some(status),
            duration_ms: 0,
        });
    }

    fn write(&self, record: &Record<'_>) {
        let written = serde_json::to_vec(record).map(|mut line| {
            line.push(b'\n');
            self.queue.push(line)
        });
        if !written.unwrap_or(false) {
            self.refusals.audit_dropped(1);
        }
    }
}

/// Middleware for requests that another server sends here: that one has checked them, and this one
/// knows how they end.
pub(crate) async fn record(State(audit): State<Audit>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MESSAGE_BYTES_MAX).collect().await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let body = body.to_bytes();
    let record = audit.begin(&body);
    parts.extensions.insert(record.clone());
    let mut answer = next.run(Request::from_parts(parts, Body::from(body))).await;
    record.answered(answer.status());
    answer.extensions_mut().insert(RecordedThere);
    answer
}
