//! `k8s://{context}/{namespace}/graph`: what there is, what ties it together, and what
//! changes of it.

use std::{collections::HashSet, sync::Arc};

use mcp_notify::ResourceType;
use parking_lot::Mutex;
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    Changed, Checking, Family, Lease, Reading, ResourceError, Updates, Who,
    address::{self, Address, What},
    completion::{self, Completing, Completion},
    of_cluster,
};
use kubecrier_k8s::{Contexts, GraphView, Graphs, Name, Seen};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_redact::Redactor;
use kubecrier_topology::{Follower, Kind, Kinds, Snapshot, Told, Update};

/// How long to wait before a graph that could not be had is tried again.
const DELAYS: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
    Duration::from_secs(30),
];

const NARROW: &str = "narrow by namespace or kinds, or ask resources_graph for the \
                      neighbourhood of one object";

/// Graphs as resources.
pub(crate) struct GraphResources {
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) graphs: Graphs,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) redactor: Redactor,
    /// The most that a read answers.
    pub(crate) bytes_max: usize,
}

/// What a URI asks for.
struct Wanted {
    context: String,
    namespace: Option<Name>,
    kinds: Kinds,
}

/// Tells of the changes of one URI.
struct Teller {
    uri: String,
    kinds: Kinds,
    updates: Updates,
    redactor: Redactor,
    /// How far it was told; nothing was if it is 0. A lock, because what is told while
    /// following begins must not overtake the word that it has.
    told: Mutex<u64>,
}

// === impl Wanted ===

impl Wanted {
    fn read(uri: &str) -> Result<Self, ResourceError> {
        let Address {
            context,
            namespace,
            what: What::Graph(wanted),
        } = Address::read(uri)?
        else {
            return Err(ResourceError::not_found(uri));
        };
        let kinds = Kinds::parse(wanted.kinds.iter().map(String::as_str));
        Ok(Self {
            context,
            namespace,
            kinds: kinds.map_err(|error| ResourceError::Invalid(error.to_string()))?,
        })
    }
}

// === impl GraphResources ===

impl GraphResources {
    async fn join(&self, uri: &str, wanted: &Wanted) -> Result<GraphView, ResourceError> {
        let (context, namespace) = (Some(wanted.context.as_str()), wanted.namespace.as_ref());
        let joined = self.graphs.join(context, namespace, None).await;
        joined.map_err(|error| of_cluster(uri, &error))
    }
}

impl Family for GraphResources {
    fn owns(&self, uri: &str) -> bool {
        let address = uri.parse::<Address>();
        address.is_ok_and(|address| matches!(address.what, What::Graph(_)))
    }

    fn resource_type(&self) -> Option<ResourceType> {
        Some(ResourceType::Graph)
    }

    fn says_when_it_follows(&self) -> bool {
        true
    }

    fn entries(&self, _who: &Who) -> Vec<Resource> {
        let contexts = self.contexts.list().unwrap_or_default();
        let usual = contexts.into_iter().find(|one| one.default);
        let entry = usual.map(|usual| {
            let namespace = Name::label("namespace", &usual.namespace).ok();
            let address = Address::graph(&usual.name, namespace);
            Resource::new(address.to_string(), "graph")
                .with_description(
                    "What there is in the usual namespace and what ties it together; subscribe to \
                     be told what changes",
                )
                .with_mime_type("application/json")
        });
        entry.into_iter().collect()
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        let template = ResourceTemplate::new(address::GRAPH, "graph");
        vec![
            template
                .with_description(
                    "Nodes and edges of a namespace (`-`: of the whole cluster): workloads, pods, \
                     services, ingresses, nodes, and the names of what they use; of some kinds only if \
                     named. Subscribe to be told what changes",
                )
                .with_mime_type("application/json"),
        ]
    }

