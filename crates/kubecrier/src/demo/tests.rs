use std::ffi::OsString;

use clap::CommandFactory;

use super::*;
use crate::{
    cli::{Args, Command},
    config::Invocation,
};

#[test]
fn the_introduction_is_as_it_was() {
    let lines = introduce("http://127.0.0.1:8080/mcp", false, &|text| text.to_owned());
    insta::assert_snapshot!(lines.join("\n"));
}

/// For each setting a value that is not its default, and the flags that it needs to matter.
const SETTINGS: &[(&str, &str, &[&str])] = &[
    ("admin-address", "127.0.0.1:1", &[]),
    ("allow-other-users", "true", &[]),
    ("allow-register-hook", "true", PROJECT),
    ("allow-unauthenticated", "true", &[]),
    ("allowed-contexts", "a", &[]),
    ("allowed-hosts", "a.example", &[]),
    ("allowed-namespaces", "a", &[]),
    ("allowed-origins", "https://a.example", &[]),
    ("auth-token-file", "a", &[]),
    ("bind-address", "127.0.0.2", &[]),
    ("caller-share", "7", &[]),
    ("cluster-identity", "shared", &[]),
    ("context", "a", &[]),
    ("denied-kinds", "Secret", &[]),
    ("disabled-tools", "pods_log", &[]),
    ("drain-timeout-seconds", "7", &[]),
    ("heartbeat-interval", "7s", &[]),
    ("cluster-store", "nats://a", &[]),
    ("cluster-store-fleet", "a", &[]),
    ("cluster-store-credentials", "a", &[]),
    ("cluster-store-ca-file", "a", &[]),
    ("history", "a", &[]),
    ("history-max-age", "3d", HISTORY),
    ("history-max-bytes", "70000000", HISTORY),
    ("incidents.disable", "quota", &[]),
    ("incidents.hold", "quota=7m", &[]),
    ("kubeconfig", "a", &[]),
    ("log-format", "json", &[]),
    ("log-level", "trace", &[]),
    ("max-cluster-reads", "7", &[]),
    ("max-concurrent-requests", "7", &[]),
    ("max-connections", "7", &[]),
    ("max-containers-per-notification", "7", &[]),
    ("max-feed-events", "7", &[]),
    ("max-followed-logs", "7", &[]),
    ("max-waits", "7", &[]),
    ("max-graphs", "7", &[]),
    ("max-log-bytes-per-container", "700", &[]),
    ("max-log-captures-global", "7", &[]),
    ("max-log-captures-per-cluster", "7", &[]),
    ("max-output-bytes", "7000", &[]),
    ("max-parked-answer-bytes", "70000", &[]),
    ("max-session-rate", "7", &[]),
    ("max-sessions", "7", &[]),
    ("max-sessions-per-caller", "7", &[]),
    ("max-subscriptions-global", "7", &[]),
    ("max-subscriptions-per-session", "7", &[]),
    ("max-tool-processes", "7", PROJECT),
    ("max-watches", "7", &[]),
    ("parked-answer-timeout", "7s", &[]),
    ("poll-answers-after", "7s", &[]),
    ("port", "7", &[]),
    ("project-root", "a", &[]),
    ("project-ttl", "7s", PROJECT),
    ("redact", "CUST-7", &[]),
    ("register-hook-ttl", "7s", PROJECT),
    ("request-timeout-seconds", "7", &[]),
    ("session-idle-timeout", "7s", &[]),
    ("sink", "exec:/usr/local/bin/page", &[]),
    ("sink-allow", "10.0.0.0/8", SINK),
    ("tls-cert", "a", &[]),
    ("tls-key", "a", &[]),
    ("tool-env", "A", PROJECT),
    ("toolsets", "core", &[]),
    ("trusted-groups-header", "X-Groups", &[]),
    ("trusted-proxies", "10.0.0.0/8", &[]),
    ("trusted-user-header", "X-User", &[]),
    ("public-url", "https://a.example", &[]),
    ("oauth-issuer", "https://a.example", &[]),
    ("oauth-audience", "a", &[]),
    ("oauth-required-scope", "a", &[]),
    ("oauth-content-scopes", "false", &[]),
    ("oauth-algorithms", "RS256", &[]),
    ("oauth-ca-file", "a", &[]),
    ("oauth-introspection-url", "https://a.example", &[]),
    ("oauth-introspection-client-id", "a", &[]),
    ("oauth-introspection-secret-file", "a", &[]),
    ("username-claim", "a", &[]),
    ("username-prefix", "a", &[]),
    ("groups-claim", "a", &[]),
    ("groups-prefix", "a", &[]),
    ("allowed-groups", "a", &[]),
    ("service-account-audience", "a", &[]),
    ("audit-log", "stderr", &[]),
    ("watch-renewal-seconds", "7", &[]),
];

const SINK: &[&str] = &["--sink=cloudevents+https://a.example"];
const HISTORY: &[&str] = &["--history=kept"];
const PROJECT: &[&str] = &["--project-root=project"];

/// The server of a demo with these flags: all that is known of it, or the error.
fn server_of(flags: &[&str]) -> Result<String, String> {
    let words = ["kubecrier"].iter().chain(flags).chain(&["demo"]);
    let invocation = Invocation::load(words.map(OsString::from), []);
    let invocation = invocation.map_err(|error| error.to_string())?;
    let config = invocation.config().map_err(|error| error.to_string())?;
    let cluster = DemoCluster::new(Options::default());
    let Some(Command::Demo(args)) = invocation.command else {
        return Err("not the demo".to_owned());
    };
    Ok(format!("{:?} {:?}", args.port, over(config, &cluster)))
}

/// A flag of the server that the demo neither honours nor refuses is dropped silently.
#[test]
fn every_setting_is_honoured_or_refused() {
    let cli = Args::command();
    let settings = cli.get_arguments().filter(|arg| arg.get_env().is_some());
    let mut refused = Vec::new();
    for setting in settings
        .filter_map(clap::Arg::get_long)
        .filter(|flag| *flag != "config")
    {
        let known = SETTINGS.iter().find(|(flag, ..)| *flag == setting);
        let Some((flag, value, needed)) = known else {
            panic!("is --{setting} honoured by the demo? name a value for it here");
        };
        let given = format!("--{flag}={value}");
        let with = server_of(&[needed, &[given.as_str()][..]].concat());
        match with {
            Ok(server) => {
                assert_ne!(server_of(needed), Ok(server), "{given} makes no difference");
            }
            Err(error) => {
                let expected = format!("`{flag}` does not go with `kubecrier demo`: ");
                assert!(error.starts_with(&expected), "{given}: {error}");
                refused.push(setting);
            }
        }
    }
    refused.sort_unstable();
    assert_eq!(
        refused,
        [
            "allow-unauthenticated",
            "allowed-groups",
            "auth-token-file",
            "bind-address",
            "cluster-identity",
            "cluster-store",
            "cluster-store-ca-file",
            "cluster-store-credentials",
            "cluster-store-fleet",
            "context",
            "groups-claim",
            "groups-prefix",
            "kubeconfig",
            "oauth-algorithms",
            "oauth-audience",
            "oauth-ca-file",
            "oauth-content-scopes",
            "oauth-introspection-client-id",
            "oauth-introspection-secret-file",
            "oauth-introspection-url",
            "oauth-issuer",
            "oauth-required-scope",
            "public-url",
            "service-account-audience",
            "tls-cert",
            "tls-key",
            "trusted-groups-header",
            "trusted-proxies",
            "trusted-user-header",
            "username-claim",
            "username-prefix",
        ]
    );
}
