//! A real Kubernetes control plane on loopback, for tests and for manual use.
//!
//! ```text
//!  test binary                                     children, one guard each
//!  ┌───────────────────────────────┐
//!  │ Testbed ── Cluster "dev" ─────┼── sh guard ── etcd
//!  │         │                     ├── sh guard ── kube-apiserver (TLS, RBAC)
//!  │         │                     │                    │ GET /containerLogs/..
//!  │         │   NodeEndpoint <────┼────────────────────┘
//!  │         │   Controllers ──────┼── sh guard ── kube-controller-manager, kube-scheduler
//!  │         │   Kubelets          │              (only where a test asks for them)
//!  │         └─ Cluster "prod" ... │
//!  └───────────────────────────────┘
//! ```
//!
//! etcd, kube-apiserver, controllers, certificates and RBAC are real. Only kubelets are
//! replaced, because real ones would need a container runtime: the API server proxies
//! `GET .../pods/x/log` to the endpoint as it would to any node, and `Kubelets` keeps nodes
//! alive and writes the status of their pods.
//!
//! A guard kills its child and removes the data as soon as the process that started it
//! has ended, for whatever reason.

pub mod agents;
mod authority;
mod binaries;
mod cache;
mod clients;
mod cluster;
mod conformance;
mod controllers;
mod crds;
mod go_tool;
mod guard;
mod install;
mod keycloak;
mod kubeconfig;
mod kubelet;
mod mcpb;
mod nats;
mod node;
mod objects;
mod program;
mod script;
mod service_account;
mod shared;
mod store;
mod users;
mod uv;

pub use crate::{
    authority::{Authority, Issued, Validity},
    binaries::{Binaries, ControllerBinaries, Missing, Progress},
    clients::Client,
    cluster::{Cluster, Options},
    conformance::Suite,
    controllers::Controllers,
    crds::Crds,
    go_tool::GoTool,
    keycloak::Keycloak,
    kubeconfig::Kubeconfig,
    kubelet::{Kubelets, PLAYS},
    mcpb::Mcpb,
    nats::{NatsOptions, NatsServer},
    node::{LogRequest, NodeEndpoint},
    objects::{deployment, event, namespace, pod},
    program::Program,
    script::{LogScript, Selection},
    service_account::{BoundToken, Mount},
    shared::{Testbed, binaries_or_skip, shared, skip},
    users::User,
    uv::Uv,
};
