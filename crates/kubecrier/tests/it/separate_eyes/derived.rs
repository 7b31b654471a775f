//! What is derived from many objects, through two pairs of eyes: incidents and graphs. Every
//! workload has a number in its name, as events have one in their message.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::{Cluster, Options, User, namespace};
use tokio::time::{Instant, sleep, timeout};

use super::{
    GRANTED_MAX, PUSHED_MAX, Random, SLACK, SPACES, USERS,
    oracle::{Oracle, Way},
    token,
};
use crate::{
    harness::{Http, HttpSession, Stream, command, message, one_context},
    incidents::{break_workload, create_workload, mend},
};

const STEPS: usize = 260;

/// The role that the users are bound to, and what it reads.
const ROLE: &str = "derived-reader";

/// What a user has open.
struct Reader {
    user: &'static str,
    session: HttpSession,
    stream: Stream,
    listen: Stream,
    /// The subscription to incidents, and where its polls are.
    id: String,
    cursor: Option<String>,
    /// Where its waits are.
    waited: Option<String>,
}

// === impl Reader ===

impl Reader {
    async fn start(user: &'static str, session: HttpSession) -> Self {
        let stream = session.stream(None).await;
        let level = json!({"level": "debug"});
        session.rpc("logging/setLevel", level).await;
        let made = session.call("events_subscribe", json!({"mode": "incidents"}));
        let made = made.await.ok().data;
        let id = made["subscriptionId"].as_str().unwrap().to_owned();
        for path in ["-/graph", "incidents", "eyes-a/graph"] {
            let uri = json!({"uri": format!("k8s://dev/{path}")});
            let answer = session.rpc("resources/subscribe", uri).await;
            assert!(answer["result"].is_object(), "{path}: {answer}");
        }
        let uris = ["k8s://dev/-/graph", "k8s://dev/eyes-a/incidents"];
        let wanted = json!({"notifications": {"resourceSubscriptions": uris}});
        let listen = session.modern("subscriptions/listen", None, wanted).await;
        Self {
            user,
            session,
            stream,
            listen: Stream::new(listen),
            id,
            cursor: None,
            waited: None,
        }
    }

    /// Reads what has come.
    async fn receive(&mut self, oracle: &mut Oracle) {
        for (way, stream) in [
            (Way::Pushed, &mut self.stream),
            (Way::Listened, &mut self.listen),
        ] {
            while let Ok(message) = timeout(Duration::from_millis(2), stream.next()).await {
                oracle.received(self.user, way, Instant::now(), &message.to_string());
            }
        }
    }

    /// Goes through one of the doors.
    async fn ask(&mut self, oracle: &mut Oracle, door: usize, space: &str) {
        let asked = Instant::now();
        let read = |path: &str| json!({"uri": format!("k8s://dev/{path}")});
        let text = match door {
            0 => self.call("faults_list", json!({})).await.to_string(),
            1 => {
                let here = json!({"namespace": space, "includeResolved": true});
                self.call("faults_list", here).await.to_string()
            }
            2 => {
                let list = self.call("faults_list", json!({})).await;
                let id = &list["structuredContent"]["incidents"][0]["id"];
                let one = self.call("faults_get", json!({"faultId": id})).await;
                format!("{list}{one}")
            }
            3 => {
                let mut wait = json!({"timeoutSeconds": 1, "until": "any"});
                if let Some(cursor) = &self.waited {
                    wait["cursor"] = cursor.as_str().into();
                }
                let answer = self.call("faults_wait", wait).await;
                let cursor = answer["structuredContent"]["cursor"].as_str();
                self.waited = cursor.map(str::to_owned);
                // It answers when it ends.
                oracle.received(self.user, Way::Read, Instant::now(), &answer.to_string());
                return;
            }
            4 => {
                let mut poll = json!({"subscriptionId": self.id, "limit": 500});
                if let Some(cursor) = &self.cursor {
                    poll["cursor"] = cursor.as_str().into();
                }
                let page = self.session.call("events_poll", poll).await;
                self.cursor = page.data["cursor"].as_str().map(str::to_owned);
                page.data.to_string()
            }
            5 => {
                let feed = format!("kubecrier://subscriptions/{}", self.id);
                let read = self.session.rpc("resources/read", json!({"uri": feed}));
                read.await.to_string()
            }
            6 => {
                let read = self.session.rpc("resources/read", read("-/graph"));
                read.await.to_string()
            }
            7 => {
                let uri = format!("k8s://dev/{space}/graph");
                self.modern("resources/read", &uri, json!({"uri": uri}))
                    .await
                    .to_string()
            }
            8 => {
                let uri = "k8s://dev/incidents";
                self.modern("resources/read", uri, json!({"uri": uri}))
                    .await
                    .to_string()
            }
            9 => {
                // The name of what is asked for comes back in errors, so that it is none of a
                // workload.
                let about = json!({"namespace": space, "kind": "pod", "name": "none", "depth": 5});
                self.call("resources_graph", about).await.to_string()
            }
            10 => {
                let prompt = json!({"name": "cluster_health_check", "arguments": {}});
                self.session.rpc("prompts/get", prompt).await.to_string()
            }
            _ => {
                let from = self.stream.ids.len().saturating_sub(20);
                let Some(last) = self.stream.ids.get(from).cloned() else {
                    return;
                };
                self.stream = self.session.stream(Some(&last)).await;
                let patience = Duration::from_millis(50);
                while let Ok(message) = timeout(patience, self.stream.next()).await {
                    let now = Instant::now();
                    oracle.received(self.user, Way::Replayed, now, &message.to_string());
                }
                return;
            }
        };
        oracle.received(self.user, Way::Read, asked, &text);
    }

