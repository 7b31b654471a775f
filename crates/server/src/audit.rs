//! The audit log: one JSON record per line for each call and each subscription over HTTP, with
//! who, what, and whether it was allowed.
//!
//! - `subject`: what a message is about, of which nothing is recorded but names;
//! - `pending`: a call under way, recorded when it ends;
//! - `writer`: the task that writes, so that no request waits for a disk.

mod pending;
mod subject;
mod writer;

use std::path::PathBuf;

use jiff::Timestamp;
use kubecrier_core::metrics::{RefusalMetrics, RequestRefusal};
use serde::Serialize;

use self::writer::RecordQueue;
pub(crate) use self::{
    pending::{PendingRecord, note_answer, note_result},
    subject::Subject,
};
use crate::{caller::Caller, log_limit::LogLimit};

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
    log_limit: std::sync::Arc<LogLimit>,
    refusals: RefusalMetrics,
}

/// One record.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    time: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubernetes_user: Option<&'a str>,
    #[serde(flatten)]
    subject: &'a Subject,
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
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
        PendingRecord::new(self.clone(), Caller::current(), Subject::read(body))
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
            outcome: Outcome::Refused,
            reason: Some(reason.as_str()),
            status: Some(status),
            duration_ms: 0,
        });
    }

    /// Records a request of a caller that is refused whatever its message is.
    pub(crate) fn refused(&self, caller: &Caller, path: &str, reason: RequestRefusal, status: u16) {
        self.write(&Record {
            time: Timestamp::now(),
            caller: Some(caller.to_string()),
            kubernetes_user: None,
            subject: &Subject::of_path(path),
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
