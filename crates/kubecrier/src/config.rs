//! Validates flags, environment variables and the configuration file into one [`Config`].

mod access;
mod choices;
mod cluster_store;
mod commands;
mod environment;
mod error;
mod history;
mod limits;
mod oauth;
mod sinks;
mod times;

use std::{
    ffi::OsString,
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    time::Duration,
};

pub use self::error::ConfigError;
use self::limits::count;
use crate::{
    cli::{Command, Settings},
    log::LogConfig,
};
use kubecrier_core::{faults::CaptureLimits, subscriptions::FeedLimits};
use kubecrier_redact::{BadPattern, Redactor};

const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// A call to an unreachable cluster is answered within 5 s, so the request gets less.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
const PROCESSES_MAX: usize = 16;

/// The configuration of the server, with a part for each crate.
#[derive(Clone, Debug)]
pub struct Config {
    /// The log.
    pub log: LogConfig,
    /// How clients connect.
    pub transport: kubecrier_server::Transport,
    /// The limits of what callers can have the server do.
    pub work: kubecrier_server::WorkLimits,
    /// The limits of results.
    pub tools: kubecrier_server::ToolLimits,
    /// Which tools are offered.
    pub tool_filter: kubecrier_server::ToolFilter,
    /// The clusters.
    pub cluster: kubecrier_k8s::Config,
    /// The limits of subscriptions.
    pub subscriptions: kubecrier_server::SubscriptionSettings,
    /// Removes secrets from everything that leaves the server.
    pub redactor: Redactor,
    /// The limits of log captures.
    pub captures: CaptureLimits,
    /// What an operator may choose of incidents.
    pub incidents: kubecrier_k8s::IncidentSettings,
    /// Where incidents go without a client.
    pub sinks: Vec<kubecrier_sinks::SinkConfig>,
    /// The folder of additional tools, resources and prompts.
    pub project: Option<kubecrier_project::Config>,
    /// Where and how much of what happens is kept, if it is.
    pub history: Option<kubecrier_history::HistoryConfig>,
    /// The store of servers that work together, if there are others.
    pub cluster_store: Option<kubecrier_nats::NatsConfig>,
    /// How long a shutdown waits for running calls.
    pub drain_timeout: Duration,
}

/// The settings and the command of a process.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// A flag wins over a variable, a variable over the file.
    pub settings: Settings,
    /// The command; without one, the server runs.
    pub command: Option<Command>,
}

// === impl Config ===

impl Config {
    /// Loads the configuration from arguments, environment and the file that they name.
    pub fn load(
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        Invocation::load(arguments, environment)?
            .settings
            .try_into()
    }
}

impl TryFrom<Settings> for Config {
    type Error = ConfigError;

