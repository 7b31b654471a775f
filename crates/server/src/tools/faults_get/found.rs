//! Where an incident is found: open, resolved lately, or in the history; and the warnings of its
//! time.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{
    super::{ToolContext, namespace},
    incident::EVENTS_MAX,
};
use crate::{
    history::{
        incidents::{PastIncident, PastState},
        search::with_stored,
    },
    incidents::IncidentRead,
};
use kubecrier_core::{
    Event,
    access::{Action, Viewer},
};
use kubecrier_history::History;
use kubecrier_incidents::{Incident, objects::ObjectRef};
use kubecrier_k8s::{
    Cluster, ClusterError, ErrorKind, EventQuery, EventRow, ObjectName, ResolvedIncident,
};

/// Warnings that were kept are those of an incident if they came this long before its first
/// symptom or after its end; of so many, the newest are shown.
const EVENTS_AROUND: SignedDuration = SignedDuration::from_mins(10);
const EVENTS_LOOKED_AT: usize = 100;

/// An incident that is open, or was.
pub(in crate::tools) enum Found {
    Open(Arc<Incident>),
    Resolved(Arc<ResolvedIncident>),
    /// Only the history has it.
    Kept(Box<PastIncident>),
}

/// Whether the history is looked at though the cluster does not answer: one that refuses this
/// server has none for it.
pub(in crate::tools) fn may_be_kept(error: &ClusterError) -> bool {
    matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout)
}

/// The history, for a caller that may see all incidents of it: they join objects that were read
/// with the rights of the server.
pub(in crate::tools) fn kept_incidents<'a>(context: &ToolContext<'a>) -> Option<&'a History> {
    let viewer = context.subscriptions.viewer(&context.client.requester);
    context
        .history
        .filter(|_| matches!(viewer, Ok(Viewer::Everything)))
}

/// The newest warnings about an object, of an incident that is over those of its time if they
/// are kept. There is a story without them too.
pub(super) async fn events(
    context: &ToolContext<'_>,
    in_context: Option<&str>,
    cluster: &str,
    object: &ObjectRef,
    found: &Found,
) -> Vec<Arc<Event>> {
    let Ok(in_namespace) = namespace(Some(object.namespace.to_string())) else {
        return Vec::new();
    };
    let history = kept_incidents(context).zip(found.ended_at());
    let since = history.and_then(|_| {
        let began = found.incident().since.checked_sub(EVENTS_AROUND);
        let began = began.unwrap_or(Timestamp::MIN);
        Timestamp::now().duration_since(began).try_into().ok()
    });
    let query = &EventQuery {
        namespace: in_namespace,
        involved: Some(ObjectName {
            kind: object.kind.to_string(),
            exact: true,
            name: object.name.to_string(),
        }),
        types: vec!["Warning".to_owned()],
        since,
        limit: if since.is_some() {
            EVENTS_LOOKED_AT
        } else {
            EVENTS_MAX
        },
        ..EventQuery::default()
    };
    let request = |cluster: Cluster| async move { cluster.events(query).await };
    let mut page = context.with_cluster(in_context, request).await;
    if let Some((history, _)) = history {
        page = with_stored(
            (history, &Viewer::Everything),
            context.contexts,
            cluster,
            query,
            page,
        )
        .await;
    }
    if let (Ok(_), Ok(Viewer::User(view))) = (
        &page,
        context.subscriptions.viewer(&context.client.requester),
    ) {
        context.needs([view.right(cluster, Action::LIST_EVENTS, &object.namespace)]);
    }
    let rows = page.map(|page| page.items).unwrap_or_default();
    let until = history.map(|(_, ended)| ended + EVENTS_AROUND);
    rows.into_iter()
        .map(|EventRow(event)| event)
        .filter(|event| until.is_none_or(|until| event.timestamp <= until))
        .take(EVENTS_MAX)
        .collect()
}

// === impl Found ===

impl Found {
    /// What is open now, or was lately.
    pub(super) fn live(read: &IncidentRead, id: &str) -> Option<Self> {
        let open = read.open().into_iter().find(|one| one.id == id);
        let mut resolved = read.resolved().into_iter();
        match (open, resolved.find(|one| one.incident.id == id)) {
            (Some(open), _) => Some(Self::Open(Arc::clone(open))),
            (None, Some(resolved)) => Some(Self::Resolved(Arc::clone(resolved))),
            (None, None) => None,
        }
    }

    pub(super) fn incident(&self) -> &Incident {
        match self {
            Self::Open(incident) => incident,
            Self::Resolved(resolved) => &resolved.incident,
            Self::Kept(past) => past.incident(),
        }
    }

    /// Whether it is over, as far as that is known.
    pub(super) fn state(&self) -> PastState {
        match self {
            Self::Open(_) => PastState::Open,
            Self::Resolved(one) => PastState::Resolved {
                at: one.at,
                after: one.after,
            },
            Self::Kept(past) => past.state,
        }
    }

    /// When it was over, or it was known that it is.
    fn ended_at(&self) -> Option<Timestamp> {
        match self.state() {
            PastState::Open => None,
            PastState::Resolved { at, .. } | PastState::GoneBy { at } => Some(at),
        }
    }
}
