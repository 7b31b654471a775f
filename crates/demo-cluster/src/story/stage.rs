//! The stage: controllers, scheduler and kubelets, for one line of the script.

mod kubelet;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    DemoCluster, Occurrence, clock,
    random::Random,
    store::Rejected,
    story::{
        cast::{NAMESPACE, NAMESPACES, NODES, VISITS, WORKLOADS, Workload},
        objects::{self, PodPlan},
        script::Act,
    },
};

pub(super) struct Stage {
    cluster: DemoCluster,
    random: Random,
    players: BTreeMap<&'static str, Player>,
    /// The node whose disk is full.
    full: Option<String>,
    /// What was evicted and is still to be seen.
    evicted: Vec<String>,
    round: u32,
}

/// A workload as it stands now.
#[derive(Clone, Debug)]
struct Player {
    workload: &'static Workload,
    revision: u64,
    current: Template,
    /// What is being rolled out.
    next: Option<Template>,
}

/// A pod template: a ReplicaSet, in Kubernetes.
#[derive(Clone, Debug)]
struct Template {
    hash: String,
    image: String,
    pods: Vec<String>,
}

// === impl Stage ===

impl Stage {
    pub(super) fn set_up(cluster: &DemoCluster, seed: u64) -> Result<Self, Rejected> {
        let mut stage = Self {
            cluster: cluster.clone(),
            random: Random::new(seed),
            players: BTreeMap::new(),
            full: None,
            evicted: Vec::new(),
            round: 0,
        };
        let now = stage.now();
        for name in NAMESPACES {
            cluster.put(objects::namespace(name))?;
        }
        for (name, address) in NODES {
            cluster.put(objects::node(name, address, &now))?;
        }
        for workload in &WORKLOADS {
            stage.enter(workload)?;
        }
        Ok(stage)
    }

    pub(super) fn perform(&mut self, act: &Act) -> Result<(), Rejected> {
        self.receive_customers();
        match *act {
            Act::RollOut { workload, image } => {
                let image = image.replace("{round}", &self.round.to_string());
                self.roll_out(workload, image)
            }
            Act::Start { workload } => self.on_newest(workload, Self::pull_and_start),
            Act::Crash { workload } => self.on_newest(workload, |stage, pod| {
                stage.crash(pod);
                Ok(())
            }),
            Act::Restart { workload } => self.on_newest(workload, Self::restart),
            Act::BackOff { workload, seconds } => {
                self.on_newest(workload, |stage, pod| stage.back_off(pod, seconds))
            }
            Act::PullFails { workload } => self.on_newest(workload, Self::fail_to_pull),
            Act::PullBacksOff { workload } => self.on_newest(workload, Self::back_off_pulling),
            Act::RollBack { workload } => self.roll_back(workload),
            Act::Complete { workload } => self.complete(workload),
            Act::FillDisk { under } => self.fill_disk(under),
            Act::Evict { workload } => self.evict(workload),
            Act::Replace { workload } => self.replace(workload),
            Act::Place { workload } => self.on_newest(workload, Self::place),
            Act::FreeDisk => self.free_disk(),
            Act::Rest => Ok(()),
        }
    }

    pub(super) fn end_round(&mut self) {
        self.round += 1;
    }

    /// The shop is open all the while; nobody can pay while payment is rolled out.
    fn receive_customers(&mut self) {
        let Some(shop) = self.players.get("frontend").cloned() else {
            return;
        };
        let broken = self
            .players
            .get("payment")
            .is_some_and(|player| player.next.is_some());
        for pod in &shop.current.pods {
            for visit in VISITS {
                let took = 3 + self.random.below(90);
                let status = if broken && visit.ends_with("checkout") {
                    503
                } else {
                    200
                };
                let line = format!("{visit} {status} {took}ms");
                self.cluster.log(NAMESPACE, pod, shop.workload.name, &line);
            }
        }
    }

    fn now(&self) -> String {
        clock::seconds(self.cluster.now())
    }

    fn emit(&self, occurrence: &Occurrence) -> Result<(), Rejected> {
        self.cluster.emit(occurrence).map(drop)
    }

