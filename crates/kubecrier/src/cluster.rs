//! The cluster room: everything that speaks to a Kubernetes API server, and the
//! only place that names kube. What leaves it is plain data.

mod contexts;
mod error;
mod events;
mod list;
mod logs;
mod namespaces;
mod pods;
mod target;

pub use self::{
    contexts::{Config, ContextInfo, Contexts},
    error::{ClusterError, ErrorKind, Operation},
    events::{EventQuery, EventRow, InvolvedObject},
    list::{ListQuery, More, Page},
    logs::{LogQuery, LogText},
    namespaces::NamespaceRow,
    pods::PodRow,
    target::{Cluster, ObjectName},
};
