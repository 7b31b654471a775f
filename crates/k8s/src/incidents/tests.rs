//! Incidents of a cluster in memory, on paused time.

use demo_cluster::{DemoCluster, Fault, RequestMatcher};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use super::*;
use crate::error::ErrorKind;
use crate::{Allowed, AllowedNames, Config, Demo, DeniedKinds};
use kubecrier_core::metrics::Metrics;
use kubecrier_redact::Redactor;

mod excluded;
mod eyes;
mod limits;
mod outages;
mod shared_events;
mod words;

const RENEWAL: Duration = Duration::from_mins(1);

const LIMITS: TaskLimits = TaskLimits {
    total_max: 4,
    per_caller_max: 2,
};

/// Kinds of the demo cluster that are watched; it serves no HTTPRoutes.
const WATCHED: usize = 24;

#[derive(Default)]
struct RecordingFollower(Mutex<Vec<Arc<IncidentUpdate>>>);

impl IncidentFollower for RecordingFollower {
    fn on_update(&self, update: &Arc<IncidentUpdate>) {
        self.0.lock().push(Arc::clone(update));
    }
}

impl RecordingFollower {
    /// The headlines of what was opened or changed since the last call.
    fn headlines(&self) -> Vec<String> {
        let updates = std::mem::take(&mut *self.0.lock());
        let transitions = updates.iter().flat_map(|update| &update.transitions);
        let told = transitions.filter_map(|transition| match transition {
            Transition::Opened(incident) | Transition::Changed(incident) => {
                Some(incident.headline.clone())
            }
            Transition::Resolved { .. } => None,
        });
        told.collect()
    }

    /// What was announced since the last call.
    fn announced(&self) -> Vec<String> {
        let updates = std::mem::take(&mut *self.0.lock());
        let transitions = updates.iter().flat_map(|update| &update.transitions);
        let lines = transitions.map(|transition| match transition {
            Transition::Opened(incident) => format!("opened {}", incident.object),
            Transition::Changed(incident) => format!("changed {}", incident.object),
            Transition::Resolved { incident, .. } => format!("resolved {}", incident.object),
        });
        lines.collect()
    }
}

struct Fixture {
    cluster: DemoCluster,
    watches: IncidentWatches,
    metrics: Metrics,
    follower: Arc<RecordingFollower>,
}

// === impl Fixture ===

impl Fixture {
    /// A Deployment with one healthy pod on one node, in the namespace `shop`.
    fn new() -> Self {
        Self::of(|_| {})
    }

    /// The same for a server with other settings.
    fn of(change: impl FnOnce(&mut Config)) -> Self {
        let cluster = DemoCluster::default();
        let metrics = Metrics::new();
        let mut config = Config {
            kubeconfig: None,
            context: None,
            request_timeout: Duration::from_secs(5),
            redactor: Redactor::default(),
            demo: Some(Demo::new(&cluster)),
            denied: DeniedKinds::default(),
            allowed: Allowed::default(),
            identity: crate::ClusterIdentity::default(),
        };
        change(&mut config);
        let deps = WatchDeps {
            contexts: Arc::new(Contexts::new(config)),
            watches: metrics.watch().clone(),
            renewal: RENEWAL,
        };
        let clock = {
            let cluster = cluster.clone();
            Arc::new(move || cluster.now())
        };
        let fixture = Self {
            watches: IncidentWatches::with_clock(
                deps,
                Lifecycle::default(),
                LIMITS,
                IncidentSettings::default(),
                clock,
            ),
            metrics,
            cluster,
            follower: Arc::default(),
        };
        fixture.put("v1", "Namespace", json!({"metadata": {"name": "shop"}}));
        fixture.put(
            "v1",
            "Node",
            json!({
                "metadata": {"name": "node-1", "creationTimestamp": fixture.ago(86_400)},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }),
        );
        let set = fixture.put(
            "apps/v1",
            "Deployment",
            json!({
                "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}},
                "status": {"replicas": 1, "availableReplicas": 1, "readyReplicas": 1, "updatedReplicas": 1},
            }),
        );
        let set = fixture.put(
            "apps/v1",
            "ReplicaSet",
            json!({
                "metadata": {"name": "web-1", "namespace": "shop", "ownerReferences": owner("Deployment", &set)},
                "spec": {"replicas": 1},
                "status": {"replicas": 1, "availableReplicas": 1, "readyReplicas": 1},
            }),
        );
        fixture.put(
            "v1",
            "Pod",
            json!({
                "metadata": {
                    "name": "web-1-a", "namespace": "shop", "labels": {"app": "web"},
                    "ownerReferences": owner("ReplicaSet", &set),
                },
                "spec": {"nodeName": "node-1", "containers": [{"name": "app", "image": "web:1"}]},
                "status": {"phase": "Running"},
            }),
        );
        fixture.well();
        fixture
    }

