//! Flags, environment variables and the configuration file, parsed into optional [`Settings`]: declared
//! once, read by clap (flags, environment) and by serde (TOML), validated by [`crate::config`].

mod args;
mod choices;
mod color;
mod commands;
mod install;
mod layers;
mod ranges;
mod sinks;

use std::path::PathBuf;

use clap::ArgAction;
use schemars::JsonSchema;
use serde::Deserialize;

use self::ranges::{
    CAPTURES, CONNECTIONS, CONTAINERS, DRAIN_TIMEOUT_SECONDS, FEED_EVENTS, GRAPHS, LOG_BYTES,
    MAX_OUTPUT_BYTES, PARKED_BYTES, PORT, PROCESSES, READS, REQUEST_TIMEOUT_SECONDS, REQUESTS,
    SESSIONS, SHARE, SUBSCRIPTIONS, WATCH_RENEWAL_SECONDS, WATCHES, within,
};
pub use self::{
    args::Args,
    choices::{IdentityChoice, LogFormat},
    color::ColorChoice,
    commands::*,
    install::{InstallArgs, InstallScope, Launcher},
    sinks::{SinkEntry, SinkTable},
};

/// Every setting; each may be absent.
// An attribute has a line to itself only if it needs one: there are many settings.
#[rustfmt::skip]
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Port to serve HTTP on, instead of stdio (0: any free port)
    #[arg(long, env = "KUBECRIER_PORT", value_name = "PORT")]
    #[arg(value_parser = within(PORT), help_heading = "Server")]
    pub port: Option<u64>,

    /// IP address to listen on [default: 127.0.0.1]
    #[arg(long, env = "KUBECRIER_BIND_ADDRESS", value_name = "IP")]
    #[arg(help_heading = "Server")]
    pub bind_address: Option<String>,

    /// File of accepted bearer tokens, one `name:token` per line
    #[arg(long, env = "KUBECRIER_AUTH_TOKEN_FILE", value_name = "FILE")]
    #[arg(help_heading = "Server")]
    pub auth_token_file: Option<PathBuf>,

    /// Accept requests without a token on an address that is not loopback
    #[arg(long, env = "KUBECRIER_ALLOW_UNAUTHENTICATED")]
    #[arg(help_heading = "Server", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_name = "BOOL", hide_short_help = true)]
    pub allow_unauthenticated: Option<bool>,

    /// Serve other users of this machine without a token on a loopback address
    #[arg(long, env = "KUBECRIER_ALLOW_OTHER_USERS", help_heading = "Server")]
    #[arg(num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_name = "BOOL", hide_short_help = true)]
    pub allow_other_users: Option<bool>,

    /// Header in which --trusted-proxies name the caller, e.g. X-Forwarded-User
    #[arg(long, env = "KUBECRIER_TRUSTED_USER_HEADER", value_name = "NAME")]
    #[arg(help_heading = "Server", hide_short_help = true)]
    pub trusted_user_header: Option<String>,

    /// Networks of the proxies that authenticate callers, e.g. 10.0.0.0/8
    #[arg(long, env = "KUBECRIER_TRUSTED_PROXIES", value_name = "CIDR,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Server", hide_short_help = true)]
    pub trusted_proxies: Option<Vec<String>>,

    /// Header in which --trusted-proxies name the caller's Kubernetes groups, with commas
    #[arg(long, env = "KUBECRIER_TRUSTED_GROUPS_HEADER", value_name = "NAME")]
    #[arg(help_heading = "Server", hide_short_help = true)]
    pub trusted_groups_header: Option<String>,

    /// Certificate to serve HTTPS with (PEM, the chain included); read again when it changes
    #[arg(long, env = "KUBECRIER_TLS_CERT", value_name = "FILE")]
    #[arg(help_heading = "Server")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert (PEM)
    #[arg(long, env = "KUBECRIER_TLS_KEY", value_name = "FILE")]
    #[arg(help_heading = "Server")]
    pub tls_key: Option<PathBuf>,

    /// Address for /metrics and /stats, without a token [default: with /mcp, and as open]
    #[arg(long, env = "KUBECRIER_ADMIN_ADDRESS", value_name = "IP:PORT")]
    #[arg(help_heading = "Server", hide_short_help = true)]
    pub admin_address: Option<String>,

    /// URL by which clients reach this server; needed for OAuth
    #[arg(long, env = "KUBECRIER_PUBLIC_URL", value_name = "URL")]
    #[arg(help_heading = "Identity", hide_short_help = true)]
    pub public_url: Option<String>,

    /// Issuers whose access tokens are accepted, exactly as tokens name them (docs/identity.md)
    #[arg(long, env = "KUBECRIER_OAUTH_ISSUER", value_name = "URL,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Identity", hide_short_help = true)]
    pub oauth_issuer: Option<Vec<String>>,

    /// Audiences of which a token must have one [default: --public-url, with and without /mcp]
    #[arg(long, env = "KUBECRIER_OAUTH_AUDIENCE", value_name = "NAME,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Identity", hide_short_help = true)]
    pub oauth_audience: Option<Vec<String>>,

    /// Scopes that every token must have; none for no scope [default: kubecrier:read]
    #[arg(long, env = "KUBECRIER_OAUTH_REQUIRED_SCOPE")]
    #[arg(value_name = "SCOPE,...", value_delimiter = ',')]
    #[arg(action = ArgAction::Append, help_heading = "Identity", hide_short_help = true)]
    pub oauth_required_scope: Option<Vec<String>>,

    /// Require kubecrier:logs, :events and :tools for logs, events and a project [default: true]
    #[arg(long, env = "KUBECRIER_OAUTH_CONTENT_SCOPES")]
    #[arg(help_heading = "Identity", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_name = "BOOL", hide_short_help = true)]
    pub oauth_content_scopes: Option<bool>,

    /// Algorithms of signatures to accept [default: RS256,PS256,ES256,ES384,EdDSA]
    #[arg(long, env = "KUBECRIER_OAUTH_ALGORITHMS", value_name = "NAME,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Identity", hide_short_help = true)]
    pub oauth_algorithms: Option<Vec<String>>,

    /// Certificate authorities of the issuers (PEM) [default: the system's]
    #[arg(long, env = "KUBECRIER_OAUTH_CA_FILE", value_name = "FILE")]
    #[arg(help_heading = "Identity", hide_short_help = true)]
    pub oauth_ca_file: Option<PathBuf>,

    /// Endpoint to ask about opaque tokens (RFC 7662), of the first --oauth-issuer
    #[arg(long, env = "KUBECRIER_OAUTH_INTROSPECTION_URL", value_name = "URL")]
    #[arg(help_heading = "Identity", hide_short_help = true)]
    pub oauth_introspection_url: Option<String>,

    /// Client of this server at that endpoint
    #[arg(long, env = "KUBECRIER_OAUTH_INTROSPECTION_CLIENT_ID")]
    #[arg(value_name = "ID", help_heading = "Identity", hide_short_help = true)]
    pub oauth_introspection_client_id: Option<String>,

    /// File with the secret of that client
    #[arg(long, env = "KUBECRIER_OAUTH_INTROSPECTION_SECRET_FILE")]
    #[arg(value_name = "FILE", help_heading = "Identity", hide_short_help = true)]
    pub oauth_introspection_secret_file: Option<PathBuf>,

    /// Claim with the name of the Kubernetes user, e.g. email, user.name [default: sub]
    #[arg(long, env = "KUBECRIER_USERNAME_CLAIM", value_name = "CLAIM")]
    #[arg(help_heading = "Identity", hide_short_help = true)]
    pub username_claim: Option<String>,

    /// Text before that name; - for none; with several issuers ISSUER=TEXT,... [default: oidc:]
    #[arg(long, env = "KUBECRIER_USERNAME_PREFIX", value_name = "TEXT")]
    #[arg(allow_hyphen_values = true, help_heading = "Identity", hide_short_help = true)]
    pub username_prefix: Option<String>,

    /// Claim with the groups of the user, e.g. groups, realm_access.roles [default: no groups]
    #[arg(long, env = "KUBECRIER_GROUPS_CLAIM", value_name = "CLAIM")]
    #[arg(help_heading = "Identity", hide_short_help = true)]
    pub groups_claim: Option<String>,

    /// Text before each group; - for none; with several issuers ISSUER=TEXT,... [default: oidc:]
    #[arg(long, env = "KUBECRIER_GROUPS_PREFIX", value_name = "TEXT")]
    #[arg(allow_hyphen_values = true, help_heading = "Identity", hide_short_help = true)]
    pub groups_prefix: Option<String>,

    /// Groups to keep, by name or pattern, without the prefix, e.g. team-* [default: all]
    #[arg(long, env = "KUBECRIER_ALLOWED_GROUPS", value_name = "NAME,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Identity", hide_short_help = true)]
    pub allowed_groups: Option<Vec<String>>,

    /// Audience of tokens of service accounts to accept, e.g. kubecrier; the cluster reviews them
    #[arg(long, env = "KUBECRIER_SERVICE_ACCOUNT_AUDIENCE")]
    #[arg(value_name = "NAME", help_heading = "Identity", hide_short_help = true)]
    pub service_account_audience: Option<String>,

    /// Where to record calls and subscriptions over HTTP, as JSON lines: stderr or a file
    #[arg(long, env = "KUBECRIER_AUDIT_LOG", value_name = "stderr|FILE")]
    #[arg(help_heading = "Identity", hide_short_help = true)]
    pub audit_log: Option<PathBuf>,

    /// Part of every limit that one caller may take, in percent [default: 50; on stdio: 100]
    #[arg(long, env = "KUBECRIER_CALLER_SHARE", value_name = "PERCENT")]
    #[arg(value_parser = within(SHARE), help_heading = "Server", hide_short_help = true)]
    pub caller_share: Option<u64>,

    /// Maximum number of connections [default: 20000, or what the limit of open files allows]
    #[arg(long, env = "KUBECRIER_MAX_CONNECTIONS", value_name = "N")]
    #[arg(value_parser = within(CONNECTIONS), help_heading = "Server", hide_short_help = true)]
    pub max_connections: Option<u64>,

    /// Maximum number of requests that run at once [default: 512]
    #[arg(long, env = "KUBECRIER_MAX_CONCURRENT_REQUESTS", value_name = "N")]
    #[arg(value_parser = within(REQUESTS), help_heading = "Server", hide_short_help = true)]
    pub max_concurrent_requests: Option<u64>,

    /// Host names that clients may use, besides loopback; * for any, if all callers have tokens
    #[arg(long, env = "KUBECRIER_ALLOWED_HOSTS", value_name = "HOST,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Server")]
    pub allowed_hosts: Option<Vec<String>>,

    /// Origins of web pages to accept, besides loopback (scheme://host:port)
    #[arg(long, env = "KUBECRIER_ALLOWED_ORIGINS", value_name = "URL,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Server", hide_short_help = true)]
    pub allowed_origins: Option<Vec<String>>,

    /// Time after which a session without a stream or requests ends [default: 5m]
    #[arg(long, env = "KUBECRIER_SESSION_IDLE_TIMEOUT", value_name = "TIME")]
    #[arg(help_heading = "Server", hide_short_help = true)]
    pub session_idle_timeout: Option<String>,

    /// Silence after which a client with an open stream is pinged; 0s for never [default: 5s]
    #[arg(long, env = "KUBECRIER_HEARTBEAT_INTERVAL", value_name = "TIME")]
    #[arg(help_heading = "Server", hide_short_help = true)]
    pub heartbeat_interval: Option<String>,

    /// Maximum number of sessions [default: 10000]
    #[arg(long, env = "KUBECRIER_MAX_SESSIONS", value_name = "N")]
    #[arg(value_parser = within(SESSIONS), help_heading = "Server", hide_short_help = true)]
    pub max_sessions: Option<u64>,

    /// Maximum number of sessions per caller [default: 1000, or its share of --max-sessions]
    #[arg(long, env = "KUBECRIER_MAX_SESSIONS_PER_CALLER", value_name = "N")]
    #[arg(value_parser = within(SESSIONS), help_heading = "Server", hide_short_help = true)]
    pub max_sessions_per_caller: Option<u64>,

    /// Maximum number of new sessions per second [default: 200]
    #[arg(long, env = "KUBECRIER_MAX_SESSION_RATE", value_name = "N")]
    #[arg(value_parser = within(SESSIONS), help_heading = "Server", hide_short_help = true)]
    pub max_session_rate: Option<u64>,

    /// Time for which an answer is kept for a lost connection; 0s for never [default: 2m]
    #[arg(long, env = "KUBECRIER_PARKED_ANSWER_TIMEOUT", value_name = "TIME")]
    #[arg(help_heading = "Server", hide_short_help = true)]
    pub parked_answer_timeout: Option<String>,

    /// Maximum size of all answers that are kept so, in bytes [default: 67108864]
    #[arg(long, env = "KUBECRIER_MAX_PARKED_ANSWER_BYTES")]
    #[arg(value_name = "BYTES", value_parser = within(PARKED_BYTES))]
    #[arg(help_heading = "Server", hide_short_help = true)]
    pub max_parked_answer_bytes: Option<u64>,

    /// Time after which a client waits for an answer by polling; 0s for never [default: 0s]
    #[arg(long, env = "KUBECRIER_POLL_ANSWERS_AFTER", value_name = "TIME")]
    #[arg(help_heading = "Server", hide_short_help = true)]
    pub poll_answers_after: Option<String>,

    /// How long a shutdown waits for running calls, in seconds [default: 10]
    #[arg(long, env = "KUBECRIER_DRAIN_TIMEOUT_SECONDS")]
    #[arg(value_name = "SECONDS", value_parser = within(DRAIN_TIMEOUT_SECONDS))]
    #[arg(help_heading = "Server", hide_short_help = true)]
    pub drain_timeout_seconds: Option<u64>,

    /// Path to the kubeconfig file [default: $KUBECONFIG, ~/.kube/config, in-cluster]
    #[arg(long, env = "KUBECRIER_KUBECONFIG", value_name = "FILE")]
    #[arg(help_heading = "Clusters")]
    pub kubeconfig: Option<PathBuf>,

    /// Context for calls that name none [default: the current context]
    #[arg(long, env = "KUBECRIER_CONTEXT", value_name = "NAME")]
    #[arg(help_heading = "Clusters")]
    pub context: Option<String>,

    /// As whom callers act in clusters [default: shared]
    #[arg(long, env = "KUBECRIER_CLUSTER_IDENTITY", value_name = "IDENTITY")]
    #[arg(help_heading = "Clusters", hide_short_help = true)]
    pub cluster_identity: Option<IdentityChoice>,

    /// Timeout of a request to an API server, in seconds [default: 4]
    #[arg(long, env = "KUBECRIER_REQUEST_TIMEOUT_SECONDS")]
    #[arg(value_name = "SECONDS")]
    #[arg(value_parser = within(REQUEST_TIMEOUT_SECONDS))]
    #[arg(help_heading = "Clusters", hide_short_help = true)]
    pub request_timeout_seconds: Option<u64>,

    /// Maximum number of requests that read from clusters at once; others wait [default: 32]
    #[arg(long, env = "KUBECRIER_MAX_CLUSTER_READS", value_name = "N")]
    #[arg(value_parser = within(READS), help_heading = "Clusters", hide_short_help = true)]
    pub max_cluster_reads: Option<u64>,

    /// Maximum number of calls and tasks that wait for an incident [default: 2000]
    #[arg(long, env = "KUBECRIER_MAX_WAITS", value_name = "N")]
    #[arg(value_parser = within(REQUESTS), help_heading = "Clusters", hide_short_help = true)]
    pub max_waits: Option<u64>,

    /// Maximum number of graphs that are kept up to date [default: 16]
    #[arg(long, env = "KUBECRIER_MAX_GRAPHS", value_name = "N")]
    #[arg(value_parser = within(GRAPHS), help_heading = "Clusters", hide_short_help = true)]
    pub max_graphs: Option<u64>,

    /// Maximum number of logs that are followed [default: 100]
    #[arg(long, env = "KUBECRIER_MAX_FOLLOWED_LOGS", value_name = "N")]
    #[arg(value_parser = within(WATCHES), help_heading = "Clusters", hide_short_help = true)]
    pub max_followed_logs: Option<u64>,

    /// Kinds that cannot be read through this server, e.g. Secret,ingresses
    #[arg(long, env = "KUBECRIER_DENIED_KINDS", value_name = "KIND,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Clusters", hide_short_help = true)]
    pub denied_kinds: Option<Vec<String>>,

    /// Contexts that exist for clients: names or patterns, e.g. dev,stage-* [default: all]
    #[arg(long, env = "KUBECRIER_ALLOWED_CONTEXTS", value_name = "NAME,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Clusters", hide_short_help = true)]
    pub allowed_contexts: Option<Vec<String>>,

    /// Namespaces that can be read: names or patterns, e.g. shop,team-a-* [default: all]
    #[arg(long, env = "KUBECRIER_ALLOWED_NAMESPACES", value_name = "NAME,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Clusters", hide_short_help = true)]
    pub allowed_namespaces: Option<Vec<String>>,

    /// Detectors of incidents that find nothing, e.g. autoscaler-limit,scaled-to-zero
    #[arg(long = "incidents.disable", env = "KUBECRIER_INCIDENTS_DISABLE")]
    #[arg(value_name = "NAME,...", value_delimiter = ',')]
    #[arg(action = ArgAction::Append, help_heading = "Incidents", hide_short_help = true)]
    pub incidents_disable: Option<Vec<String>>,

    /// How long a state has to be there before an incident opens, and gone before it is resolved,
    /// e.g. not-ready=5m/1m
    #[arg(long = "incidents.hold", env = "KUBECRIER_INCIDENTS_HOLD")]
    #[arg(value_name = "NAME=OPEN/CLOSE,...", value_delimiter = ',')]
    #[arg(action = ArgAction::Append, help_heading = "Incidents", hide_short_help = true)]
    pub incidents_hold: Option<Vec<String>>,

    /// Where incidents go without an agent, e.g. alertmanager+http://host:9093 (docs/sinks.md)
    #[arg(long, env = "KUBECRIER_SINK", value_name = "URL")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Sinks", hide_short_help = true)]
    pub sink: Option<Vec<SinkEntry>>,

    /// Sinks that may have internal addresses, by host or network, e.g. 10.96.0.0/12
    #[arg(long, env = "KUBECRIER_SINK_ALLOW", value_name = "HOST|CIDR,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Sinks", hide_short_help = true)]
    pub sink_allow: Option<Vec<String>>,

    /// Sets of tools to offer: config, core, events, faults [default: all]
    #[arg(long, env = "KUBECRIER_TOOLSETS", value_name = "SET,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Tools", hide_short_help = true)]
    pub toolsets: Option<Vec<String>>,

    /// Tools not to offer
    #[arg(long, env = "KUBECRIER_DISABLED_TOOLS", value_name = "TOOL,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Tools", hide_short_help = true)]
    pub disabled_tools: Option<Vec<String>>,

    /// Maximum number of event subscriptions per session [default: 10]
    #[arg(long, env = "KUBECRIER_MAX_SUBSCRIPTIONS_PER_SESSION")]
    #[arg(value_name = "N", value_parser = within(SUBSCRIPTIONS))]
    #[arg(help_heading = "Events", hide_short_help = true)]
    pub max_subscriptions_per_session: Option<u64>,

    /// Maximum number of event subscriptions in total [default: 100]
    #[arg(long, env = "KUBECRIER_MAX_SUBSCRIPTIONS_GLOBAL", value_name = "N")]
    #[arg(value_parser = within(SUBSCRIPTIONS), help_heading = "Events", hide_short_help = true)]
    pub max_subscriptions_global: Option<u64>,

    /// Maximum number of watches of events [default: 200]
    #[arg(long, env = "KUBECRIER_MAX_WATCHES", value_name = "N")]
    #[arg(value_parser = within(WATCHES), help_heading = "Events", hide_short_help = true)]
    pub max_watches: Option<u64>,

    /// Maximum number of events that a subscription keeps for events_poll [default: 1000]
    #[arg(long, env = "KUBECRIER_MAX_FEED_EVENTS", value_name = "N")]
    #[arg(value_parser = within(FEED_EVENTS), help_heading = "Events", hide_short_help = true)]
    pub max_feed_events: Option<u64>,

    /// How long a watch request lasts until it is renewed, in seconds [default: 20]
    #[arg(long, env = "KUBECRIER_WATCH_RENEWAL_SECONDS")]
    #[arg(value_name = "SECONDS", value_parser = within(WATCH_RENEWAL_SECONDS))]
    #[arg(help_heading = "Events", hide_short_help = true)]
    pub watch_renewal_seconds: Option<u64>,

    /// Folder to keep events, incidents and evidence in, across restarts [default: none is kept]
    #[arg(long, env = "KUBECRIER_HISTORY", value_name = "DIR")]
    #[arg(help_heading = "History", hide_short_help = true)]
    pub history: Option<PathBuf>,

    /// Age up to which they are kept [default: 7d]
    #[arg(long, env = "KUBECRIER_HISTORY_MAX_AGE", value_name = "TIME")]
    #[arg(help_heading = "History", hide_short_help = true)]
    pub history_max_age: Option<String>,

    /// Size up to which they are kept, in bytes [default: 1073741824]
    #[arg(long, env = "KUBECRIER_HISTORY_MAX_BYTES", value_name = "BYTES")]
    #[arg(value_parser = within(ranges::HISTORY_BYTES), help_heading = "History")]
    #[arg(hide_short_help = true)]
    pub history_max_bytes: Option<u64>,

    /// NATS servers to work together over with others, e.g. nats://nats:4222 (docs/scaling.md)
    #[arg(long, env = "KUBECRIER_CLUSTER_STORE", value_name = "URL,...", value_delimiter = ',')]
    #[arg(action = ArgAction::Append, help_heading = "Replicas", hide_short_help = true)]
    pub cluster_store: Option<Vec<String>>,

    /// Name that the servers have in common which work together [default: kubecrier]
    #[arg(long, env = "KUBECRIER_CLUSTER_STORE_FLEET", value_name = "NAME")]
    #[arg(help_heading = "Replicas", hide_short_help = true)]
    pub cluster_store_fleet: Option<String>,

    /// Credentials for --cluster-store, as NATS tools write them (.creds)
    #[arg(long, env = "KUBECRIER_CLUSTER_STORE_CREDENTIALS", value_name = "FILE")]
    #[arg(help_heading = "Replicas", hide_short_help = true)]
    pub cluster_store_credentials: Option<PathBuf>,

    /// Certificate authorities of --cluster-store (PEM) [default: the system's]
    #[arg(long, env = "KUBECRIER_CLUSTER_STORE_CA_FILE", value_name = "FILE")]
    #[arg(help_heading = "Replicas", hide_short_help = true)]
    pub cluster_store_ca_file: Option<PathBuf>,

    /// Maximum number of concurrent captures of a fault's logs per cluster [default: 5]
    #[arg(long, env = "KUBECRIER_MAX_LOG_CAPTURES_PER_CLUSTER")]
    #[arg(value_name = "N", value_parser = within(CAPTURES))]
    #[arg(help_heading = "Faults", hide_short_help = true)]
    pub max_log_captures_per_cluster: Option<u64>,

    /// Maximum number of concurrent captures of a fault's logs in total [default: 20]
    #[arg(long, env = "KUBECRIER_MAX_LOG_CAPTURES_GLOBAL", value_name = "N")]
    #[arg(value_parser = within(CAPTURES), help_heading = "Faults", hide_short_help = true)]
    pub max_log_captures_global: Option<u64>,

    /// Maximum size of each log in a fault, in bytes [default: 10240]
    #[arg(long, env = "KUBECRIER_MAX_LOG_BYTES_PER_CONTAINER")]
    #[arg(value_name = "BYTES", value_parser = within(LOG_BYTES))]
    #[arg(help_heading = "Faults", hide_short_help = true)]
    pub max_log_bytes_per_container: Option<u64>,

    /// Maximum number of containers whose logs are in a fault [default: 5]
    #[arg(long, env = "KUBECRIER_MAX_CONTAINERS_PER_NOTIFICATION")]
    #[arg(value_name = "N", value_parser = within(CONTAINERS))]
    #[arg(help_heading = "Faults", hide_short_help = true)]
    pub max_containers_per_notification: Option<u64>,

    /// Maximum size of a tool's result, in bytes [default: 65536]
    #[arg(long, env = "KUBECRIER_MAX_OUTPUT_BYTES", value_name = "BYTES")]
    #[arg(value_parser = within(MAX_OUTPUT_BYTES), help_heading = "Output", hide_short_help = true)]
    pub max_output_bytes: Option<u64>,

    /// Regular expression of additional secrets to redact; may be repeated
    #[arg(long, env = "KUBECRIER_REDACT", value_name = "REGEX")]
    #[arg(action = ArgAction::Append, help_heading = "Output", hide_short_help = true)]
    pub redact: Option<Vec<String>>,

    /// Folder of additional tools, resources and prompts to serve
    #[arg(long, env = "KUBECRIER_PROJECT_ROOT", value_name = "DIR")]
    #[arg(help_heading = "Project")]
    pub project_root: Option<PathBuf>,

    /// Run the project's server.d/register.sh, which prints what to serve
    #[arg(long, env = "KUBECRIER_ALLOW_REGISTER_HOOK")]
    #[arg(help_heading = "Project", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_name = "BOOL", hide_short_help = true)]
    pub allow_register_hook: Option<bool>,

    /// How long a scan of the project is valid without file-system events [default: 5s]
    #[arg(long, env = "KUBECRIER_PROJECT_TTL", value_name = "TIME")]
    #[arg(help_heading = "Project", hide_short_help = true)]
    pub project_ttl: Option<String>,

    /// How long the output of register.sh is valid [default: 5s]
    #[arg(long, env = "KUBECRIER_REGISTER_HOOK_TTL", value_name = "TIME")]
    #[arg(help_heading = "Project", hide_short_help = true)]
    pub register_hook_ttl: Option<String>,

    /// Maximum number of concurrent executables of the project [default: 16]
    #[arg(long, env = "KUBECRIER_MAX_TOOL_PROCESSES", value_name = "N")]
    #[arg(value_parser = within(PROCESSES), help_heading = "Project", hide_short_help = true)]
    pub max_tool_processes: Option<u64>,

    /// Environment variables to pass to executables of the project, in addition to PATH
    #[arg(long, env = "KUBECRIER_TOOL_ENV", value_name = "NAME,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    #[arg(help_heading = "Project", hide_short_help = true)]
    pub tool_env: Option<Vec<String>>,

    /// Level: error, warn, info, debug, trace, or directives [default: info]
    #[arg(long, env = "KUBECRIER_LOG_LEVEL", value_name = "LEVEL")]
    #[arg(help_heading = "Logs")]
    pub log_level: Option<String>,

    /// Format of the log on stderr [default: plain]
    #[arg(long, env = "KUBECRIER_LOG_FORMAT", value_name = "FORMAT")]
    #[arg(help_heading = "Logs")]
    pub log_format: Option<LogFormat>,
}
