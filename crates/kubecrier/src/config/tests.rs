use std::{error::Error, fs};

use clap::CommandFactory;
use proptest::prelude::*;

use super::*;
use crate::cli::Args;

mod incidents;

fn load(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let program = ["kubecrier"];
    Config::load(
        program.iter().chain(arguments).map(OsString::from),
        environment
            .iter()
            .map(|(name, value)| (name.into(), value.into())),
    )
}

fn refused(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    load(arguments, environment)
        .expect_err("this must be refused")
        .to_string()
}

fn file(content: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubecrier.toml");
    fs::write(&path, content).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

#[test]
fn defaults_are_stdio_and_what_the_documents_say() {
    let config = load(&[], &[]).unwrap();
    assert!(matches!(
        config.transport,
        kubecrier_server::Transport::Stdio
    ));
    assert_eq!(config.drain_timeout, Duration::from_secs(10));
    assert_eq!(config.tools.output_bytes, 65536);
    assert!(config.cluster.request_timeout < Duration::from_secs(5));
}

/// S4-41, S4-42.
#[test]
fn a_project_is_looked_at_every_five_seconds_unless_told_otherwise() {
    let times = |arguments: &[&str]| {
        let arguments = [&["--project-root", "/srv/project"], arguments].concat();
        let project = load(&arguments, &[]).unwrap().project.unwrap();
        (project.ttl.as_secs(), project.hook_ttl.as_secs())
    };
    assert_eq!(times(&[]), (5, 5));
    assert_eq!(times(&["--register-hook-ttl", "1s"]), (5, 1));
    assert_eq!(times(&["--project-ttl", "7s"]), (7, 5));
}

#[test]
fn http_is_bound_to_loopback_unless_told_otherwise() {
    let listen = |arguments: &[&str]| match load(arguments, &[]).unwrap().transport {
        kubecrier_server::Transport::Http(http) => http.listen.to_string(),
        kubecrier_server::Transport::Stdio => panic!("a port means HTTP"),
    };
    assert_eq!(listen(&["--port", "8080"]), "127.0.0.1:8080");
    assert_eq!(
        listen(&[
            "--port",
            "8080",
            "--bind-address",
            "0.0.0.0",
            "--allow-unauthenticated"
        ]),
        "0.0.0.0:8080"
    );
    assert_eq!(
        listen(&["--port", "8080", "--bind-address", "::1"]),
        "[::1]:8080"
    );
}

#[test]
fn an_address_that_others_can_reach_needs_authentication() {
    let error = refused(&["--port", "1", "--bind-address", "0.0.0.0"], &[]);
    assert!(
        error.contains("--auth-token-file") && error.contains("0.0.0.0"),
        "{error}"
    );
    let named = [
        "--port",
        "1",
        "--bind-address",
        "0.0.0.0",
        "--auth-token-file",
        "x",
    ];
    load(&named, &[]).unwrap();
    // On stdio there is no listener.
    load(&["--bind-address", "0.0.0.0"], &[]).unwrap();
}

#[test]
fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
    let (_dir, path) = file("drain_timeout_seconds = 20\nmax_output_bytes = 5000\n");
    let config = load(&["--config", &path, "--drain-timeout-seconds", "30"], &[]).unwrap();
    assert_eq!(config.drain_timeout, Duration::from_secs(30));
    assert_eq!(config.tools.output_bytes, 5000);
    assert_eq!(config.cluster.request_timeout, REQUEST_TIMEOUT);
}

#[test]
fn every_setting_of_the_stronger_layer_wins() {
    let strong: Settings = toml::from_str(ALL).unwrap();
    let weak: Settings = toml::from_str(&ALL.replace('1', "2").replace("\"a", "\"b")).unwrap();
    assert_ne!(strong, weak);
    assert_eq!(strong.clone().or(weak.clone()), strong);
    assert_eq!(Settings::default().or(weak.clone()), weak);
}

