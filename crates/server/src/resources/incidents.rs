//! `k8s://{context}/incidents` and `k8s://{context}/{namespace}/incidents`: what is wrong now,
//! with an update when an incident is opened, changed or resolved.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use kubecrier_core::{ResourceType, UpdateSummary, access::Gate, incident::IncidentSummary};
use parking_lot::Mutex;
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    CheckFuture, FollowGuard, META, ReadFuture, Requester, ResourceError, ResourceProvider,
    UpdatePublisher,
    completion::{self, CompletionFuture, CompletionRequest},
    of_cluster,
    uri::{self, ClusterUri, UriTarget},
};
use crate::{
    incidents::{Incidents, NoticeCache},
    shared_reads::SharedRead,
    tool_filter::ToolFilter,
    viewers::Viewers,
};
use kubecrier_k8s::{
    ClusterError, Contexts, IncidentFollower, IncidentSnapshot, IncidentUpdate, IncidentView, Name,
    hold_lease,
};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_redact::Redactor;

const NARROW: &str = "narrow by namespace, or call faults_list with a severity";

/// Incidents as resources.
pub(crate) struct IncidentResources {
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) incidents: Incidents,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) redactor: Redactor,
    /// What the operator has switched off.
    pub(crate) tool_filter: ToolFilter,
    /// How callers see what is shared.
    pub(crate) viewers: Viewers,
    /// The most that a read answers.
    pub(crate) bytes_max: usize,
}

/// The incidents that a URI names.
struct IncidentsRequest {
    context: String,
    namespace: Option<Name>,
}

/// Publishes updates of one URI.
struct IncidentsNotifier {
    uri: String,
    updates: UpdatePublisher,
    redactor: Redactor,
    notices: Arc<NoticeCache>,
    /// A lock, because a change that comes while following begins must not overtake the first
    /// update.
    progress: Mutex<Progress>,
}

/// What was published so far.
#[derive(Debug, Default)]
struct Progress {
    /// The last published update; none before the first.
    seq: Option<u64>,
    /// Incidents that were opened, changed or resolved.
    count: u64,
}

// === impl IncidentsRequest ===

impl IncidentsRequest {
    fn read(uri: &str) -> Result<Self, ResourceError> {
        match ClusterUri::read(uri)? {
            ClusterUri {
                context,
                namespace,
                target: UriTarget::Incidents,
            } => Ok(Self { context, namespace }),
            _ => Err(ResourceError::not_found(uri)),
        }
    }

    fn scope(&self) -> (Option<&str>, Option<&Name>) {
        (Some(self.context.as_str()), self.namespace.as_ref())
    }
}

// === impl IncidentResources ===

impl IncidentResources {
    async fn view(
        &self,
        uri: &str,
        request: &IncidentsRequest,
        requester: &Requester,
    ) -> Result<IncidentView, ResourceError> {
        let (context, namespace) = request.scope();
        let caller = requester.share_key();
        let (viewer, watches) = (
            self.viewers.of(&requester.caller)?,
            self.incidents.watches(),
        );
        let view = watches.read(&caller, &viewer, context, namespace);
        view.await.map_err(|error| of_cluster(uri, &error))
    }
}

impl ResourceProvider for IncidentResources {
    fn owns(&self, uri: &str) -> bool {
        let address = uri.parse::<ClusterUri>();
        address.is_ok_and(|address| matches!(address.target, UriTarget::Incidents))
    }

    fn shared_updates(&self) -> Option<SharedRead> {
        Some(SharedRead::Incidents)
    }

    fn resource_type(&self) -> Option<ResourceType> {
        Some(ResourceType::Events)
    }

    fn notifies_on_start(&self) -> bool {
        true
    }