    fn try_from(mut settings: Settings) -> Result<Self, ConfigError> {
        let oauth = settings.take_oauth();
        let service_account_audience = oauth.service_account_audience.clone();
        let Settings {
            port,
            bind_address,
            auth_token_file,
            allow_unauthenticated,
            allow_other_users,
            trusted_user_header,
            trusted_proxies,
            trusted_groups_header,
            tls_cert,
            tls_key,
            admin_address,
            public_url: _,
            oauth_issuer: _,
            oauth_audience: _,
            oauth_required_scope: _,
            oauth_content_scopes: _,
            oauth_algorithms: _,
            oauth_ca_file: _,
            oauth_introspection_url: _,
            oauth_introspection_client_id: _,
            oauth_introspection_secret_file: _,
            username_claim: _,
            username_prefix: _,
            groups_claim: _,
            groups_prefix: _,
            allowed_groups: _,
            service_account_audience: _,
            audit_log,
            caller_share,
            max_connections,
            max_concurrent_requests,
            allowed_hosts,
            allowed_origins,
            session_idle_timeout,
            heartbeat_interval,
            max_sessions,
            max_sessions_per_caller,
            max_session_rate,
            parked_answer_timeout,
            max_parked_answer_bytes,
            poll_answers_after,
            drain_timeout_seconds,
            kubeconfig,
            context,
            cluster_identity,
            request_timeout_seconds,
            max_cluster_reads,
            max_waits,
            max_graphs,
            max_followed_logs,
            denied_kinds,
            allowed_contexts,
            allowed_namespaces,
            incidents_disable,
            incidents_hold,
            sink,
            sink_allow,
            toolsets,
            disabled_tools,
            max_subscriptions_per_session,
            max_subscriptions_global,
            max_watches,
            max_feed_events,
            watch_renewal_seconds,
            history,
            history_max_age,
            history_max_bytes,
            cluster_store,
            cluster_store_fleet,
            cluster_store_credentials,
            cluster_store_ca_file,
            max_log_captures_per_cluster,
            max_log_captures_global,
            max_log_bytes_per_container,
            max_containers_per_notification,
            max_output_bytes,
            redact,
            project_root,
            allow_register_hook,
            project_ttl,
            register_hook_ttl,
            max_tool_processes,
            tool_env,
            log_level,
            log_format,
        } = settings;
        let address = match bind_address {
            None => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some(text) => text.parse().map_err(|_| ConfigError::Value {
                origin: String::new(),
                key: "bind-address",
                value: text,
                expected: "an IP address such as 127.0.0.1 or 0.0.0.0".to_owned(),
            })?,
        };
        let defaults = kubecrier_server::SessionLimits::default();
        let watching = kubecrier_server::SubscriptionSettings::default();
        let kubecrier_server::SubscriptionSettings { feed, .. } = watching;
        let share = limits::share(caller_share, port.is_some());
        let work = kubecrier_server::WorkLimits::default();
        let work = kubecrier_server::WorkLimits {
            share,
            calls_max: count(max_concurrent_requests, work.calls_max),
            reads_max: count(max_cluster_reads, work.reads_max),
            waits_max: count(max_waits, work.waits_max),
            watches_max: count(max_watches, work.watches_max),
            graphs_max: count(max_graphs, work.graphs_max),
            followed_logs_max: count(max_followed_logs, work.followed_logs_max),
        };
        let captures = CaptureLimits::default();
        let captures = CaptureLimits {
            per_cluster: count(max_log_captures_per_cluster, captures.per_cluster),
            in_all: count(max_log_captures_global, captures.in_all),
            log_bytes: count(max_log_bytes_per_container, captures.log_bytes),
            containers: count(max_containers_per_notification, captures.containers),
        };
        let processes_max = count(max_tool_processes, PROCESSES_MAX);
        let sessions_max = count(max_sessions, defaults.sessions_max);
        let sessions = kubecrier_server::SessionLimits {
            sessions_max,
            sessions_per_caller_max: count(
                max_sessions_per_caller,
                defaults.sessions_per_caller_max.min(share.of(sessions_max)),
            ),
            rate_per_second: count(max_session_rate, defaults.rate_per_second),
            share,
            idle_timeout: match session_idle_timeout {
                None => defaults.idle_timeout,
                Some(text) => times::idle_timeout(text)?,
            },
            heartbeat: match heartbeat_interval {
                None => defaults.heartbeat,
                Some(text) => times::heartbeat(text)?,
            },
            park_for: match parked_answer_timeout {
                None => defaults.park_for,
                Some(text) => times::park_for(text)?,
            },
            parked_bytes_max: count(max_parked_answer_bytes, defaults.parked_bytes_max),
            poll_after: match poll_answers_after {
                None => defaults.poll_after,
                Some(text) => times::poll_after(text)?,
            },
        };
        let oauth = oauth.read(project_root.is_some())?;
        oauth::check_service_account_audience(service_account_audience.as_deref())?;
        let takes_tokens =
            auth_token_file.is_some() || oauth.is_some() || service_account_audience.is_some();
        let identity = access::IdentityRequest {
            choice: cluster_identity,
            has_port: port.is_some(),
            is_authenticated: takes_tokens || trusted_user_header.is_some(),
            has_project: project_root.is_some(),
            needed_by: oauth.is_some().then_some("oauth-issuer"),
        };
        let identity = identity.check()?;
        let user_header = access::ProxySettings {
            user_header: trusted_user_header,
            groups_header: trusted_groups_header,
            proxies: trusted_proxies.unwrap_or_default(),
        };
        let user_header = user_header.read(identity)?;
        let has_only_tokens = takes_tokens && user_header.is_none();
        let access = access::Access {
            is_authenticated: takes_tokens || user_header.is_some(),
            allow_unauthenticated: allow_unauthenticated.unwrap_or_default(),
            allow_other_users: allow_other_users.unwrap_or_default(),
            has_project: project_root.is_some(),
            knows_users: kubecrier_server::PEER_USERS_ARE_KNOWN,
        };
        let tls = access::tls(tls_cert, tls_key)?;
        let admin = access::admin_address(admin_address)?;
        if port.is_some() {
            access.check(address)?;
        }
        let transport = match port {
            None => kubecrier_server::Transport::Stdio,
            Some(port) => {
                kubecrier_server::Transport::Http(Box::new(kubecrier_server::HttpConfig {
                    listen: SocketAddr::new(address, u16::try_from(port).unwrap_or_default()),
                    allowed_hosts: access::hosts(allowed_hosts, has_only_tokens)?,
                    allowed_origins: access::origins(allowed_origins)?,
                    sessions,
                    auth_token_file,
                    own_token: None,
                    allow_other_users: access.allow_other_users,
                    user_header,
                    oauth,
                    service_account_audience,
                    audit: audit_log.map(access::audit_target),
                    tls,
                    admin,
                    connections_max: count(max_connections, limits::CONNECTIONS_MAX),
                    descriptors_reserved: limits::descriptors_reserved(
                        &work,
                        captures.in_all,
                        processes_max,
                    ),
                }))
            }
        };
        let exclusions = choices::Exclusions {
            toolsets,
            disabled_tools,
            denied_kinds,
            allowed_contexts,
            allowed_namespaces,
        };
        let has_project = project_root.is_some();
        let (tool_filter, denied, allowed) =
            exclusions.read(context.as_deref(), has_project, identity)?;
        let redactor = Redactor::new(&redact.unwrap_or_default())?;
        Ok(Self {
            log: LogConfig::new(
                log_level.as_deref(),
                log_format.unwrap_or_default(),
                redactor.clone(),
            )?,
            transport,
            work,
            tools: kubecrier_server::ToolLimits {
                output_bytes: max_output_bytes.map_or(MAX_OUTPUT_BYTES, |bytes| {
                    usize::try_from(bytes).unwrap_or(usize::MAX)
                }),
            },
            cluster: kubecrier_k8s::Config {
                kubeconfig,
                context,
                request_timeout: request_timeout_seconds
                    .map_or(REQUEST_TIMEOUT, Duration::from_secs),
                redactor: redactor.clone(),
                demo: None,
                denied,
                allowed,
                identity,
            },
            tool_filter,
            redactor,
            captures,
            incidents: choices::incidents(incidents_disable, incidents_hold)?,
            sinks: sinks::read(sink.unwrap_or_default(), &sink_allow.unwrap_or_default())?,
            subscriptions: kubecrier_server::SubscriptionSettings {
                caps: limits::subscriptions(
                    max_subscriptions_per_session,
                    max_subscriptions_global,
                    share,
                ),
                feed: FeedLimits {
                    entries_max: count(max_feed_events, feed.entries_max),
                    ..feed
                },
                idle_timeout: sessions.idle_timeout,
                watch_renewal: watch_renewal_seconds
                    .map_or(watching.watch_renewal, Duration::from_secs),
            },
            project: match project_root {
                None => None,
                Some(root) => Some(kubecrier_project::Config {
                    root: std::path::absolute(&root).unwrap_or(root),
                    allow_hook: allow_register_hook.unwrap_or_default(),
                    ttl: times::ttl("project-ttl", project_ttl)?,
                    hook_ttl: times::ttl("register-hook-ttl", register_hook_ttl)?,
                    processes_max,
                    passed: tool_env.unwrap_or_default(),
                }),
            },
            history: history::read(history, history_max_age, history_max_bytes)?,
            cluster_store: cluster_store::StoreSettings {
                servers: cluster_store,
                fleet: cluster_store_fleet,
                credentials_file: cluster_store_credentials,
                ca_file: cluster_store_ca_file,
                has_port: port.is_some(),
            }
            .read()?,
            drain_timeout: drain_timeout_seconds.map_or(DRAIN_TIMEOUT, Duration::from_secs),
        })
    }
}

impl From<BadPattern> for ConfigError {
    fn from(error: BadPattern) -> Self {
        Self::Value {
            origin: String::new(),
            key: "redact",
            value: error.pattern,
            expected: format!("a regular expression of a secret: {}", error.reason),
        }
    }
}

fn read_file(path: &Path) -> Result<Settings, ConfigError> {
    let text = fs::read_to_string(path).map_err(|source| ConfigError::File {
        path: path.to_owned(),
        source,
    })?;
    parse_file(path, &text)
}

fn parse_file(path: &Path, text: &str) -> Result<Settings, ConfigError> {
    let settings: Settings = toml::from_str(text).map_err(|error| ConfigError::Syntax {
        path: path.to_owned(),
        message: error.to_string().trim_end().to_owned(),
    })?;
    for (key, value, range) in settings.numbers() {
        if let Some(value) = value.filter(|value| !range.contains(value)) {
            return Err(ConfigError::Value {
                origin: format!("in the configuration file `{}`: ", path.display()),
                key,
                value: value.to_string(),
                expected: format!("a whole number from {} to {}", range.start(), range.end()),
            });
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests;