const ALL: &str = r#"
port = 1
bind_address = "a"
auth_token_file = "a"
allow_unauthenticated = true
allow_other_users = true
trusted_user_header = "a"
trusted_proxies = ["a"]
trusted_groups_header = "a"
tls_cert = "a"
tls_key = "a"
admin_address = "a"
max_concurrent_requests = 1
allowed_hosts = ["a"]
allowed_origins = ["a"]
session_idle_timeout = "a"
heartbeat_interval = "a"
max_sessions = 1
max_sessions_per_caller = 1
max_session_rate = 1
parked_answer_timeout = "a"
max_parked_answer_bytes = 1
poll_answers_after = "a"
drain_timeout_seconds = 1
kubeconfig = "a"
context = "a"
request_timeout_seconds = 1
denied_kinds = ["a"]
allowed_contexts = ["a"]
allowed_namespaces = ["a"]
toolsets = ["a"]
disabled_tools = ["a"]
incidents_disable = ["a"]
incidents_hold = ["a"]
max_log_captures_per_cluster = 1
max_log_captures_global = 1
max_log_bytes_per_container = 1
max_containers_per_notification = 1
max_output_bytes = 1
redact = ["a"]
log_level = "a"
log_format = "plain"
"#;

#[test]
fn what_is_allowed_can_mean_something() {
    for (flag, value) in [
        ("--allowed-namespaces", ""),
        ("--allowed-namespaces", "Shop"),
        ("--allowed-namespaces", "a,,b"),
        ("--allowed-contexts", ""),
    ] {
        let error = refused(&[flag, value], &[]);
        assert!(
            error.contains(&flag[2..]) && error.contains("must be"),
            "{error}"
        );
    }
    let error = refused(&["--context", "prod", "--allowed-contexts", "dev-*"], &[]);
    assert!(
        error.contains("`prod`") && error.contains("--allowed-contexts"),
        "{error}"
    );
    let config = load(
        &[
            "--allowed-namespaces",
            "a,b-*",
            "--disabled-tools",
            "pods_log",
        ],
        &[],
    );
    let allowed = config.unwrap().cluster.allowed;
    assert!(allowed.namespaces.allows("b-1") && !allowed.namespaces.allows("b"));
    assert!(allowed.hides_logs && !allowed.hides_contexts);
    assert!(!load(&[], &[]).unwrap().cluster.allowed.hides_logs);
}

#[test]
fn a_heartbeat_has_a_range_and_can_be_none() {
    for text in ["999ms", "61m", "soon"] {
        let error = refused(&["--heartbeat-interval", text], &[]);
        assert!(
            error.contains(text) && error.contains("1s to 1h"),
            "{error}"
        );
    }
    assert_eq!(times::heartbeat("0s".to_owned()).unwrap(), None);
    let minute = Some(Duration::from_mins(1));
    assert_eq!(times::heartbeat("1m".to_owned()).unwrap(), minute);
}

#[test]
fn the_times_of_answers_have_ranges_and_can_be_none() {
    for flag in ["--parked-answer-timeout", "--poll-answers-after"] {
        for text in ["999ms", "61m", "soon"] {
            let error = refused(&[flag, text], &[]);
            for word in [&flag[2..], text, "1s to 1h"] {
                assert!(error.contains(word), "{error}");
            }
        }
    }
    assert_eq!(times::park_for("0s".to_owned()).unwrap(), Duration::ZERO);
    assert_eq!(times::poll_after("0s".to_owned()).unwrap(), None);
    let minute = Duration::from_mins(1);
    assert_eq!(times::park_for("1m".to_owned()).unwrap(), minute);
    assert_eq!(times::poll_after("1m".to_owned()).unwrap(), Some(minute));
}

#[test]
fn a_number_out_of_range_is_named_with_its_range() {
    let error = refused(&["--port", "99999"], &[]);
    assert!(error.contains("'99999' for '--port <PORT>'"), "{error}");
    assert!(error.contains("from 0 to 65535"), "{error}");
    let (_dir, path) = file("request_timeout_seconds = 61\n");
    let error = refused(&["--config", &path], &[]);
    assert!(
        error.contains("`request_timeout_seconds` is `61`"),
        "{error}"
    );
    assert!(
        error.contains("from 1 to 60") && error.contains(&path),
        "{error}"
    );
}

