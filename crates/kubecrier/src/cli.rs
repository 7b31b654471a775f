//! Flags, environment and file: text in, one set of optional settings out.
//!
//! [`Settings`] is declared once and read three times: by clap from flags, by
//! clap from the environment, by serde from the TOML file. What becomes of it is
//! decided in [`crate::config`].

mod commands;
mod numbers;

use std::{ops::RangeInclusive, path::PathBuf};

use clap::{ArgAction, Parser, ValueEnum};
use schemars::JsonSchema;
use serde::Deserialize;

pub use self::commands::{
    Colour, Command, CompletionArgs, DemoArgs, DoctorArgs, Form, InitArgs, Kind, PaperArgs, TOKEN,
    WatchArgs,
};
use self::numbers::within;

/// Ports; 0 lets the system choose a free one.
pub(crate) const PORT: RangeInclusive<u64> = 0..=65_535;
/// Each holds a body of up to 4 MiB.
pub(crate) const REQUESTS: RangeInclusive<u64> = 1..=100_000;
/// Sessions in all, of one caller, and new ones in a second.
pub(crate) const SESSIONS: RangeInclusive<u64> = 1..=1_000_000;
/// Long enough for a slow link, short enough for somebody who waits.
pub(crate) const REQUEST_TIMEOUT_SECONDS: RangeInclusive<u64> = 1..=60;
/// Kubernetes kills after 30 s unless told otherwise; nobody waits 5 minutes.
pub(crate) const DRAIN_TIMEOUT_SECONDS: RangeInclusive<u64> = 1..=300;
/// Subscriptions of one session, and in all.
pub(crate) const SUBSCRIPTIONS: RangeInclusive<u64> = 1..=100_000;
/// What one subscription remembers.
pub(crate) const FEED_EVENTS: RangeInclusive<u64> = 1..=100_000;
/// A watch that has gone silent is noticed when it should have been renewed.
pub(crate) const WATCH_RENEWAL_SECONDS: RangeInclusive<u64> = 1..=3600;
/// Captures of logs at once.
pub(crate) const CAPTURES: RangeInclusive<u64> = 1..=1000;
/// A few lines, up to what a notification may weigh with several of them.
pub(crate) const LOG_BYTES: RangeInclusive<u64> = 256..=262_144;
/// Containers whose logs come with a fault.
pub(crate) const CONTAINERS: RangeInclusive<u64> = 1..=50;
/// Each is a process of its own.
pub(crate) const PROCESSES: RangeInclusive<u64> = 1..=1_000;
/// A screenful, up to what a client's message may weigh.
pub(crate) const MAX_OUTPUT_BYTES: RangeInclusive<u64> = 4096..=4_194_304;

const AFTER_HELP: &str = "\
--help-all shows every setting. Each is also an environment variable (--log-level is
KUBECRIER_LOG_LEVEL) and a key of the --config file (log_level). A flag wins over the environment,
the environment over the file. Exit codes: 0 done, 64 bad usage or configuration, 1 failed while
running.";

