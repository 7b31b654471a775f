//! Sessions over restarts: with `--history` a session goes on in the next process, with its
//! stream, its subscriptions and its level, and for nobody else.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use reqwest::StatusCode;
use serde_json::{Value, json};
use testbed::{Client, Cluster, User, event, namespace};

use crate::{
    clients,
    harness::{File, HttpSession, Server, Stream, command, one_context},
};

/// A server that is started again, on the same port and folder.
struct Restarting {
    file: File,
    folder: Option<PathBuf>,
    more: Vec<String>,
    port: String,
    server: Option<Server>,
    base: String,
    _held: tempfile::TempDir,
}

impl Restarting {
    fn start(cluster: &Cluster, more: &[&str]) -> Self {
        let held = tempfile::tempdir().unwrap();
        let folder = held.path().join("history");
        Self::start_in(held, Some(folder), cluster, more)
    }

    fn start_without_history(cluster: &Cluster) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), None, cluster, &[])
    }

    fn start_in(
        held: tempfile::TempDir,
        folder: Option<PathBuf>,
        cluster: &Cluster,
        more: &[&str],
    ) -> Self {
        let mut this = Self {
            file: one_context(cluster, User::Reader),
            folder,
            more: more.iter().map(|&text| text.to_owned()).collect(),
            port: "0".to_owned(),
            server: None,
            base: String::new(),
            _held: held,
        };
        this.start_again();
        this
    }

    /// Starts the server, and waits until it has the events of its context.
    fn start_again(&mut self) {
        let mut command = command();
        command
            .arg("--kubeconfig")
            .arg(&self.file.path)
            .args(
                (self.folder.iter()).flat_map(|folder| ["--history".as_ref(), folder.as_os_str()]),
            )
            .args(["--port", &self.port])
            .args(&self.more);
        let server = Server::start(command.stdin(Stdio::null()));
        let line = server.wait_for("serving MCP over HTTP");
        let url = &line[line.find("http").unwrap()..];
        let base = url.split("/mcp").next().unwrap();
        base.clone_into(&mut self.base);
        let (_, port) = base.rsplit_once(':').unwrap();
        port.clone_into(&mut self.port);
        if self.folder.is_some() {
            server.wait_for("the history has the events of a context");
        }
        self.server = Some(server);
    }

    /// Ends the process as it is, at once.
    fn kill(&mut self) {
        self.server = None;
    }

    async fn session(&self) -> HttpSession {
        HttpSession::begin_with(client(None), &self.base, "2025-11-25", None).await
    }
}

/// A client that keeps no connection to a server that is killed.
fn client(token: Option<&str>) -> reqwest::Client {
    let bearer = token.map(|token| format!("Bearer {token}").parse().unwrap());
    let headers = bearer.map(|bearer| (reqwest::header::AUTHORIZATION, bearer));
    let client = reqwest::Client::builder().pool_max_idle_per_host(0);
    let client = client.default_headers(headers.into_iter().collect());
    client.build().unwrap()
}

async fn space(cluster: &Cluster, name: &str) {
    cluster.create_cluster_wide(&namespace(name)).await.unwrap();
}

async fn happen(cluster: &Cluster, space: &str, reason: &str) {
    let new_event = event(space, "Pod/web-0", "Warning", reason, "it went wrong");
    cluster.create(&new_event).await.unwrap();
}

async fn subscribe(session: &HttpSession, filters: Value) -> String {
    let answer = session.call("events_subscribe", filters).await.ok();
    answer.data["subscriptionId"].as_str().unwrap().to_owned()
}

/// Reads messages until there were so many events; all of them, and what else came.
async fn events(stream: &mut Stream, count: usize) -> (Vec<Value>, Vec<Value>) {
    let (mut events, mut others) = (Vec::new(), Vec::new());
    while events.len() < count {
        let message = stream.next().await;
        if message["params"]["logger"] == "kubernetes/events" {
            events.push(message["params"]["data"].clone());
        } else {
            others.push(message);
        }
    }
    (events, others)
}

fn reasons(events: &[Value]) -> Vec<&str> {
    let reasons = events.iter().map(|one| &one["event"]["reason"]);
    let mut reasons: Vec<_> = reasons.map(|one| one.as_str().unwrap()).collect();
    reasons.sort_unstable();
    reasons
}

fn methods(messages: &[Value]) -> Vec<&str> {
    let methods = messages.iter().map(|one| one["method"].as_str().unwrap());
    methods.collect()
}

