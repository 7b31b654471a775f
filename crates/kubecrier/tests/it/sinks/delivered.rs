//! Webhooks, agents and programs: what they are told, what not, and what a target that fails
//! does to the server.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Stdio, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};
use testbed::User;
use tokio::time::{Instant, sleep};

use super::{
    break_pod, mend_pod,
    receiver::{Receiver, Request},
    set_up,
};
use crate::harness::{Http, Server, TIMEOUT, command, one_context};

fn start(config: &Path, kubeconfig: &Path) -> Server {
    let server = Server::start(
        command()
            .env("PATH", "/usr/bin:/bin")
            .env("AGENT_TOKEN", "s3cret-token")
            .arg("--config")
            .arg(config)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--port", "0"])
            .stdin(Stdio::null()),
    );
    for _ in 0..2 {
        server.wait_for("a sink follows incidents");
    }
    server
}

/// Transition and object of the messages that an agent was sent.
fn told(receiver: &Receiver) -> Vec<String> {
    let requests = receiver.requests();
    let line = |one: &Request| {
        let incident = &one.body["params"]["message"]["parts"][1]["data"]["incident"];
        let word = |key: &str| incident[key].as_str().unwrap().to_owned();
        format!("{} {}", word("transition"), word("object"))
    };
    requests.iter().map(line).collect()
}

#[tokio::test]
async fn agents_and_programs_are_told_once_also_after_a_restart() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "sinks-told");
    set_up(cluster, space, &["a", "b", "c"]).await;
    let agent = Receiver::start().await;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("page");
    let script = "#!/bin/sh\necho \"$KUBECRIER_INCIDENT_STATE $KUBECRIER_INCIDENT_OBJECT\" >> \"$1\"\ncat >> \"$1\"\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let (pages, config) = (
        folder.path().join("pages"),
        folder.path().join("config.toml"),
    );
    let text = format!(
        "sink_allow = [\"127.0.0.1\"]\n\
         [[sink]]\nkind = \"a2a\"\nurl = \"http://{}/agent\"\nnamespaces = [\"{space}\"]\n\
         bearer_token_env = \"AGENT_TOKEN\"\n\
         [[sink]]\nkind = \"exec\"\ncommand = [\"{}\", \"{}\"]\nnamespaces = [\"{space}\"]\n\
         detectors = [\"image-name\"]\ntransitions = [\"opened\"]\n",
        agent.address,
        program.display(),
        pages.display()
    );
    fs::write(&config, text).unwrap();
    let file = one_context(cluster, User::Admin);
    let mut server = start(&config, &file.path);
    break_pod(cluster, space, "a").await;
    let is_first = |one: &Request| one.body["params"]["message"]["role"] == "ROLE_USER";
    let first = agent.wait_for("message", is_first).await;
    assert!(first.head.contains("a2a-version: 1.0"), "{}", first.head);
    assert!(
        first.head.contains("authorization: bearer s3cret-token"),
        "{}",
        first.head
    );
    let text = first.body["params"]["message"]["parts"][0]["text"].as_str();
    assert!(
        text.unwrap().contains("couldn't parse image name"),
        "{text:?}"
    );
    let sent = format!("{first:?}{}", server.log());
    assert!(!sent.contains(super::SECRET), "{sent}");
    assert!(!server.log().contains("s3cret-token"), "{}", server.log());
    until(|| fs::read_to_string(&pages).is_ok_and(|text| text.contains("\"id\""))).await;
    server.signal(Signal::TERM);
    assert_eq!(server.exit().await.code(), Some(0));

    // What is there when the server starts is no news; what begins and what ends is.
    let server = start(&config, &file.path);
    break_pod(cluster, space, "b").await;
    agent
        .wait_for("b", |one| one.body.to_string().contains("pod/b"))
        .await;
    mend_pod(cluster, space, "a").await;
    agent
        .wait_for("end of a", |one| one.body.to_string().contains("resolved"))
        .await;
    let expected = [
        "opened sinks-told/pod/a",
        "opened sinks-told/pod/b",
        "resolved sinks-told/pod/a",
    ];
    assert_eq!(told(&agent), expected);
    until(|| {
        fs::read_to_string(&pages)
            .unwrap()
            .contains("opened sinks-told/pod/b")
    })
    .await;
    let text = fs::read_to_string(&pages).unwrap();
    assert!(
        !text.contains("resolved "),
        "only beginnings are asked for: {text}"
    );
    let printed: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    assert_eq!(printed["incident"]["object"], "sinks-told/pod/a");
    assert!(!text.contains(super::SECRET), "{text}");
    drop(server);
}

async fn until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline);
        sleep(Duration::from_millis(20)).await;
    }
}

async fn metric(http: &Http, series: &str) -> Option<u64> {
    let metrics = http.get("/metrics").await.text().await.unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    line.and_then(|value| value.trim().parse().ok())
}

