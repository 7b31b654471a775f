//! `k8s://{context}/{namespace}/graph`: what there is, what ties it together, and what
//! changes of it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    convert::Infallible,
    sync::Arc,
};

use kubecrier_core::{
    ResourceType, UpdateSummary,
    access::{Action, Gate, Sight},
};
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
use crate::{shared_reads::SharedRead, tool_filter::ToolFilter, viewers::Viewers};
use kubecrier_k8s::{
    ClusterError, Contexts, GraphRead, GraphView, Graphs, Name, hold_lease, identity,
};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_redact::Redactor;
use kubecrier_topology::{
    Delta, GraphChange, GraphSubscriber, GraphUpdate, Kind, KindFilter, Node, Snapshot,
};

const NARROW: &str = "narrow by namespace or kinds, or ask resources_graph for the \
                      neighbourhood of one object";

/// Graphs as resources.
pub(crate) struct GraphResources {
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) graphs: Graphs,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) redactor: Redactor,
    /// What the operator has switched off.
    pub(crate) tool_filter: ToolFilter,
    /// How callers see what is shared.
    pub(crate) viewers: Viewers,
    /// The most that a read answers.
    pub(crate) bytes_max: usize,
}

/// The graph that a URI names.
struct GraphRequest {
    context: String,
    namespace: Option<Name>,
    kinds: KindFilter,
}

/// Publishes updates of one graph URI.
struct GraphNotifier {
    uri: String,
    kinds: KindFilter,
    updates: UpdatePublisher,
    /// What the subscribers have to be allowed, if they are a user.
    sight: Option<Sight>,
    redactor: Redactor,
    /// The last published change; 0 before the first update. A lock, because a change
    /// that comes while following begins must not overtake the first update.
    last_seq: Mutex<u64>,
}

// === impl GraphRequest ===

impl GraphRequest {
    fn read(uri: &str) -> Result<Self, ResourceError> {
        let ClusterUri {
            context,
            namespace,
            target: UriTarget::Graph(request),
        } = ClusterUri::read(uri)?
        else {
            return Err(ResourceError::not_found(uri));
        };
        let kinds = KindFilter::parse(request.kinds.iter().map(String::as_str));
        Ok(Self {
            context,
            namespace,
            kinds: kinds.map_err(|error| ResourceError::Invalid(error.to_string()))?,
        })
    }
}

// === impl GraphResources ===

impl GraphResources {
    async fn view(
        &self,
        uri: &str,
        request: &GraphRequest,
        requester: &Requester,
    ) -> Result<GraphView, ResourceError> {
        let (context, namespace) = (Some(request.context.as_str()), request.namespace.as_ref());
        let caller = requester.share_key();
        let viewer = self.viewers.of(&requester.caller)?;
        let view = self.graphs.read(&caller, &viewer, context, namespace).await;
        view.map_err(|error| of_cluster(uri, &error))
    }
}

impl ResourceProvider for GraphResources {
    fn owns(&self, uri: &str) -> bool {
        let address = uri.parse::<ClusterUri>();
        address.is_ok_and(|address| matches!(address.target, UriTarget::Graph(_)))
    }

    fn shared_updates(&self) -> Option<SharedRead> {
        Some(SharedRead::Graph)
    }

    fn resource_type(&self) -> Option<ResourceType> {
        Some(ResourceType::Graph)
    }

    fn notifies_on_start(&self) -> bool {
        true
    }

    fn list(&self, _requester: &Requester) -> Vec<Resource> {
        let contexts = self.contexts.list().unwrap_or_default();
        let usual = contexts.into_iter().find(|one| one.default);
        let entry = usual.and_then(|usual| {
            let namespace = Name::label("namespace", &usual.namespace).ok();
            let context = Some(usual.name.as_str());
            self.graphs.check(context, namespace.as_ref()).ok()?;
            let address = ClusterUri::graph(&usual.name, namespace);
            let entry = Resource::new(address.to_string(), "graph")
                .with_description(
                    "What there is in the usual namespace and what ties it together; subscribe to \
                     be notified of changes",
                )
                .with_mime_type("application/json");
            Some(entry)
        });
        entry.into_iter().collect()
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        let template = ResourceTemplate::new(uri::GRAPH, "graph");
        vec![
            template
                .with_description(
                    "Nodes and edges of a namespace (`-`: of the whole cluster): workloads, pods, \
                     services, ingresses, nodes, and the names of what they use; of some kinds only if \
                     named. Subscribe to be notified of changes",
                )
                .with_mime_type("application/json"),
        ]
    }