/// Waits until an event is on the disk: what is not is listed again, but then it is not the
/// history that is tried.
async fn until_kept(session: &HttpSession, space: &str, reason: &str) {
    let kept = async {
        loop {
            let filters = json!({"namespace": space, "since": "1h", "reason": reason});
            let page = session.call("events_list", filters).await.ok();
            if page.text.contains(reason) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let kept = tokio::time::timeout(Duration::from_secs(30), kept).await;
    kept.expect("the event is kept");
}

#[tokio::test]
async fn a_stream_goes_on_after_a_crash_with_everything_that_belongs_to_it() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let (a, b) = ("continued-a", "continued-b");
    space(cluster, a).await;
    space(cluster, b).await;
    let mut server = Restarting::start(cluster, &[]);
    let session = server.session().await;
    let mut stream = session.stream(None).await;
    session
        .rpc("logging/setLevel", json!({"level": "info"}))
        .await;
    let in_a = subscribe(&session, json!({"namespace": a})).await;
    let in_b = subscribe(&session, json!({"namespace": b})).await;
    let uri = format!("kubecrier://subscriptions/{in_a}");
    session
        .rpc("resources/subscribe", json!({"uri": uri}))
        .await;
    happen(cluster, a, "OneInA").await;
    happen(cluster, b, "OneInB").await;
    let (first, _) = events(&mut stream, 2).await;
    assert_eq!(reasons(&first), ["OneInA", "OneInB"]);
    let seen = stream.ids.last().unwrap().clone();
    server.kill();
    happen(cluster, a, "TwoInA").await;
    happen(cluster, b, "TwoInB").await;
    server.start_again();
    // A request first: the session is found, and nothing is delivered before its stream is open.
    let listed = session
        .call("events_list_subscriptions", json!({}))
        .await
        .ok();
    for id in [&in_a, &in_b] {
        assert!(listed.text.contains(id.as_str()), "{}", listed.text);
    }
    let mut stream = session.stream(Some(&seen)).await;
    let (second, others) = events(&mut stream, 2).await;
    assert_eq!(reasons(&second), ["TwoInA", "TwoInB"], "each once");
    for one in &second {
        let id = if one["event"]["reason"] == "TwoInA" {
            &in_a
        } else {
            &in_b
        };
        assert_eq!(
            (&one["subscriptionId"], &one["seq"]),
            (&json!(id), &json!(2))
        );
    }
    happen(cluster, a, "ThreeInA").await;
    let (third, more) = events(&mut stream, 1).await;
    assert_eq!(reasons(&third), ["ThreeInA"]);
    let others = [others, more].concat();
    let updated = "notifications/resources/updated";
    assert!(methods(&others).contains(&updated), "{others:?}");
    let lists = methods(&others);
    assert!(
        !lists.iter().any(|method| method.ends_with("list_changed")),
        "the lists are the same: {lists:?}"
    );
    // Once more, with an id of the second process. Nothing has happened in `b` in this one.
    until_kept(&session, a, "ThreeInA").await;
    let seen = stream.ids.last().unwrap().clone();
    server.kill();
    happen(cluster, b, "ThreeInB").await;
    server.start_again();
    let mut stream = session.stream(Some(&seen)).await;
    let (fourth, _) = events(&mut stream, 1).await;
    assert_eq!(reasons(&fourth), ["ThreeInB"], "nothing is delivered twice");
    assert_eq!(fourth[0]["seq"], 3);
    // A client that does not say what it had is told so.
    server.kill();
    server.start_again();
    let mut stream = session.stream(None).await;
    let gap = loop {
        let message = stream.next().await;
        if message["params"]["data"]["gap"].is_object() {
            break message;
        }
    };
    assert!(gap.to_string().contains("Last-Event-ID"), "{gap}");
    happen(cluster, a, "FourInA").await;
    let (last, _) = events(&mut stream, 1).await;
    assert_eq!(reasons(&last), ["FourInA"]);
    // What has ended stays ended.
    assert_eq!(session.delete().await, StatusCode::NO_CONTENT);
    server.kill();
    server.start_again();
    let answer = session.open(Some(&seen)).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
}

/// Many more events than an outbox holds happened meanwhile.
#[tokio::test]
async fn what_happened_meanwhile_comes_as_fast_as_the_client_takes_it() {
    const COUNT: usize = 1500;
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "continued-many");
    space(cluster, name).await;
    let mut server = Restarting::start(cluster, &[]);
    let session = server.session().await;
    let mut stream = session.stream(None).await;
    session
        .rpc("logging/setLevel", json!({"level": "info"}))
        .await;
    subscribe(&session, json!({"namespace": name})).await;
    happen(cluster, name, "First").await;
    events(&mut stream, 1).await;
    let seen = stream.ids.last().unwrap().clone();
    server.kill();
    let creating = (0..COUNT).map(|_| happen(cluster, name, "Meanwhile"));
    let mut creating = creating.collect::<Vec<_>>();
    while !creating.is_empty() {
        let rest = creating.split_off(creating.len().min(20));
        futures_util::future::join_all(creating).await;
        creating = rest;
    }
    server.start_again();
    until_kept(&session, name, "Meanwhile").await;
    let mut stream = session.stream(Some(&seen)).await;
    let (all, others) = events(&mut stream, COUNT).await;
    let ids: BTreeSet<_> = all.iter().map(|one| one["eventId"].as_str()).collect();
    assert_eq!(ids.len(), COUNT, "each once: {others:?}");
    let seqs: Vec<_> = all.iter().map(|one| one["seq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted(), "{seqs:?}");
    assert!(
        others
            .iter()
            .all(|one| one["params"]["data"]["gap"].is_null()),
        "{others:?}"
    );
}

#[tokio::test]
async fn a_session_goes_on_for_its_own_caller_alone() {
    let Some(bed) = testbed::shared() else { return };
    let held = tempfile::tempdir().unwrap();
    let tokens = held.path().join("tokens");
    let (ann, bob) = ("a".repeat(32), "b".repeat(32));
    std::fs::write(&tokens, format!("ann:{ann}\nbob:{bob}\n")).unwrap();
    owner_only(&tokens);
    let mut server = Restarting::start(bed.dev(), &["--auth-token-file", tokens.to_str().unwrap()]);
    let own = client(Some(&ann));
    let session = HttpSession::begin_with(own, &server.base, "2025-11-25", Some(&ann)).await;
    let before = session.rpc("tools/list", json!({})).await;
    // What is answered is kept.
    session
        .rpc("logging/setLevel", json!({"level": "info"}))
        .await;
    server.kill();
    server.start_again();
    assert_eq!(session.delete_as(&bob).await, StatusCode::NOT_FOUND);
    let after = session.rpc("tools/list", json!({})).await;
    assert_eq!(before["result"], after["result"]);
    assert_eq!(session.delete().await, StatusCode::NO_CONTENT);
    assert_eq!(session.delete().await, StatusCode::NOT_FOUND);
}

fn owner_only(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Without a history a session ends with its process, as ever.
#[tokio::test]
async fn without_a_history_a_session_ends_with_its_process() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "continued-without");
    space(cluster, name).await;
    let mut server = Restarting::start_without_history(cluster);
    let session = server.session().await;
    let mut stream = session.stream(None).await;
    session
        .rpc("logging/setLevel", json!({"level": "info"}))
        .await;
    subscribe(&session, json!({"namespace": name})).await;
    happen(cluster, name, "First").await;
    events(&mut stream, 1).await;
    let digits = |id: &String| id.bytes().all(|byte| byte.is_ascii_digit());
    assert!(stream.ids.iter().all(digits), "{:?}", stream.ids);
    let seen = stream.ids.last().unwrap().clone();
    server.kill();
    server.start_again();
    assert_eq!(
        session.open(Some(&seen)).await.status(),
        StatusCode::NOT_FOUND
    );
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(session.post(&ping).await.status(), StatusCode::NOT_FOUND);
    // A new one knows nothing of it.
    let session = server.session().await;
    let own = session.call("events_list_subscriptions", json!({}));
    assert_eq!(own.await.ok().data["subscriptions"], json!([]));
}

/// The official client reconnects by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_client_loses_nothing_when_the_server_is_killed() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "continued-client");
    space(cluster, name).await;
    let mut server = Restarting::start(cluster, &[]);
    let target = format!("{}/mcp", server.base);
    let filters = json!({"namespace": name});
    let client = tokio::task::spawn_blocking(move || {
        let script = "continues.mjs";
        clients::run(Client::TypeScript, script, &target, "legacy", &filters)
    });
    let mut created = 0;
    let mut flow = async |count: usize| {
        for _ in 0..count {
            happen(cluster, name, &format!("Flow{created}")).await;
            created += 1;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    // The subscription begins meanwhile, so that the first ones may be before it.
    flow(100).await;
    server.kill();
    flow(20).await;
    server.start_again();
    flow(50).await;
    server.kill();
    server.start_again();
    flow(50).await;
    happen(cluster, name, "Last").await;
    let Some(found) = client.await.unwrap() else {
        return;
    };
    assert_eq!(found["isSame"], true, "{found}");
    let received = found["received"].as_array().unwrap();
    let gaps: Vec<_> = received
        .iter()
        .filter(|one| one["gap"].is_object())
        .collect();
    assert!(gaps.is_empty(), "{gaps:?}");
    let numbers: Vec<usize> = (received.iter())
        .filter_map(|one| one["reason"].as_str()?.strip_prefix("Flow")?.parse().ok())
        .collect();
    let first = numbers[0];
    assert!(first < 95, "it subscribed before the server was killed");
    let all: BTreeSet<_> = numbers.iter().copied().collect();
    let missing: Vec<_> = (first..220)
        .filter(|number| !all.contains(number))
        .collect();
    assert!(missing.is_empty(), "missing {missing:?} of {numbers:?}");
    let ids: BTreeSet<_> = received.iter().map(|one| one["eventId"].as_str()).collect();
    assert_eq!(ids.len(), all.len() + 1, "doubles have the same eventId");
}