    fn put(&self, api: &str, kind: &str, mut object: Value) -> Arc<Value> {
        object["apiVersion"] = api.into();
        object["kind"] = kind.into();
        self.cluster.put(object).unwrap()
    }

    fn ago(&self, seconds: i64) -> String {
        let time = self.cluster.now() - SignedDuration::from_secs(seconds);
        time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    fn pod_status(&self, ready: bool, container: Value) {
        let status = if ready { "True" } else { "False" };
        let conditions =
            json!([{"type": "Ready", "status": status, "lastTransitionTime": self.ago(600)}]);
        let changed = self.cluster.modify("pods", "shop", "web-1-a", |pod| {
            pod["status"]["conditions"] = conditions;
            pod["status"]["containerStatuses"] = json!([container]);
        });
        assert!(changed.is_some());
    }

    fn well(&self) {
        self.pod_status(
            true,
            json!({"name": "app", "ready": true, "state": {"running": {"startedAt": self.ago(600)}}}),
        );
    }

    /// The pod crashes again and again, and says this at its end.
    fn crash(&self, message: &str) {
        let ended = json!({
            "exitCode": 2, "reason": "Error", "message": message, "containerID": "demo://1",
            "startedAt": self.ago(21), "finishedAt": self.ago(20),
        });
        let waiting = json!({"reason": "CrashLoopBackOff", "message": "back-off 5m0s"});
        self.pod_status(
            false,
            json!({
                "name": "app", "restartCount": 5,
                "state": {"waiting": waiting}, "lastState": {"terminated": ended},
            }),
        );
    }

    async fn follow(&self) -> Result<IncidentView, ClusterError> {
        let follower = Arc::clone(&self.follower) as _;
        let viewer = &Viewer::Everything;
        self.watches.follow(viewer, None, None, follower).await
    }

    async fn read(&self, namespace: &str) -> Result<IncidentView, ClusterError> {
        let namespace = Name::label("namespace", namespace).unwrap();
        let reader = ShareKey::Process;
        let viewer = &Viewer::Everything;
        (self.watches)
            .read(&reader, viewer, None, Some(&namespace))
            .await
    }

    /// Advances the time in small steps, so that every due timer fires.
    async fn pass(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            advance(Duration::from_millis(50)).await;
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn settle(&self) {
        self.pass(Duration::from_secs(2)).await;
    }
}

fn owner(kind: &str, object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!([{
        "apiVersion": "apps/v1", "kind": kind, "controller": true,
        "name": metadata["name"], "uid": metadata["uid"],
    }])
}

fn open(view: &IncidentView) -> Vec<String> {
    let snapshot = view.snapshot();
    let open = snapshot.open.iter();
    open.map(|incident| format!("{} {}", incident.object, incident.detector))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_incident_opens_and_is_over_and_the_list_says_so() {
    let fixture = Fixture::new();
    let view = fixture.follow().await.unwrap();
    let snapshot = view.snapshot();
    assert_eq!((open(&view), snapshot.notes.len()), (vec![], 0));
    fixture.crash("cannot bind :8080");
    fixture.settle().await;
    assert_eq!(open(&view), ["shop/deployment/web crash-loop"]);
    let snapshot = view.snapshot();
    assert!(
        snapshot.open[0].why.contains("cannot bind :8080"),
        "{snapshot:?}"
    );
    assert_eq!(fixture.follower.announced(), ["opened shop/deployment/web"]);
    let count = |severity: &str| {
        let line = format!("kubecrier_incidents{{severity=\"{severity}\"}} 1\n");
        fixture.metrics.encode(0).unwrap().contains(&line)
    };
    assert!(count("warning") || count("critical"), "it is counted");
    fixture.well();
    fixture.settle().await;
    assert_eq!(open(&view), [""; 0], "it is not there any more");
    assert!(!count("warning") && !count("critical"));
    assert_eq!(fixture.follower.announced(), [""; 0], "it may come back");
    fixture.pass(Duration::from_secs(31)).await;
    assert_eq!(
        fixture.follower.announced(),
        ["resolved shop/deployment/web"]
    );
    let resolved = &view.snapshot().resolved;
    assert_eq!(resolved.len(), 1);
    assert!(resolved[0].after >= SignedDuration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn what_is_there_at_the_start_is_shown_at_once_and_not_announced() {
    let fixture = Fixture::new();
    fixture.crash("no");
    let slow = RequestMatcher::any().verb("list").resource("services");
    (fixture.cluster).fail_next(slow, 1, Fault::Delay(Duration::from_secs(3)));
    let began = Instant::now();
    let view = fixture.follow().await.unwrap();
    assert!(
        began.elapsed() >= Duration::from_secs(3),
        "every kind is listed"
    );
    assert_eq!(open(&view), ["shop/deployment/web crash-loop"]);
    fixture.pass(Duration::from_mins(2)).await;
    assert_eq!(fixture.follower.announced(), [""; 0]);
}

/// Nothing changes but the time, and each hold is over when it is due.
#[tokio::test(start_paused = true)]
async fn a_state_opens_when_it_has_held() {
    let fixture = Fixture::new();
    let view = fixture.follow().await.unwrap();
    let waiting = json!({"reason": "ErrImagePull", "message": "no such host"});
    fixture.cluster.modify("pods", "shop", "web-1-a", |pod| {
        pod["metadata"]["creationTimestamp"] = fixture.ago(0).into();
        pod["status"] = json!({
            "phase": "Pending",
            "containerStatuses": [{"name": "app", "state": {"waiting": waiting}}],
        });
    });
    fixture.pass(Duration::from_secs(13)).await;
    assert_eq!(open(&view), [""; 0]);
    fixture.pass(Duration::from_secs(4)).await;
    assert_eq!(
        open(&view),
        ["shop/deployment/web image-pull"],
        "for whoever asks"
    );
    assert_eq!(fixture.follower.announced(), [""; 0]);
    fixture.pass(Duration::from_secs(12)).await;
    assert_eq!(fixture.follower.announced(), [""; 0]);
    fixture.pass(Duration::from_secs(3)).await;
    assert_eq!(fixture.follower.announced(), ["opened shop/deployment/web"]);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_changes_nothing_for_a_reader_is_not_told() {
    let fixture = Fixture::new();
    fixture.crash("no");
    let view = fixture.follow().await.unwrap();
    let seq = view.snapshot().seq;
    for n in 0..10 {
        fixture.cluster.modify("pods", "shop", "web-1-a", |pod| {
            pod["metadata"]["annotations"] = json!({"seen": n.to_string()});
        });
        fixture.settle().await;
    }
    assert_eq!(fixture.follower.0.lock().len(), 0);
    assert_eq!(view.snapshot().seq, seq);
}

/// A secret in a status is not in anything that can be read.
#[tokio::test(start_paused = true)]
async fn words_of_workloads_are_redacted_before_they_are_kept() {
    let fixture = Fixture::new();
    let view = fixture.follow().await.unwrap();
    fixture.crash("cannot log in with password=hunter2-verysecret");
    fixture.settle().await;
    let snapshot = view.snapshot();
    let shown = format!("{snapshot:?} {:?}", fixture.follower.0.lock());
    assert!(shown.contains("cannot log in"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_has_its_own_incidents_and_those_of_nodes_that_hurt_it() {
    let fixture = Fixture::new();
    fixture.crash("no");
    fixture.put("v1", "Namespace", json!({"metadata": {"name": "other"}}));
    let sick =
        json!([{"type": "Ready", "status": "False", "lastTransitionTime": fixture.ago(600)}]);
    let node = json!({
        "metadata": {"name": "node-2", "creationTimestamp": fixture.ago(86_400)},
        "status": {"conditions": sick},
    });
    fixture.put("v1", "Node", node);
    let other = fixture.read("other").await.unwrap();
    assert_eq!(open(&other), [""; 0], "nothing runs there");
    let shop = fixture.read("shop").await.unwrap();
    assert_eq!(open(&shop), ["shop/deployment/web crash-loop"]);
    let requests = fixture.cluster.recorded_requests();
    let pods = requests.iter().filter(|request| request.resource == "pods");
    let outside = pods.filter(|request| request.namespace.is_none());
    assert_eq!(outside.count(), 0, "only what is in the namespace is read");
    let all = fixture.follow().await.unwrap();
    assert_eq!(open(&all).len(), 2, "{:?}", open(&all));
    drop(other);
    let missing = fixture.read("nothing").await.unwrap();
    let notes = missing.snapshot().notes.clone();
    assert_eq!(notes, ["there is no namespace `nothing` yet"]);
}

#[tokio::test(start_paused = true)]
async fn one_object_of_an_odd_form_takes_nothing_else_away() {
    let fixture = Fixture::new();
    fixture.crash("no");
    let metadata = json!({"name": "odd", "namespace": "shop"});
    let odd = json!({"metadata": metadata, "spec": {"containers": "none"}});
    fixture.put("v1", "Pod", odd.clone());
    let view = fixture.follow().await.unwrap();
    assert_eq!(open(&view), ["shop/deployment/web crash-loop"]);
    assert!(fixture.cluster.delete("pods", "shop", "odd"));
    fixture.put("v1", "Pod", odd);
    fixture.well();
    fixture.settle().await;
    assert_eq!(open(&view), [""; 0]);
}
