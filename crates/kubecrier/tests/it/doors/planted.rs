//! What is planted in a cluster: a word for each thing that a setting can exclude.

use serde_json::{Value, json};
use testbed::{Cluster, LogScript, User, event, namespace, pod};

use crate::harness::{File, Http, kubeconfig};

pub(super) const CONTEXT: &str = "dev";
pub(super) const OTHER_CONTEXT: &str = "context-marker";
pub(super) const SPACE: &str = "doors";
pub(super) const OTHER_SPACE: &str = "space-marker";
pub(super) const POD: &str = "pod-marker";
pub(super) const OTHER_POD: &str = "pod-elsewhere";
pub(super) const DEPLOYMENT: &str = "deployment-marker";
pub(super) const SERVICE: &str = "front";

pub(super) const LOG: &str = "log-marker";
pub(super) const OTHER_LOG: &str = "elsewhere-logged";
pub(super) const EVENT: &str = "pull-happened";
pub(super) const OTHER_EVENT: &str = "elsewhere-happened";
pub(super) const DEPLOYMENT_EVENT: &str = "rollout-happened";
pub(super) const IMAGE: &str = "image-marker";
pub(super) const OTHER_IMAGE: &str = "elsewhere-built";
pub(super) const GRAPH_NODE: &str = "Pod:doors/pod-marker";
pub(super) const NODE_NOTE: &str = "node-annotation-marker";
pub(super) const SPACE_NOTE: &str = "namespace-annotation-marker";

/// The ids that the API server and the server gave to what was planted.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    pub(super) fault: String,
    pub(super) other_fault: String,
    pub(super) incident: String,
    pub(super) other_incident: String,
    /// Names of Event objects: one of the pod, of the deployment, and elsewhere.
    pub(super) events: Vec<(String, String)>,
}

impl Ids {
    /// What `faults_get` takes.
    pub(super) fn all(&self) -> [&String; 4] {
        let Self {
            fault,
            other_fault,
            incident,
            other_incident,
            events: _,
        } = self;
        [fault, other_fault, incident, other_incident]
    }
}

/// Two contexts for the same cluster.
pub(super) fn contexts(cluster: &Cluster, user: User) -> File {
    kubeconfig(|file| {
        file.context(CONTEXT, cluster, user)
            .context(OTHER_CONTEXT, cluster, user)
            .current(CONTEXT)
    })
}

