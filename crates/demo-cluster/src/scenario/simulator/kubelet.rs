//! The part of kubelets and scheduler: pull, start, restart, back off, evict, bind.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    NewEvent,
    scenario::{
        objects,
        workloads::{NAMESPACE, NODES, PANIC_LOG},
    },
    store::PutError,
};

use super::Simulator;

/// The container of a pod.
struct Container {
    name: String,
    image: String,
    node: String,
    uid: String,
    restarts: u64,
}

impl Simulator {
    fn container(&self, pod: &str) -> Option<Container> {
        let object = self.cluster.get("pods", NAMESPACE, pod)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let container = &object["spec"]["containers"][0];
        Some(Container {
            name: text(&container["name"]),
            image: text(&container["image"]),
            node: text(&object["spec"]["nodeName"]),
            uid: text(&object["metadata"]["uid"]),
            restarts: object["status"]["containerStatuses"][0]["restartCount"]
                .as_u64()
                .unwrap_or(0),
        })
    }

    /// Emits an event about the container of a pod.
    fn emit_container_event(
        &self,
        container: &Container,
        pod: &str,
        warning: bool,
        reason: &str,
        message: &str,
    ) -> Result<(), PutError> {
        let object = format!("Pod/{pod}");
        let event = if warning {
            NewEvent::warning(NAMESPACE, &object, reason, message)
        } else {
            NewEvent::normal(NAMESPACE, &object, reason, message)
        };
        let field = format!("spec.containers{{{}}}", container.name);
        self.emit(&event.on(&container.node).about(&field))
    }

    fn status(&self, pod: &str, change: impl FnOnce(&mut Value)) {
        self.cluster.modify("pods", NAMESPACE, pod, |pod| {
            change(&mut pod["status"]);
        });
    }

    /// Sets the status of a running container, without events.
    pub(super) fn run(&mut self, pod: &str) {
        let Some(container) = self.container(pod) else {
            return;
        };
        let now = self.now();
        let id = format!(
            "containerd://{:016x}{:016x}",
            self.random.next(),
            self.random.next()
        );
        let address = format!(
            "10.244.{}.{}",
            self.random.below(3),
            2 + self.random.below(250)
        );
        self.status(pod, |status| {
            status["phase"] = "Running".into();
            status["podIP"] = address.into();
            status["conditions"] = objects::conditions(true, &now);
            let one = &mut status["containerStatuses"][0];
            one["ready"] = true.into();
            one["started"] = true.into();
            one["containerID"] = id.into();
            one["imageID"] = format!("{}@sha256:{:064x}", container.image, 0).into();
            one["state"] = json!({"running": {"startedAt": now}});
        });
        let object = self.cluster.get("pods", NAMESPACE, pod).unwrap_or_default();
        if let Some(state) = self.workload_of(&object) {
            for line in state.workload.startup_log {
                self.cluster.log(NAMESPACE, pod, &container.name, line);
            }
            let name = state.workload.name;
            self.update_status(name);
        }
    }

    pub(super) fn pull_and_start(&mut self, pod: &str) -> Result<(), PutError> {
        let Some(container) = self.container(pod) else {
            return Ok(());
        };
        let image = &container.image;
        self.emit_container_event(
            &container,
            pod,
            false,
            "Pulling",
            &format!("Pulling image \"{image}\""),
        )?;
        let pulled = format!(
            "Successfully pulled image \"{image}\" in 812ms (812ms including waiting). Image size: \
             24118374 bytes."
        );
        self.emit_container_event(&container, pod, false, "Pulled", &pulled)?;
        self.started(&container, pod)?;
        self.run(pod);
        Ok(())
    }

    fn started(&self, container: &Container, pod: &str) -> Result<(), PutError> {
        let name = &container.name;
        self.emit_container_event(
            container,
            pod,
            false,
            "Created",
            &format!("Created container: {name}"),
        )?;
        self.emit_container_event(
            container,
            pod,
            false,
            "Started",
            &format!("Started container {name}"),
        )
    }

    /// The container panics: it logs the panic, is not ready, and has an exit code.
    pub(super) fn crash(&mut self, pod: &str) {
        let Some(container) = self.container(pod) else {
            return;
        };
        let tag = container.image.rsplit(':').next().unwrap_or_default();
        for line in PANIC_LOG {
            let line = line.replace("{tag}", tag);
            self.cluster.log(NAMESPACE, pod, &container.name, &line);
        }
        let now = self.now();
        self.status(pod, |status| {
            status["conditions"] = objects::conditions(false, &now);
            let one = &mut status["containerStatuses"][0];
            one["ready"] = false.into();
            one["started"] = false.into();
            one["state"] = json!({"terminated": {
                "exitCode": 2, "reason": "Error", "containerID": one["containerID"],
                "startedAt": one["state"]["running"]["startedAt"], "finishedAt": now,
            }});
        });
        self.update_status(&container.name);
    }

