//! A real Kubernetes control plane on loopback, for tests and for manual use.
//!
//! ```text
//!  test binary                                     children, one guard each
//!  ┌───────────────────────────────┐
//!  │ Testbed ── Cluster "dev" ─────┼── sh guard ── etcd
//!  │         │                     ├── sh guard ── kube-apiserver (TLS, RBAC)
//!  │         │                     │                    │ GET /containerLogs/..
//!  │         │   NodeEndpoint <────┼────────────────────┘
//!  │         └─ Cluster "prod" ... │
//!  └───────────────────────────────┘
//! ```
//!
//! etcd, kube-apiserver, certificates and RBAC are real. Only the kubelet's log endpoint
//! is replaced, because a real one would need a container runtime: the API server proxies
//! `GET .../pods/x/log` to it as it would to any node.
//!
//! A guard kills its child and removes the data as soon as the process that started it
//! has ended, for whatever reason.

mod authority;
mod binaries;
mod cache;
mod clients;
mod cluster;
mod conformance;
mod crds;
mod go_tool;
mod guard;
mod install;
mod kubeconfig;
mod node;
mod objects;
mod script;
mod service_account;
mod shared;
mod users;
mod uv;

pub use crate::{
    authority::{Authority, Issued, Validity},
    binaries::{Binaries, Missing, Progress},
    clients::Client,
    cluster::{Cluster, Options},
    conformance::Suite,
    crds::Crds,
    go_tool::GoTool,
    kubeconfig::Kubeconfig,
    node::{LogRequest, NodeEndpoint},
    objects::{deployment, event, namespace, pod},
    script::{LogScript, Selection},
    service_account::{BoundToken, Mount},
    shared::{Testbed, shared, skip},
    users::User,
    uv::Uv,
};
