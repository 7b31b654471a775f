//! Kubelets without a container runtime: nodes that are alive, and pods that do what their
//! annotation says.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, thread, time::Duration};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{runtime, sync::oneshot, time::sleep};

use crate::{Cluster, User};

/// The annotation of a pod that says what its container does: `Running` (without it),
/// `NotReady`, `CrashLoopBackOff`, `ImagePullBackOff`, `Succeeded` or `Failed`.
pub const PLAYS: &str = "testbed.kubecrier.dev/plays";

/// How often the kubelets look at their pods and renew their leases.
const EVERY: Duration = Duration::from_millis(400);

/// The kubelets of some nodes. Dropping them ends all of them.
pub struct Kubelets {
    alive: Arc<Mutex<BTreeSet<String>>>,
    /// Closing the channel ends the thread.
    _running: oneshot::Sender<Infallible>,
}

// === impl Kubelets ===

impl Kubelets {
    /// Registers nodes of 4 CPUs and 8 GiB with these labels, and keeps them alive.
    pub async fn start(cluster: &Cluster, nodes: &[(&str, &[(&str, &str)])]) -> Result<Self> {
        let client = cluster.client(User::Admin).await?;
        for (name, labels) in nodes {
            register(&client, name, labels)
                .await
                .with_context(|| format!("cannot register {name}"))?;
        }
        let names = nodes.iter().map(|(name, _)| (*name).to_owned());
        let alive = Arc::new(Mutex::new(names.collect::<BTreeSet<_>>()));
        let (running, stopped) = oneshot::channel();
        let file = crate::Kubeconfig::new()
            .context("kubelet", cluster, User::Admin)
            .current("kubelet");
        let file: kube::config::Kubeconfig = serde_json::from_value(file.to_value())?;
        let working = Arc::clone(&alive);
        thread::Builder::new()
            .name("testbed-kubelets".to_owned())
            .spawn(move || -> Result<()> {
                let runtime = runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(async {
                    let options = kube::config::KubeConfigOptions::default();
                    let config = kube::Config::from_custom_kubeconfig(file, &options).await?;
                    let client = Client::try_from(config)?;
                    tokio::select! {
                        () = work(&client, &working) => Ok(()),
                        _gone = stopped => Ok(()),
                    }
                })
            })?;
        Ok(Self {
            alive,
            _running: running,
        })
    }

    /// Ends the kubelet of a node, as if the machine had lost its power.
    pub fn lose(&self, node: &str) {
        self.alive.lock().remove(node);
    }
}

async fn register(client: &Client, name: &str, labels: &[(&str, &str)]) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}});
    for (key, value) in labels {
        node["metadata"]["labels"][key] = (*value).into();
    }
    nodes
        .create(&PostParams::default(), &serde_json::from_value(node)?)
        .await?;
    let room = json!({"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "50Gi"});
    let now = Timestamp::now();
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": format!("{now:.0}"), "lastTransitionTime": format!("{now:.0}"),
        })
    };
    let status = json!({"status": {
        "capacity": room, "allocatable": room,
        "addresses": [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": name},
        ],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
    }});
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let lease = json!({
        "metadata": {"name": name},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": format!("{now:.6}")},
    });
    leases
        .create(&PostParams::default(), &serde_json::from_value(lease)?)
        .await?;
    Ok(())
}

/// Works until it is dropped. What fails is tried again: a test may stop the API server.
async fn work(client: &Client, alive: &Mutex<BTreeSet<String>>) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let pods: Api<Pod> = Api::all(client.clone());
    let mut played = BTreeSet::new();
    loop {
        let nodes = alive.lock().clone();
        for node in &nodes {
            let renewed = json!({"spec": {"renewTime": format!("{:.6}", Timestamp::now())}});
            let _tried_again = leases
                .patch(node, &PatchParams::default(), &Patch::Merge(renewed))
                .await;
        }
        let found = pods.list(&ListParams::default()).await;
        for pod in found.into_iter().flat_map(|list| list.items) {
            let spec = pod.spec.as_ref();
            let node = spec.and_then(|spec| spec.node_name.as_deref());
            if node.is_some_and(|node| nodes.contains(node)) {
                let _tried_again = serve(client, &pod, &mut played).await;
            }
        }
        sleep(EVERY).await;
    }
}