    /// Moves the state and the log of a terminated container to the previous ones.
    fn move_to_previous(&self, container: &Container, pod: &str) {
        let mut ended = false;
        self.status(pod, |status| {
            let one = &mut status["containerStatuses"][0];
            let state = one["state"].take();
            if state["terminated"].is_object() {
                ended = true;
                one["lastState"] = state;
            }
        });
        if ended {
            self.cluster.restart_log(NAMESPACE, pod, &container.name);
        }
    }

    pub(super) fn restart(&mut self, pod: &str) -> Result<(), PutError> {
        let Some(container) = self.container(pod) else {
            return Ok(());
        };
        self.move_to_previous(&container, pod);
        let present = format!(
            "Container image \"{}\" already present on machine",
            container.image
        );
        self.emit_container_event(&container, pod, false, "Pulled", &present)?;
        self.started(&container, pod)?;
        self.status(pod, |status| {
            status["containerStatuses"][0]["restartCount"] = (container.restarts + 1).into();
        });
        self.run(pod);
        Ok(())
    }

    pub(super) fn back_off(&mut self, pod: &str, seconds: u32) -> Result<(), PutError> {
        let Some(container) = self.container(pod) else {
            return Ok(());
        };
        let (name, uid) = (&container.name, &container.uid);
        let full_name = format!("{pod}_{NAMESPACE}({uid})");
        let message =
            format!("back-off {seconds}s restarting failed container={name} pod={full_name}");
        self.move_to_previous(&container, pod);
        self.status(pod, |status| {
            status["containerStatuses"][0]["state"] =
                json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
        });
        let event = format!("Back-off restarting failed container {name} in pod {full_name}");
        self.emit_container_event(&container, pod, true, "BackOff", &event)
    }

    pub(super) fn fail_to_pull(&mut self, pod: &str) -> Result<(), PutError> {
        let Some(container) = self.container(pod) else {
            return Ok(());
        };
        let image = &container.image;
        let error = format!(
            "rpc error: code = NotFound desc = failed to pull and unpack image \"{image}\": failed to \
             resolve reference \"{image}\": {image}: not found"
        );
        self.waiting(pod, "ErrImagePull", &error);
        self.emit_container_event(
            &container,
            pod,
            false,
            "Pulling",
            &format!("Pulling image \"{image}\""),
        )?;
        self.emit_container_event(
            &container,
            pod,
            true,
            "Failed",
            &format!("Failed to pull image \"{image}\": {error}"),
        )?;
        self.emit_container_event(&container, pod, true, "Failed", "Error: ErrImagePull")
    }

    pub(super) fn back_off_pulling(&mut self, pod: &str) -> Result<(), PutError> {
        let Some(container) = self.container(pod) else {
            return Ok(());
        };
        let message = format!("Back-off pulling image \"{}\"", container.image);
        self.waiting(pod, "ImagePullBackOff", &message);
        self.emit_container_event(&container, pod, false, "BackOff", &message)?;
        self.emit_container_event(&container, pod, true, "Failed", "Error: ImagePullBackOff")
    }

    fn waiting(&self, pod: &str, reason: &str, message: &str) {
        self.status(pod, |status| {
            status["containerStatuses"][0]["state"] =
                json!({"waiting": {"reason": reason, "message": message}});
        });
    }

    /// Begins the graceful deletion of a pod.
    pub(super) fn stop(&mut self, pod: &str) -> Result<(), PutError> {
        let Some(container) = self.container(pod) else {
            return Ok(());
        };
        let message = format!("Stopping container {}", container.name);
        self.emit_container_event(&container, pod, false, "Killing", &message)?;
        self.cluster
            .terminate(NAMESPACE, pod, Duration::from_secs(30));
        Ok(())
    }

    pub(super) fn fill_disk(&mut self, workload: &str) -> Result<(), PutError> {
        let pod = self
            .workloads
            .get(workload)
            .and_then(|state| state.current.pods.first().cloned());
        let Some(container) = pod.and_then(|pod| self.container(&pod)) else {
            return Ok(());
        };
        let node = container.node;
        self.set_disk_pressure(&node, true);
        let object = format!("Node/{node}");
        let reclaim = "Attempting to reclaim ephemeral-storage";
        let threshold = NewEvent::warning("default", &object, "EvictionThresholdMet", reclaim);
        self.emit(&threshold.on(&node))?;
        let now = format!("Node {node} status is now: NodeHasDiskPressure");
        self.emit(&NewEvent::normal("default", &object, "NodeHasDiskPressure", &now).on(&node))?;
        self.full_node = Some(node);
        Ok(())
    }

    pub(super) fn free_disk(&mut self) -> Result<(), PutError> {
        for pod in std::mem::take(&mut self.evicted) {
            self.cluster.delete("pods", NAMESPACE, &pod);
        }
        let Some(node) = self.full_node.take() else {
            return Ok(());
        };
        self.set_disk_pressure(&node, false);
        let now = format!("Node {node} status is now: NodeHasNoDiskPressure");
        let object = format!("Node/{node}");
        self.emit(&NewEvent::normal("default", &object, "NodeHasNoDiskPressure", &now).on(&node))
    }