    fn read<'a>(&'a self, uri: &'a str, requester: &'a Requester) -> ReadFuture<'a> {
        Box::pin(async move {
            let request = GraphRequest::read(uri)?;
            let view = self.view(uri, &request, requester).await?;
            let seen = view.snapshot(&request.kinds);
            let content = content(&request, seen, self.bytes_max);
            let text = ResourceContents::text(content.to_string(), uri);
            Ok(vec![text.with_mime_type("application/json")])
        })
    }

    fn may_subscribe(&self, uri: &str, _requester: &Requester) -> Result<(), ResourceError> {
        let request = GraphRequest::read(uri)?;
        let (context, namespace) = (Some(request.context.as_str()), request.namespace.as_ref());
        let checked = self.graphs.check(context, namespace);
        checked.map_err(|error| of_cluster(uri, &error))
    }

    fn check<'a>(&'a self, uri: &'a str, requester: &'a Requester) -> CheckFuture<'a> {
        Box::pin(async move {
            let request = GraphRequest::read(uri)?;
            // The graph is kept for a while, so a subscription that follows need not
            // list again.
            self.view(uri, &request, requester).await.map(drop)
        })
    }

    fn claim(&self, uri: &str, requester: &Requester) -> Result<FollowGuard, ResourceError> {
        let request = GraphRequest::read(uri)?;
        let (context, namespace) = (Some(request.context.as_str()), request.namespace.as_ref());
        let claim = self
            .graphs
            .claim(&requester.share_key(), context, namespace);
        let refused = |error: ClusterError| ResourceError::Refused(error.to_string());
        claim.map(FollowGuard::new).map_err(refused)
    }

    fn follow(&self, uri: &str, updates: &UpdatePublisher) -> FollowGuard {
        let Ok(request) = GraphRequest::read(uri) else {
            return FollowGuard::none();
        };
        let notifier = Arc::new(GraphNotifier {
            uri: uri.to_owned(),
            kinds: request.kinds.clone(),
            updates: updates.clone(),
            sight: (updates.viewer().user()).map(|view| Sight::new(view, &request.context)),
            redactor: self.redactor.clone(),
            last_seq: Mutex::default(),
        });
        let stop = CancellationToken::new();
        let lease = FollowGuard::new(stop.clone().drop_guard());
        let graphs = self.graphs.clone();
        let draining = self.lifecycle.draining().clone();
        self.lifecycle.spawn("graph resource", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = draining.cancelled() => {}
                never = follow(&graphs, &request, &notifier) => match never {},
            }
        });
        lease
    }

    fn complete<'a>(&'a self, asked: CompletionRequest<'a>) -> Option<CompletionFuture<'a>> {
        if asked.template != uri::GRAPH {
            return None;
        }
        if asked.variable != "kinds" {
            return completion::complete_from_cluster(&self.contexts, &self.tool_filter, asked);
        }
        // The last of several.
        let before = asked.given.rfind(',').map_or(0, |at| at + 1);
        let begin = &asked.given[..before];
        let denied = self.contexts.denied_kinds();
        let kinds = Kind::ALL
            .into_iter()
            .filter(|kind| !denied.denies_resource(kind.group(), kind.plural()))
            .map(|kind| format!("{begin}{kind}"));
        Some(completion::matching(kinds.collect(), asked.given))
    }
}

/// Joins a graph and holds it for as long as the future lives. A failure is published
/// once and retried.
async fn follow(
    graphs: &Graphs,
    request: &GraphRequest,
    notifier: &Arc<GraphNotifier>,
) -> Infallible {
    let (context, namespace) = (Some(request.context.as_str()), request.namespace.as_ref());
    hold_lease(
        || {
            let viewer = notifier.updates.viewer();
            graphs.follow(viewer, context, namespace, Arc::clone(notifier) as _)
        },
        |view: &GraphView| notifier.publish_start(&view.count()),
        |error| {
            notifier.publish_failure(error);
        },
    )
    .await
}

