//! One cluster with real controllers, on which all scenes are played at once.

use std::{collections::BTreeSet, path::Path, sync::OnceLock, thread, time::Duration};

use futures_util::future::join_all;
use http::Request;
use jiff::{SignedDuration, Timestamp};
use kube::{
    Client,
    core::GroupVersionKind,
    discovery::{Discovery, Scope, verbs},
};
use kubecrier_incidents::{Incident, State, eval::Truth, incidents};
use serde::Deserialize;
use serde_json::{Value, json};
use testbed::{Cluster, ControllerBinaries, Controllers, Kubelets, Options, User};
use tokio::{
    runtime,
    time::{Instant, sleep, timeout},
};

/// A scene whose state is not reached by then has failed.
const PLAYED_WITHIN: Duration = Duration::from_mins(1);

/// How long a request that is refused is tried.
const REFUSED_WITHIN: Duration = Duration::from_secs(2);

/// What happens in one namespace, and what is to be said about it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scene {
    /// The name of its namespace.
    pub(crate) name: String,
    title: String,
    objects: Vec<Value>,
    steps: Vec<Step>,
    /// How many seconds later somebody looks; nothing changes until then.
    #[serde(default = "ten_minutes")]
    after: i64,
    /// Nothing is wrong without it.
    #[serde(default)]
    truth: Truth,
    /// Why the detectors do not see it yet.
    #[serde(default)]
    pub(crate) known_miss: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Step {
    /// Waits until an answer contains all of these words, and lacks others.
    Until {
        path: String,
        contains: Vec<String>,
        lacks: Option<String>,
    },
    /// Sends a request. The method `REFUSED` is a POST that has to be refused.
    Send {
        method: String,
        path: String,
        body: Value,
    },
    /// Takes the power from a node.
    Lose(String),
}

/// Everything after all scenes were played.
pub(crate) struct Stage {
    objects: Vec<Value>,
    state: State,
    now: Timestamp,
    scenes: Vec<Scene>,
    unfinished: Vec<String>,
}

fn ten_minutes() -> i64 {
    600
}

/// The stage of this test binary, played by the first test that needs it.
pub(crate) fn shared() -> Option<&'static Stage> {
    static SHARED: OnceLock<Option<Stage>> = OnceLock::new();
    let stage = SHARED.get_or_init(|| {
        let bed = testbed::binaries_or_skip()?;
        let controllers = match ControllerBinaries::locate() {
            Ok(found) => found,
            Err(missing) => {
                testbed::skip(&missing);
                return None;
            }
        };
        let playing = thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(play(&bed, &controllers))
        });
        Some(playing.join().unwrap())
    });
    stage.as_ref()
}

async fn play(binaries: &testbed::Binaries, controllers: &ControllerBinaries) -> Stage {
    let options = Options {
        needs_service_accounts: true,
        ..Options::default()
    };
    let cluster = Cluster::start("controllers", binaries, options)
        .await
        .unwrap();
    let client = cluster.client(User::Admin).await.unwrap();
    // The testbed's own node has no kubelet that would keep it alive.
    ask(&client, "DELETE", "/api/v1/nodes/node-1", &json!({}))
        .await
        .unwrap();
    let _controllers = Controllers::start(&cluster, controllers).await.unwrap();
    let dedicated = ["lost", "blocked", "drained", "batch"];
    let names = dedicated.map(|name| format!("node-{name}"));
    let labels = dedicated.map(|name| [("dedicated", name)]);
    let mut nodes: Vec<(&str, &[(&str, &str)])> = vec![("node-a", &[]), ("node-b", &[])];
    nodes.extend(
        names
            .iter()
            .zip(&labels)
            .map(|(name, labels)| (&**name, &labels[..])),
    );
    let kubelets = Kubelets::start(&cluster, &nodes).await.unwrap();
    for name in dedicated {
        let taint = json!({"spec": {"taints": [{"key": "dedicated", "value": name, "effect": "NoSchedule"}]}});
        let path = format!("/api/v1/nodes/node-{name}");
        ask(&client, "PATCH", &path, &taint).await.unwrap();
    }
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let scenes = scenes();
    let played = scenes
        .iter()
        .map(|scene| scene.play(&client, &discovery, &kubelets));
    let unfinished = join_all(played)
        .await
        .into_iter()
        .filter_map(Result::err)
        .collect();
    let objects = everything(&client, &discovery).await;
    let mut state = State::default();
    for object in objects.clone() {
        state.apply_json(object).unwrap();
    }
    state.set_all_known();
    Stage {
        objects,
        state,
        now: Timestamp::now(),
        scenes,
        unfinished,
    }
}

