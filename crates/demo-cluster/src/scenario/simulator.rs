//! The simulator of controllers, scheduler and kubelets.

mod kubelet;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    DemoCluster, NewEvent, clock,
    random::Random,
    scenario::{
        objects::{self, PodParameters},
        timeline::Action,
        workloads::{NAMESPACE, NAMESPACES, NODES, REQUESTS, WORKLOADS, Workload},
    },
    store::PutError,
};

/// Applies the actions of the timeline to a cluster.
pub(super) struct Simulator {
    cluster: DemoCluster,
    random: Random,
    workloads: BTreeMap<&'static str, WorkloadState>,
    /// The node with disk pressure.
    full_node: Option<String>,
    /// Evicted pods, which stay as failed ones until the disk has free space.
    evicted: Vec<String>,
    round: u32,
}

/// The current state of a workload.
#[derive(Clone, Debug)]
struct WorkloadState {
    workload: &'static Workload,
    revision: u64,
    current: Revision,
    /// The revision that is being rolled out.
    next: Option<Revision>,
}

/// A revision of a deployment: a ReplicaSet and its pods.
#[derive(Clone, Debug)]
struct Revision {
    hash: String,
    image: String,
    pods: Vec<String>,
}

// === impl Simulator ===

impl Simulator {
    pub(super) fn set_up(cluster: &DemoCluster, seed: u64) -> Result<Self, PutError> {
        let mut simulator = Self {
            cluster: cluster.clone(),
            random: Random::new(seed),
            workloads: BTreeMap::new(),
            full_node: None,
            evicted: Vec::new(),
            round: 0,
        };
        let now = simulator.now();
        for name in NAMESPACES {
            cluster.put(objects::namespace(name))?;
        }
        for (name, address) in NODES {
            cluster.put(objects::node(name, address, &now))?;
        }
        for workload in &WORKLOADS {
            simulator.create_workload(workload)?;
        }
        Ok(simulator)
    }

    pub(super) fn apply(&mut self, action: &Action) -> Result<(), PutError> {
        self.log_traffic();
        match *action {
            Action::RollOut { workload, image } => {
                let image = image.replace("{round}", &self.round.to_string());
                self.roll_out(workload, image)
            }
            Action::Start { workload } => self.on_newest(workload, Self::pull_and_start),
            Action::Crash { workload } => self.on_newest(workload, |simulator, pod| {
                simulator.crash(pod);
                Ok(())
            }),
            Action::Restart { workload } => self.on_newest(workload, Self::restart),
            Action::BackOff { workload, seconds } => {
                self.on_newest(workload, |simulator, pod| simulator.back_off(pod, seconds))
            }
            Action::PullFails { workload } => self.on_newest(workload, Self::fail_to_pull),
            Action::PullBacksOff { workload } => self.on_newest(workload, Self::back_off_pulling),
            Action::RollBack { workload } => self.roll_back(workload),
            Action::Complete { workload } => self.complete(workload),
            Action::FillDisk { workload } => self.fill_disk(workload),
            Action::Evict { workload } => self.evict(workload),
            Action::Replace { workload } => self.replace(workload),
            Action::Schedule { workload } => self.on_newest(workload, Self::schedule),
            Action::FreeDisk => self.free_disk(),
            Action::End => Ok(()),
        }
    }

    pub(super) fn end_round(&mut self) {
        self.round += 1;
    }

    /// Logs requests to the frontend. Checkouts fail while payment is rolled out.
    fn log_traffic(&mut self) {
        let Some(frontend) = self.workloads.get("frontend").cloned() else {
            return;
        };
        let broken = self
            .workloads
            .get("payment")
            .is_some_and(|state| state.next.is_some());
        for pod in &frontend.current.pods {
            for request in REQUESTS {
                let took = 3 + self.random.below(90);
                let status = if broken && request.ends_with("checkout") {
                    503
                } else {
                    200
                };
                let line = format!("{request} {status} {took}ms");
                self.cluster
                    .log(NAMESPACE, pod, frontend.workload.name, &line);
            }
        }
    }

    fn now(&self) -> String {
        clock::seconds(self.cluster.now())
    }

    fn emit(&self, event: &NewEvent) -> Result<(), PutError> {
        self.cluster.emit(event).map(drop)
    }

    /// Acts on the newest pod; during a rollout, on that of the new revision.
    fn on_newest(
        &mut self,
        workload: &str,
        action: impl FnOnce(&mut Self, &str) -> Result<(), PutError>,
    ) -> Result<(), PutError> {
        let newest = self.workloads.get(workload).and_then(|state| {
            let revision = state.next.as_ref().unwrap_or(&state.current);
            revision.pods.last().cloned()
        });
        newest.map_or(Ok(()), |pod| action(self, &pod))
    }