/// The content of a read: as many nodes as fit, and the edges between them.
fn content(request: &GraphRequest, seen: GraphRead<Snapshot>, bytes_max: usize) -> Value {
    let GraphRead { what, notes, seq } = seen;
    let mut content = json!({
        "context": request.context,
        "namespace": request.namespace.as_ref().map(Name::as_str),
        "kinds": request.kinds,
        "seq": seq,
        "hash": what.hash(),
        "notes": notes,
    });
    let mut bytes = content.to_string().len();
    let mut fits = |value: &Value, limit: usize| {
        bytes += value.to_string().len() + 1;
        bytes <= limit
    };
    let mut shown = HashSet::new();
    let mut nodes = Vec::new();
    for node in &what.nodes {
        let value = serde_json::to_value(node).unwrap_or_default();
        // Nodes without what ties them together would be a list.
        if !fits(&value, bytes_max * 2 / 3) {
            break;
        }
        shown.insert(node.id());
        nodes.push(value);
    }
    let mut edges = Vec::new();
    let inside = |id| shown.contains(id);
    for edge in what
        .edges
        .iter()
        .filter(|edge| inside(&edge.from) && inside(&edge.to))
    {
        let value = serde_json::to_value(edge).unwrap_or_default();
        if !fits(&value, bytes_max) {
            break;
        }
        edges.push(value);
    }
    let more = (
        what.nodes.len() - nodes.len(),
        what.edges.len() - edges.len(),
    );
    if more != (0, 0) {
        content["more"] = json!({"nodes": more.0, "edges": more.1, "hint": NARROW});
    }
    content["nodes"] = nodes.into();
    content["edges"] = edges.into();
    content
}

// === impl GraphNotifier ===

impl GraphNotifier {
    /// Publishes that following has begun: earlier changes were not published.
    fn publish_start(&self, seen: &GraphRead<usize>) {
        let mut last_seq = self.last_seq.lock();
        *last_seq = seen.seq;
        let count = seen.what;
        let update = GraphUpdate {
            seq: seen.seq,
            since: 0,
            count,
            summary: format!("followed from here on: {count} objects"),
            delta: None,
            reread: true,
        };
        self.publish(&update, None);
    }

    /// Publishes why the graph cannot be followed. A cluster's own text may contain secrets.
    fn publish_failure(&self, error: &ClusterError) {
        let shown = error.redacted(&self.redactor);
        let hint = shown.hint().map(|hint| format!("; {hint}"));
        let last_seq = self.last_seq.lock();
        let changed = UpdateSummary {
            seq: *last_seq,
            count: 0,
            summary: format!("{shown}{}", hint.unwrap_or_default()),
        };
        self.updates
            .publish_change(&self.uri, ResourceType::Graph, &changed);
    }

    fn publish(&self, update: &GraphUpdate, gate: Option<Arc<Gate>>) {
        let mut update = serde_json::to_value(update).unwrap_or_default();
        // The summary has names and statuses, which are redacted where they are read.
        if let Some(delta) = update.get_mut("delta") {
            identity::answer(&self.redactor, delta);
        }
        let meta = BTreeMap::from([(META, update)]);
        let (counted, gate) = (Some(ResourceType::Graph), gate.map(|gate| gate as _));
        (self.updates).publish_gated(&self.uri, counted, Some(&meta), gate);
    }

    /// What the subscribers have to be allowed when they are told of these changes: to list
    /// each kind that they name.
    fn gate(&self, delta: &Delta) -> Option<Arc<Gate>> {
        let sight = self.sight.as_ref()?;
        let nodes = delta.added.iter().chain(&delta.modified).map(Node::id);
        let edges = delta.edges_added.iter().chain(&delta.edges_deleted);
        let ends = edges.flat_map(|edge| [&edge.from, &edge.to]);
        let rights: HashMap<_, _> = nodes
            .chain(&delta.deleted)
            .chain(ends)
            .map(|id| ((id.kind, Arc::clone(&id.namespace)), id))
            .map(|(place, id)| {
                let action = Action::list(*id.kind.resource());
                (place, sight.right(action, &id.namespace))
            })
            .collect();
        Some(Arc::new(Gate::new(rights.into_values())))
    }
}

impl GraphSubscriber for GraphNotifier {
    fn on_change(&self, change: &GraphChange) {
        let mut last_seq = self.last_seq.lock();
        // Not begun yet, or from before the beginning: the first update covers it.
        if *last_seq == 0 || change.seq <= *last_seq {
            return;
        }
        if let Some(update) = GraphUpdate::new(change, *last_seq, &self.kinds) {
            *last_seq = change.seq;
            let gate = self.gate(&change.delta.filtered(&self.kinds));
            self.publish(&update, gate);
        }
    }
}

#[cfg(test)]
mod tests;