    fn set_disk_pressure(&self, node: &str, high: bool) {
        let now = self.now();
        let (status, reason, message) = if high {
            (
                "True",
                "KubeletHasDiskPressure",
                "kubelet has disk pressure",
            )
        } else {
            (
                "False",
                "KubeletHasNoDiskPressure",
                "kubelet has no disk pressure",
            )
        };
        self.cluster.modify("nodes", "", node, |node| {
            let taint = json!([{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule", "timeAdded": now}]);
            node["spec"] = if high { json!({"taints": taint}) } else { json!({}) };
            let conditions = node["status"]["conditions"].as_array_mut();
            for condition in conditions.into_iter().flatten() {
                if condition["type"] == "DiskPressure" {
                    condition["status"] = status.into();
                    condition["reason"] = reason.into();
                    condition["message"] = message.into();
                    condition["lastTransitionTime"] = now.as_str().into();
                }
            }
        });
    }

    pub(super) fn evict(&mut self, workload: &str) -> Result<(), PutError> {
        let Some(full) = self.full_node.clone() else {
            return Ok(());
        };
        let pods = self
            .workloads
            .get(workload)
            .map(|state| state.current.pods.clone());
        let on_full_node = |pod: &String| self.container(pod).is_some_and(|it| it.node == full);
        let Some(pod) = pods.into_iter().flatten().find(on_full_node) else {
            return Ok(());
        };
        let Some(container) = self.container(&pod) else {
            return Ok(());
        };
        let message = format!(
            "The node was low on resource: ephemeral-storage. Threshold quantity: 2146223340, \
             available: 1893284Ki. Container {} was using 5212344Ki, request is 0, has larger \
             consumption of ephemeral-storage. ",
            container.name
        );
        let now = self.now();
        self.status(&pod, |status| {
            status["phase"] = "Failed".into();
            status["reason"] = "Evicted".into();
            status["message"] = message.as_str().into();
            status["conditions"] = objects::conditions(false, &now);
            let one = &mut status["containerStatuses"][0];
            one["ready"] = false.into();
            one["started"] = false.into();
            one["state"] = json!({"terminated": {
                "exitCode": 137, "reason": "Error", "containerID": one["containerID"],
                "startedAt": one["state"]["running"]["startedAt"], "finishedAt": now,
            }});
        });
        let object = format!("Pod/{pod}");
        self.emit(&NewEvent::warning(NAMESPACE, &object, "Evicted", &message).on(&full))?;
        let stopping = format!("Stopping container {}", container.name);
        self.emit_container_event(&container, &pod, false, "Killing", &stopping)?;
        if let Some(state) = self.workloads.get_mut(workload) {
            state.current.pods.retain(|one| *one != pod);
        }
        self.evicted.push(pod);
        self.update_status(workload);
        Ok(())
    }

    /// The ReplicaSet creates a replacement, which the scheduler cannot place.
    pub(super) fn replace(&mut self, workload: &str) -> Result<(), PutError> {
        let Some(state) = self.workloads.get(workload).cloned() else {
            return Ok(());
        };
        if state.current.pods.len() >= state.workload.nodes.len() {
            return Ok(());
        }
        let pod = self.create_pod(state.workload, &state.current, "")?;
        let object = format!("Pod/{pod}");
        let failed = NewEvent::warning(NAMESPACE, &object, "FailedScheduling", UNSCHEDULABLE);
        self.emit(&failed.from("default-scheduler"))?;
        if let Some(state) = self.workloads.get_mut(workload) {
            state.current.pods.push(pod);
        }
        self.update_status(workload);
        Ok(())
    }

    /// The scheduler binds a pending pod to a node.
    pub(super) fn schedule(&mut self, pod: &str) -> Result<(), PutError> {
        let is_pending = |container: Container| container.node.is_empty();
        if !self.container(pod).is_some_and(is_pending) {
            return Ok(());
        }
        let full = self.full_node.clone().unwrap_or_default();
        let at = NODES
            .iter()
            .position(|(name, _)| *name == full)
            .unwrap_or(0);
        let (node, _) = NODES[(at + 1) % NODES.len()];
        let now = self.now();
        self.cluster.modify("pods", NAMESPACE, pod, |pod| {
            pod["spec"]["nodeName"] = node.into();
            let (name, image) = {
                let container = &pod["spec"]["containers"][0];
                (container["name"].clone(), container["image"].clone())
            };
            pod["status"] = objects::creating(&name, &image, &now);
        });
        self.emit_scheduled(pod, node)?;
        self.pull_and_start(pod)
    }
}

const UNSCHEDULABLE: &str = "0/3 nodes are available: 1 node(s) had untolerated taint \
                       {node.kubernetes.io/disk-pressure: }, 2 Insufficient cpu. preemption: 0/3 \
                       nodes are available: 1 Preemption is not helpful for scheduling, 2 No \
                       preemption victims found for incoming pod.";