    fn list(&self, _requester: &Requester) -> Vec<Resource> {
        let contexts = self.contexts.list().unwrap_or_default();
        let usual = contexts.into_iter().find(|one| one.default);
        let entry = usual.and_then(|usual| {
            let watches = self.incidents.watches();
            let context = Some(usual.name.as_str());
            // A server that is confined to namespaces has none of the whole cluster.
            let namespace = match watches.check(context, None) {
                Ok(()) => None,
                Err(_) => Some(Name::label("namespace", &usual.namespace).ok()?),
            };
            watches.check(context, namespace.as_ref()).ok()?;
            let address = ClusterUri::incidents(&usual.name, namespace);
            let entry = Resource::new(address.to_string(), "incidents")
                .with_description(
                    "What is wrong now, the worst first; subscribe to be notified when an incident \
                     is opened, changed or resolved",
                )
                .with_mime_type("application/json");
            Some(entry)
        });
        entry.into_iter().collect()
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        let template = |uri: &str, name: &str, place: &str| {
            ResourceTemplate::new(uri, name)
                .with_description(format!(
                    "Incidents of {place}: what is wrong, since when and why, the worst first. Subscribe \
                     to be notified when one is opened, changed or resolved"
                ))
                .with_mime_type("application/json")
        };
        vec![
            template(uri::INCIDENTS, "incidents", "a cluster"),
            template(
                uri::INCIDENTS_OF_NAMESPACE,
                "incidents-of-namespace",
                "a namespace",
            ),
        ]
    }

    fn read<'a>(&'a self, uri: &'a str, requester: &'a Requester) -> ReadFuture<'a> {
        self.read_within(uri, requester, self.bytes_max)
    }

    fn read_within<'a>(
        &'a self,
        uri: &'a str,
        requester: &'a Requester,
        bytes_max: usize,
    ) -> ReadFuture<'a> {
        Box::pin(async move {
            let request = IncidentsRequest::read(uri)?;
            let view = self.view(uri, &request, requester).await?;
            let snapshot = view.snapshot_for_answer().await;
            let snapshot = snapshot.map_err(|error| of_cluster(uri, &error))?;
            let content = content(&snapshot, bytes_max);
            let text = ResourceContents::text(content.to_string(), uri);
            Ok(vec![text.with_mime_type("application/json")])
        })
    }

    fn may_subscribe(&self, uri: &str, _requester: &Requester) -> Result<(), ResourceError> {
        let request = IncidentsRequest::read(uri)?;
        let (context, namespace) = request.scope();
        let checked = self.incidents.watches().check(context, namespace);
        checked.map_err(|error| of_cluster(uri, &error))
    }

    fn check<'a>(&'a self, uri: &'a str, requester: &'a Requester) -> CheckFuture<'a> {
        Box::pin(async move {
            let request = IncidentsRequest::read(uri)?;
            // The watcher is kept for a while, so a subscription that follows need not list
            // again.
            self.view(uri, &request, requester).await.map(drop)
        })
    }

    fn claim(&self, uri: &str, requester: &Requester) -> Result<FollowGuard, ResourceError> {
        let request = IncidentsRequest::read(uri)?;
        let (context, namespace) = request.scope();
        let caller = requester.share_key();
        let claim = self.incidents.watches().claim(&caller, context, namespace);
        let refused = |error: ClusterError| ResourceError::Refused(error.to_string());
        claim.map(FollowGuard::new).map_err(refused)
    }

    fn follow(&self, uri: &str, updates: &UpdatePublisher) -> FollowGuard {
        let Ok(request) = IncidentsRequest::read(uri) else {
            return FollowGuard::none();
        };
        let notifier = Arc::new(IncidentsNotifier {
            uri: uri.to_owned(),
            updates: updates.clone(),
            redactor: self.redactor.clone(),
            notices: Arc::clone(self.incidents.notices()),
            progress: Mutex::default(),
        });
        let stop = CancellationToken::new();
        let lease = FollowGuard::new(stop.clone().drop_guard());
        let incidents = self.incidents.clone();
        let draining = self.lifecycle.draining().clone();
        self.lifecycle.spawn("incidents resource", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = draining.cancelled() => {}
                never = follow(&incidents, &request, &notifier) => match never {},
            }
        });
        lease
    }

    fn complete<'a>(&'a self, asked: CompletionRequest<'a>) -> Option<CompletionFuture<'a>> {
        if ![uri::INCIDENTS, uri::INCIDENTS_OF_NAMESPACE].contains(&asked.template) {
            return None;
        }
        completion::complete_from_cluster(&self.contexts, &self.tool_filter, asked)
    }
}

