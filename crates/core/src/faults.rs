//! Faults: what goes with a warning about a pod. Plain data and decisions; the
//! cluster room does the asking.

pub mod board;
pub mod cache;
pub mod captures;
pub mod dedup;
pub mod desk;
pub mod evidence;
pub mod report;
pub mod signatures;
pub mod tail;