#[test]
fn words_we_do_not_know_are_named() {
    assert!(refused(&["--prot", "1"], &[]).contains("--prot"));
    let (_dir, path) = file("prot = 1\n");
    let error = refused(&["--config", &path], &[]);
    assert!(
        error.contains("unknown field `prot`") && error.contains("`port`"),
        "{error}"
    );
    let error = refused(&[], &[("KUBECRIER_PROT", "1")]);
    assert!(
        error.contains("`KUBECRIER_PROT`") && error.contains("KUBECRIER_PORT"),
        "{error}"
    );
}

#[test]
fn what_kubernetes_sets_for_a_service_of_our_name_is_not_meant_for_us() {
    let links = [
        ("KUBECRIER_PORT", "tcp://10.0.0.7:8080"),
        ("KUBECRIER_SERVICE_HOST", "10.0.0.7"),
        ("KUBECRIER_SERVICE_PORT_HTTP", "8080"),
        ("KUBECRIER_PORT_8080_TCP_ADDR", "10.0.0.7"),
        ("KUBECRIER_MCP_SERVICE_HOST", "10.0.0.7"),
        ("KUBECRIER_MCP_PORT", "tcp://10.0.0.7:8080"),
        ("KUBECRIER_MCP_PORT_8080_TCP_PROTO", "tcp"),
    ];
    assert!(matches!(
        load(&[], &links).unwrap().transport,
        kubecrier_server::Transport::Stdio
    ));
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let error = refused(&["--port", "1", "--bind-address", "localhost"], &[]);
    assert!(error.contains("`bind-address` is `localhost`"), "{error}");
    for level in ["warning", "loud", "", "off please"] {
        let error = refused(&["--log-level", level], &[]);
        assert!(
            error.contains(&format!("`log-level` is `{level}`")),
            "{error}"
        );
    }
    let error = refused(&["--log-level", "loud=="], &[]);
    assert!(error.contains("`log-level` is `loud==`"), "{error}");
    let (_dir, path) = file("port = \"x\"\n");
    assert!(refused(&["--config", &path], &[]).contains("port = \"x\""));
    let error = load(&["--config", "/does/not/exist.toml"], &[]).unwrap_err();
    assert!(
        error.to_string().contains("/does/not/exist.toml"),
        "{error}"
    );
    assert!(error.source().is_some());
}

#[test]
fn captures_have_the_documents_limits_unless_told_otherwise() {
    let limits = |arguments: &[&str]| {
        let limits = load(arguments, &[]).unwrap().captures;
        [
            limits.per_cluster,
            limits.in_all,
            limits.log_bytes,
            limits.containers,
        ]
    };
    assert_eq!(limits(&[]), [5, 20, 10_240, 5]);
    assert_eq!(
        limits(&["--max-log-captures-per-cluster", "1"]),
        [1, 20, 10_240, 5]
    );
    assert_eq!(
        limits(&["--max-log-captures-global", "2"]),
        [5, 2, 10_240, 5]
    );
    assert_eq!(
        limits(&["--max-log-bytes-per-container", "300"]),
        [5, 20, 300, 5]
    );
    assert_eq!(
        limits(&["--max-containers-per-notification", "1"]),
        [5, 20, 10_240, 1]
    );
    assert!(refused(&["--max-log-captures-global", "0"], &[]).contains("from 1 to 1000"));
}

#[test]
fn a_pattern_of_a_secret_that_cannot_be_used_is_named() {
    let error = refused(&["--redact", "fine", "--redact", "CUST-("], &[]);
    assert!(error.contains("`redact` is `CUST-(`"), "{error}");
    let (_dir, path) = file("redact = ['a*']\n");
    let error = refused(&["--config", &path], &[]);
    assert!(
        error.contains("`a*`") && error.contains("empty text"),
        "{error}"
    );
    let (_dir, path) = file("redact = ['CUST-\\d+', 'pin:(\\d{4})']\n");
    let config = load(&["--config", &path], &[]).unwrap();
    let clean = config.redactor.text("CUST-12, pin:1234").into_owned();
    assert_eq!(clean, "[redacted custom], pin:[redacted custom]");
}

#[test]
fn help_is_as_it_was() {
    let help = Args::command().render_help().to_string();
    insta::assert_snapshot!(help.trim_end());
    assert!(
        help.lines().count() <= 50,
        "--help no longer fits on a screen"
    );
}