/// The Kubernetes MCP server that tells an agent what just happened in a cluster.
/// Without --port it speaks MCP on stdin and stdout; with it, Streamable HTTP at
/// /mcp. It only ever reads from clusters.
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

    /// None is to serve.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Every setting, each of which may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Serve HTTP on this port instead of stdio (0: any free one)
    #[arg(long, env = "KUBECRIER_PORT", value_name = "PORT", value_parser = within(PORT))]
    #[arg(help_heading = "Server")]
    pub port: Option<u64>,

    /// Address to listen on [default: 127.0.0.1]
    #[arg(
        long,
        env = "KUBECRIER_BIND_ADDRESS",
        value_name = "IP",
        help_heading = "Server"
    )]
    pub bind_address: Option<String>,

    /// Bearer tokens that may call, one `name:token` a line
    #[arg(
        long,
        env = "KUBECRIER_AUTH_TOKEN_FILE",
        value_name = "FILE",
        help_heading = "Server"
    )]
    pub auth_token_file: Option<PathBuf>,

    /// Let anyone call who can reach an address that is not loopback
    #[arg(long, env = "KUBECRIER_ALLOW_UNAUTHENTICATED", help_heading = "Server")]
    #[arg(num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    #[arg(hide_short_help = true)]
    pub allow_unauthenticated: Option<bool>,

    /// Requests worked on at once [default: 512]
    #[arg(long, env = "KUBECRIER_MAX_CONCURRENT_REQUESTS", value_name = "N")]
    #[arg(value_parser = within(REQUESTS), help_heading = "Server")]
    #[arg(hide_short_help = true)]
    pub max_concurrent_requests: Option<u64>,

    /// Host names clients may use, besides loopback
    #[arg(
        long,
        env = "KUBECRIER_ALLOWED_HOSTS",
        value_name = "HOST,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Server")]
    pub allowed_hosts: Option<Vec<String>>,

    /// Browser origins that may call, besides loopback (scheme://host:port)
    #[arg(
        long,
        env = "KUBECRIER_ALLOWED_ORIGINS",
        value_name = "URL,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Server")]
    #[arg(hide_short_help = true)]
    pub allowed_origins: Option<Vec<String>>,

    /// A session without stream and requests ends after this [default: 5m]
    #[arg(long, env = "KUBECRIER_SESSION_IDLE_TIMEOUT", value_name = "TIME")]
    #[arg(help_heading = "Server")]
    #[arg(hide_short_help = true)]
    pub session_idle_timeout: Option<String>,

    /// A client with an open stream is pinged after this much silence; 0s is never [default: 5s]
    #[arg(long, env = "KUBECRIER_HEARTBEAT_INTERVAL", value_name = "TIME")]
    #[arg(help_heading = "Server")]
    #[arg(hide_short_help = true)]
    pub heartbeat_interval: Option<String>,

    /// Sessions at once [default: 10000]
    #[arg(long, env = "KUBECRIER_MAX_SESSIONS", value_name = "N", value_parser = within(SESSIONS))]
    #[arg(help_heading = "Server")]
    #[arg(hide_short_help = true)]
    pub max_sessions: Option<u64>,

    /// Sessions at once of one caller [default: 1000]
    #[arg(long, env = "KUBECRIER_MAX_SESSIONS_PER_CALLER", value_name = "N")]
    #[arg(value_parser = within(SESSIONS), help_heading = "Server")]
    #[arg(hide_short_help = true)]
    pub max_sessions_per_caller: Option<u64>,

    /// New sessions in a second [default: 200]
    #[arg(long, env = "KUBECRIER_MAX_SESSION_RATE", value_name = "N")]
    #[arg(value_parser = within(SESSIONS), help_heading = "Server")]
    #[arg(hide_short_help = true)]
    pub max_session_rate: Option<u64>,

    /// How long a stop waits for running calls [default: 10]
    #[arg(long, env = "KUBECRIER_DRAIN_TIMEOUT_SECONDS", value_name = "SECONDS")]
    #[arg(value_parser = within(DRAIN_TIMEOUT_SECONDS), help_heading = "Server")]
    #[arg(hide_short_help = true)]
    pub drain_timeout_seconds: Option<u64>,

    /// Kubeconfig [default: $KUBECONFIG, ~/.kube/config, in-cluster]
    #[arg(
        long,
        env = "KUBECRIER_KUBECONFIG",
        value_name = "FILE",
        help_heading = "Clusters"
    )]
    pub kubeconfig: Option<PathBuf>,

    /// Context for calls that name none [default: the current one]
    #[arg(
        long,
        env = "KUBECRIER_CONTEXT",
        value_name = "NAME",
        help_heading = "Clusters"
    )]
    pub context: Option<String>,

    /// How long an API server may take to answer [default: 4]
    #[arg(
        long,
        env = "KUBECRIER_REQUEST_TIMEOUT_SECONDS",
        value_name = "SECONDS"
    )]
    #[arg(value_parser = within(REQUEST_TIMEOUT_SECONDS), help_heading = "Clusters")]
    #[arg(hide_short_help = true)]
    pub request_timeout_seconds: Option<u64>,

    /// Kinds that nobody may read through this server, e.g. Secret,ingresses
    #[arg(
        long,
        env = "KUBECRIER_DENIED_KINDS",
        value_name = "KIND,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Clusters")]
    #[arg(hide_short_help = true)]
    pub denied_kinds: Option<Vec<String>>,

    /// Offer only these sets of tools: config, core, events, faults [default: all]
    #[arg(
        long,
        env = "KUBECRIER_TOOLSETS",
        value_name = "SET,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Tools")]
    #[arg(hide_short_help = true)]
    pub toolsets: Option<Vec<String>>,

    /// Do not offer these tools
    #[arg(
        long,
        env = "KUBECRIER_DISABLED_TOOLS",
        value_name = "TOOL,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Tools")]
    #[arg(hide_short_help = true)]
    pub disabled_tools: Option<Vec<String>>,

    /// Event subscriptions of one session [default: 10]
    #[arg(
        long,
        env = "KUBECRIER_MAX_SUBSCRIPTIONS_PER_SESSION",
        value_name = "N"
    )]
    #[arg(value_parser = within(SUBSCRIPTIONS), help_heading = "Events")]
    #[arg(hide_short_help = true)]
    pub max_subscriptions_per_session: Option<u64>,

    /// Event subscriptions in all [default: 100]
    #[arg(long, env = "KUBECRIER_MAX_SUBSCRIPTIONS_GLOBAL", value_name = "N")]
    #[arg(value_parser = within(SUBSCRIPTIONS), help_heading = "Events")]
    #[arg(hide_short_help = true)]
    pub max_subscriptions_global: Option<u64>,

    /// Events that a subscription keeps for events_poll [default: 1000]
    #[arg(long, env = "KUBECRIER_MAX_FEED_EVENTS", value_name = "N")]
    #[arg(value_parser = within(FEED_EVENTS), help_heading = "Events")]
    #[arg(hide_short_help = true)]
    pub max_feed_events: Option<u64>,

    /// How long one watch request lasts until it is renewed [default: 60]
    #[arg(long, env = "KUBECRIER_WATCH_RENEWAL_SECONDS", value_name = "SECONDS")]
    #[arg(value_parser = within(WATCH_RENEWAL_SECONDS), help_heading = "Events")]
    #[arg(hide_short_help = true)]
    pub watch_renewal_seconds: Option<u64>,

    /// Captures of a fault's logs at once, per cluster [default: 5]
    #[arg(long, env = "KUBECRIER_MAX_LOG_CAPTURES_PER_CLUSTER", value_name = "N")]
    #[arg(value_parser = within(CAPTURES), help_heading = "Faults")]
    #[arg(hide_short_help = true)]
    pub max_log_captures_per_cluster: Option<u64>,

    /// Captures of a fault's logs at once, in all [default: 20]
    #[arg(long, env = "KUBECRIER_MAX_LOG_CAPTURES_GLOBAL", value_name = "N")]
    #[arg(value_parser = within(CAPTURES), help_heading = "Faults")]
    #[arg(hide_short_help = true)]
    pub max_log_captures_global: Option<u64>,

    /// Size of one log in a fault at most [default: 10240]
    #[arg(
        long,
        env = "KUBECRIER_MAX_LOG_BYTES_PER_CONTAINER",
        value_name = "BYTES"
    )]
    #[arg(value_parser = within(LOG_BYTES), help_heading = "Faults")]
    #[arg(hide_short_help = true)]
    pub max_log_bytes_per_container: Option<u64>,

    /// Containers whose logs come with a fault [default: 5]
    #[arg(
        long,
        env = "KUBECRIER_MAX_CONTAINERS_PER_NOTIFICATION",
        value_name = "N"
    )]
    #[arg(value_parser = within(CONTAINERS), help_heading = "Faults")]
    #[arg(hide_short_help = true)]
    pub max_containers_per_notification: Option<u64>,

    /// Size of a tool's answer at most [default: 65536]
    #[arg(long, env = "KUBECRIER_MAX_OUTPUT_BYTES", value_name = "BYTES")]
    #[arg(value_parser = within(MAX_OUTPUT_BYTES), help_heading = "Output")]
    #[arg(hide_short_help = true)]
    pub max_output_bytes: Option<u64>,

    /// Regular expression of a further secret to hide; may be repeated
    #[arg(long, env = "KUBECRIER_REDACT", value_name = "REGEX")]
    #[arg(action = ArgAction::Append, help_heading = "Output")]
    #[arg(hide_short_help = true)]
    pub redact: Option<Vec<String>>,
    /// Serve the tools, resources and prompts in this folder too
    #[arg(
        long,
        env = "KUBECRIER_PROJECT_ROOT",
        value_name = "DIR",
        help_heading = "Project"
    )]
    pub project_root: Option<PathBuf>,

    /// Run server.d/register.sh of the project, which says what to serve
    #[arg(long, env = "KUBECRIER_ALLOW_REGISTER_HOOK", help_heading = "Project")]
    #[arg(num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    #[arg(hide_short_help = true)]
    pub allow_register_hook: Option<bool>,

    /// How long a look at the project is good for without file-system events [default: 5s]
    #[arg(long, env = "KUBECRIER_PROJECT_TTL", value_name = "TIME")]
    #[arg(help_heading = "Project")]
    #[arg(hide_short_help = true)]
    pub project_ttl: Option<String>,

    /// How long what register.sh said is good for [default: 5s]
    #[arg(long, env = "KUBECRIER_REGISTER_HOOK_TTL", value_name = "TIME")]
    #[arg(help_heading = "Project")]
    #[arg(hide_short_help = true)]
    pub register_hook_ttl: Option<String>,

    /// Executables of the project that run at once [default: 16]
    #[arg(long, env = "KUBECRIER_MAX_TOOL_PROCESSES", value_name = "N")]
    #[arg(value_parser = within(PROCESSES), help_heading = "Project")]
    #[arg(hide_short_help = true)]
    pub max_tool_processes: Option<u64>,

    /// Variables of the environment that they get, besides PATH
    #[arg(
        long,
        env = "KUBECRIER_TOOL_ENV",
        value_name = "NAME,...",
        value_delimiter = ','
    )]
    #[arg(action = ArgAction::Append, help_heading = "Project")]
    #[arg(hide_short_help = true)]
    pub tool_env: Option<Vec<String>>,

    /// error, warn, info, debug, trace, or tracing directives [default: info]
    #[arg(
        long,
        env = "KUBECRIER_LOG_LEVEL",
        value_name = "LEVEL",
        help_heading = "Logs"
    )]
    pub log_level: Option<String>,

    /// How logs are written to stderr [default: plain]
    #[arg(
        long,
        env = "KUBECRIER_LOG_FORMAT",
        value_name = "FORMAT",
        help_heading = "Logs"
    )]
    pub log_format: Option<LogFormat>,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Plain,
    /// One JSON object a line.
    Json,
}