    /// Creates the objects of a workload, all of them healthy.
    fn create_workload(&mut self, workload: &'static Workload) -> Result<(), PutError> {
        let now = self.now();
        self.cluster.put(objects::service(workload))?;
        let deployment = self.cluster.put(objects::deployment(workload, &now))?;
        let hash = self.hash();
        self.cluster
            .put(objects::replica_set(&deployment, &hash, workload.image, 1))?;
        let mut state = WorkloadState {
            workload,
            revision: 1,
            current: Revision {
                hash,
                image: workload.image.to_owned(),
                pods: Vec::new(),
            },
            next: None,
        };
        for node in workload.nodes {
            let pod = self.make_pod(workload, &state.current.clone(), node)?;
            self.run(&pod);
            state.current.pods.push(pod);
        }
        self.workloads.insert(workload.name, state);
        self.update_status(workload.name);
        Ok(())
    }

    fn hash(&mut self) -> String {
        self.random.suffix(9)
    }

    fn make_pod(
        &mut self,
        workload: &'static Workload,
        revision: &Revision,
        node: &str,
    ) -> Result<String, PutError> {
        let replica_set = format!("{}-{}", workload.name, revision.hash);
        let name = format!("{replica_set}-{}", self.random.suffix(5));
        let owner = self.cluster.get("replicasets", NAMESPACE, &replica_set);
        let owner = owner
            .map(|owner| owner["metadata"]["uid"].clone())
            .unwrap_or_default();
        self.cluster.put(objects::pod(&PodParameters {
            name: &name,
            workload: workload.name,
            hash: &revision.hash,
            image: &revision.image,
            port: workload.port,
            node,
            replica_set_uid: &owner,
            now: &self.now(),
        }))?;
        Ok(name)
    }

    /// Creates a pod with the events of the ReplicaSet controller and the scheduler.
    fn create_pod(
        &mut self,
        workload: &'static Workload,
        revision: &Revision,
        node: &str,
    ) -> Result<String, PutError> {
        let pod = self.make_pod(workload, revision, node)?;
        let replica_set = format!("ReplicaSet/{}-{}", workload.name, revision.hash);
        let message = format!("Created pod: {pod}");
        self.emit(
            &NewEvent::normal(NAMESPACE, &replica_set, "SuccessfulCreate", &message)
                .from("replicaset-controller"),
        )?;
        if !node.is_empty() {
            self.emit_scheduled(&pod, node)?;
        }
        Ok(pod)
    }

    fn emit_scheduled(&self, pod: &str, node: &str) -> Result<(), PutError> {
        let message = format!("Successfully assigned {NAMESPACE}/{pod} to {node}");
        self.emit(
            &NewEvent::normal(NAMESPACE, &format!("Pod/{pod}"), "Scheduled", &message)
                .from("default-scheduler"),
        )
    }

    fn delete_pod(&mut self, replica_set: &str, pod: &str) -> Result<(), PutError> {
        let message = format!("Deleted pod: {pod}");
        self.emit(
            &NewEvent::normal(
                NAMESPACE,
                &format!("ReplicaSet/{replica_set}"),
                "SuccessfulDelete",
                &message,
            )
            .from("replicaset-controller"),
        )?;
        self.stop(pod)?;
        self.cluster.delete("pods", NAMESPACE, pod);
        Ok(())
    }

    fn emit_scaled(
        &self,
        workload: &str,
        hash: &str,
        from: usize,
        to: usize,
    ) -> Result<(), PutError> {
        let direction = if to > from { "up" } else { "down" };
        let message =
            format!("Scaled {direction} replica set {workload}-{hash} from {from} to {to}");
        self.emit(
            &NewEvent::normal(
                NAMESPACE,
                &format!("Deployment/{workload}"),
                "ScalingReplicaSet",
                &message,
            )
            .from("deployment-controller"),
        )
    }

    fn roll_out(&mut self, workload: &str, image: String) -> Result<(), PutError> {
        let Some(mut state) = self.workloads.get(workload).cloned() else {
            return Ok(());
        };
        state.revision += 1;
        self.update_deployment(&state, &image);
        let revision = Revision {
            hash: self.hash(),
            image,
            pods: Vec::new(),
        };
        if let Some(deployment) = self.cluster.get("deployments", NAMESPACE, workload) {
            let set =
                objects::replica_set(&deployment, &revision.hash, &revision.image, state.revision);
            self.cluster.put(set)?;
        }
        self.emit_scaled(workload, &revision.hash, 0, 1)?;
        let node = state.workload.nodes.last().copied().unwrap_or("node-1");
        let node = if self.full_node.as_deref() == Some(node) {
            "node-2"
        } else {
            node
        };
        let pod = self.create_pod(state.workload, &revision, node)?;
        state.next = Some(Revision {
            pods: vec![pod],
            ..revision
        });
        self.workloads.insert(state.workload.name, state);
        self.update_status(workload);
        Ok(())
    }

