//! Nodes as rows of a list.

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
    /// Name of the node.
    pub name: String,
    /// As kubectl shows it: Ready, NotReady, Ready,SchedulingDisabled.
    pub status: String,
    /// Roles by its labels: control-plane, ...
    pub roles: Vec<String>,
    /// Conditions that are not healthy: DiskPressure, ...
    pub problems: Vec<String>,
    /// Taints, as key and effect.
    pub taints: Vec<String>,
    /// Version of the kubelet.
    pub version: String,
    /// Allocatable CPU, as a quantity.
    pub cpu: String,
    /// Allocatable memory, as a quantity.
    pub memory: String,
    /// Allocatable pods.
    pub pods: String,
    /// Creation time.
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
    let amount = |resource: &str| {
        let amount = allocatable.get(resource).map(|amount| amount.0.clone());
        amount.unwrap_or_default()
    };
    let labels = node.metadata.labels.unwrap_or_default();
    let roles = labels.keys().filter_map(|key| key.strip_prefix(ROLE));
    let taints = spec.taints.unwrap_or_default().into_iter();
    NodeRow {
        name: node.metadata.name.unwrap_or_default(),
        status: status_column(&conditions, spec.unschedulable.unwrap_or_default()),
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

/// The column STATUS of kubectl.
pub(super) fn status_column(conditions: &[NodeCondition], unschedulable: bool) -> String {
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready");
    let mut status_column = match ready.map(|condition| condition.status.as_str()) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if unschedulable {
        status_column.push_str(",SchedulingDisabled");
    }
    status_column
}

/// The conditions that are not healthy: every one but Ready should be False.
pub(super) fn problems(conditions: Vec<NodeCondition>) -> Vec<String> {
    let unhealthy = conditions
        .into_iter()
        .filter(|condition| match condition.type_.as_str() {
            "Ready" => condition.status != "True",
            _ => condition.status != "False",
        });
    unhealthy
        .map(|condition| {
            let name = match condition.type_.as_str() {
                "Ready" => "NotReady",
                name => name,
            };
            match condition.reason.as_deref() {
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