    fn read<'a>(&'a self, uri: &'a str, _who: &'a Who) -> Reading<'a> {
        Box::pin(async move {
            let wanted = Wanted::read(uri)?;
            let view = self.join(uri, &wanted).await?;
            let seen = view.snapshot(&wanted.kinds);
            let content = content(&wanted, seen, self.bytes_max);
            let text = ResourceContents::text(content.to_string(), uri);
            Ok(vec![text.with_mime_type("application/json")])
        })
    }

    fn may_subscribe(&self, uri: &str, _who: &Who) -> Result<(), ResourceError> {
        let wanted = Wanted::read(uri)?;
        let context = self.contexts.resolve(Some(&wanted.context));
        context.map(drop).map_err(|error| of_cluster(uri, &error))
    }

    fn check<'a>(&'a self, uri: &'a str, _who: &'a Who) -> Checking<'a> {
        Box::pin(async move {
            let wanted = Wanted::read(uri)?;
            // It is kept for a while, so whoever follows it then need not list again.
            self.join(uri, &wanted).await.map(drop)
        })
    }

    fn follow(&self, uri: &str, updates: &Updates) -> Lease {
        let Ok(wanted) = Wanted::read(uri) else {
            return Lease::none();
        };
        let teller = Arc::new(Teller {
            uri: uri.to_owned(),
            kinds: wanted.kinds.clone(),
            updates: updates.clone(),
            redactor: self.redactor.clone(),
            told: Mutex::default(),
        });
        let stop = CancellationToken::new();
        let lease = Lease::new(stop.clone().drop_guard());
        let graphs = self.graphs.clone();
        let draining = self.lifecycle.draining().clone();
        self.lifecycle.spawn("graph resource", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = draining.cancelled() => {}
                () = follow(&graphs, &wanted, &teller) => {}
            }
        });
        lease
    }

    fn complete<'a>(&'a self, asked: Completion<'a>) -> Option<Completing<'a>> {
        if asked.template != address::GRAPH {
            return None;
        }
        if asked.variable != "kinds" {
            return completion::of_cluster(&self.contexts, asked);
        }
        // The last of several.
        let before = asked.given.rfind(',').map_or(0, |at| at + 1);
        let begin = &asked.given[..before];
        let kinds = Kind::ALL.map(|kind| format!("{begin}{kind}"));
        Some(completion::words(kinds.into(), asked.given))
    }
}

/// Follows a graph for as long as the future lives. What cannot be had is told once
/// and tried again.
async fn follow(graphs: &Graphs, wanted: &Wanted, teller: &Arc<Teller>) {
    let (context, namespace) = (Some(wanted.context.as_str()), wanted.namespace.as_ref());
    let mut failures = 0;
    loop {
        let follower = Arc::clone(teller) as _;
        match graphs.join(context, namespace, Some(follower)).await {
            Ok(view) => {
                teller.begin(&view.count());
                let _held = view;
                return std::future::pending().await;
            }
            Err(error) if failures == 0 => {
                let hint = error.hint().map(|hint| format!("; {hint}"));
                teller.say(&format!("{error}{}", hint.unwrap_or_default()));
            }
            Err(_again) => {}
        }
        sleep(DELAYS[failures.min(DELAYS.len() - 1)]).await;
        failures += 1;
    }
}

/// What a read answers: as many nodes as fit, and the edges between them.
fn content(wanted: &Wanted, seen: Seen<Snapshot>, bytes_max: usize) -> Value {
    let Seen { what, notes, seq } = seen;
    let mut content = json!({
        "context": wanted.context,
        "namespace": wanted.namespace.as_ref().map(Name::as_str),
        "kinds": wanted.kinds,
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

// === impl Teller ===

impl Teller {
    /// Following has begun: what was before nobody was told.
    fn begin(&self, seen: &Seen<usize>) {
        let mut told = self.told.lock();
        *told = seen.seq;
        let count = seen.what;
        self.send(&Update {
            seq: seen.seq,
            since: 0,
            count,
            summary: format!("followed from here on: {count} objects"),
            delta: None,
            reread: true,
        });
    }

    /// Says something that is no change. A cluster's own words may have secrets in them.
    fn say(&self, summary: &str) {
        let told = self.told.lock();
        let changed = Changed {
            seq: *told,
            count: 0,
            summary: self.redactor.workload(summary).into_owned(),
        };
        self.updates
            .changed(&self.uri, ResourceType::Graph, &changed);
    }

    fn send(&self, update: &Update) {
        let mut update = serde_json::to_value(update).unwrap_or_default();
        self.redactor.json(&mut update);
        self.updates
            .changed(&self.uri, ResourceType::Graph, &update);
    }
}

impl Follower for Teller {
    fn changed(&self, change: &Told) {
        let mut told = self.told.lock();
        // Not begun yet, or from before it had: the word that it has says what there is
        // by then.
        if *told == 0 || change.seq <= *told {
            return;
        }
        if let Some(update) = Update::new(change, *told, &self.kinds) {
            *told = change.seq;
            self.send(&update);
        }
    }
}

#[cfg(test)]
mod tests;
