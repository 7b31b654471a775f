//! `--cluster-store`: servers that work together over a real NATS, each a process of its own.

mod failing;
mod sinks;

use std::{process::Command, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::{Cluster, NatsOptions, NatsServer, User, event, namespace};

use crate::harness::{File, Http, HttpSession, Server, Stream, command, one_context};

/// Long enough for a lease to be taken over, and for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(40);

struct Fleet {
    cluster: &'static Cluster,
    space: &'static str,
    kubeconfig: File,
    nats: NatsServer,
    _folder: TempDir,
}

// === impl Fleet ===

impl Fleet {
    async fn new(space: &'static str, options: NatsOptions) -> Option<Self> {
        let bed = testbed::shared()?;
        if let Err(missing) = NatsServer::is_there() {
            testbed::skip(&missing);
            return None;
        }
        let cluster = bed.dev();
        cluster
            .create_cluster_wide(&namespace(space))
            .await
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        Some(Self {
            cluster,
            space,
            kubeconfig: one_context(cluster, User::Reader),
            nats: NatsServer::start(folder.path(), options).unwrap(),
            _folder: folder,
        })
    }

    fn command(&self, url: &str) -> Command {
        let mut command = command();
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig.path)
            .args(["--cluster-store", url]);
        command
    }

    async fn start(&self) -> Http {
        let http = Http::start_command(&mut self.command(&self.nats.url()), "2025-11-25").await;
        http.server
            .wait_for("the history has the events of a context");
        http
    }

    async fn happen(&self, reason: &str) {
        let new_event = event(self.space, "Pod/web-0", "Warning", reason, "it went wrong");
        self.cluster.create(&new_event).await.unwrap();
    }
}

/// Who watches the events of the whole cluster.
async fn role(http: &HttpSession) -> String {
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    let watches = stats["watches"].as_array().unwrap();
    let whole = watches
        .iter()
        .find(|watch| watch["scope"].as_str().unwrap().ends_with("/*"));
    whole.unwrap()["role"].as_str().unwrap().to_owned()
}

