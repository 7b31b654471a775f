//! The objects of the shop, as an API server would have them.

use serde_json::{Value, json};

use super::workloads::{NAMESPACE, Workload};

/// What the pods of a workload differ in.
pub(super) struct PodParameters<'a> {
    pub(super) name: &'a str,
    pub(super) workload: &'a str,
    pub(super) hash: &'a str,
    pub(super) image: &'a str,
    pub(super) port: u16,
    pub(super) node: &'a str,
    pub(super) replica_set_uid: &'a Value,
    pub(super) now: &'a str,
}

pub(super) fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    })
}

pub(super) fn node(name: &str, address: &str, now: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        }},
        "spec": {},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name},
            ],
            "capacity": {"cpu": "4", "memory": "16310288Ki", "ephemeral-storage": "41921516Ki", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "16207888Ki", "ephemeral-storage": "38634869077", "pods": "110"},
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory",
                    "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure",
                    "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID",
                    "kubelet has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "6.12.0",
                "osImage": "Demo Linux", "containerRuntimeVersion": "containerd://2.1.4",
                "kubeletVersion": "v1.36.3", "kubeProxyVersion": "", "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    })
}

pub(super) fn service(workload: &Workload) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": NAMESPACE, "name": workload.name, "labels": {"app": workload.name}},
        "spec": {
            "type": "ClusterIP",
            "selector": {"app": workload.name},
            "ports": [{"port": workload.port, "protocol": "TCP", "targetPort": workload.port}],
        },
        "status": {"loadBalancer": {}},
    })
}

pub(super) fn deployment(workload: &Workload, now: &str) -> Value {
    let name = workload.name;
    let replicas = workload.nodes.len();
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "namespace": NAMESPACE,
            "name": name,
            "generation": 1,
            "labels": {"app": name},
            "annotations": {"deployment.kubernetes.io/revision": "1"},
        },
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app": name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template(name, workload.image, workload.port, &json!({"app": name})),
        },
        "status": {
            "observedGeneration": 1,
            "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
            "availableReplicas": replicas,
            "conditions": [
                {
                    "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                    "message": "Deployment has minimum availability.",
                    "lastUpdateTime": now, "lastTransitionTime": now,
                },
            ],
        },
    })
}

pub(super) fn replica_set(deployment: &Value, hash: &str, image: &str, revision: u64) -> Value {
    let name = deployment["metadata"]["name"].as_str().unwrap_or_default();
    let labels = json!({"app": name, "pod-template-hash": hash});
    let port = deployment["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"]
        .as_u64()
        .and_then(|port| u16::try_from(port).ok())
        .unwrap_or(8080);
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "namespace": NAMESPACE,
            "name": format!("{name}-{hash}"),
            "generation": 1,
            "labels": labels,
            "annotations": {"deployment.kubernetes.io/revision": revision.to_string()},
            "ownerReferences": [owner("apps/v1", "Deployment", name, &deployment["metadata"]["uid"])],
        },
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": template(name, image, port, &labels),
        },
        "status": {"replicas": 0, "observedGeneration": 1},
    })
}

/// A pod before its containers are created; without a node it is unschedulable.
pub(super) fn pod(parameters: &PodParameters<'_>) -> Value {
    let PodParameters {
        name,
        workload,
        hash,
        image,
        port,
        node,
        replica_set_uid,
        now,
    } = *parameters;
    let labels = json!({"app": workload, "pod-template-hash": hash});
    let replica_set = format!("{workload}-{hash}");
    let mut spec = template(workload, image, port, &labels)["spec"].take();
    let status = if node.is_empty() {
        json!({
            "phase": "Pending",
            "qosClass": "Burstable",
            "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "lastProbeTime": null, "lastTransitionTime": now,
            }],
        })
    } else {
        spec["nodeName"] = node.into();
        creating(&json!(workload), &json!(image), now)
    };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": NAMESPACE,
            "name": name,
            "generateName": format!("{replica_set}-"),
            "generation": 1,
            "labels": labels,
            "ownerReferences": [owner("apps/v1", "ReplicaSet", &replica_set, replica_set_uid)],
        },
        "spec": spec,
        "status": status,
    })
}

/// The status of a pod whose containers are being created.
pub(super) fn creating(name: &Value, image: &Value, now: &str) -> Value {
    json!({
        "phase": "Pending",
        "qosClass": "Burstable",
        "startTime": now,
        "conditions": conditions(false, now),
        "containerStatuses": [{
            "name": name, "image": image, "imageID": "", "ready": false, "started": false,
            "restartCount": 0, "lastState": {},
            "state": {"waiting": {"reason": "ContainerCreating"}},
        }],
    })
}

pub(super) fn conditions(ready: bool, now: &str) -> Value {
    let condition = |kind: &str, holds: bool| {
        let mut condition = json!({
            "type": kind, "status": if holds { "True" } else { "False" },
            "lastProbeTime": null, "lastTransitionTime": now,
        });
        if !holds {
            condition["reason"] = "ContainersNotReady".into();
        }
        condition
    };
    json!([
        condition("Initialized", true),
        condition("Ready", ready),
        condition("ContainersReady", ready),
        condition("PodScheduled", true),
    ])
}

fn template(name: &str, image: &str, port: u16, labels: &Value) -> Value {
    json!({
        "metadata": {"labels": labels},
        "spec": {
            "containers": [{
                "name": name,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": port, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "securityContext": {},
        },
    })
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}
