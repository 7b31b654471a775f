//! The objects of a cluster and what ties them together, without asking anybody.
//!
//! ```text
//!  Facts (what one object says) ──▶ Graph ──▶ snapshot: nodes and edges
//!     set, remove, relist            │ └────▶ around: the neighbourhood of one object
//!                                    └─ what was touched ──▶ Delta, or silence
//! ```
//!
//! Nodes and edges follow from the facts alone, so they cannot depend on the order in
//! which watches tell them. An edge hangs on the facts of its two ends and on nothing
//! else: whatever changes one object can only change what is right around it.

mod around;
mod delta;
mod facts;
mod kind;
mod labels;
mod node;
mod render;
mod store;
mod touched;

pub use self::{
    around::Around,
    delta::{Delta, Follower, Told, Update},
    facts::{Claim, Facts, Id},
    kind::{Kind, Kinds, NotAKind},
    labels::Labels,
    node::{Edge, Node, Relation, Snapshot},
    store::{Graph, Reach},
};