/// Plants everything.
pub(super) async fn plant(cluster: &Cluster) -> Ids {
    let mut ids = Ids::default();
    let mut space = namespace(SPACE);
    space.metadata.annotations = Some([("note".to_owned(), SPACE_NOTE.to_owned())].into());
    cluster.create_cluster_wide(&space).await.unwrap();
    let other = namespace(OTHER_SPACE);
    cluster.create_cluster_wide(&other).await.unwrap();
    let note = json!({"metadata": {"annotations": {"note": NODE_NOTE}}});
    let node = cluster.send("PATCH", "/api/v1/nodes/node-1", &note).await;
    node.unwrap();
    let deployment = workload(DEPLOYMENT, Value::Null);
    let path = format!("/apis/apps/v1/namespaces/{SPACE}/deployments");
    cluster.send("POST", &path, &deployment).await.unwrap();
    let owner = owner("Deployment", DEPLOYMENT);
    let path = format!("/apis/apps/v1/namespaces/{SPACE}/replicasets");
    let mut set = workload("revision-1", owner);
    set["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
    cluster.send("POST", &path, &set).await.unwrap();
    for space in [SPACE, OTHER_SPACE] {
        let path = format!("/api/v1/namespaces/{space}/services");
        let front = json!({"metadata": {"name": SERVICE}, "spec": {"ports": [{"port": 80}]}});
        cluster.send("POST", &path, &front).await.unwrap();
    }
    plant_pod(cluster, SPACE, POD, IMAGE, LOG).await;
    plant_pod(cluster, OTHER_SPACE, OTHER_POD, OTHER_IMAGE, OTHER_LOG).await;
    let file = contexts(cluster, User::Admin);
    let http = Http::start(&file.path, &[]).await;
    let polls = [SPACE, OTHER_SPACE].map(|space| json!({"mode": "faults", "namespace": space}));
    let mut cursors = Vec::new();
    for poll in &polls {
        let first = http.call("events_poll", poll.clone()).await.ok().data;
        cursors.push(first["cursor"].clone());
    }
    for (space, object, kind, reason, message) in [
        (SPACE, format!("Pod/{POD}"), "Normal", "Pulled", EVENT),
        (SPACE, format!("Pod/{POD}"), "Warning", "BackOff", "a fault"),
        (
            SPACE,
            format!("Deployment/{DEPLOYMENT}"),
            "Normal",
            "ScalingReplicaSet",
            DEPLOYMENT_EVENT,
        ),
        (
            OTHER_SPACE,
            format!("Pod/{OTHER_POD}"),
            "Warning",
            "BackOff",
            OTHER_EVENT,
        ),
    ] {
        let mut one = event(space, &object, kind, reason, message);
        if object.starts_with("Deployment") {
            one.involved_object.api_version = Some("apps/v1".to_owned());
        }
        let made = cluster.create(&one).await.unwrap();
        ids.events
            .push((space.to_owned(), made.metadata.name.unwrap()));
    }
    let mut faults = Vec::new();
    for (mut poll, cursor) in polls.into_iter().zip(cursors) {
        poll["cursor"] = cursor;
        poll["waitSeconds"] = 20.into();
        let notified = http.call("events_poll", poll).await.ok().data;
        let fault = notified["events"][0]["faultId"].as_str().unwrap();
        faults.push(fault.to_owned());
    }
    [ids.fault, ids.other_fault] = faults.try_into().unwrap();
    let asked = json!({
        "ref": {"type": "ref/prompt", "name": "triage_fault"},
        "argument": {"name": "faultId", "value": ""},
    });
    let completed = http.rpc("completion/complete", asked).await;
    let completed = &completed["result"]["completion"]["values"];
    for id in completed.as_array().unwrap() {
        let found = http.call("faults_get", json!({"faultId": id})).await.ok();
        let id = id.as_str().unwrap().to_owned();
        if found.text.contains(OTHER_POD) {
            ids.other_incident = id;
        } else if found.text.contains(POD) {
            ids.incident = id;
        }
    }
    assert!(ids.all().iter().all(|id| !id.is_empty()), "{ids:?}");
    ids
}

async fn plant_pod(cluster: &Cluster, space: &str, name: &str, image: &str, log: &str) {
    let mut one = pod(space, name, &["app"]);
    one.metadata.labels = Some([("app".to_owned(), "x".to_owned())].into());
    if space == SPACE {
        let owner = serde_json::from_value(owner("ReplicaSet", "revision-1"));
        one.metadata.owner_references = Some(owner.unwrap());
    }
    let spec = one.spec.as_mut().unwrap();
    spec.containers[0].image = Some(format!("registry.example/{image}:1"));
    spec.containers[0].termination_message_policy = Some("FallbackToLogsOnError".to_owned());
    cluster.create(&one).await.unwrap();
    let ended = json!({"terminated": {"exitCode": 1, "message": format!("{log} at the end")}});
    let status = json!({"containerStatuses": [{
        "name": "app", "image": "x", "imageID": "x", "ready": false, "restartCount": 1,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended,
    }]});
    cluster.set_pod_status(space, name, status).await.unwrap();
    let key = format!("{space}/{name}/app");
    let lines = || LogScript::lines([format!("panic: {log}")]);
    cluster.node().set_log(&key, lines());
    cluster.node().set_previous_log(&key, lines());
}

fn owner(kind: &str, name: &str) -> Value {
    json!([{
        "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "1-2-3", "controller": true,
    }])
}

fn workload(name: &str, owners: Value) -> Value {
    let labels = json!({"app": "x"});
    let spec = json!({"containers": [{"name": "app", "image": "registry.example/app:1"}]});
    let mut workload = json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    });
    if owners.is_array() {
        workload["metadata"]["ownerReferences"] = owners;
    }
    workload
}
