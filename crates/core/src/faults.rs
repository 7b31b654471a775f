//! Faults: warnings about pods, delivered with evidence of what went wrong.
//!
//! One pipeline, from the warning to the subscriber:
//!
//! ```text
//!   Event (a warning about a pod, admitted by a subscription in mode `faults`)
//!     │
//!     │ key       FaultKey: cluster, namespace, pod, reason, count           key
//!     │ dedupe    Dedup: a key passes once per subscription and window       dedup
//!     ▼ enqueue   FaultQueue: in order per pod, off the watch's task         queue
//!     │ capture   CapturePool: once per key, within limits and a deadline    capture
//!     │             EvidenceSource: reads the pod and its logs               source
//!     ▼ evidence  Evidence: pod context, log tails, crash signatures         evidence
//!     │ report    Report: serialised once for all subscribers                report
//!     ├ record    FaultStore: the latest report of each fault                store
//!     ├ archive   ReportArchive: what is kept for longer                     queue
//!     ▼ OnReport  each subscriber that was enqueued gets the report
//! ```
//!
//! Only [`EvidenceProvider`] and [`EvidenceSource`] reach a cluster. Every failure on the
//! way becomes a [`CaptureError`] inside the evidence: a fault is delivered in any case.
//!
//! Three memories hold something about a fault. None can replace another, because their
//! keys and lifetimes differ:
//!
//! | memory | key | lives | answers |
//! |---|---|---|---|
//! | [`Dedup`], one per subscription | [`FaultKey`], as a hash | [`WINDOW`] | was this subscriber notified? |
//! | [`CapturePool`] | [`FaultKey`] and the pod's uid | [`WINDOW`] | which evidence do subscribers share? |
//! | [`FaultStore`] | fault id, the same for every count | until displaced | what is known for a later question? |
//!
//! A crash loop makes one fault id and, with each count, another key. So the store keeps
//! one report where the pool captures again, and a subscriber that comes late shares a
//! capture that its own `Dedup` has never seen.

mod capture;
mod dedup;
mod evidence;
mod key;
mod queue;
mod report;
mod signatures;
mod source;
mod store;
mod tail;

use std::time::Duration;

pub use self::{
    capture::{CaptureLimits, CapturePool, Captured, KUBELET_RETRY_DELAYS},
    dedup::Dedup,
    evidence::{
        CaptureError, Condition, ContainerContext, Evidence, LogEntry, PodContext, PodOwner,
        Termination,
    },
    key::{Fault, FaultKey},
    queue::{FaultQueue, OnReport, ReportArchive, SharedReports},
    report::Report,
    signatures::{CrashKind, CrashSignature, Detector},
    source::{
        ContainerFacts, EvidenceProvider, EvidenceSource, LogError, LogRequest, LogSample, PodFacts,
    },
    store::{FaultStore, StoredFault},
    tail::{Tail, TailBuffer},
};

/// A key is delivered to a subscriber at most once within this time, and its evidence is
/// captured at most once.
pub const WINDOW: Duration = Duration::from_mins(1);
