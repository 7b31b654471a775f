//! The protocol room: everything that speaks MCP, and the only place that names
//! rmcp.

pub mod admin;
mod caller;
mod capabilities;
mod catalog;
mod exchange;
#[cfg(feature = "conformance-fixtures")]
mod fixtures;
mod guard;
mod http;
mod intake;
mod offer;
mod output;
mod peers;
mod project;
mod prompts;
mod push;
mod resources;
mod running;
mod schema;
mod server;
mod sessions;
mod subscriptions;
mod table;
mod tools;
mod transport;

pub use self::{
    caller::Caller,
    offer::{BadOffer, Offer},
    output::{Output, ToolError},
    resources::{
        Changed, Checking, Completing, Completion, Era, Family, Lease, Reading, ResourceError,
        Updates, Who,
    },
    server::{Server, Setup, ToolLimits, Watching},
    sessions::SessionLimits,
    subscriptions::SubscriptionSettings,
    transport::{CannotListen, HttpConfig, Serving, Transport, start},
};

/// A log directive for what the SDK says too loudly: it reports every client that
/// goes away while an answer is on its way as an error, and that is a client's
/// ordinary life.
pub const QUIET: &str = "rmcp::service=off";
