//! The plain core of kubecrier, without a Kubernetes client and without a protocol.
//!
//! - `event`: one plain [`Event`], serialised once for all subscribers
//! - `filters`: what a subscription asks for, and whether an event matches
//! - `subscriptions`: feeds with cursors, owners and limits
//! - `faults`: the pipeline from a warning to a report with evidence
//! - `access`: what a user may see of what is shared
//! - `kubernetes_user`: as whom a caller acts in a cluster
//! - `shares`: limits, and the part of each that one caller may take
//! - `metrics`: everything on `/metrics`
//! - `backoff`, `ttl_cache`, `duration`: time
//! - `unknown_tokens`: how often strangers make the server ask whose a token is
//! - `varint`: numbers in cursors and stream ids
//! - `resource_type`, `update`: what notifications about resources have in common

pub mod access;
mod backoff;
pub mod duration;
mod event;
pub mod faults;
pub mod filters;
pub mod incident;
mod kubernetes_user;
pub mod metrics;
mod resource_type;
pub mod shares;
pub mod subscriptions;
pub mod ttl_cache;
pub mod unknown_tokens;
mod update;
pub mod varint;

pub use self::{
    backoff::Backoff,
    event::{Derived, Event, EventFields, EventPayload, InvolvedObject, Labels, LabelsOf},
    kubernetes_user::{KubernetesUser, UserError},
    resource_type::ResourceType,
    update::UpdateSummary,
};