/// Joins the incidents and holds them for as long as the future lives. A failure is published
/// once and retried.
async fn follow(
    incidents: &Incidents,
    request: &IncidentsRequest,
    notifier: &Arc<IncidentsNotifier>,
) -> Infallible {
    let (context, namespace) = request.scope();
    let watches = incidents.watches();
    hold_lease(
        || {
            let viewer = notifier.updates.viewer();
            watches.follow(viewer, context, namespace, Arc::clone(notifier) as _)
        },
        |view: &IncidentView| notifier.publish_start(&view.snapshot()),
        |error| notifier.publish_failure(error),
    )
    .await
}

/// The content of a read: as many incidents as fit. Their text is redacted where it is read.
fn content(snapshot: &IncidentSnapshot, bytes_max: usize) -> Value {
    let IncidentSnapshot {
        context,
        namespace,
        at,
        open,
        resolved,
        notes,
        seq,
        clearance: _,
    } = snapshot;
    let mut content = json!({
        "context": context,
        "namespace": namespace,
        "at": at,
        "seq": seq,
        "notes": notes,
    });
    let mut bytes = content.to_string().len();
    let mut fits = |value: &Value| {
        bytes += value.to_string().len() + 1;
        bytes <= bytes_max
    };
    let rows = open.iter().map(|one| json!(IncidentSummary::new(one)));
    let rows: Vec<_> = rows.take_while(&mut fits).collect();
    let over = resolved.iter().map(|one| {
        let mut row = json!(IncidentSummary::new(&one.incident).with_effects(&one.incident, 0));
        row["resolvedAt"] = json!(one.at);
        row["durationSeconds"] = json!(one.after.as_secs());
        row
    });
    let over: Vec<_> = over.take_while(&mut fits).collect();
    if rows.len() < open.len() {
        let more = open.len() - rows.len();
        content["more"] = json!({"incidents": more, "hint": NARROW});
    }
    content["incidents"] = rows.into();
    content["resolved"] = over.into();
    content
}

// === impl IncidentsNotifier ===

impl IncidentsNotifier {
    /// Publishes that following has begun: earlier changes were not published.
    fn publish_start(&self, snapshot: &IncidentSnapshot) {
        let mut progress = self.progress.lock();
        progress.seq = Some(snapshot.seq);
        let open = snapshot.open.len();
        let summary = format!("followed from here on: {open} incidents are open");
        self.publish(&progress, summary, None);
    }

    /// Publishes why the incidents cannot be followed. A cluster's own text may contain secrets.
    fn publish_failure(&self, error: &ClusterError) {
        let shown = error.redacted(&self.redactor);
        let hint = shown.hint().map(|hint| format!("; {hint}"));
        let summary = format!("{shown}{}", hint.unwrap_or_default());
        self.publish(&self.progress.lock(), summary, None);
    }

    fn publish(&self, progress: &Progress, summary: String, gate: Option<Arc<Gate>>) {
        let update = UpdateSummary {
            seq: progress.seq.unwrap_or_default(),
            count: progress.count,
            summary,
        };
        let meta = BTreeMap::from([(META, update)]);
        let (counted, gate) = (Some(ResourceType::Events), gate.map(|gate| gate as _));
        (self.updates).publish_gated(&self.uri, counted, Some(&meta), gate);
    }
}

impl IncidentFollower for IncidentsNotifier {
    fn on_update(&self, update: &Arc<IncidentUpdate>) {
        let mut progress = self.progress.lock();
        // Not begun yet, or from before the beginning: the first update covers it.
        if progress.seq.is_none_or(|last| update.seq <= last) {
            return;
        }
        progress.seq = Some(update.seq);
        let notices = self.notices.get(update);
        let Some(first) = notices.first() else {
            return;
        };
        progress.count += u64::try_from(notices.len()).unwrap_or_default();
        let summary = match notices.len() {
            1 => first.summary().to_owned(),
            count => format!("{} and {} more", first.summary(), count - 1),
        };
        // Only the first one is told of by name.
        self.publish(&progress, summary, first.gate().cloned());
    }
}

#[cfg(test)]
mod tests;
