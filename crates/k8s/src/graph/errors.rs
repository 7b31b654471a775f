//! Why there is no graph.

use kubecrier_core::shares::LimitReached;
use kubecrier_topology::ObjectId;

use super::ACQUIRE_TIMEOUT;
use crate::{
    error::{ClusterError, ErrorKind},
    kind_watch::Scope,
};

pub(super) fn limit(scope: &Scope, reached: &LimitReached) -> ClusterError {
    ClusterError::limit(&format!("cannot follow the graph of {scope}"), reached)
}

pub(super) fn confined(scope: &Scope) -> ClusterError {
    let doing = format!("cannot read the graph of {scope}");
    let reason = "--allowed-namespaces excludes the graph of a whole cluster";
    let hint = "name a namespace that is allowed".to_owned();
    ClusterError::new(ErrorKind::Forbidden, doing, reason, Some(hint))
}

pub(super) fn slow(scope: &Scope) -> ClusterError {
    let seconds = ACQUIRE_TIMEOUT.as_secs();
    ClusterError::new(
        ErrorKind::Timeout,
        format!("cannot read the graph of {scope}"),
        format!("not everything could be listed within {seconds} s; it goes on"),
        Some("ask again in a moment, or name a namespace".to_owned()),
    )
}

/// The same whether there is such an object or not.
pub(super) fn hidden(id: &ObjectId, scope: &Scope) -> ClusterError {
    let place = match &*id.namespace {
        "" => String::new(),
        namespace => format!(" in namespace `{namespace}`"),
    };
    ClusterError::new(
        ErrorKind::Forbidden,
        format!(
            "cannot read the graph around {} `{}` of {scope}",
            id.kind, id.name
        ),
        format!("you may not list {}{place}", id.kind.plural()),
        None,
    )
}

pub(super) fn stopped(scope: &Scope) -> ClusterError {
    let doing = format!("cannot read the graph of {scope}");
    ClusterError::new(ErrorKind::Other, doing, "the server stops", None)
}