fn scenes() -> Vec<Scene> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scenes");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let read = |path| serde_saphyr::from_str::<Vec<Scene>>(&std::fs::read_to_string(path).unwrap());
    files.flat_map(|path| read(path).unwrap()).collect()
}

async fn everything(client: &Client, discovery: &Discovery) -> Vec<Value> {
    let mut objects = Vec::new();
    for group in discovery.groups() {
        for (kind, can) in group.recommended_resources() {
            // They are Events of the core group in other words.
            let is_twice = kind.group == "events.k8s.io";
            if is_twice || !can.supports_operation(verbs::LIST) {
                continue;
            }
            let root = if kind.group.is_empty() {
                "/api"
            } else {
                "/apis"
            };
            let path = format!("{root}/{}/{}", kind.api_version, kind.plural);
            let text = ask(client, "GET", &path, &Value::Null).await.unwrap();
            let mut list: Value = serde_json::from_str(&text).unwrap();
            for item in list["items"].as_array_mut().into_iter().flatten() {
                item["kind"] = kind.kind.as_str().into();
                item["apiVersion"] = kind.api_version.as_str().into();
                if let Some(meta) = item["metadata"].as_object_mut() {
                    meta.remove("managedFields");
                }
                objects.push(item.take());
            }
        }
    }
    objects
}