async fn until_role(http: &HttpSession, roles: &[&str]) -> String {
    let role = async {
        loop {
            let role = role(http).await;
            if roles.contains(&role.as_str()) {
                return role;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let role = tokio::time::timeout(PATIENCE, role).await;
    role.unwrap_or_else(|_| panic!("none of {roles:?}"))
}

/// The reasons of the events that a stream has, up to the last one.
async fn reasons_until(stream: &mut Stream, last: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    while reasons.last().is_none_or(|reason| reason != last) {
        let message = stream.next().await;
        let data = &message["params"]["data"];
        assert!(data["gap"].is_null(), "{data}");
        if let Some(reason) = data["event"]["reason"].as_str() {
            reasons.push(reason.to_owned());
        }
    }
    reasons
}

async fn ready(http: &HttpSession) -> String {
    let ready = http.get("/readyz").await;
    assert_eq!(ready.status(), 200);
    ready.text().await.unwrap()
}

async fn until_ready(http: &HttpSession, text: &str) {
    let said = async {
        while !ready(http).await.contains(text) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let said = tokio::time::timeout(PATIENCE, said).await;
    said.unwrap_or_else(|_| panic!("/readyz never says: {text}"));
}

#[tokio::test]
async fn servers_over_nats_have_one_watch_and_go_on_for_each_other() {
    let Some(fleet) = Fleet::new("fleet", NatsOptions::default()).await else {
        return;
    };
    let (first, second) = (fleet.start().await, fleet.start().await);
    assert_eq!(until_role(&first, &["holder"]).await, "holder");
    until_role(&second, &["follower"]).await;
    // The session is of the first; what is asked of the second is answered there.
    let mut session = first.another("2025-11-25").await;
    let mut stream = session.stream(None).await;
    session.base.clone_from(&second.base);
    let level = json!({"level": "info"});
    session.rpc("logging/setLevel", level).await;
    let subscribed = session.call("events_subscribe", json!({"namespace": fleet.space}));
    drop(subscribed.await.ok());
    fleet.happen("One").await;
    assert_eq!(reasons_until(&mut stream, "One").await, ["One"]);
    // A poll goes on with the cursor that another server gave.
    let filters = json!({"namespace": fleet.space, "waitSeconds": 20});
    let polled = first.call("events_poll", filters.clone()).await.ok();
    let cursor = polled.data["cursor"].clone();
    fleet.happen("Two").await;
    assert_eq!(reasons_until(&mut stream, "Two").await, ["Two"]);
    // The holder, which has the stream, vanishes.
    let seen = stream.ids.last().unwrap().clone();
    first.server.signal(Signal::KILL);
    fleet.happen("Three").await;
    let mut stream = session.stream(Some(&seen)).await;
    assert_eq!(reasons_until(&mut stream, "Three").await, ["Three"]);
    until_role(&second, &["holder"]).await;
    let third = fleet.start().await;
    until_role(&third, &["follower"]).await;
    session.base.clone_from(&third.base);
    drop(
        session
            .call("events_list_subscriptions", json!({}))
            .await
            .ok(),
    );
    fleet.happen("Four").await;
    assert_eq!(reasons_until(&mut stream, "Four").await, ["Four"]);
    let poll = json!({"namespace": fleet.space, "cursor": cursor, "waitSeconds": 20});
    let polled = third.call("events_poll", poll).await;
    let polled = polled.ok();
    let events = polled.data["events"].as_array().unwrap().iter();
    let reasons: Vec<_> = events
        .map(|entry| entry["event"]["reason"].as_str())
        .collect();
    assert_eq!(reasons, [Some("Two"), Some("Three"), Some("Four")]);
}

#[tokio::test]
async fn without_nats_each_server_goes_on_alone_and_says_so() {
    let Some(mut fleet) = Fleet::new("fleet-alone", NatsOptions::default()).await else {
        return;
    };
    let (first, second) = (fleet.start().await, fleet.start().await);
    let mut streams = Vec::new();
    for http in [&first, &second] {
        streams.push(http.stream(None).await);
        let level = json!({"level": "info"});
        http.rpc("logging/setLevel", level).await;
        let subscribed = http.call("events_subscribe", json!({"namespace": fleet.space}));
        drop(subscribed.await.ok());
    }
    until_ready(&first, "ok\n").await;
    fleet.nats.kill().unwrap();
    fleet.happen("Alone").await;
    for (http, stream) in [&first, &second].into_iter().zip(&mut streams) {
        assert_eq!(reasons_until(stream, "Alone").await, ["Alone"]);
        until_ready(http, "--cluster-store cannot be reached").await;
        let metrics = http.get("/metrics").await.text().await.unwrap();
        assert!(
            metrics.contains("kubecrier_cluster_store_up{} 0"),
            "{metrics}"
        );
        until_role(http, &["alone"]).await;
    }
    fleet.nats.start_again().unwrap();
    for http in [&first, &second] {
        until_ready(http, "ok\n").await;
        until_role(http, &["holder", "follower"]).await;
    }
    fleet.happen("Together").await;
    for stream in &mut streams {
        assert_eq!(reasons_until(stream, "Together").await, ["Together"]);
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_used_is_an_error_that_names_the_setting() {
    let login = Some(("me".to_owned(), "hunter2".to_owned()));
    let options = NatsOptions {
        login,
        ..NatsOptions::default()
    };
    let Some(fleet) = Fleet::new("fleet-refused", options).await else {
        return;
    };
    let fails = async |command: &mut Command, code: i32, texts: &[&str]| {
        let mut server = Server::start(command);
        let exit = server.exit().await;
        let line = server.wait_for(texts[0]);
        assert!(texts.iter().all(|text| line.contains(text)), "{line}");
        let log = server.log();
        assert_eq!(exit.code(), Some(code), "{log}");
        assert!(!log.contains("hunter2"), "{log}");
    };
    let port = ["--port", "0"];
    for (url, words) in [
        (fleet.nats.url(), "for the fleet `kubecrier`"),
        (fleet.nats.url_without_login(), "asks for credentials"),
    ] {
        let mut doctor = fleet.command(&url);
        let report = doctor.args(port).arg("doctor").output().unwrap();
        let report = String::from_utf8_lossy(&report.stdout).into_owned();
        assert!(report.contains("cluster store"), "{report}");
        assert!(report.contains(words), "{words}: {report}");
    }
    let without_login = fleet.nats.url_without_login();
    let mut asked = fleet.command(&without_login);
    fails(asked.args(port), 1, &["credentials", "--cluster-store"]).await;
    let mut closed = fleet.command("nats://me:hunter2@127.0.0.1:1");
    fails(closed.args(port), 1, &["--cluster-store", "127.0.0.1:1"]).await;
    let mut other = fleet.command("http://127.0.0.1:1");
    fails(other.args(port), 64, &["--cluster-store", "nats://"]).await;
    let mut stdio = fleet.command(&fleet.nats.url());
    fails(&mut stdio, 64, &["cluster-store", "port"]).await;
    let mut useless = command();
    useless.args(["--port", "0", "--cluster-store-fleet", "x"]);
    fails(&mut useless, 64, &["cluster-store-fleet", "cluster-store"]).await;
    drop(fleet);
}
