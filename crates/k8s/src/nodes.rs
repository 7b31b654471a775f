//! Nodes, as a reader wants them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::Api;
use serde::Serialize;

use super::{
    client::Cluster,
    error::{ClusterError, Operation},
    list::{ListQuery, Page},
};

const ROLE: &str = "node-role.kubernetes.io/";

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// Its name.
    pub name: String,
    /// As kubectl shows it: Ready, NotReady, Ready,SchedulingDisabled.
    pub status: String,
    /// What it is for: control-plane, ...
    pub roles: Vec<String>,
    /// What is wrong with it: DiskPressure, ...
    pub problems: Vec<String>,
    /// Keys of taints that keep pods away.
    pub taints: Vec<String>,
    /// The kubelet's version.
    pub version: String,
    /// What pods may use of it, as the node says it.
    pub cpu: String,
    /// The same for memory.
    pub memory: String,
    /// How many pods it takes.
    pub pods: String,
    /// When it was made.
    pub created: Option<Timestamp>,
}

impl Cluster {
    /// The nodes of the cluster.
    pub async fn nodes(&self, query: &ListQuery) -> Result<Page<NodeRow>, ClusterError> {
        let operation = Operation {
            verb: "list",
            resource: "nodes",
            name: None,
            namespace: None,
            context: self.context(),
        };
        let api: Api<Node> = Api::all(self.client());
        let page = self.list(&operation, &api, query).await?;
        Ok(page.map(row))
    }
}

fn row(node: Node) -> NodeRow {
    let spec = node.spec.unwrap_or_default();
    let status = node.status.unwrap_or_default();
    let info = status.node_info.map(|info| info.kubelet_version);
    let conditions = status.conditions.unwrap_or_default();
    let allocatable = status.allocatable.unwrap_or_default();
    let amount = |what: &str| {
        let amount = allocatable.get(what).map(|amount| amount.0.clone());
        amount.unwrap_or_default()
    };
    let labels = node.metadata.labels.unwrap_or_default();
    let roles = labels.keys().filter_map(|key| key.strip_prefix(ROLE));
    let taints = spec.taints.unwrap_or_default().into_iter();
    NodeRow {
        name: node.metadata.name.unwrap_or_default(),
        status: word(&conditions, spec.unschedulable.unwrap_or_default()),
        roles: roles.map(str::to_owned).collect(),
        problems: problems(conditions),
        taints: taints
            .map(|taint| format!("{}:{}", taint.key, taint.effect))
            .collect(),
        version: info.unwrap_or_default(),
        cpu: amount("cpu"),
        memory: amount("memory"),
        pods: amount("pods"),
        created: node.metadata.creation_timestamp.map(|time| time.0),
    }
}

/// kubectl's column STATUS.
pub(super) fn word(conditions: &[NodeCondition], unschedulable: bool) -> String {
    let ready = conditions.iter().find(|one| one.type_ == "Ready");
    let mut word = match ready.map(|one| one.status.as_str()) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if unschedulable {
        word.push_str(",SchedulingDisabled");
    }
    word
}

/// Every condition but Ready is bad news when it is not False.
pub(super) fn problems(conditions: Vec<NodeCondition>) -> Vec<String> {
    let bad = conditions
        .into_iter()
        .filter(|one| match one.type_.as_str() {
            "Ready" => one.status != "True",
            _ => one.status != "False",
        });
    bad.map(|one| {
        let name = match one.type_.as_str() {
            "Ready" => "NotReady",
            name => name,
        };
        match one.reason.as_deref() {
            None | Some("") => name.to_owned(),
            Some(reason) => format!("{name} ({reason})"),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(node: Value) -> NodeRow {
        row(serde_json::from_value(node).unwrap())
    }

    #[test]
    fn a_healthy_node_has_nothing_to_complain_of() {
        let node = parsed(json!({
            "metadata": {"name": "a", "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": "KubeletReady"},
                    {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure"},
                ],
            },
        }));
        assert_eq!((node.status.as_str(), node.problems.len()), ("Ready", 0));
        assert_eq!(node.roles, ["control-plane"]);
        assert_eq!((node.cpu.as_str(), node.memory.as_str()), ("4", "8Gi"));
    }

    #[test]
    fn trouble_is_named() {
        let node = parsed(json!({
            "spec": {"unschedulable": true, "taints": [{"key": "gpu", "effect": "NoSchedule"}]},
            "status": {"conditions": [
                {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"},
                {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure"},
                {"type": "PIDPressure", "status": "Unknown"},
            ]},
        }));
        assert_eq!(node.status, "NotReady,SchedulingDisabled");
        let problems = [
            "NotReady (NodeStatusUnknown)",
            "DiskPressure (KubeletHasDiskPressure)",
            "PIDPressure",
        ];
        assert_eq!(node.problems, problems);
        assert_eq!(node.taints, ["gpu:NoSchedule"]);
        assert_eq!(parsed(json!({})).status, "Unknown");
    }
}