/// A sink that is away, that asks for time and that refuses: the rest of the server does not
/// notice, and everything arrives in the end.
// The receiver answers while the test waits for lines of the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_fails_touches_nothing_else_and_loses_nothing() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "sinks-away");
    set_up(cluster, space, &["a", "b"]).await;
    let address = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().to_string()
    };
    let folder = tempfile::tempdir().unwrap();
    let (url, config) = (folder.path().join("url"), folder.path().join("config.toml"));
    fs::write(&url, format!("http://{address}/services/s3cret-path")).unwrap();
    let text = format!(
        "sink_allow = [\"127.0.0.1\"]\n[[sink]]\nkind = \"alertmanager-webhook\"\nname = \"page\"\n\
         url_file = \"{}\"\nnamespaces = [\"{space}\"]\n",
        url.display()
    );
    fs::write(&config, text).unwrap();
    let file = one_context(cluster, User::Admin);
    let config = config.display().to_string();
    let http = Http::start(&file.path, &["--config", &config]).await;
    http.server.wait_for("a sink follows incidents");
    break_pod(cluster, space, "a").await;
    let warning = http.server.wait_for("a sink does not take incidents");
    assert!(
        warning.contains(&format!("cannot reach http://{address}")),
        "{warning}"
    );
    let labels = "{sink=\"page\",kind=\"alertmanager-webhook\"";
    assert_eq!(
        metric(&http, &format!("kubecrier_sink_up{labels}}}")).await,
        Some(0)
    );
    assert_eq!(
        metric(&http, &format!("kubecrier_sink_waiting{labels}}}")).await,
        Some(1)
    );
    http.call("namespaces_list", json!({})).await.ok();
    assert_eq!(
        http.get("/readyz").await.status(),
        200,
        "it is no reason not to serve"
    );

    let receiver = Receiver::start_at(&address).await;
    receiver.answer([
        "503 Service Unavailable\r\nretry-after: 1",
        "401 Unauthorized",
        "200 OK",
    ]);
    break_pod(cluster, space, "b").await;
    let of =
        |name: &'static str| move |one: &Request| one.body["alerts"][0]["labels"]["name"] == name;
    receiver.wait_for("b", of("b")).await;
    let a = receiver.requests().into_iter().filter(of("a")).count();
    assert_eq!(a, 3, "two attempts failed");
    let delivered = format!("kubecrier_sink_deliveries_total{labels},outcome=\"delivered\"}}");
    let deadline = Instant::now() + TIMEOUT;
    while metric(&http, &delivered).await != Some(2) {
        assert!(Instant::now() < deadline);
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        metric(&http, &format!("kubecrier_sink_up{labels}}}")).await,
        Some(1)
    );
    // One that rejects a message and answers without an end gets the next one.
    receiver.answer([
        "400 Bad Request",
        "302 Found\r\nlocation: http://169.254.169.254/",
    ]);
    mend_pod(cluster, space, "a").await;
    mend_pod(cluster, space, "b").await;
    let rejected = http.server.wait_for("is not tried again");
    assert!(rejected.contains("400 Bad Request"), "{rejected}");
    let refused = http.server.wait_for("a sink does not take incidents");
    assert!(
        refused.contains("redirects to http://169.254.169.254"),
        "{refused}"
    );
    let is_over = |one: &Request| one.body["status"] == "resolved";
    let over = |requests: Vec<Request>| requests.into_iter().filter(is_over).count();
    let deadline = Instant::now() + TIMEOUT;
    while over(receiver.requests()) != 3 {
        assert!(Instant::now() < deadline);
        sleep(Duration::from_millis(20)).await;
    }
    let stats = http.get("/stats").await.text().await.unwrap();
    for shown in [http.server.log(), stats] {
        assert!(!shown.contains("s3cret-path"), "{shown}");
    }
}

#[tokio::test]
async fn doctor_says_whether_sinks_would_work_and_tells_them_nothing() {
    let receiver = Receiver::start().await;
    let closed = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap()
    };
    let good = format!("cloudevents+http://{}/hook", receiver.address);
    let away = format!("a2a+http://{closed}");
    let not_one = format!("alertmanager+http://{}", receiver.address);
    let doctor = |allow: &'static str, sinks: Vec<String>| {
        let mut doctor = command();
        doctor.args(["--sink-allow", allow]);
        for sink in sinks {
            doctor.args(["--sink", &sink]);
        }
        tokio::task::spawn_blocking(move || {
            let done = doctor.arg("doctor").output().unwrap();
            String::from_utf8(done.stdout).unwrap()
        })
    };
    let sinks = vec![
        good.clone(),
        away,
        not_one,
        "exec:/nonexistent/page".to_owned(),
    ];
    let report = doctor("127.0.0.1", sinks).await.unwrap();
    for part in [
        "sink cloudevents-1 (cloudevents)\n  ok   it answers (200 OK for OPTIONS)",
        &format!("sink a2a-2 (a2a)\n  FAIL cannot reach http://{closed}: "),
        "sink alertmanager-3 (alertmanager)\n  FAIL what answers is no Alertmanager",
        "sink exec-4 (exec)\n  FAIL cannot find `/nonexistent/page`",
    ] {
        assert!(report.contains(part), "{part} in\n{report}");
    }
    let refused = doctor("10.0.0.0/8", vec![good]).await.unwrap();
    let expected = "FAIL sink `number 1`: 127.0.0.1 is an internal address; if that is meant, add \
                    --sink-allow 127.0.0.1";
    assert!(refused.contains(expected), "{refused}");
    let sent = receiver.requests();
    assert!(!sent.is_empty() && sent.iter().all(|one| !one.head.starts_with("post")));
}
