//! The MCP server: the only crate with rmcp and axum.
//!
//! A request over HTTP passes, in this order:
//!
//! ```text
//!  http ─▶ origin ─▶ caller ─▶ body ─▶ exchange ─▶ sessions::limiter ─▶ rmcp ─▶ server::Handler
//!  peer,   Host and  token,    size,   counted     caps                        ├▶ tools, project
//!  tls     Origin    header    permit  to its end                              ├▶ resources
//!                                                                              └▶ prompts
//! ```
//!
//! - `connections` are those that are accepted; `share` says for whom a request counts;
//! - `transport` wires stdio and HTTP; `stdio` is the transport of lines; `jsonrpc` is what
//!   both check of a message; `admin` has the pages for operators; `peer` knows
//!   whose a connection is; `oauth` is the server as a resource server, with its scopes; `file_poll` reads certificate and tokens again when they change;
//!   `log_limit` bounds what refusals write into the log;
//! - `server` is what rmcp calls; `capabilities` is what it declares; `list_changes`
//!   notifies of changed lists; `reporter` reports progress and logs of a request;
//! - `tools` are the built-in tools, `tool_filter` is the operator's choice of them,
//!   `doors` what else is off with a tool, `schema` and `output` are their two ends, `table`
//!   and `cell` are text in columns;
//! - `tool_provider` is the trait for more tools and prompts: of a `project` folder, whose
//!   `content` is cleaned, or `fixtures` for tests;
//! - `resources` are read and subscribed to by URI, `prompts` are built in with their
//!   evidence, `subscriptions` are the event subscriptions of all clients, `waits` those
//!   who wait for an incident, `tasks` calls whose answer is fetched later;
//! - `viewers` says through whose eyes a caller sees what is shared;
//! - `shared_reads` is what is read once for all callers, and whether it is decided for each that
//!   acts as itself;
//! - `audit` records calls and subscriptions over HTTP;
//! - `history` keeps what happens, and reads it again for lists and old cursors;
//! - `replicas` is what servers have in common that work together;
//! - `known_clients` is what is known of clients by their names;
//! - `sessions` are those over HTTP, from a request to the bytes of its stream.

pub mod admin;
mod audit;
mod body;
mod caller;
mod capabilities;
mod cell;
mod connections;
mod content;
mod doors;
mod exchange;
mod file_poll;
#[cfg(feature = "conformance-fixtures")]
mod fixtures;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod history;
mod http;
mod incidents;
mod jsonrpc;
mod known_clients;
mod list_changes;
mod log_limit;
mod oauth;
mod origin;
mod output;
mod peer;
mod project;
mod prompts;
mod replicas;
mod reporter;
mod resources;
mod schema;
mod server;
mod sessions;
mod share;
mod shared_reads;
mod stdio;
mod subscriptions;
mod table;
mod tasks;
mod tls;
mod tool_filter;
mod tool_provider;
mod tools;
mod transport;
mod turns;
mod viewers;
mod waits;

pub use self::{
    audit::AuditTarget,
    caller::{
        Caller, ProxyMapping, TokenFileError, TokenFileSummary, TrustedUserHeader,
        check_token_file, may_be_of_account,
    },
    oauth::{OAuthSettings, PublicUrl, ScopePolicy},
    origin::{is_host, is_origin},
    output::{Output, ToolError},
    peer::PEER_USERS_ARE_KNOWN,
    replicas::{ClusterStore, shared_secret},
    resources::{
        CheckFuture, CompletionFuture, CompletionRequest, FollowGuard, ProtocolEra, ReadFuture,
        Requester, ResourceError, ResourceProvider, UpdatePublisher,
    },
    server::{
        FollowedIncidents, Server, Setup, SharedSessions, SubscriptionStats, ToolLimits, WorkLimits,
    },
    sessions::SessionLimits,
    shared_reads::SharedRead,
    subscriptions::SubscriptionSettings,
    tls::{TlsFileError, TlsFiles},
    tool_filter::{InvalidToolFilter, ToolFilter},
    transport::{HttpConfig, ListenError, Serving, Transport, start},
};

/// A log directive that silences the SDK: it reports every client that disconnects
/// before its answer as an error, and clients do that all the time.
pub const QUIET: &str = "rmcp::service=off";
