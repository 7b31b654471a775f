//! A small Kubernetes API in memory, under the client that production uses.
//!
//! ```text
//!  kube::Client ── http::Request ──▶ ApiService ──▶ faults, rights, freezing
//!                                        │
//!            list, get, discovery ◀──────┼──────▶ watch, log (streams)
//!                                        ▼
//!                            Store: objects, the last changes
//!                                        ▲
//!              DemoCluster (a handle) ───┘   put, emit, compact, cut, freeze, ...
//! ```
//!
//! There are no sockets and no tasks, and all time is tokio's: a test that pauses
//! the clock is exact. Objects, history, logs and the memory of requests are
//! bounded.
//!
//! It answers as kube-apiserver 1.36 does, and `tests/it` asks both side by side.
//! What it leaves out, on purpose:
//!
//! - Nothing can be written through the API but reviews of one's own rights;
//!   writes are answered with 405, and discovery lists reading verbs only.
//! - Only JSON is spoken: no YAML, no protobuf, no tables.
//! - Resources are those of one table; subresources other than `pods/log` are not
//!   there. Nothing is defaulted or validated: what is put is what is answered.
//! - There is no controller and no kubelet; a story plays their part.
//! - Every bearer token is good; who one is follows from `Impersonate-User`.

mod access;
mod clock;
mod cluster;
mod events;
mod faults;
mod list;
mod logs;
mod random;
mod request;
mod resource;
mod selector;
mod service;
mod shared;
mod status;
mod store;
mod story;
mod view;
mod watch;

pub use crate::{
    access::Grant,
    cluster::{DemoCluster, Options},
    events::Occurrence,
    faults::{Fault, Matching, Seen},
    service::{ApiBody, ApiService},
    store::Rejected,
    story::Story,
};