#[test]
fn help_of_commands_is_as_it_was() {
    let mut all = String::new();
    let mut args = Args::command();
    args.build();
    for command in args.get_subcommands_mut() {
        let help = command.render_help().to_string();
        assert!(
            help.lines().count() <= 50,
            "{} --help is long",
            command.get_name()
        );
        all.push_str(&format!("{}\n\n", help.trim_end()));
    }
    insta::assert_snapshot!(all.trim_end());
}

#[test]
fn commands_take_the_settings_before_them_and_keep_to_loopback() {
    let invoked = |words: &[&str], environment: &[(&str, &str)]| {
        let words = ["kubecrier"].iter().chain(words).map(OsString::from);
        let environment = environment
            .iter()
            .map(|(k, v)| (OsString::from(k), OsString::from(v)));
        Invocation::load(words, environment)?.config()
    };
    let listen = |config: Config| match config.transport {
        kubecrier_server::Transport::Http(http) => http.listen.to_string(),
        kubecrier_server::Transport::Stdio => panic!("not over HTTP"),
    };
    let exposed = ["--bind-address", "0.0.0.0", "--allow-unauthenticated"];
    let words = [&exposed, &["--port", "80", "watch"][..]].concat();
    let config = invoked(&words, &[("KUBECRIER_TOKEN", "secret")]).unwrap();
    assert_eq!(listen(config), "127.0.0.1:0");
    let words = [&exposed, &["demo"][..]].concat();
    let error = invoked(&words, &[]).unwrap_err().to_string();
    assert!(
        error.contains("`bind-address`") && error.contains("demo"),
        "{error}"
    );
    for words in [
        ["--port", "80", "demo"].as_slice(),
        &["demo", "--port", "80"],
    ] {
        assert_eq!(listen(invoked(words, &[]).unwrap()), "127.0.0.1:80");
    }
    let kubeconfig = |words: &[&str]| invoked(words, &[]).unwrap().cluster.kubeconfig;
    assert_eq!(
        kubeconfig(&["--kubeconfig", "a", "watch"]),
        Some("a".into())
    );
    let both = ["--kubeconfig", "a", "watch", "--kubeconfig", "b"];
    assert_eq!(kubeconfig(&both), Some("b".into()));
}

/// A flag with an optional value must not take the command for it.
#[test]
fn a_command_may_follow_any_switch() {
    for switch in [
        "allow-register-hook",
        "allow-other-users",
        "allow-unauthenticated",
    ] {
        let load = |words: &[&str]| {
            let words = ["kubecrier"].iter().chain(words).map(OsString::from);
            Invocation::load(words, [])
        };
        let flag = format!("--{switch}");
        let command = load(&[&flag, "man"]).unwrap().command;
        assert!(
            matches!(command, Some(Command::Man(_))),
            "{switch}: {command:?}"
        );
        let on = load(&[&flag]).unwrap().settings;
        assert_eq!(load(&[&format!("{flag}=true")]).unwrap().settings, on);
        assert_ne!(load(&[&format!("{flag}=false")]).unwrap().settings, on);
        let error = load(&[&format!("{flag}=maybe")]).unwrap_err().to_string();
        assert!(error.contains("maybe"), "{error}");
    }
}

proptest! {
    #[test]
    fn fuzz_any_file_is_a_configuration_or_named(
        text in prop_oneof![
            any::<String>(),
            "((port|log_level|max_sessions|session_idle_timeout|allowed_hosts|bind_address|x) = (-?[0-9]{0,22}|\"[a-z0-9.: ]{0,12}\"|\\[\"?a\"?,?\\]|true)\n){0,4}",
        ],
    ) {
        let outcome = parse_file(Path::new("fuzz.toml"), &text).and_then(Config::try_from);
        if let Err(error) = outcome {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn fuzz_any_words_are_a_command_line_or_named(
        words in prop::collection::vec(
            "(--(port|bind-address|log-level|session-idle-timeout|max-sessions|help|x)=?)?\\PC{0,12}", 0..4,
        ),
        value in "[^\\x00]{0,12}",
    ) {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        for environment in [("KUBECRIER_LOG_LEVEL", value.as_str()), ("KUBECRIER_PORT", value.as_str())] {
            if let Err(error) = load(&words, &[environment]) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
