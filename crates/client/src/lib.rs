//! A client of kubecrier for terminals, over plain HTTP. It names neither kube nor rmcp
//! and links nothing of the server: what it knows of the server is what stands on the
//! wire, so what it shows has been over the wire.
//!
//! ```text
//! WatchRequest ─▶ Follower ─▶ Session ─▶ Endpoint ─▶ POST, GET, DELETE /mcp
//!                    │ Update  (MCP)      (HTTP, TLS)
//!                    ▼
//!                  View ─▶ Renderer ─▶ Screen
//!                    └───▶ Bridge ─▶ Told, Runner (--exec)
//! ```
//!
//! - [`Endpoint`] sends HTTP requests to one URL with one token; `tls` decides which
//!   certificates it trusts, and [`ClientError`] says what failed.
//! - `session` is an MCP session with its stream of server messages. `follow` keeps one
//!   alive: it reconnects, resumes and subscribes again.
//! - [`WatchRequest`] says what to subscribe to, in the arguments of the tools.
//! - [`View`] shows what arrives: `notification` reads it, `render` makes lines of it,
//!   [`Screen`] writes them. `repeats` counts a fault that comes again, `healing` looks for the
//!   pods that have recovered.
//! - `bridge` tells each incident once: `told` knows which were, `exec` runs a program for it.
//! - [`Probe`] checks whether pushes arrive over a connection.

mod bridge;
mod endpoint;
mod error;
mod exec;
mod follow;
mod healing;
mod notification;
mod probe;
mod render;
mod repeats;
mod request;
mod screen;
mod session;
mod tls;
mod told;
mod view;

pub use self::{
    bridge::BridgeConfig,
    endpoint::Endpoint,
    error::ClientError,
    probe::Probe,
    request::{NamespaceScope, WatchRequest},
    screen::{OutputError, Screen},
    told::ToldFileError,
    view::{Format, View, ViewConfig, ViewError},
};
