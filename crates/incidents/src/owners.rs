//! Who owns what. A reference says so; where references were left out or lead to what cannot be
//! read, names and labels do. In a live cluster a controller adopts what it selects, so nothing
//! stays without a reference that one of the same name would select.

use std::{borrow::Cow, sync::Arc};

use crate::{
    objects::{Meta, Object, ObjectRef, selects},
    state::State,
    store::Store,
};

/// Owners between an object and the one on top of it, at most.
const OWNERS_MAX: usize = 6;

/// Kinds that have pods, directly or through others. A custom resource above a Deployment
/// configures it, and is none.
const WORKLOADS: [&str; 6] = [
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
];

/// The kind and the name of an owner.
type Owner = (Cow<'static, str>, Arc<str>);

// === impl State ===

impl State {
    /// The object on top of the owners of one: the Deployment of a pod.
    pub fn top_owner(&self, id: &ObjectRef, meta: &Meta) -> ObjectRef {
        let mut top = id.clone();
        let mut owner = self.owner(&id.kind, meta);
        for _ in 0..OWNERS_MAX {
            let Some((kind, name)) = owner else { break };
            owner = self.above(&kind, &id.namespace, &name, meta);
            top = ObjectRef {
                namespace: Arc::clone(&id.namespace),
                kind,
                name,
            };
        }
        top
    }

    /// The kind and the name of the owner of an object.
    pub(crate) fn owner(&self, kind: &str, meta: &Meta) -> Option<Owner> {
        let Some(owner) = meta.controller() else {
            return self.likely_owner(kind, meta);
        };
        // A node "owns" its static pods; they stand for themselves.
        if &*owner.kind == "Node" {
            return None;
        }
        Some((known(&owner.kind), Arc::clone(&owner.name)))
    }

    /// The owner of an owner of `below`, if it is a workload.
    fn above(&self, kind: &str, namespace: &str, name: &str, below: &Meta) -> Option<Owner> {
        let meta = match kind {
            "ReplicaSet" => match self.replica_sets.get(namespace, name) {
                Some(set) => Some(&set.metadata),
                None => return self.unread_revision(name, below),
            },
            "Deployment" => meta(&self.deployments, namespace, name),
            "StatefulSet" => meta(&self.stateful_sets, namespace, name),
            "DaemonSet" => meta(&self.daemon_sets, namespace, name),
            "Job" => meta(&self.jobs, namespace, name),
            _ => None,
        };
        let owner = self.owner(kind, meta?)?;
        // What is above a ReplicaSet is a workload, also if it is a custom resource.
        (kind == "ReplicaSet" || WORKLOADS.contains(&&*owner.0)).then_some(owner)
    }

    /// The Deployment of a ReplicaSet that cannot be read, by the hash in its name.
    fn unread_revision(&self, name: &str, pod: &Meta) -> Option<Owner> {
        let hash = pod.label("pod-template-hash")?;
        let name = name.strip_suffix(hash)?.strip_suffix('-')?;
        let deployment = self.deployments.get(&pod.namespace, name)?;
        let name = Arc::clone(&deployment.metadata.name);
        Some((Cow::Borrowed("Deployment"), name))
    }

    /// The owner of an object without a reference: one whose name its own begins with, and that
    /// selects it.
    fn likely_owner(&self, kind: &str, meta: &Meta) -> Option<Owner> {
        if !matches!(kind, "Pod" | "ReplicaSet" | "Job") || !meta.owner_references.is_empty() {
            return None;
        }
        let (name, end) = meta.name.rsplit_once('-')?;
        let namespace = &*meta.namespace;
        let found =
            |kind: &'static str, owner: &Meta| (Cow::Borrowed(kind), Arc::clone(&owner.name));
        if kind == "Job" {
            // The controller numbers Jobs by the minutes since 1970.
            let is_number = end.len() >= 8 && end.bytes().all(|one| one.is_ascii_digit());
            let one = self.cron_jobs.get(namespace, name)?;
            return is_number.then(|| found("CronJob", &one.metadata));
        }
        if kind == "ReplicaSet" {
            // Argo's Rollouts label what they own, and are not read.
            let hash = meta.label("rollouts-pod-template-hash");
            if hash == Some(end) {
                return Some((Cow::Borrowed("Rollout"), name.into()));
            }
            let one = self.deployments.get(namespace, name)?;
            let is_mine = selects(&one.spec.selector.match_labels, &meta.labels);
            return is_mine.then(|| found("Deployment", &one.metadata));
        }
        if let Some(one) = self.replica_sets.get(namespace, name) {
            let is_mine = selects(&one.spec.selector.match_labels, &meta.labels);
            return is_mine.then(|| found("ReplicaSet", &one.metadata));
        }
        if let Some(one) = self.stateful_sets.get(namespace, name) {
            let is_mine = selects(&one.spec.selector.match_labels, &meta.labels);
            return is_mine.then(|| found("StatefulSet", &one.metadata));
        }
        if let Some(one) = self.daemon_sets.get(namespace, name) {
            let is_mine = selects(&one.spec.selector.match_labels, &meta.labels);
            return is_mine.then(|| found("DaemonSet", &one.metadata));
        }
        let job = meta.label("job-name")?;
        let job = self.jobs.get(namespace, job)?;
        Some(found("Job", &job.metadata))
    }
}

fn meta<'a, T: Object>(store: &'a Store<T>, namespace: &str, name: &str) -> Option<&'a Meta> {
    store.get(namespace, name).map(|object| object.meta())
}

