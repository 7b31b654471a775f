//! The cluster room: everything that speaks to a Kubernetes API server, and the
//! only place that names kube. What leaves it is plain data.

mod capture;
mod checkup;
mod connect;
mod contexts;
mod demo;
mod error;
mod events;
mod faults;
mod investigate;
mod kubeconfig;
mod list;
mod logs;
mod name;
mod namespaces;
mod pods;
mod proxy;
mod target;
mod watch;

pub use self::{
    capture::FaultCaptures,
    checkup::{Checkup, Granted, NEEDS, Need, Right},
    contexts::{Config, ContextInfo, Contexts},
    demo::Demo,
    error::{ClusterError, ErrorKind, Operation},
    events::{EventQuery, EventRow, InvolvedObject},
    faults::{OpenFault, OpenFaults},
    investigate::Investigators,
    list::{ListQuery, More, Page},
    logs::{LogQuery, LogText},
    name::Name,
    namespaces::NamespaceRow,
    pods::PodRow,
    target::{Cluster, ObjectName},
    watch::{Joined, Lease, WatchInfo, Watches},
};

/// A log directive for what the client library says: it writes whole bodies that it
/// cannot read into the log, and repeats every failure that we report.
pub(crate) const QUIET: &str = "kube_client=off";
