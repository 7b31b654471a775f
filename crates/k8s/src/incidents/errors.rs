//! Why there is no list of incidents.

use kubecrier_core::shares::LimitReached;

use super::ACQUIRE_TIMEOUT;
use crate::{
    error::{ClusterError, ErrorKind},
    kind_watch::Scope,
};

fn reading(scope: &Scope) -> String {
    format!("cannot read the incidents of {scope}")
}

pub(super) fn limit(scope: &Scope, reached: &LimitReached) -> ClusterError {
    ClusterError::limit(&reading(scope), reached)
}

pub(super) fn confined(scope: &Scope) -> ClusterError {
    let reason = "--allowed-namespaces excludes the incidents of a whole cluster";
    let hint = "name a namespace that is allowed".to_owned();
    ClusterError::new(ErrorKind::Forbidden, reading(scope), reason, Some(hint))
}

pub(super) fn slow(scope: &Scope) -> ClusterError {
    let seconds = ACQUIRE_TIMEOUT.as_secs();
    ClusterError::new(
        ErrorKind::Timeout,
        reading(scope),
        format!("not everything could be listed within {seconds} s; it goes on"),
        Some("ask again in a moment, or name a namespace".to_owned()),
    )
}

pub(super) fn stopped(scope: &Scope) -> ClusterError {
    ClusterError::new(ErrorKind::Other, reading(scope), "the server stops", None)
}