    /// Does something with the pod that is newest, in a rollout the first of it.
    fn on_newest(
        &mut self,
        workload: &str,
        act: impl FnOnce(&mut Self, &str) -> Result<(), Rejected>,
    ) -> Result<(), Rejected> {
        let newest = self.players.get(workload).and_then(|player| {
            let template = player.next.as_ref().unwrap_or(&player.current);
            template.pods.last().cloned()
        });
        newest.map_or(Ok(()), |pod| act(self, &pod))
    }

    /// A workload as it was before the story: whole and well.
    fn enter(&mut self, workload: &'static Workload) -> Result<(), Rejected> {
        let now = self.now();
        self.cluster.put(objects::service(workload))?;
        let deployment = self.cluster.put(objects::deployment(workload, &now))?;
        let hash = self.hash();
        self.cluster
            .put(objects::replica_set(&deployment, &hash, workload.image, 1))?;
        let mut player = Player {
            workload,
            revision: 1,
            current: Template {
                hash,
                image: workload.image.to_owned(),
                pods: Vec::new(),
            },
            next: None,
        };
        for node in workload.nodes {
            let pod = self.make_pod(workload, &player.current.clone(), node)?;
            self.run(&pod);
            player.current.pods.push(pod);
        }
        self.players.insert(workload.name, player);
        self.settle(workload.name);
        Ok(())
    }

    fn hash(&mut self) -> String {
        self.random.suffix(9)
    }

    fn make_pod(
        &mut self,
        workload: &'static Workload,
        template: &Template,
        node: &str,
    ) -> Result<String, Rejected> {
        let replica_set = format!("{}-{}", workload.name, template.hash);
        let name = format!("{replica_set}-{}", self.random.suffix(5));
        let owner = self.cluster.get("replicasets", NAMESPACE, &replica_set);
        let owner = owner
            .map(|owner| owner["metadata"]["uid"].clone())
            .unwrap_or_default();
        self.cluster.put(objects::pod(&PodPlan {
            name: &name,
            workload: workload.name,
            hash: &template.hash,
            image: &template.image,
            port: workload.port,
            node,
            replica_set_uid: &owner,
            now: &self.now(),
        }))?;
        Ok(name)
    }

    /// A pod that a ReplicaSet makes while everybody watches.
    fn create_pod(
        &mut self,
        workload: &'static Workload,
        template: &Template,
        node: &str,
    ) -> Result<String, Rejected> {
        let pod = self.make_pod(workload, template, node)?;
        let replica_set = format!("ReplicaSet/{}-{}", workload.name, template.hash);
        let made = format!("Created pod: {pod}");
        self.emit(
            &Occurrence::normal(NAMESPACE, &replica_set, "SuccessfulCreate", &made)
                .from("replicaset-controller"),
        )?;
        if !node.is_empty() {
            self.bound(&pod, node)?;
        }
        Ok(pod)
    }

    fn bound(&self, pod: &str, node: &str) -> Result<(), Rejected> {
        let message = format!("Successfully assigned {NAMESPACE}/{pod} to {node}");
        self.emit(
            &Occurrence::normal(NAMESPACE, &format!("Pod/{pod}"), "Scheduled", &message)
                .from("default-scheduler"),
        )
    }

    fn delete_pod(&mut self, replica_set: &str, pod: &str) -> Result<(), Rejected> {
        let gone = format!("Deleted pod: {pod}");
        self.emit(
            &Occurrence::normal(
                NAMESPACE,
                &format!("ReplicaSet/{replica_set}"),
                "SuccessfulDelete",
                &gone,
            )
            .from("replicaset-controller"),
        )?;
        self.stop(pod)?;
        self.cluster.delete("pods", NAMESPACE, pod);
        Ok(())
    }

    fn scaled(&self, workload: &str, hash: &str, from: usize, to: usize) -> Result<(), Rejected> {
        let way = if to > from { "up" } else { "down" };
        let message = format!("Scaled {way} replica set {workload}-{hash} from {from} to {to}");
        self.emit(
            &Occurrence::normal(
                NAMESPACE,
                &format!("Deployment/{workload}"),
                "ScalingReplicaSet",
                &message,
            )
            .from("deployment-controller"),
        )
    }