    /// Updates image and revision of the deployment.
    fn update_deployment(&self, state: &WorkloadState, image: &str) {
        let revision = state.revision.to_string();
        self.cluster.modify(
            "deployments",
            NAMESPACE,
            state.workload.name,
            |deployment| {
                let generation = deployment["metadata"]["generation"].as_u64().unwrap_or(0) + 1;
                deployment["metadata"]["generation"] = generation.into();
                deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] =
                    revision.into();
                deployment["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
                deployment["status"]["observedGeneration"] = generation.into();
            },
        );
    }

    fn roll_back(&mut self, workload: &str) -> Result<(), PutError> {
        let Some(mut state) = self.workloads.get(workload).cloned() else {
            return Ok(());
        };
        let Some(failed) = state.next.take() else {
            return Ok(());
        };
        state.revision += 1;
        self.update_deployment(&state, &state.current.image);
        let current = format!("{workload}-{}", state.current.hash);
        let revision = state.revision.to_string();
        self.cluster
            .modify("replicasets", NAMESPACE, &current, |set| {
                set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] =
                    revision.into();
            });
        self.retire(workload, &failed)?;
        self.workloads.insert(state.workload.name, state);
        self.update_status(workload);
        Ok(())
    }

    /// Deletes the pods of a revision and its ReplicaSet: no history is kept.
    fn retire(&mut self, workload: &str, revision: &Revision) -> Result<(), PutError> {
        self.emit_scaled(workload, &revision.hash, revision.pods.len(), 0)?;
        let set = format!("{workload}-{}", revision.hash);
        for pod in &revision.pods {
            self.delete_pod(&set, pod)?;
        }
        self.cluster.delete("replicasets", NAMESPACE, &set);
        Ok(())
    }

    fn complete(&mut self, workload: &str) -> Result<(), PutError> {
        let Some(mut state) = self.workloads.get(workload).cloned() else {
            return Ok(());
        };
        let Some(mut next) = state.next.take() else {
            return Ok(());
        };
        for node in state
            .workload
            .nodes
            .iter()
            .take(state.workload.nodes.len() - 1)
        {
            self.emit_scaled(workload, &next.hash, next.pods.len(), next.pods.len() + 1)?;
            let pod = self.create_pod(state.workload, &next, node)?;
            self.pull_and_start(&pod)?;
            next.pods.push(pod);
        }
        self.retire(workload, &state.current)?;
        state.current = next;
        self.workloads.insert(state.workload.name, state);
        self.update_status(workload);
        Ok(())
    }

    /// Updates the statuses of a deployment and its ReplicaSets.
    fn update_status(&self, workload: &str) {
        let Some(state) = self.workloads.get(workload) else {
            return;
        };
        let mut total = (0, 0);
        let mut updated = 0;
        for revision in [Some(&state.current), state.next.as_ref()]
            .into_iter()
            .flatten()
        {
            let (all, ready) = (revision.pods.len(), self.ready(revision));
            total = (total.0 + all, total.1 + ready);
            updated = all;
            let name = format!("{workload}-{}", revision.hash);
            self.cluster.modify("replicasets", NAMESPACE, &name, |set| {
                set["spec"]["replicas"] = all.into();
                set["status"] = json!({
                    "replicas": all, "fullyLabeledReplicas": all, "readyReplicas": ready,
                    "availableReplicas": ready, "observedGeneration": set["metadata"]["generation"],
                });
            });
        }
        let (all, ready) = total;
        self.cluster
            .modify("deployments", NAMESPACE, workload, |deployment| {
                let status = &mut deployment["status"];
                status["replicas"] = all.into();
                status["updatedReplicas"] = updated.into();
                status["readyReplicas"] = ready.into();
                status["availableReplicas"] = ready.into();
                status["unavailableReplicas"] = (all - ready).into();
            });
    }

    fn ready(&self, revision: &Revision) -> usize {
        let is_ready = |pod: &&String| {
            let pod = self.cluster.get("pods", NAMESPACE, pod);
            pod.is_some_and(|pod| pod["status"]["containerStatuses"][0]["ready"] == true)
        };
        revision.pods.iter().filter(is_ready).count()
    }

    /// The workload of a pod.
    fn workload_of(&self, pod: &Value) -> Option<&WorkloadState> {
        self.workloads
            .get(pod["metadata"]["labels"]["app"].as_str()?)
    }
}
