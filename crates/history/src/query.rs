//! What is searched for.

use crate::{
    record::{Record, RecordRef},
    summary::{Summary, Term},
};

/// A search of one log, the newest records first. Conditions are combined.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// One of these namespaces; any if it is empty.
    pub namespaces: Vec<String>,
    /// One of these types; any if it is empty.
    pub kinds: Vec<String>,
    /// Prefix of the reason.
    pub reason_prefix: Option<String>,
    /// Kind of the object.
    pub object_kind: Option<String>,
    /// Name of the object.
    pub object_name: Option<String>,
    /// Not before this time, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Only after this resourceVersion.
    pub after_version: Option<u64>,
    /// Also the records of gaps, whatever the other conditions are but the time.
    pub with_gaps: bool,
}

/// How much a search may read.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Maximum number of records that are looked at.
    pub records_max: usize,
}

/// What a search did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Records that were looked at.
    pub looked_at: usize,
    /// Where the search had to stop because of its budget: nothing before this time was
    /// looked at.
    pub stopped_at: Option<i64>,
    /// Blocks that could not be read.
    pub unreadable: usize,
    /// Time of the oldest record that is kept.
    pub oldest: Option<i64>,
}

// === impl Query ===

impl Query {
    /// Whether a block can have a record that matches.
    pub(crate) fn may_match(&self, summary: &Summary) -> bool {
        let has = |term: Term<'_>| summary.terms.may_have(term);
        // A gap has no version, and few blocks of a log with versions have one.
        if self.with_gaps && summary.has_unversioned {
            return self.since.is_none_or(|since| summary.time_max >= since);
        }
        self.since.is_none_or(|since| summary.time_max >= since)
            && (self.after_version)
                .is_none_or(|version| summary.version_max > version || summary.has_unversioned)
            && (self.namespaces.is_empty()
                || (self.namespaces.iter()).any(|name| has(Term::Namespace(name))))
            && (self.object_name.as_ref()).is_none_or(|name| has(Term::Object(name)))
            && (self.object_kind.as_ref()).is_none_or(|kind| has(Term::Kind(kind)))
            && (self.reason_prefix.as_ref()).is_none_or(|prefix| summary.may_have_reason(prefix))
    }

    /// Whether a record matches.
    pub(crate) fn matches(&self, record: &RecordRef<'_>) -> bool {
        let same =
            |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        let any = |wanted: &[String], is: &str| {
            wanted.is_empty() || wanted.iter().any(|wanted| wanted == is)
        };
        if record.flags & Record::GAP != 0 {
            return self.with_gaps && self.since.is_none_or(|since| record.time >= since);
        }
        self.since.is_none_or(|since| record.time >= since)
            && (self.after_version)
                .is_none_or(|version| record.version == 0 || record.version > version)
            && same(&self.object_name, record.object_name)
            && same(&self.object_kind, record.object_kind)
            && (self.reason_prefix.as_ref()).is_none_or(|prefix| record.reason.starts_with(prefix))
            && any(&self.namespaces, record.namespace)
            && any(&self.kinds, record.kind)
    }
}

// === impl Budget ===

impl Default for Budget {
    fn default() -> Self {
        Self {
            records_max: 400_000,
        }
    }
}