    fn roll_out(&mut self, workload: &str, image: String) -> Result<(), Rejected> {
        let Some(mut player) = self.players.get(workload).cloned() else {
            return Ok(());
        };
        player.revision += 1;
        self.describe(&player, &image);
        let template = Template {
            hash: self.hash(),
            image,
            pods: Vec::new(),
        };
        if let Some(deployment) = self.cluster.get("deployments", NAMESPACE, workload) {
            let set = objects::replica_set(
                &deployment,
                &template.hash,
                &template.image,
                player.revision,
            );
            self.cluster.put(set)?;
        }
        self.scaled(workload, &template.hash, 0, 1)?;
        let node = player.workload.nodes.last().copied().unwrap_or("node-1");
        let node = if self.full.as_deref() == Some(node) {
            "node-2"
        } else {
            node
        };
        let pod = self.create_pod(player.workload, &template, node)?;
        player.next = Some(Template {
            pods: vec![pod],
            ..template
        });
        self.players.insert(player.workload.name, player);
        self.settle(workload);
        Ok(())
    }

    /// Says in the deployment what it is to be.
    fn describe(&self, player: &Player, image: &str) {
        let revision = player.revision.to_string();
        self.cluster.modify(
            "deployments",
            NAMESPACE,
            player.workload.name,
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

    fn roll_back(&mut self, workload: &str) -> Result<(), Rejected> {
        let Some(mut player) = self.players.get(workload).cloned() else {
            return Ok(());
        };
        let Some(failed) = player.next.take() else {
            return Ok(());
        };
        player.revision += 1;
        self.describe(&player, &player.current.image);
        let current = format!("{workload}-{}", player.current.hash);
        let revision = player.revision.to_string();
        self.cluster
            .modify("replicasets", NAMESPACE, &current, |set| {
                set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] =
                    revision.into();
            });
        self.retire(workload, &failed)?;
        self.players.insert(player.workload.name, player);
        self.settle(workload);
        Ok(())
    }

    /// The pods of a template go, and its ReplicaSet with them: no history is kept.
    fn retire(&mut self, workload: &str, template: &Template) -> Result<(), Rejected> {
        self.scaled(workload, &template.hash, template.pods.len(), 0)?;
        let set = format!("{workload}-{}", template.hash);
        for pod in &template.pods {
            self.delete_pod(&set, pod)?;
        }
        self.cluster.delete("replicasets", NAMESPACE, &set);
        Ok(())
    }

    fn complete(&mut self, workload: &str) -> Result<(), Rejected> {
        let Some(mut player) = self.players.get(workload).cloned() else {
            return Ok(());
        };
        let Some(mut next) = player.next.take() else {
            return Ok(());
        };
        for node in player
            .workload
            .nodes
            .iter()
            .take(player.workload.nodes.len() - 1)
        {
            self.scaled(workload, &next.hash, next.pods.len(), next.pods.len() + 1)?;
            let pod = self.create_pod(player.workload, &next, node)?;
            self.pull_and_start(&pod)?;
            next.pods.push(pod);
        }
        self.retire(workload, &player.current)?;
        player.current = next;
        self.players.insert(player.workload.name, player);
        self.settle(workload);
        Ok(())
    }

    /// Brings the statuses of a deployment and its ReplicaSets up to date.
    fn settle(&self, workload: &str) {
        let Some(player) = self.players.get(workload) else {
            return;
        };
        let mut total = (0, 0);
        let mut updated = 0;
        for template in [Some(&player.current), player.next.as_ref()]
            .into_iter()
            .flatten()
        {
            let (all, ready) = (template.pods.len(), self.ready(template));
            total = (total.0 + all, total.1 + ready);
            updated = all;
            let name = format!("{workload}-{}", template.hash);
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

    fn ready(&self, template: &Template) -> usize {
        let is_ready = |pod: &&String| {
            let pod = self.cluster.get("pods", NAMESPACE, pod);
            pod.is_some_and(|pod| pod["status"]["containerStatuses"][0]["ready"] == true)
        };
        template.pods.iter().filter(is_ready).count()
    }

    /// Which workload a pod is of.
    fn player_of(&self, pod: &Value) -> Option<&Player> {
        self.players.get(pod["metadata"]["labels"]["app"].as_str()?)
    }
}
