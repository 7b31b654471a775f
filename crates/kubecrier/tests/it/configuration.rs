//! Which of flag, environment and file wins, as the process sees it.

use std::{fs, process::Stdio};

use crate::harness::{Server, command};

/// Whether the first line of the log is JSON.
fn logs_json(environment: &[(&str, &str)], arguments: &[&str]) -> bool {
    let server = Server::start(
        command()
            .args(["--port", "0"])
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null()),
    );
    server.wait_for("serving MCP over HTTP").starts_with('{')
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubecrier.toml");
    fs::write(&file, "log_format = \"json\"\n").unwrap();
    let file = file.to_str().unwrap();
    let (plain, json) = (
        ("KUBECRIER_LOG_FORMAT", "plain"),
        ("KUBECRIER_LOG_FORMAT", "json"),
    );
    assert!(!logs_json(&[], &[]));
    assert!(logs_json(&[], &["--config", file]));
    assert!(logs_json(&[("KUBECRIER_CONFIG", file)], &[]));
    assert!(!logs_json(&[plain], &["--config", file]));
    assert!(!logs_json(
        &[json],
        &["--config", file, "--log-format", "plain"]
    ));
}

#[test]
fn nothing_but_the_protocol_is_written_to_stdout() {
    let done = command()
        .args(["--log-level", "trace"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap(), "");
}

#[test]
fn detectors_are_chosen_by_variables() {
    let chosen = [
        ("KUBECRIER_INCIDENTS_DISABLE", "quota,budget"),
        ("KUBECRIER_INCIDENTS_HOLD", "not-ready=5m/1m,job=0"),
    ];
    assert!(!logs_json(&chosen, &[]));
    for (variable, value) in [
        ("KUBECRIER_INCIDENTS_DISABLE", "quota,quotas"),
        ("KUBECRIER_INCIDENTS_HOLD", "quotas=5m"),
    ] {
        let refused = command()
            .env(variable, value)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(!refused.status.success());
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(error.contains("no detector `quotas`"), "{error}");
        assert!(error.contains("crash-loop"), "{error}");
    }
}

#[test]
fn what_kubernetes_sets_for_a_service_of_our_name_does_not_stop_the_server() {
    let server = Server::start(
        command()
            .env("KUBECRIER_PORT", "tcp://10.0.0.7:8080")
            .env("KUBECRIER_SERVICE_HOST", "10.0.0.7")
            .env("KUBECRIER_CONTEXT", "")
            .stdin(Stdio::piped()),
    );
    server.wait_for("serving MCP on stdin and stdout");
}

#[test]
fn a_log_level_filters() {
    let log = |level: &str| {
        let done = command()
            .args(["--log-level", level])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8(done.stderr).unwrap()
    };
    assert!(log("info").contains("serving MCP on stdin"));
    assert_eq!(log("error"), "");
}
