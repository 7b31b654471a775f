//! The layers of settings: flags and variables over the configuration file.

use super::Settings;

impl Settings {
    /// These settings, and those of `fallback` where these are absent.
    #[must_use]
    pub fn or(self, fallback: Self) -> Self {
        Self {
            port: self.port.or(fallback.port),
            bind_address: self.bind_address.or(fallback.bind_address),
            auth_token_file: self.auth_token_file.or(fallback.auth_token_file),
            allow_unauthenticated: self
                .allow_unauthenticated
                .or(fallback.allow_unauthenticated),
            allow_other_users: self.allow_other_users.or(fallback.allow_other_users),
            trusted_user_header: self.trusted_user_header.or(fallback.trusted_user_header),
            trusted_proxies: self.trusted_proxies.or(fallback.trusted_proxies),
            trusted_groups_header: self
                .trusted_groups_header
                .or(fallback.trusted_groups_header),
            tls_cert: self.tls_cert.or(fallback.tls_cert),
            tls_key: self.tls_key.or(fallback.tls_key),
            admin_address: self.admin_address.or(fallback.admin_address),
            public_url: self.public_url.or(fallback.public_url),
            oauth_issuer: self.oauth_issuer.or(fallback.oauth_issuer),
            oauth_audience: self.oauth_audience.or(fallback.oauth_audience),
            oauth_required_scope: self.oauth_required_scope.or(fallback.oauth_required_scope),
            oauth_content_scopes: self.oauth_content_scopes.or(fallback.oauth_content_scopes),
            oauth_algorithms: self.oauth_algorithms.or(fallback.oauth_algorithms),
            oauth_ca_file: self.oauth_ca_file.or(fallback.oauth_ca_file),
            oauth_introspection_url: self
                .oauth_introspection_url
                .or(fallback.oauth_introspection_url),
            oauth_introspection_client_id: self
                .oauth_introspection_client_id
                .or(fallback.oauth_introspection_client_id),
            oauth_introspection_secret_file: self
                .oauth_introspection_secret_file
                .or(fallback.oauth_introspection_secret_file),
            username_claim: self.username_claim.or(fallback.username_claim),
            username_prefix: self.username_prefix.or(fallback.username_prefix),
            groups_claim: self.groups_claim.or(fallback.groups_claim),
            groups_prefix: self.groups_prefix.or(fallback.groups_prefix),
            allowed_groups: self.allowed_groups.or(fallback.allowed_groups),
            service_account_audience: self
                .service_account_audience
                .or(fallback.service_account_audience),
            audit_log: self.audit_log.or(fallback.audit_log),
            caller_share: self.caller_share.or(fallback.caller_share),
            max_connections: self.max_connections.or(fallback.max_connections),
            max_concurrent_requests: self
                .max_concurrent_requests
                .or(fallback.max_concurrent_requests),
            allowed_hosts: self.allowed_hosts.or(fallback.allowed_hosts),
            allowed_origins: self.allowed_origins.or(fallback.allowed_origins),
            drain_timeout_seconds: self
                .drain_timeout_seconds
                .or(fallback.drain_timeout_seconds),
            session_idle_timeout: self.session_idle_timeout.or(fallback.session_idle_timeout),
            heartbeat_interval: self.heartbeat_interval.or(fallback.heartbeat_interval),
            max_sessions: self.max_sessions.or(fallback.max_sessions),
            max_sessions_per_caller: self
                .max_sessions_per_caller
                .or(fallback.max_sessions_per_caller),
            max_session_rate: self.max_session_rate.or(fallback.max_session_rate),
            parked_answer_timeout: self
                .parked_answer_timeout
                .or(fallback.parked_answer_timeout),
            max_parked_answer_bytes: self
                .max_parked_answer_bytes
                .or(fallback.max_parked_answer_bytes),
            poll_answers_after: self.poll_answers_after.or(fallback.poll_answers_after),
            kubeconfig: self.kubeconfig.or(fallback.kubeconfig),
            context: self.context.or(fallback.context),
            cluster_identity: self.cluster_identity.or(fallback.cluster_identity),
            request_timeout_seconds: self
                .request_timeout_seconds
                .or(fallback.request_timeout_seconds),
            max_cluster_reads: self.max_cluster_reads.or(fallback.max_cluster_reads),
            max_waits: self.max_waits.or(fallback.max_waits),
            max_graphs: self.max_graphs.or(fallback.max_graphs),
            max_followed_logs: self.max_followed_logs.or(fallback.max_followed_logs),
            denied_kinds: self.denied_kinds.or(fallback.denied_kinds),
            allowed_contexts: self.allowed_contexts.or(fallback.allowed_contexts),
            allowed_namespaces: self.allowed_namespaces.or(fallback.allowed_namespaces),
            incidents_disable: self.incidents_disable.or(fallback.incidents_disable),
            incidents_hold: self.incidents_hold.or(fallback.incidents_hold),
            sink: self.sink.or(fallback.sink),
            sink_allow: self.sink_allow.or(fallback.sink_allow),
            toolsets: self.toolsets.or(fallback.toolsets),
            disabled_tools: self.disabled_tools.or(fallback.disabled_tools),
            max_subscriptions_per_session: self
                .max_subscriptions_per_session
                .or(fallback.max_subscriptions_per_session),
            max_subscriptions_global: self
                .max_subscriptions_global
                .or(fallback.max_subscriptions_global),
            max_watches: self.max_watches.or(fallback.max_watches),
            max_feed_events: self.max_feed_events.or(fallback.max_feed_events),
            watch_renewal_seconds: self
                .watch_renewal_seconds
                .or(fallback.watch_renewal_seconds),
            history: self.history.or(fallback.history),
            history_max_age: self.history_max_age.or(fallback.history_max_age),
            history_max_bytes: self.history_max_bytes.or(fallback.history_max_bytes),
            cluster_store: self.cluster_store.or(fallback.cluster_store),
            cluster_store_fleet: self.cluster_store_fleet.or(fallback.cluster_store_fleet),
            cluster_store_credentials: self
                .cluster_store_credentials
                .or(fallback.cluster_store_credentials),
            cluster_store_ca_file: self
                .cluster_store_ca_file
                .or(fallback.cluster_store_ca_file),
            max_log_captures_per_cluster: self
                .max_log_captures_per_cluster
                .or(fallback.max_log_captures_per_cluster),
            max_log_captures_global: self
                .max_log_captures_global
                .or(fallback.max_log_captures_global),
            max_log_bytes_per_container: self
                .max_log_bytes_per_container
                .or(fallback.max_log_bytes_per_container),
            max_containers_per_notification: self
                .max_containers_per_notification
                .or(fallback.max_containers_per_notification),
            max_output_bytes: self.max_output_bytes.or(fallback.max_output_bytes),
            redact: self.redact.or(fallback.redact),
            project_root: self.project_root.or(fallback.project_root),
            allow_register_hook: self.allow_register_hook.or(fallback.allow_register_hook),
            project_ttl: self.project_ttl.or(fallback.project_ttl),
            register_hook_ttl: self.register_hook_ttl.or(fallback.register_hook_ttl),
            max_tool_processes: self.max_tool_processes.or(fallback.max_tool_processes),
            tool_env: self.tool_env.or(fallback.tool_env),
            log_level: self.log_level.or(fallback.log_level),
            log_format: self.log_format.or(fallback.log_format),
        }
    }
}
