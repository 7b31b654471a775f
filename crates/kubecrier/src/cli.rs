//! Flags, environment variables and the configuration file, parsed into optional settings.
//!
//! [`Settings`] is declared once and read three times: by clap from flags, by clap from the
//! environment, by serde from the TOML file. [`crate::config`] validates it.

mod color;
mod commands;
mod install;
mod layers;
mod log_format;
mod ranges;
mod sinks;

use std::path::PathBuf;

use clap::{ArgAction, Parser};
use schemars::JsonSchema;
use serde::Deserialize;

use self::ranges::{
    CAPTURES, CONNECTIONS, CONTAINERS, DRAIN_TIMEOUT_SECONDS, FEED_EVENTS, GRAPHS, HISTORY_BYTES,
    LOG_BYTES, MAX_OUTPUT_BYTES, PARKED_BYTES, PORT, PROCESSES, READS, REQUEST_TIMEOUT_SECONDS,
    REQUESTS, SESSIONS, SHARE, SUBSCRIPTIONS, WATCH_RENEWAL_SECONDS, WATCHES, within,
};
pub use self::{
    color::ColorChoice,
    commands::{
        Agent, Command, CompletionArgs, DemoArgs, DoctorArgs, EventType, GenerateArgs, HelpArgs,
        InitArgs, OutputFormat, TOKEN_VARIABLE, URL_VARIABLE, WatchArgs, WatchFormat,
    },
    install::{InstallArgs, InstallScope, Launcher},
    log_format::LogFormat,
    sinks::{SinkEntry, SinkTable},
};

const AFTER_HELP: &str = "\
--help-all shows every setting. Each is also an environment variable (--log-level is
KUBECRIER_LOG_LEVEL) and a key of the --config file (log_level). A flag wins over the environment,
the environment over the file. Exit codes: 0 done, 64 bad usage or configuration, 1 failed while
running.";

