//! Kubernetes clusters: the only crate that depends on kube. Its API is plain data.
//!
//! Clusters
//! - `contexts`: the contexts of the kubeconfig, read again when it changes; every request
//!   goes through [`Contexts::with_cluster`]
//! - `kubeconfig`, `connect`, `proxy`: files, clients (made once per context), proxies
//! - `read_only`: the layer under each client that lets only reads out; `allowed`: and only
//!   of what the operator allows; `each_namespace`: lists of several namespaces as one;
//!   `body_limit`: the layer that bounds what comes back
//! - `impersonation`: on whose behalf a request is made, and how it is made as a caller
//! - [`identity`]: names as they are, free text redacted: whatever leaves goes through it
//! - `client`: [`Cluster`], one cluster with a deadline for each request
//! - `demo`: a cluster in memory; `checkup`: latency, clock skew and permissions;
//!   `reachability`: whether any cluster answers; `access`: what a user may do there;
//!   `account_scope`: in which cluster a service account is known
//!
//! Queries
//! - `pods`, `namespaces`, `nodes`, `events`, `logs`, `usage` (the metrics API), `objects`
//!   (any kind, as a table or YAML), `changes` (recent changes, by the traces they left)
//! - `kinds` (discovery), `list` (pages), `raw` (responses without types), `name` (names that
//!   are valid in a path), `error` (errors with hints), `termination` (messages that are log lines)
//!
//! Background tasks, each shared by all its users (`shared_task`)
//! - `watch`: events; `graph`: the graph of objects; `incidents`: what is wrong; `follow`: logs
//! - `kind_watch`: the objects of a kind, listed and watched, for `graph` and `incidents`;
//!   `scope_rights`: what a user may see of those
//! - `capture`, `faults`: the evidence of faults

mod access;
mod account_scope;
mod allowed;
mod body_limit;
mod capture;
mod changes;
mod checkup;
mod client;
mod cluster_id;
mod connect;
mod contexts;
mod demo;
mod each_namespace;
mod error;
mod events;
mod faults;
mod follow;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod graph;
pub mod identity;
mod impersonation;
mod in_cluster;
mod incidents;
mod kind_watch;
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
mod reachability;
mod read_only;
mod scope_rights;
mod shared_task;
mod startup;
mod termination;
mod token_review;
mod usage;
mod watch;

pub use self::{
    access::ClusterReviewer,
    allowed::{Allowed, AllowedNames},
    capture::ClusterEvidence,
    changes::{ChangeKind, ChangeQuery, ChangeRow},
    checkup::{
        Checkup, ConstrainedScope, GrantedScope, Impersonated, ImpersonationReview, Permission,
        PermissionReview, permissions,
    },
    client::{Cluster, ObjectName},
    cluster_id::shared_name,
    contexts::{Config, ContextInfo, Contexts, NamedClusters, RequestError},
    demo::Demo,
    error::{ClusterError, ErrorKind, Operation},
    events::{EventLists, EventQuery, EventRow, StoredEvent, StoredLabels},
    faults::{OpenFault, OpenFaults},
    follow::{LogClaim, LogFollows, LogKey, LogLease, LogListener, LogState, LogUpdate},
    graph::{GraphClaim, GraphRead, GraphView, Graphs},
    impersonation::{Actor, ClusterIdentity, UnsendableUser, impersonation_headers},
    incidents::{
        Announced, IncidentClaim, IncidentFollower, IncidentSettings, IncidentSnapshot,
        IncidentUpdate, IncidentView, IncidentWatches, ResolvedIncident, StoredIncident,
        StoredWords, keep_incident,
    },
    list::{ListQuery, Page, Remaining},
    logs::{LogQuery, LogText},
    name::Name,
    namespaces::NamespaceRow,
    nodes::NodeRow,
    objects::{KindQuery, ObjectTable, ObjectText, RefusedKind},
    pods::{PodDetail, PodRow},
    reachability::{Reachability, Reached},
    read_only::DeniedKinds,
    shared_task::{TaskLimits, hold_lease},
    usage::{NodeUsage, PodUsage, Usage, UsageOrder},
    watch::{
        BacklogGap, JoinedWatch, SharedBacklog, SharedWatching, WatchClaim, WatchInfo, WatchLease,
        WatchRole, Watches,
    },
};

/// Log directive for the client library, which logs whole bodies that it cannot decode, and
/// every failure that this crate reports itself.
pub const QUIET: &str = "kube_client=off";
