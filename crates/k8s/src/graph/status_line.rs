//! The status of an object, in one line.

use std::collections::BTreeSet;

/// Hosts of an ingress that are named.
const HOSTS_MAX: usize = 3;

/// The status of a workload with replicas: the count, then rollout, pause and failure.
pub(super) fn replicas(
    ready: i64,
    desired: i64,
    updated: Option<i64>,
    paused: bool,
    reason: Option<&str>,
) -> String {
    if desired == 0 && ready == 0 {
        return "scaled to 0".to_owned();
    }
    let mut line = format!("{ready}/{desired} ready");
    if let Some(updated) = updated.filter(|updated| *updated < desired) {
        line.push_str(&format!(", {updated} updated"));
    }
    if paused {
        line.push_str(", paused");
    }
    if let Some(reason) = reason {
        line.push_str(&format!(", {reason}"));
    }
    line
}

pub(super) fn pod(phase: &str, ready: usize, containers: usize, restarts: i32) -> String {
    let restarts = match restarts {
        0 => String::new(),
        1 => ", 1 restart".to_owned(),
        many => format!(", {many} restarts"),
    };
    format!("{phase}, {ready}/{containers} ready{restarts}")
}

pub(super) fn job(done: bool, suspended: bool, active: i64, succeeded: i64, failed: i64) -> String {
    match () {
        () if done => "Complete".to_owned(),
        () if suspended => "Suspended".to_owned(),
        () => format!("{active} active, {succeeded} succeeded, {failed} failed"),
    }
}

pub(super) fn with_reason(phase: &str, reason: &str) -> String {
    match reason {
        "" => phase.to_owned(),
        reason => format!("{phase}: {reason}"),
    }
}

pub(super) fn service(kind: &str, detail: Option<&str>) -> String {
    match detail {
        Some(detail) => format!("{kind}, {detail}"),
        None => kind.to_owned(),
    }
}

pub(super) fn ingress(hosts: &BTreeSet<&str>, address: Option<&str>) -> String {
    let named: Vec<_> = hosts.iter().take(HOSTS_MAX).copied().collect();
    let mut line = named.join(" ");
    if hosts.len() > HOSTS_MAX {
        line.push_str(&format!(" and {} more", hosts.len() - HOSTS_MAX));
    }
    match address {
        Some(address) => format!("{line}, at {address}"),
        None => line,
    }
}
