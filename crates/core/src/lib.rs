//! Events, filters, subscriptions and faults: the plain core of kubecrier, without a
//! Kubernetes client and without a protocol.

mod backoff;
pub mod duration;
mod event;
pub mod faults;
pub mod filters;
pub mod flush_clock;
pub mod metrics;
mod resource_type;
pub mod subscriptions;
pub mod ttl_cache;

pub use self::backoff::Backoff;
pub use self::event::{Derived, Event, EventPayload, InvolvedObject, Labels};
pub use self::resource_type::ResourceType;