/// A kind without a copy of its name, if it is a usual one.
fn known(kind: &str) -> Cow<'static, str> {
    let usual = WORKLOADS.into_iter().find(|one| *one == kind);
    usual.map_or_else(|| Cow::Owned(kind.to_owned()), Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn top(objects: impl IntoIterator<Item = Value>) -> String {
        let mut state = State::default();
        for object in objects {
            state.apply_json(object).unwrap();
        }
        let pod = state.pods.iter().next().unwrap();
        let top = state.top_owner(&pod.object_ref(), &pod.metadata);
        top.to_string()
    }

    fn object(kind: &str, name: &str, owner: Option<(&str, &str)>) -> Value {
        let labels = json!({"app": "web", "pod-template-hash": "5d9"});
        let owners: Vec<_> = owner
            .map(|(kind, name)| json!({"kind": kind, "name": name, "controller": true}))
            .into_iter()
            .collect();
        json!({
            "kind": kind,
            "metadata": {"namespace": "shop", "name": name, "labels": labels, "ownerReferences": owners},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
        })
    }

    #[test]
    fn the_owner_on_top_is_found_by_references() {
        let deployment = || object("Deployment", "web", Some(("Platform", "shop")));
        let set = || object("ReplicaSet", "web-5d9", Some(("Deployment", "web")));
        let pod = || object("Pod", "web-5d9-x", Some(("ReplicaSet", "web-5d9")));
        assert_eq!(top([deployment(), set(), pod()]), "shop/deployment/web");
        // ReplicaSets may not be read.
        assert_eq!(top([deployment(), pod()]), "shop/deployment/web");
        assert_eq!(top([pod()]), "shop/replicaset/web-5d9");
        let mirror = object("Pod", "etcd-master", Some(("Node", "master")));
        assert_eq!(top([mirror]), "shop/pod/etcd-master");
        let custom = object("Pod", "db-0", Some(("Cluster", "db")));
        assert_eq!(top([custom]), "shop/cluster/db");
    }

    #[test]
    fn what_has_no_reference_belongs_to_who_would_adopt_it() {
        let pod = || object("Pod", "web-5d9-x", None);
        let set = || object("ReplicaSet", "web-5d9", None);
        let deployment = || object("Deployment", "web", None);
        assert_eq!(top([deployment(), set(), pod()]), "shop/deployment/web");
        let mut other = set();
        other["spec"]["selector"]["matchLabels"]["app"] = "api".into();
        assert_eq!(top([deployment(), other, pod()]), "shop/pod/web-5d9-x");
        let numbered = || object("Pod", "web-0", None);
        assert_eq!(
            top([object("StatefulSet", "web", None), numbered()]),
            "shop/statefulset/web"
        );
        assert_eq!(top([deployment(), numbered()]), "shop/pod/web-0");
        let mut pod = object("Pod", "web-29001234-x", None);
        pod["metadata"]["labels"]["job-name"] = "web-29001234".into();
        let job = object("Job", "web-29001234", None);
        let cron = object("CronJob", "web", None);
        assert_eq!(top([cron, job.clone(), pod.clone()]), "shop/cronjob/web");
        assert_eq!(top([job, pod]), "shop/job/web-29001234");
    }
}