async fn ask(
    client: &Client,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<String, kube::Error> {
    let form = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = match body {
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", form);
    client.request_text(request.body(body).unwrap()).await
}

// === impl Scene ===

impl Scene {
    async fn play(
        &self,
        client: &Client,
        discovery: &Discovery,
        kubelets: &Kubelets,
    ) -> Result<(), String> {
        let deadline = Instant::now() + PLAYED_WITHIN;
        let namespace = json!({"metadata": {"name": self.name}});
        ask(client, "POST", "/api/v1/namespaces", &namespace)
            .await
            .unwrap();
        // Without the account that a controller makes, pods are refused.
        let account = format!("/api/v1/namespaces/{}/serviceaccounts/default", self.name);
        while ask(client, "GET", &account, &Value::Null).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
        for object in &self.objects {
            let version = object["apiVersion"].as_str().unwrap();
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
            let (kind, can) = discovery.resolve_gvk(&kind).unwrap();
            let root = if group.is_empty() { "/api" } else { "/apis" };
            let within = match can.scope {
                Scope::Namespaced => format!("/namespaces/{}", self.name),
                Scope::Cluster => String::new(),
            };
            let path = format!("{root}/{}{within}/{}", kind.api_version, kind.plural);
            self.send(client, "POST", &path, object).await.unwrap();
        }
        for step in &self.steps {
            match step {
                Step::Until {
                    path,
                    contains,
                    lacks,
                } => {
                    self.until(client, deadline, path, contains, lacks.as_deref())
                        .await?;
                }
                Step::Send { method, path, body } if method == "REFUSED" => {
                    // The client tries again and again what may be allowed later.
                    let sent = timeout(REFUSED_WITHIN, self.send(client, "POST", path, body));
                    assert!(!matches!(sent.await, Ok(Ok(_))), "{path} was not refused");
                }
                Step::Send { method, path, body } => {
                    drop(self.send(client, method, path, body).await.unwrap());
                }
                Step::Lose(node) => kubelets.lose(node),
            }
        }
        Ok(())
    }

    async fn send(
        &self,
        client: &Client,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<String, kube::Error> {
        let body: Value =
            serde_json::from_str(&body.to_string().replace("NS", &self.name)).unwrap();
        ask(client, method, &path.replace("NS", &self.name), &body).await
    }

    async fn until(
        &self,
        client: &Client,
        deadline: Instant,
        path: &str,
        words: &[String],
        lacks: Option<&str>,
    ) -> Result<(), String> {
        loop {
            let text = self
                .send(client, "GET", path, &Value::Null)
                .await
                .unwrap_or_default();
            if words.iter().all(|word| text.contains(word.as_str()))
                && !lacks.is_some_and(|word| text.contains(word))
            {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("{}: {path} never had {words:?}: {text}", self.name));
            }
            sleep(Duration::from_millis(250)).await;
        }
    }

    fn named(&self, text: &str) -> String {
        text.replace("NS", &self.name)
    }

    /// Whether an object is in its namespace, or is named by it.
    fn owns(&self, object: &str) -> bool {
        let mut named = [&self.truth.object].into_iter().chain(&self.truth.also);
        object.starts_with(&format!("{}/", self.name))
            || named.any(|name| !name.is_empty() && self.named(name) == object)
    }

    /// What is wrong with what was said about this scene.
    pub(crate) fn judge(&self, stage: &Stage) -> Result<(), String> {
        let Self { title, truth, .. } = self;
        let now = stage.now + SignedDuration::from_secs(self.after);
        let found: Vec<_> = incidents(&stage.later(now), now)
            .into_iter()
            .filter(|incident| self.owns(&incident.object.to_string()))
            .collect();
        let told =
            |incident: &Incident| format!("\n  {:?} {}", incident.severity, incident.headline);
        let all: String = found.iter().map(told).collect();
        let failed =
            |what: String| Err(format!("{}, {title}: {what}; it was said:{all}", self.name));
        let names: BTreeSet<_> = [&truth.object]
            .into_iter()
            .chain(&truth.also)
            .map(|name| self.named(name))
            .collect();
        let victims: BTreeSet<_> = truth.victims.iter().map(|name| self.named(name)).collect();
        let warns = |incident: &&Incident| incident.severity > kubecrier_incidents::Severity::Info;
        for incident in found.iter().filter(warns) {
            let object = incident.object.to_string();
            if !names.contains(&object) && !victims.contains(&object) {
                return failed(format!("{object} is accused"));
            }
        }
        if truth.object.is_empty() {
            return Ok(());
        }
        let Some(first) = found.first() else {
            return failed(format!("{} is not named", truth.object));
        };
        if !names.contains(&first.object.to_string()) {
            return failed(format!("{} is not named first", truth.object));
        }
        let said = format!("{} {}", first.headline, first.why).to_lowercase();
        match truth
            .words
            .iter()
            .find(|word| !said.contains(&self.named(word).to_lowercase()))
        {
            Some(word) => failed(format!("nobody says `{word}`")),
            None => Ok(()),
        }
    }
}

// === impl Stage ===

impl Stage {
    /// The state when somebody looks later: nothing has changed, and living kubelets have
    /// gone on to report.
    fn later(&self, now: Timestamp) -> State {
        let mut state = self.state.clone();
        let nodes = self.objects.iter().filter(|one| one["kind"] == "Node");
        for mut node in nodes.cloned() {
            let conditions = node["status"]["conditions"].as_array_mut();
            for condition in conditions.into_iter().flatten() {
                if condition["status"] != "Unknown" {
                    condition["lastHeartbeatTime"] = json!(now);
                }
            }
            state.apply_json(node).unwrap();
        }
        state
    }

    /// Those whose state was never reached.
    pub(crate) fn unfinished(&self) -> &[String] {
        &self.unfinished
    }

    pub(crate) fn scenes(&self) -> &[Scene] {
        &self.scenes
    }

    /// The objects of a namespace, for a person who wants to know what a controller wrote.
    pub(crate) fn objects<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects
            .iter()
            .filter(move |object| object["metadata"]["namespace"] == namespace)
    }
}
