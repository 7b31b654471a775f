//! Events, filters, subscriptions and faults: the plain core of kubecrier, without a
//! Kubernetes client and without a protocol.

pub mod duration;
mod event;
pub mod faults;
pub mod filters;
pub mod metrics;
pub mod slices;
pub mod subscriptions;

pub use self::event::{Derived, Event, InvolvedObject, Labels};
