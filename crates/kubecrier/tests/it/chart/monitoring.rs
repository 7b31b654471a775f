//! The dashboard and the alerts: Prometheus understands every expression, and the server has
//! every metric that they name.

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use regex::Regex;
use serde_json::{Value, json};
use testbed::{Cluster, GoTool, NatsOptions, NatsServer, User, event};
use tokio::time::{Duration, Instant};

use super::rendered::chart_folder;
use crate::{
    harness::{Http, Subscriber, TIMEOUT, command, one_context},
    impersonation::TokenFile,
};

const ALERTS: &str = "files/alerts.yaml";

fn alerts() -> Value {
    let text = fs::read_to_string(chart_folder().join(ALERTS)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn rules() -> Vec<Value> {
    alerts()["groups"][0]["rules"].as_array().unwrap().clone()
}

fn dashboard() -> Value {
    let text = fs::read_to_string(chart_folder().join("files/dashboard.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The expressions of the dashboard, with values for the variables of Grafana.
fn panels() -> Vec<String> {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap().clone());
    let shown = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
    let filled = shown.map(|text| {
        text.replace("$__rate_interval", "5m")
            .replace("$namespace", ".*")
            .replace("$instance", ".*")
    });
    filled.collect()
}

fn expressions() -> Vec<String> {
    let alerts = rules().into_iter();
    let alerts = alerts.map(|rule| rule["expr"].as_str().unwrap().to_owned());
    alerts.chain(panels()).collect()
}

fn promtool() -> Option<Command> {
    super::tool(GoTool::Promtool)
}

/// promtool's words on a file of rules.
fn check_rules(path: &PathBuf) -> Option<Result<String, String>> {
    let mut check = promtool()?;
    let done = check.args(["check", "rules", "--lint-fatal"]).arg(path);
    let done = done.output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    Some(if done.status.success() {
        Ok(text)
    } else {
        Err(text)
    })
}

#[test]
fn prometheus_understands_every_expression() {
    let Some(checked) = check_rules(&chart_folder().join(ALERTS)) else {
        return;
    };
    let found = format!("{} rules found", rules().len());
    assert!(checked.as_ref().unwrap().contains(&found), "{checked:?}");
    // The panels as recording rules: promtool reads files of rules.
    let record = |(number, expression): (usize, String)| json!({"record": format!("panel:{number}"), "expr": expression});
    let record_all = |expressions: Vec<String>| {
        let rules: Vec<_> = expressions.into_iter().enumerate().map(record).collect();
        json!({"groups": [{"name": "panels", "rules": rules}]})
    };
    let folder = tempfile::tempdir().unwrap();
    let check = |expressions: Vec<String>| {
        let path = folder.path().join("rules.yaml");
        fs::write(&path, record_all(expressions).to_string()).unwrap();
        check_rules(&path).unwrap()
    };
    check(panels()).unwrap();
    let broken = check(vec!["sum(rate(kubecrier_tool_calls_total))".to_owned()]);
    assert!(broken.is_err(), "a rate needs a range: {broken:?}");
}

/// An alert that never fires, or always, helps nobody: each is tried on series that Prometheus
/// computes with.
#[test]
fn alerts_fire_when_they_should_and_not_otherwise() {
    let Some(mut test) = promtool() else { return };
    let tests = super::repository().join("crates/kubecrier/tests/it/chart/alerts.test.yaml");
    let text = fs::read_to_string(&tests).unwrap();
    let done = test.args(["test", "rules"]).arg(&tests).output().unwrap();
    let words = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
    assert!(done.status.success(), "{words}");
    for rule in rules() {
        let name = rule["alert"].as_str().unwrap();
        let cases = text.matches(&format!("alertname: {name}\n")).count();
        assert!(cases >= 2, "{name} has to fire once and to be silent once");
    }
}

/// Metrics that the text of an expression names.
fn named(expression: &str) -> BTreeSet<String> {
    let name = Regex::new(r"\b(?:kubecrier|mcp)_[a-z_]+").unwrap();
    let found = name.find_iter(expression);
    found.map(|name| name.as_str().to_owned()).collect()
}

/// What a server with a history, a store that it shares and callers exposes, after it has refused
/// one.
async fn of_a_shared_server(cluster: &Cluster) -> String {
    let folder = tempfile::tempdir().unwrap();
    let nats = NatsServer::start(&folder.path().join("nats"), NatsOptions::default()).unwrap();
    let tokens = TokenFile::new(&["ann:0123456789abcdef"]);
    let file = one_context(cluster, User::Reader);
    let mut command = command();
    command
        .arg("--kubeconfig")
        .arg(&file.path)
        .arg("--auth-token-file")
        .arg(&tokens.path)
        .arg("--history")
        .arg(folder.path().join("history"))
        .args(["--cluster-store", &nats.url()]);
    let (_server, base) = Http::launch(&mut command);
    let scrape = reqwest::Client::new().get(format!("{base}/metrics"));
    let refused = scrape.try_clone().unwrap().send().await.unwrap();
    assert_eq!(refused.status(), 401);
    let answer = scrape.bearer_auth("0123456789abcdef").send().await;
    answer.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn the_server_has_every_metric_and_label_that_is_named() {
    let Some(bed) = testbed::shared() else { return };
    if let Err(missing) = NatsServer::is_there() {
        return testbed::skip(&missing);
    }
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &["--sink", "exec:/bin/true"]).await;
    let _listening = Subscriber::new(&http).await;
    let wanted = json!({"namespace": "team-a", "reason": "Counted"});
    http.call("events_subscribe", wanted).await.ok();
    let event = event("team-a", "Pod/web-0", "Warning", "Counted", "x");
    bed.dev().create(&event).await.unwrap();
    // A series appears with what it counts.
    let began = Instant::now();
    let text = loop {
        let text = http.get("/metrics").await.text().await.unwrap();
        if text.contains("\nkubecrier_watch_events_total{") {
            break text;
        }
        assert!(began.elapsed() < TIMEOUT, "{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let text = text + &of_a_shared_server(bed.dev()).await;
    let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let known: BTreeSet<&str> = series
        .iter()
        .map(|line| line.split(['{', ' ']).next().unwrap())
        .collect();
    let mut seen = BTreeSet::new();
    for expression in expressions() {
        let names = named(&expression);
        assert!(!names.is_empty(), "names no metric: {expression}");
        for name in names {
            assert!(
                known.contains(name.as_str()),
                "no metric is called {name}: {expression}"
            );
            seen.insert(name);
        }
    }
    assert!(seen.len() > 15, "{seen:?}");
    assert!(
        !known.contains("kubecrier_nothing_total"),
        "the check can fail"
    );
    // Labels that the server sets itself; the others come from the scrape.
    for (metric, labels) in [
        ("kubecrier_tool_calls_total", &["tool", "outcome"][..]),
        ("kubecrier_tool_seconds_bucket", &["tool", "le"]),
        ("kubecrier_watches", &["state"]),
        ("kubecrier_watch_events_total", &["wanted"]),
        ("kubecrier_incidents", &["severity"]),
        ("kubecrier_sink_deliveries_total", &["sink", "outcome"]),
        ("kubecrier_sink_waiting", &["sink"]),
        (
            "mcp_notification_failures_total",
            &["resource_type", "error_type"],
        ),
        ("kubecrier_shared_watches", &["role"]),
        ("kubecrier_history_records_total", &["outcome"]),
        ("kubecrier_requests_refused_total", &["reason"]),
        ("kubecrier_access_reviews_total", &["outcome"]),
    ] {
        let line = series.iter().find(|line| line.starts_with(metric)).unwrap();
        for label in labels {
            assert!(line.contains(&format!("{label}=\"")), "no {label}: {line}");
        }
    }
    for (metric, value) in [
        ("kubecrier_watches{", "state=\"degraded\""),
        ("kubecrier_history_records_total{", "outcome=\"dropped\""),
        ("kubecrier_access_reviews_total{", "outcome=\"failed\""),
        ("kubecrier_access_reviews_total{", "outcome=\"throttled\""),
    ] {
        let there = series
            .iter()
            .any(|line| line.starts_with(metric) && line.contains(value));
        assert!(there, "an alert names {value} of {metric}");
    }
}

/// Panels must not overlap, and no two may have one number.
#[test]
fn the_dashboard_can_be_drawn() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut cells = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    for panel in panels {
        assert!(numbers.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{panel}");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "panels overlap: {panel}");
            }
        }
    }
}
