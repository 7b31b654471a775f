//! A small Kubernetes API in memory, for the Kubernetes client of production.
//!
//! ```text
//!  kube::Client ── http::Request ──▶ ApiService ──▶ fault injection, authorization
//!                                        │
//!            list, get, discovery ◀──────┼──────▶ watch, log (streams)
//!                                        ▼
//!                            Store: objects, the last changes
//!                                        ▲
//!              DemoCluster (a handle) ───┘   put, emit, compact, freeze, ...
//! ```
//!
//! There are no sockets and no tasks, and all time is tokio's: a test that pauses the clock is
//! deterministic. Objects, history, logs and the record of requests are bounded.
//!
//! The responses are those of kube-apiserver 1.36: `tests/it/beside` sends the same requests
//! to both. What is left out on purpose:
//!
//! - The API cannot write, except for self access reviews: writes get 405, and discovery lists
//!   the verbs that read.
//! - The only format is JSON: no YAML, no protobuf, no tables.
//! - The resources are those of one table, with `pods/log` as the only subresource. Objects are
//!   neither defaulted nor validated.
//! - There are no controllers and no kubelets; a [`Scenario`] simulates them.
//! - Every bearer token is valid; the user is that of `Impersonate-User`.

mod access;
mod clock;
mod cluster;
mod events;
mod faults;
mod fields;
mod list;
mod logs;
mod random;
mod request;
mod resource;
mod scenario;
mod selector;
mod service;
mod shared;
mod status;
mod store;
mod view;
mod watch;

pub use crate::{
    access::Grant,
    cluster::{DemoCluster, Options},
    events::NewEvent,
    faults::{Fault, RecordedRequest, RequestMatcher},
    scenario::Scenario,
    service::{ApiBody, ApiService},
    store::PutError,
};
