//! The graph of a cluster's objects: summaries in, nodes and edges out.
//!
//! ```text
//!  ObjectSummary ──▶ Graph ──▶ Snapshot: nodes and edges
//!  (apply, delete,    │ └────▶ Neighbourhood of one object
//!   relist)           └─ pending changes ──▶ Delta ──▶ GraphChange ──▶ GraphUpdate
//! ```
//!
//! - `object`: what the graph keeps of an object, and its references to others
//! - `kind`, `labels`: the kinds of nodes; labels and selectors
//! - `store`: the graph: summaries and indexes, from which nodes and edges are derived
//! - `node`: nodes, edges and snapshots
//! - `pending`: what changed since the last delta
//! - `delta`: changes, and the update that a subscriber is sent
//! - `visibility`: what a reader may see of a graph
//! - `neighbourhood`: the objects around one object
//! - `render`: a neighbourhood as a tree, as data and as a Mermaid flowchart
//!
//! Nodes and edges are derived from the summaries alone, so they cannot depend on the
//! order in which watches report objects. An edge depends on its two ends and on nothing
//! else: a change of one object can only change edges at that object.

mod delta;
mod kind;
mod labels;
mod neighbourhood;
mod node;
mod object;
mod pending;
mod render;
mod store;
mod visibility;

pub use self::{
    delta::{Delta, GraphChange, GraphSubscriber, GraphUpdate},
    kind::{Kind, KindFilter, UnknownKind},
    labels::Labels,
    neighbourhood::Neighbourhood,
    node::{Edge, Node, Relation, Snapshot},
    object::{ObjectId, ObjectSummary, Reference},
    store::{Graph, GraphScope},
    visibility::{KindExtent, Visibility},
};