    /// Calls a tool without a session.
    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.modern("tools/call", tool, params).await
    }

    async fn modern(&self, method: &str, name: &str, params: Value) -> Value {
        let answer = self.session.modern(method, Some(name), params).await;
        let answer = message(&answer.text().await.unwrap());
        answer["result"].clone()
    }
}

async fn bind(cluster: &Cluster, user: &str, space: &str, is_granted: bool) {
    super::bind_to(cluster, ROLE, user, space, is_granted).await;
}

async fn furnish(cluster: &Cluster, oracle: &mut Oracle) -> Vec<(&'static str, String, bool)> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": [
            {"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        ],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    cluster.send("POST", path, &role).await.unwrap();
    let mut workloads = Vec::new();
    for space in SPACES {
        let made = cluster.create_cluster_wide(&namespace(space)).await;
        made.unwrap();
        for _ in 0..3 {
            let name = format!("eyes-event-{}-w", oracle.next_event(space));
            create_workload(cluster, space, &name).await;
            workloads.push((space, name, true));
        }
    }
    workloads
}

/// Nothing that is derived leaks, and what is allowed is there.
#[tokio::test]
async fn what_is_derived_tells_each_user_of_what_it_may_read() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = &bed.fresh("derived", Options::default());
    let mut oracle = Oracle::new(&USERS, &SPACES);
    let mut workloads = furnish(cluster, &mut oracle).await;
    let file = one_context(cluster, User::Admin);
    let tokens = tempfile::NamedTempFile::new().unwrap();
    let lines = USERS.map(|user| format!("{user}:{} user={user}\n", token(user)));
    std::fs::write(tokens.path(), lines.concat()).unwrap();
    let (server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--cluster-identity", "impersonate", "--auth-token-file"])
            .arg(tokens.path()),
    );
    let mut readers = Vec::new();
    for user in USERS {
        bind(cluster, user, SPACES[0], true).await;
        oracle.set(user, SPACES[0], true);
        // The API server follows a change of RBAC within moments.
        sleep(SLACK).await;
        let session = HttpSession::begin_as(&base, &token(user)).await;
        readers.push(Reader::start(user, session).await);
    }
    let seed = 20_261_119;
    let mut random = Random(seed);
    for step in 0..STEPS {
        let at = random.below(USERS.len());
        match random.below(20) {
            0 | 1 => {
                let space = SPACES[random.below(SPACES.len() - 1)];
                let is_granted = !oracle.is_granted(USERS[at], space);
                bind(cluster, USERS[at], space, is_granted).await;
                oracle.set(USERS[at], space, is_granted);
            }
            2..=5 => {
                let one = random.below(workloads.len());
                let (space, name, is_well) = &mut workloads[one];
                if *is_well {
                    break_workload(cluster, space, name).await;
                } else {
                    mend(cluster, space, name).await;
                }
                *is_well = !*is_well;
            }
            _ => {
                let (door, space) = (random.below(12), SPACES[random.below(SPACES.len() - 1)]);
                readers[at].ask(&mut oracle, door, space).await;
            }
        }
        for reader in &mut readers {
            reader.receive(&mut oracle).await;
        }
        sleep(Duration::from_millis(30)).await;
        assert!(
            oracle.leaks().is_empty(),
            "step {step}, seed {seed}: {:?}",
            oracle.leaks()
        );
    }
    // With every right, everything is there.
    for user in USERS {
        for space in &SPACES[..SPACES.len() - 1] {
            if !oracle.is_granted(user, space) {
                bind(cluster, user, space, true).await;
                oracle.set(user, space, true);
            }
        }
    }
    for (space, name, is_well) in &mut workloads {
        if *is_well {
            break_workload(cluster, space, name).await;
            *is_well = false;
        }
    }
    sleep(GRANTED_MAX).await;
    for reader in &mut readers {
        let graph = reader.modern(
            "resources/read",
            "k8s://dev/-/graph",
            json!({"uri": "k8s://dev/-/graph"}),
        );
        let graph = graph.await.to_string();
        let list = reader.call("faults_list", json!({})).await.to_string();
        for (space, name, _) in &workloads {
            let is_seen = *space != "eyes-shut";
            assert_eq!(
                graph.contains(name.as_str()),
                is_seen,
                "{name} of {space} in {graph}"
            );
            assert_eq!(
                list.contains(name.as_str()),
                is_seen,
                "{name} of {space} in {list}\n{}",
                server.log()
            );
        }
        reader.receive(&mut oracle).await;
    }
    // Without any right, nothing is there: not what happens, and not what waited.
    for user in USERS {
        for space in SPACES {
            if oracle.is_granted(user, space) {
                bind(cluster, user, space, false).await;
                oracle.set(user, space, false);
            }
        }
    }
    let withdrawn = Instant::now();
    while withdrawn.elapsed() < PUSHED_MAX + SLACK {
        let (space, name, is_well) = &mut workloads[random.below(12)];
        if *is_well {
            break_workload(cluster, space, name).await;
        } else {
            mend(cluster, space, name).await;
        }
        *is_well = !*is_well;
        for reader in &mut readers {
            reader.receive(&mut oracle).await;
        }
        sleep(Duration::from_millis(250)).await;
    }
    for reader in &mut readers {
        for door in 0..12 {
            reader.ask(&mut oracle, door, SPACES[0]).await;
        }
    }
    assert!(oracle.leaks().is_empty(), "{:?}", oracle.leaks());
    println!(
        "a right that is gone was seen for up to {:?}",
        oracle.seen_after()
    );
}
