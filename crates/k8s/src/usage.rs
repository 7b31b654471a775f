//! Current usage of pods and nodes, from the metrics API (metrics.k8s.io).

use std::collections::{BTreeMap, HashMap};

use http::Request;
use kube::api::ListParams;
use serde::{Deserialize, Serialize};

use super::{
    client::{Cluster, list_params},
    error::{ClusterError, ErrorKind, Operation},
    list::{ListQuery, Page, Remaining},
    name::Name,
    quantity,
};

const METRICS_PATH: &str = "/apis/metrics.k8s.io/v1beta1";

/// The sort order of usage; the largest comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsageOrder {
    /// Processor time.
    #[default]
    Cpu,
    /// Memory.
    Memory,
}

/// CPU and memory usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// CPU, in thousandths of a core.
    pub cpu_millicores: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

/// The usage of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodUsage {
    /// Namespace of the pod.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Sum over all containers.
    #[serde(flatten)]
    pub usage: Usage,
    /// Each container, if there are several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<String, Usage>,
}

/// The usage of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeUsage {
    /// Its name.
    pub name: String,
    /// Usage of the node.
    #[serde(flatten)]
    pub usage: Usage,
    /// Usage as a percentage of the allocatable amount.
    pub cpu_percent: Option<u64>,
    /// Usage as a percentage of the allocatable amount.
    pub memory_percent: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Metrics {
    #[serde(default)]
    items: Vec<Metric>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metric {
    metadata: Meta,
    usage: BTreeMap<String, String>,
    containers: Vec<Container>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    namespace: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    name: String,
    usage: BTreeMap<String, String>,
}

// === impl Cluster ===

impl Cluster {
    /// The pods with the highest usage.
    pub async fn pod_usage(
        &self,
        query: &ListQuery,
        order: UsageOrder,
    ) -> Result<Page<PodUsage>, ClusterError> {
        let ask = async |namespace: Option<Name>| {
            let path = match &namespace {
                Some(namespace) => format!("{METRICS_PATH}/namespaces/{namespace}/pods"),
                None => format!("{METRICS_PATH}/pods"),
            };
            self.metrics("pods.metrics.k8s.io", &path, namespace.as_ref(), query)
                .await
        };
        let answers = self.each_namespace(query.namespace.as_ref(), ask).await?;
        let pods = answers.all.into_iter().flatten().map(pod_usage).collect();
        let mut page = top(pods, query.limit, |pod: &PodUsage| {
            pod.usage.sort_key(order)
        });
        page.caveat = answers.caveat;
        Ok(page)
    }

    /// The nodes with the highest usage.
    pub async fn node_usage(
        &self,
        query: &ListQuery,
        order: UsageOrder,
    ) -> Result<Page<NodeUsage>, ClusterError> {
        let path = format!("{METRICS_PATH}/nodes");
        let metrics = self
            .metrics("nodes.metrics.k8s.io", &path, None, query)
            .await?;
        let all_nodes = ListQuery {
            label_selector: query.label_selector.clone(),
            limit: 10_000,
            ..ListQuery::default()
        };
        let (capacities, caveat) = match self.nodes(&all_nodes).await {
            Ok(page) => (page.items, None),
            Err(error) => (Vec::new(), Some(format!("no percentages: {error}"))),
        };
        let capacities: HashMap<_, _> = capacities
            .iter()
            .map(|node| {
                (
                    node.name.as_str(),
                    Usage::of(Some(&node.cpu), Some(&node.memory)),
                )
            })
            .collect();
        let percent = |part: u64, whole: u64| (whole > 0).then(|| part.saturating_mul(100) / whole);
        let nodes = metrics.into_iter().map(|metric| {
            let usage = Usage::read(&metric.usage);
            let capacity = capacities.get(metric.metadata.name.as_str());
            NodeUsage {
                usage,
                cpu_percent: capacity
                    .and_then(|capacity| percent(usage.cpu_millicores, capacity.cpu_millicores)),
                memory_percent: capacity
                    .and_then(|capacity| percent(usage.memory_bytes, capacity.memory_bytes)),
                name: metric.metadata.name,
            }
        });
        let nodes = nodes.collect();
        let mut page = top(nodes, query.limit, |node: &NodeUsage| {
            node.usage.sort_key(order)
        });
        page.caveat = caveat;
        Ok(page)
    }

    /// Reads all metrics in one request: metrics-server does not support pages.
    async fn metrics(
        &self,
        resource: &str,
        path: &str,
        namespace: Option<&Name>,
        query: &ListQuery,
    ) -> Result<Vec<Metric>, ClusterError> {
        let operation = Operation {
            verb: "list",
            resource,
            name: None,
            namespace: namespace.map(Name::as_str),
            context: self.context(),
        };
        let params = list_params(query.label_selector.as_deref(), None);
        let metrics: Metrics = self
            .raw(
                &operation,
                request(&operation, path, &params)?,
                "application/json",
            )
            .await
            .map_err(|error| explain_missing_api(&operation, error))?;
        Ok(metrics.items)
    }
}

fn request(
    operation: &Operation<'_>,
    path: &str,
    params: &ListParams,
) -> Result<Request<Vec<u8>>, ClusterError> {
    kube::core::Request::new(path)
        .list(params)
        .map_err(|error| ClusterError::from_kube(operation, &kube::Error::BuildRequest(error)))
}

/// Explains an error where the metrics API is missing: most clusters that fail here have no
/// metrics-server.
fn explain_missing_api(operation: &Operation<'_>, error: ClusterError) -> ClusterError {
    let (reason, hint) = match error.kind() {
        ErrorKind::NotFound => (
            "the cluster has no metrics API (metrics.k8s.io)",
            "install metrics-server, or look at the requests and limits with pods_get",
        ),
        ErrorKind::Unreachable => (
            "the cluster's metrics API is registered, but nobody answers behind it",
            "look at metrics-server: pods_list in kube-system, resources_get of the APIService \
             v1beta1.metrics.k8s.io",
        ),
        _ => return error,
    };
    ClusterError::new(
        error.kind(),
        operation.to_string(),
        reason,
        Some(hint.to_owned()),
    )
}

fn pod_usage(metric: Metric) -> PodUsage {
    let mut usage = Usage::default();
    let mut containers = BTreeMap::new();
    for container in metric.containers {
        let container_usage = Usage::read(&container.usage);
        usage.cpu_millicores = usage
            .cpu_millicores
            .saturating_add(container_usage.cpu_millicores);
        usage.memory_bytes = usage
            .memory_bytes
            .saturating_add(container_usage.memory_bytes);
        containers.insert(container.name, container_usage);
    }
    if containers.len() < 2 {
        containers.clear();
    }
    PodUsage {
        namespace: metric.metadata.namespace,
        name: metric.metadata.name,
        usage,
        containers,
    }
}

fn top<T>(mut items: Vec<T>, limit: usize, key: impl Fn(&T) -> u64) -> Page<T> {
    items.sort_by_key(|item| std::cmp::Reverse(key(item)));
    let left = items.len().saturating_sub(limit);
    items.truncate(limit);
    Page::new(items, Remaining::Exactly(left))
}

// === impl Usage ===

impl Usage {
    fn read(quantities: &BTreeMap<String, String>) -> Self {
        let quantity = |resource: &str| quantities.get(resource).map(String::as_str);
        Self::of(quantity("cpu"), quantity("memory"))
    }

    fn of<S: AsRef<str>>(cpu: Option<S>, memory: Option<S>) -> Self {
        let parse = |text: Option<S>| text.and_then(|text| quantity::parse(text.as_ref()));
        Self {
            cpu_millicores: round_up(parse(cpu).unwrap_or_default() * 1000.0),
            memory_bytes: round_up(parse(memory).unwrap_or_default()),
        }
    }

    fn sort_key(self, order: UsageOrder) -> u64 {
        match order {
            UsageOrder::Cpu => self.cpu_millicores,
            UsageOrder::Memory => self.memory_bytes,
        }
    }
}

/// Rounds up, as kubectl does: a running container uses something.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a float stops at the bounds"
)]
fn round_up(quantity: f64) -> u64 {
    quantity.ceil() as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_add_up() {
        let metric = json!({"metadata": {"namespace": "a", "name": "b"}, "containers": [
            {"name": "app", "usage": {"cpu": "1500001n", "memory": "10Mi"}},
            {"name": "proxy", "usage": {"cpu": "0.25", "memory": "512Ki"}},
            {"name": "odd", "usage": {"cpu": "many"}},
        ]});
        let pod = pod_usage(serde_json::from_value(metric).unwrap());
        let expected = Usage {
            cpu_millicores: 252,
            memory_bytes: 11_010_048,
        };
        assert_eq!((pod.usage, pod.containers.len()), (expected, 3));
    }

    #[test]
    fn the_largest_come_first_and_the_rest_is_counted() {
        let page = top(vec![3_u64, 9, 1, 7], 2, |size| *size);
        assert_eq!((page.items, page.more), (vec![9, 7], Remaining::Exactly(2)));
    }
}
