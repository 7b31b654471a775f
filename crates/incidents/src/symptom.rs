//! Symptoms: what a detector found on one object.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::objects::ObjectRef;

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; it healed by itself, or nobody is hurt yet.
    Info,
    /// Something is degraded.
    Warning,
    /// A workload has nothing ready, or a node is gone.
    Critical,
}

/// What a detector found on one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Symptom {
    /// The name of the detector in the table.
    pub detector: &'static str,
    /// The object whose state shows it.
    pub object: ObjectRef,
    /// The workload that it belongs to; the object itself if it has no owner.
    pub workload: ObjectRef,
    /// Since when the state is there.
    pub since: Timestamp,
    /// Whether the state is an error by itself, and not only if it stays.
    pub is_certain: bool,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, after the name of the object: `crashes at start`.
    pub what: String,
    /// The one word that Kubernetes has for it, if it has one: `OOMKilled`.
    pub reason: Box<str>,
    /// Why, in the words of whoever knows: a log, a registry, the scheduler.
    pub why: String,
    /// The object without which nothing would be wrong.
    pub cause: Option<ObjectRef>,
    /// The container that it is about.
    pub container: Option<Box<str>>,
}

/// How long a state has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Before it is announced.
    pub open: SignedDuration,
    /// Gone for so long before it is over.
    pub close: SignedDuration,
}

// === impl Severity ===

impl Severity {
    /// As data has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

// === impl Symptom ===

impl Symptom {
    /// A symptom without a known reason.
    pub fn new(
        detector: &'static str,
        object: ObjectRef,
        since: Timestamp,
        what: impl Into<String>,
    ) -> Self {
        Self {
            detector,
            workload: object.clone(),
            object,
            since,
            is_certain: false,
            severity: Severity::Warning,
            what: what.into(),
            reason: Box::default(),
            why: String::new(),
            cause: None,
            container: None,
        }
    }

    /// Says why.
    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Says the one word that Kubernetes has for it.
    #[must_use]
    pub fn reason(mut self, reason: &str) -> Self {
        self.reason = reason.into();
        self
    }

    /// Says that the state is an error by itself.
    #[must_use]
    pub fn certain(mut self) -> Self {
        self.is_certain = true;
        self
    }

    /// Says how bad it is.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Names the object without which nothing would be wrong.
    #[must_use]
    pub fn caused_by(mut self, cause: Option<ObjectRef>) -> Self {
        self.cause = cause;
        self
    }

    /// Names the container.
    #[must_use]
    pub fn container(mut self, name: &str) -> Self {
        self.container = Some(name.into());
        self
    }

    /// Names the workload that the object belongs to.
    #[must_use]
    pub fn of(mut self, workload: ObjectRef) -> Self {
        self.workload = workload;
        self
    }
}
