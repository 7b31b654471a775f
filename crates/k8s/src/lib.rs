//! The cluster room: everything that speaks to a Kubernetes API server, and the
//! only place that names kube. What leaves it is plain data.

mod capture;
mod changes;
mod checkup;
mod connect;
mod contexts;
mod demo;
mod error;
mod events;
mod faults;
mod follow;
mod gate;
mod graph;
mod investigate;
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
mod target;
mod usage;
mod watch;

pub use self::{
    capture::FaultCaptures,
    changes::{Change, ChangeQuery, ChangeRow},
    checkup::{Checkup, Granted, Need, Right, needs},
    contexts::{Config, ContextInfo, Contexts},
    demo::Demo,
    error::{ClusterError, ErrorKind, Operation},
    events::{EventQuery, EventRow, InvolvedObject},
    faults::{OpenFault, OpenFaults},
    follow::{FollowLease, Follows, LogKey, LogListener, LogNews, LogState, TooManyFollows},
    gate::DeniedKinds,
    graph::{GraphView, Graphs, Seen},
    investigate::Investigators,
    list::{ListQuery, More, Page},
    logs::{LogQuery, LogText},
    name::Name,
    namespaces::NamespaceRow,
    nodes::NodeRow,
    objects::{KindQuery, ObjectTable, ObjectText},
    pods::{PodDetail, PodRow},
    target::{Cluster, ObjectName},
    usage::{NodeUsage, PodUsage, Usage, UsageOrder},
    watch::{Joined, Lease, WatchInfo, Watches},
};

/// A log directive for what the client library says: it writes whole bodies that it
/// cannot read into the log, and repeats every failure that we report.
pub const QUIET: &str = "kube_client=off";
