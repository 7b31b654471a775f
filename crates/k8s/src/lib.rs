//! Kubernetes clusters: the only crate that names kube. What leaves it is plain data.
//!
//! Which cluster
//! - `contexts`: the contexts of the kubeconfig, read again when it changes; every request
//!   goes through [`Contexts::with_cluster`]
//! - `kubeconfig`, `connect`, `proxy`: files, clients (made once per context), proxies
//! - `read_only`: the layer under each client that lets only reads out
//! - `client`: [`Cluster`], one cluster with a deadline for each request
//! - `demo`: a cluster in memory; `checkup`: latency, clock and rights of a cluster
//!
//! Queries
//! - `pods`, `namespaces`, `nodes`, `events`, `logs`, `usage` (the metrics API), `objects`
//!   (any kind, as a table or YAML), `changes` (what changed, from the traces it left)
//! - `kinds` (discovery), `list` (pages), `raw` (answers up to a limit), `name` (what may
//!   stand in a path), `error` (what failed and what to do)
//!
//! What goes on in the background, each shared by all who need the same (`shared_task`)
//! - `watch`: events; `graph`: the graph of objects; `follow`: logs
//! - `capture`, `investigate`, `faults`: the evidence of faults

mod capture;
mod changes;
mod checkup;
mod client;
mod connect;
mod contexts;
mod demo;
mod error;
mod events;
mod faults;
mod follow;
mod graph;
mod kinds;
mod kubeconfig;
mod list;
mod logs;
mod name;
mod namespaces;
mod nodes;
mod objects;
mod pods;
mod proxy;
mod quantity;
mod raw;
mod read_only;
mod shared_task;
mod startup;
mod usage;
mod watch;

pub use self::{
    capture::ClusterEvidence,
    changes::{Change, ChangeQuery, ChangeRow},
    checkup::{Checkup, Granted, Need, Right, needs},
    client::{Cluster, ObjectName},
    contexts::{Config, ContextInfo, Contexts, RequestError},
    demo::Demo,
    error::{ClusterError, ErrorKind, Operation},
    events::{EventQuery, EventRow},
    faults::{OpenFault, OpenFaults},
    follow::{LogFollows, LogKey, LogLease, LogListener, LogState, LogUpdate, TooManyFollows},
    graph::{GraphRead, GraphView, Graphs},
    list::{ListQuery, More, Page},
    logs::{LogQuery, LogText},
    name::Name,
    namespaces::NamespaceRow,
    nodes::NodeRow,
    objects::{KindQuery, ObjectTable, ObjectText},
    pods::{PodDetail, PodRow},
    read_only::DeniedKinds,
    shared_task::hold_lease,
    usage::{NodeUsage, PodUsage, Usage, UsageOrder},
    watch::{JoinedWatch, WatchInfo, WatchLease, Watches},
};

/// A log directive for the client library: it logs whole bodies that it cannot decode, and
/// every failure that we report ourselves.
pub const QUIET: &str = "kube_client=off";