/// The Kubernetes MCP server that tells an agent what just happened in a cluster.
/// Without --port it speaks MCP on stdin and stdout; with it, Streamable HTTP at
/// /mcp. It only reads from clusters.
#[derive(Debug, Parser)]
#[command(
    name = "kubecrier",
    version,
    max_term_width = 100,
    disable_help_flag = true,
    disable_help_subcommand = true,
    subcommand_value_name = "COMMAND"
)]
#[command(mut_args = |arg: clap::Arg| arg.hide_env(true))]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Print help
    #[arg(long, short, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// Print help on every setting
    #[arg(long, action = ArgAction::HelpLong)]
    help_all: Option<bool>,

    /// TOML file with the same settings (keys in snake_case)
    #[arg(long, env = "KUBECRIER_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The settings themselves.
    #[command(flatten)]
    pub settings: Settings,

    /// The command; without one, the server runs.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Every setting; each may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Port to serve HTTP on, instead of stdio (0: any free port)
    #[arg(long, env = "KUBECRIER_PORT", value_name = "PORT", value_parser = within(PORT))]
    #[arg(help_heading = "Server")]
    pub port: Option<u64>,

    /// IP address to listen on [default: 127.0.0.1]
    #[arg(long, env = "KUBECRIER_BIND_ADDRESS", value_name = "IP")]
    #[arg(help_heading = "Server")]
    pub bind_address: Option<String>,

    /// File of accepted bearer tokens, one `name:token` per line
    #[arg(
        long,
        env = "KUBECRIER_AUTH_TOKEN_FILE",
        value_name = "FILE",
        help_heading = "Server"
    )]
    pub auth_token_file: Option<PathBuf>,

    /// Accept requests without a token on an address that is not loopback
    #[arg(long, env = "KUBECRIER_ALLOW_UNAUTHENTICATED", help_heading = "Server")]
    #[arg(num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_name = "BOOL")]
    #[arg(hide_short_help = true)]
    pub allow_unauthenticated: Option<bool>,

    /// Serve other users of this machine without a token on a loopback address
    #[arg(long, env = "KUBECRIER_ALLOW_OTHER_USERS", help_heading = "Server")]
    #[arg(num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_name = "BOOL")]
    #[arg(hide_short_help = true)]
    pub allow_other_users: Option<bool>,

    /// Header in which --trusted-proxies name the caller, e.g. X-Forwarded-User
    #[arg(long, env = "KUBECRIER_TRUSTED_USER_HEADER", value_name = "NAME")]
    #[arg(help_heading = "Server", hide_short_help = true)]
    pub trusted_user_header: Option<String>,

    /// Networks of the proxies that authenticate callers, e.g. 10.0.0.0/8
    #[arg(long, env = "KUBECRIER_TRUSTED_PROXIES", value_name = "CIDR,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append, help_heading = "Server")]
    #[arg(hide_short_help = true)]
    pub trusted_proxies: Option<Vec<String>>,

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
    #[arg(
        long,
        env = "KUBECRIER_ALLOWED_HOSTS",
        value_name = "HOST,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Server")]
    pub allowed_hosts: Option<Vec<String>>,

    /// Origins of web pages to accept, besides loopback (scheme://host:port)
    #[arg(
        long,
        env = "KUBECRIER_ALLOWED_ORIGINS",
        value_name = "URL,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Server", hide_short_help = true)]
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
    #[arg(long, env = "KUBECRIER_MAX_SESSIONS", value_name = "N", value_parser = within(SESSIONS))]
    #[arg(help_heading = "Server", hide_short_help = true)]
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
    #[arg(long, env = "KUBECRIER_MAX_PARKED_ANSWER_BYTES", value_name = "BYTES")]
    #[arg(value_parser = within(PARKED_BYTES), help_heading = "Server", hide_short_help = true)]
    pub max_parked_answer_bytes: Option<u64>,

    /// Time after which a client waits for an answer by polling; 0s for never [default: 0s]
    #[arg(long, env = "KUBECRIER_POLL_ANSWERS_AFTER", value_name = "TIME")]
    #[arg(help_heading = "Server", hide_short_help = true)]
    pub poll_answers_after: Option<String>,

    /// How long a shutdown waits for running calls, in seconds [default: 10]
    #[arg(long, env = "KUBECRIER_DRAIN_TIMEOUT_SECONDS", value_name = "SECONDS")]
    #[arg(value_parser = within(DRAIN_TIMEOUT_SECONDS), help_heading = "Server")]
    #[arg(hide_short_help = true)]
    pub drain_timeout_seconds: Option<u64>,

    /// Path to the kubeconfig file [default: $KUBECONFIG, ~/.kube/config, in-cluster]
    #[arg(
        long,
        env = "KUBECRIER_KUBECONFIG",
        value_name = "FILE",
        help_heading = "Clusters"
    )]
    pub kubeconfig: Option<PathBuf>,

    /// Context for calls that name none [default: the current context]
    #[arg(long, env = "KUBECRIER_CONTEXT", value_name = "NAME")]
    #[arg(help_heading = "Clusters")]
    pub context: Option<String>,

    /// Timeout of a request to an API server, in seconds [default: 4]
    #[arg(
        long,
        env = "KUBECRIER_REQUEST_TIMEOUT_SECONDS",
        value_name = "SECONDS"
    )]
    #[arg(value_parser = within(REQUEST_TIMEOUT_SECONDS), help_heading = "Clusters")]
    #[arg(hide_short_help = true)]
    pub request_timeout_seconds: Option<u64>,

    /// Maximum number of requests that read from clusters at once; others wait [default: 32]
    #[arg(long, env = "KUBECRIER_MAX_CLUSTER_READS", value_name = "N")]
    #[arg(value_parser = within(READS), help_heading = "Clusters", hide_short_help = true)]
    pub max_cluster_reads: Option<u64>,

    /// Maximum number of calls and tasks that wait for an incident [default: 2000]
    #[arg(long, env = "KUBECRIER_MAX_WAITS", value_name = "N", value_parser = within(REQUESTS))]
    #[arg(help_heading = "Clusters", hide_short_help = true)]
    pub max_waits: Option<u64>,

    /// Maximum number of graphs that are kept up to date [default: 16]
    #[arg(long, env = "KUBECRIER_MAX_GRAPHS", value_name = "N", value_parser = within(GRAPHS))]
    #[arg(help_heading = "Clusters", hide_short_help = true)]
    pub max_graphs: Option<u64>,

    /// Maximum number of logs that are followed [default: 100]
    #[arg(long, env = "KUBECRIER_MAX_FOLLOWED_LOGS", value_name = "N")]
    #[arg(value_parser = within(WATCHES), help_heading = "Clusters", hide_short_help = true)]
    pub max_followed_logs: Option<u64>,

    /// Kinds that cannot be read through this server, e.g. Secret,ingresses
    #[arg(
        long,
        env = "KUBECRIER_DENIED_KINDS",
        value_name = "KIND,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Clusters", hide_short_help = true)]
    pub denied_kinds: Option<Vec<String>>,

    /// Contexts that exist for clients: names or patterns, e.g. dev,stage-* [default: all]
    #[arg(
        long,
        env = "KUBECRIER_ALLOWED_CONTEXTS",
        value_name = "NAME,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Clusters", hide_short_help = true)]
    pub allowed_contexts: Option<Vec<String>>,

    /// Namespaces that can be read: names or patterns, e.g. shop,team-a-* [default: all]
    #[arg(
        long,
        env = "KUBECRIER_ALLOWED_NAMESPACES",
        value_name = "NAME,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Clusters", hide_short_help = true)]
    pub allowed_namespaces: Option<Vec<String>>,

    /// Detectors of incidents that find nothing, e.g. autoscaler-limit,scaled-to-zero
    #[arg(
        long = "incidents.disable",
        env = "KUBECRIER_INCIDENTS_DISABLE",
        value_name = "NAME,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Incidents")]
    #[arg(hide_short_help = true)]
    pub incidents_disable: Option<Vec<String>>,

    /// How long a state has to be there before an incident opens, and gone before it is resolved,
    /// e.g. not-ready=5m/1m
    #[arg(
        long = "incidents.hold",
        env = "KUBECRIER_INCIDENTS_HOLD",
        value_name = "NAME=OPEN/CLOSE,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Incidents")]
    #[arg(hide_short_help = true)]
    pub incidents_hold: Option<Vec<String>>,

    /// Where incidents go without an agent, e.g. alertmanager+http://host:9093 (docs/sinks.md)
    #[arg(long, env = "KUBECRIER_SINK", value_name = "URL")]
    #[arg(value_delimiter = ',', action = ArgAction::Append, help_heading = "Sinks")]
    #[arg(hide_short_help = true)]
    pub sink: Option<Vec<SinkEntry>>,

    /// Sinks that may have internal addresses, by host or network, e.g. 10.96.0.0/12
    #[arg(long, env = "KUBECRIER_SINK_ALLOW", value_name = "HOST|CIDR,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append, help_heading = "Sinks")]
    #[arg(hide_short_help = true)]
    pub sink_allow: Option<Vec<String>>,

    /// Sets of tools to offer: config, core, events, faults [default: all]
    #[arg(long, env = "KUBECRIER_TOOLSETS", value_name = "SET,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append, help_heading = "Tools")]
    #[arg(hide_short_help = true)]
    pub toolsets: Option<Vec<String>>,

    /// Tools not to offer
    #[arg(long, env = "KUBECRIER_DISABLED_TOOLS", value_name = "TOOL,...")]
    #[arg(value_delimiter = ',', action = ArgAction::Append, help_heading = "Tools")]
    #[arg(hide_short_help = true)]
    pub disabled_tools: Option<Vec<String>>,

    /// Maximum number of event subscriptions per session [default: 10]
    #[arg(
        long,
        env = "KUBECRIER_MAX_SUBSCRIPTIONS_PER_SESSION",
        value_name = "N"
    )]
    #[arg(value_parser = within(SUBSCRIPTIONS), help_heading = "Events")]
    #[arg(hide_short_help = true)]
    pub max_subscriptions_per_session: Option<u64>,

    /// Maximum number of event subscriptions in total [default: 100]
    #[arg(long, env = "KUBECRIER_MAX_SUBSCRIPTIONS_GLOBAL", value_name = "N")]
    #[arg(value_parser = within(SUBSCRIPTIONS), help_heading = "Events")]
    #[arg(hide_short_help = true)]
    pub max_subscriptions_global: Option<u64>,

    /// Maximum number of watches of events [default: 200]
    #[arg(long, env = "KUBECRIER_MAX_WATCHES", value_name = "N", value_parser = within(WATCHES))]
    #[arg(help_heading = "Events")]
    #[arg(hide_short_help = true)]
    pub max_watches: Option<u64>,

    /// Maximum number of events that a subscription keeps for events_poll [default: 1000]
    #[arg(long, env = "KUBECRIER_MAX_FEED_EVENTS", value_name = "N")]
    #[arg(value_parser = within(FEED_EVENTS), help_heading = "Events")]
    #[arg(hide_short_help = true)]
    pub max_feed_events: Option<u64>,

    /// How long a watch request lasts until it is renewed, in seconds [default: 20]
    #[arg(long, env = "KUBECRIER_WATCH_RENEWAL_SECONDS", value_name = "SECONDS")]
    #[arg(value_parser = within(WATCH_RENEWAL_SECONDS), help_heading = "Events")]
    #[arg(hide_short_help = true)]
    pub watch_renewal_seconds: Option<u64>,

    /// Folder to keep events in, beyond the hour that clusters keep them [default: none is kept]
    #[arg(long, env = "KUBECRIER_HISTORY", value_name = "DIR")]
    #[arg(help_heading = "History", hide_short_help = true)]
    pub history: Option<PathBuf>,

    /// Age up to which events are kept [default: 7d]
    #[arg(long, env = "KUBECRIER_HISTORY_MAX_AGE", value_name = "TIME")]
    #[arg(help_heading = "History", hide_short_help = true)]
    pub history_max_age: Option<String>,

    /// Size up to which events are kept, in bytes [default: 1073741824]
    #[arg(long, env = "KUBECRIER_HISTORY_MAX_BYTES", value_name = "BYTES")]
    #[arg(value_parser = within(HISTORY_BYTES), help_heading = "History", hide_short_help = true)]
    pub history_max_bytes: Option<u64>,

    /// Maximum number of concurrent captures of a fault's logs per cluster [default: 5]
    #[arg(long, env = "KUBECRIER_MAX_LOG_CAPTURES_PER_CLUSTER", value_name = "N")]
    #[arg(value_parser = within(CAPTURES), help_heading = "Faults")]
    #[arg(hide_short_help = true)]
    pub max_log_captures_per_cluster: Option<u64>,

    /// Maximum number of concurrent captures of a fault's logs in total [default: 20]
    #[arg(long, env = "KUBECRIER_MAX_LOG_CAPTURES_GLOBAL", value_name = "N")]
    #[arg(value_parser = within(CAPTURES), help_heading = "Faults")]
    #[arg(hide_short_help = true)]
    pub max_log_captures_global: Option<u64>,

    /// Maximum size of each log in a fault, in bytes [default: 10240]
    #[arg(
        long,
        env = "KUBECRIER_MAX_LOG_BYTES_PER_CONTAINER",
        value_name = "BYTES"
    )]
    #[arg(value_parser = within(LOG_BYTES), help_heading = "Faults")]
    #[arg(hide_short_help = true)]
    pub max_log_bytes_per_container: Option<u64>,

    /// Maximum number of containers whose logs are in a fault [default: 5]
    #[arg(
        long,
        env = "KUBECRIER_MAX_CONTAINERS_PER_NOTIFICATION",
        value_name = "N"
    )]
    #[arg(value_parser = within(CONTAINERS), help_heading = "Faults")]
    #[arg(hide_short_help = true)]
    pub max_containers_per_notification: Option<u64>,

    /// Maximum size of a tool's result, in bytes [default: 65536]
    #[arg(long, env = "KUBECRIER_MAX_OUTPUT_BYTES", value_name = "BYTES")]
    #[arg(value_parser = within(MAX_OUTPUT_BYTES), help_heading = "Output")]
    #[arg(hide_short_help = true)]
    pub max_output_bytes: Option<u64>,

    /// Regular expression of additional secrets to redact; may be repeated
    #[arg(long, env = "KUBECRIER_REDACT", value_name = "REGEX")]
    #[arg(action = ArgAction::Append, help_heading = "Output")]
    #[arg(hide_short_help = true)]
    pub redact: Option<Vec<String>>,

    /// Folder of additional tools, resources and prompts to serve
    #[arg(
        long,
        env = "KUBECRIER_PROJECT_ROOT",
        value_name = "DIR",
        help_heading = "Project"
    )]
    pub project_root: Option<PathBuf>,

    /// Run the project's server.d/register.sh, which prints what to serve
    #[arg(long, env = "KUBECRIER_ALLOW_REGISTER_HOOK", help_heading = "Project")]
    #[arg(num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_name = "BOOL")]
    #[arg(hide_short_help = true)]
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
    #[arg(value_parser = within(PROCESSES), help_heading = "Project")]
    #[arg(hide_short_help = true)]
    pub max_tool_processes: Option<u64>,

    /// Environment variables to pass to executables of the project, in addition to PATH
    #[arg(
        long,
        env = "KUBECRIER_TOOL_ENV",
        value_name = "NAME,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Project")]
    #[arg(hide_short_help = true)]
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