/// Does what a kubelet does for a pod: says how it is, or removes it when it has ended.
async fn serve(client: &Client, pod: &Pod, played: &mut BTreeSet<String>) -> Result<()> {
    let meta = &pod.metadata;
    let (Some(namespace), Some(name), Some(uid)) = (&meta.namespace, &meta.name, &meta.uid) else {
        return Ok(());
    };
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    if meta.deletion_timestamp.is_some() {
        api.delete(name, &DeleteParams::default().grace_period(0))
            .await?;
        return Ok(());
    }
    if played.contains(uid) {
        return Ok(());
    }
    let address = format!("10.244.{}.{}", played.len() / 250, played.len() % 250 + 1);
    let status = status(&serde_json::to_value(pod)?, &address, Timestamp::now());
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch)
        .await?;
    played.insert(uid.clone());
    Ok(())
}

/// The status of a pod as its kubelet writes it.
fn status(pod: &Value, address: &str, now: Timestamp) -> Value {
    let plays = pod["metadata"]["annotations"][PLAYS]
        .as_str()
        .unwrap_or("Running");
    let ago = |seconds: i64| format!("{:.0}", now - SignedDuration::from_secs(seconds));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ended = |code: i64, reason: &str, before: i64| {
        json!({"terminated": {
            "exitCode": code, "reason": reason, "containerID": "containerd://1",
            "startedAt": ago(before + 2), "finishedAt": ago(before),
        }})
    };
    let container = |container: &Value| {
        let name = text(&container["name"]);
        let full = format!(
            "{}_{}({})",
            text(&pod["metadata"]["name"]),
            text(&pod["metadata"]["namespace"]),
            text(&pod["metadata"]["uid"])
        );
        let running = json!({"running": {"startedAt": ago(1)}});
        let waiting = |reason: &str, message: String| json!({"waiting": {"reason": reason, "message": message}});
        let (state, last, restarts) = match plays {
            "CrashLoopBackOff" => {
                let message =
                    format!("back-off 1m20s restarting failed container={name} pod={full}");
                (waiting(plays, message), ended(1, "Error", 20), 4)
            }
            "ImagePullBackOff" => {
                let image = text(&container["image"]);
                let message = format!(
                    "Back-off pulling image \"{image}\": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image \"{image}\": not found"
                );
                (waiting(plays, message), json!({}), 0)
            }
            "Succeeded" => (ended(0, "Completed", 0), json!({}), 0),
            "Failed" => (ended(1, "Error", 0), json!({}), 0),
            _ => (running, json!({}), 0),
        };
        let is_ready = plays == "Running";
        json!({
            "name": name, "image": container["image"], "imageID": "", "ready": is_ready,
            "started": is_ready || plays == "NotReady", "restartCount": restarts,
            "state": state, "lastState": last,
        })
    };
    let containers = pod["spec"]["containers"].as_array();
    let statuses: Vec<_> = containers.into_iter().flatten().map(container).collect();
    let names: Vec<_> = containers
        .into_iter()
        .flatten()
        .map(|one| text(&one["name"]))
        .collect();
    let ready = |kind: &str| match plays {
        "Running" => json!({"type": kind, "status": "True", "lastTransitionTime": ago(0)}),
        "Succeeded" => {
            json!({"type": kind, "status": "False", "reason": "PodCompleted", "lastTransitionTime": ago(0)})
        }
        "Failed" => {
            json!({"type": kind, "status": "False", "reason": "PodFailed", "lastTransitionTime": ago(0)})
        }
        _ => json!({
            "type": kind, "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(0),
            "message": format!("containers with unready status: [{}]", names.join(" ")),
        }),
    };
    let holds = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": ago(1)});
    json!({
        "phase": match plays {
            "Succeeded" | "Failed" => plays,
            "ImagePullBackOff" => "Pending",
            _ => "Running",
        },
        "conditions": [
            holds("PodReadyToStartContainers"), holds("Initialized"),
            ready("Ready"), ready("ContainersReady"), holds("PodScheduled"),
        ],
        "containerStatuses": statuses,
        "hostIP": "127.0.0.1", "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": address, "podIPs": [{"ip": address}],
        "startTime": ago(1),
    })
}