// === impl Settings ===

impl Settings {
    /// The stronger settings, and the weaker where the stronger are silent.
    #[must_use]
    pub fn over(self, weaker: Self) -> Self {
        Self {
            port: self.port.or(weaker.port),
            bind_address: self.bind_address.or(weaker.bind_address),
            auth_token_file: self.auth_token_file.or(weaker.auth_token_file),
            allow_unauthenticated: self.allow_unauthenticated.or(weaker.allow_unauthenticated),
            max_concurrent_requests: self
                .max_concurrent_requests
                .or(weaker.max_concurrent_requests),
            allowed_hosts: self.allowed_hosts.or(weaker.allowed_hosts),
            allowed_origins: self.allowed_origins.or(weaker.allowed_origins),
            drain_timeout_seconds: self.drain_timeout_seconds.or(weaker.drain_timeout_seconds),
            session_idle_timeout: self.session_idle_timeout.or(weaker.session_idle_timeout),
            heartbeat_interval: self.heartbeat_interval.or(weaker.heartbeat_interval),
            max_sessions: self.max_sessions.or(weaker.max_sessions),
            max_sessions_per_caller: self
                .max_sessions_per_caller
                .or(weaker.max_sessions_per_caller),
            max_session_rate: self.max_session_rate.or(weaker.max_session_rate),
            kubeconfig: self.kubeconfig.or(weaker.kubeconfig),
            context: self.context.or(weaker.context),
            request_timeout_seconds: self
                .request_timeout_seconds
                .or(weaker.request_timeout_seconds),
            denied_kinds: self.denied_kinds.or(weaker.denied_kinds),
            toolsets: self.toolsets.or(weaker.toolsets),
            disabled_tools: self.disabled_tools.or(weaker.disabled_tools),
            max_subscriptions_per_session: self
                .max_subscriptions_per_session
                .or(weaker.max_subscriptions_per_session),
            max_subscriptions_global: self
                .max_subscriptions_global
                .or(weaker.max_subscriptions_global),
            max_feed_events: self.max_feed_events.or(weaker.max_feed_events),
            watch_renewal_seconds: self.watch_renewal_seconds.or(weaker.watch_renewal_seconds),
            max_log_captures_per_cluster: self
                .max_log_captures_per_cluster
                .or(weaker.max_log_captures_per_cluster),
            max_log_captures_global: self
                .max_log_captures_global
                .or(weaker.max_log_captures_global),
            max_log_bytes_per_container: self
                .max_log_bytes_per_container
                .or(weaker.max_log_bytes_per_container),
            max_containers_per_notification: self
                .max_containers_per_notification
                .or(weaker.max_containers_per_notification),
            max_output_bytes: self.max_output_bytes.or(weaker.max_output_bytes),
            redact: self.redact.or(weaker.redact),
            project_root: self.project_root.or(weaker.project_root),
            allow_register_hook: self.allow_register_hook.or(weaker.allow_register_hook),
            project_ttl: self.project_ttl.or(weaker.project_ttl),
            register_hook_ttl: self.register_hook_ttl.or(weaker.register_hook_ttl),
            max_tool_processes: self.max_tool_processes.or(weaker.max_tool_processes),
            tool_env: self.tool_env.or(weaker.tool_env),
            log_level: self.log_level.or(weaker.log_level),
            log_format: self.log_format.or(weaker.log_format),
        }
    }
}
