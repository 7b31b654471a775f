//! What pods and nodes use now, as the metrics API (metrics.k8s.io) has it.

use std::collections::{BTreeMap, HashMap};

use http::Request;
use kube::api::ListParams;
use serde::{Deserialize, Serialize};

use super::{
    client::{Cluster, list_params},
    error::{ClusterError, ErrorKind, Operation},
    list::{ListQuery, More, Page},
    name::Name,
    quantity,
};

const ROOT: &str = "/apis/metrics.k8s.io/v1beta1";

/// What to sort by; the largest comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsageOrder {
    /// Processor time.
    #[default]
    Cpu,
    /// Memory.
    Memory,
}

/// What something uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Thousandths of a processor.
    pub cpu_millicores: u64,
    /// Bytes.
    pub memory_bytes: u64,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodUsage {
    /// Where it lives.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// All containers together.
    #[serde(flatten)]
    pub usage: Usage,
    /// Each container, if there are several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<String, Usage>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeUsage {
    /// Its name.
    pub name: String,
    /// What it uses.
    #[serde(flatten)]
    pub usage: Usage,
    /// The same as part of what pods may use.
    pub cpu_percent: Option<u64>,
    /// The same as part of what pods may use.
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
    /// The pods that use most.
    pub async fn pod_usage(
        &self,
        query: &ListQuery,
        order: UsageOrder,
    ) -> Result<Page<PodUsage>, ClusterError> {
        let namespace = query.namespace.as_ref();
        let path = match namespace {
            Some(namespace) => format!("{ROOT}/namespaces/{namespace}/pods"),
            None => format!("{ROOT}/pods"),
        };
        let metrics = self
            .metrics("pods.metrics.k8s.io", &path, namespace, query)
            .await?;
        let pods = metrics.into_iter().map(pod_usage).collect();
        Ok(largest(pods, query.limit, |pod: &PodUsage| {
            pod.usage.in_order(order)
        }))
    }

    /// The nodes that use most.
    pub async fn node_usage(
        &self,
        query: &ListQuery,
        order: UsageOrder,
    ) -> Result<Page<NodeUsage>, ClusterError> {
        let path = format!("{ROOT}/nodes");
        let metrics = self
            .metrics("nodes.metrics.k8s.io", &path, None, query)
            .await?;
        let everything = ListQuery {
            label_selector: query.label_selector.clone(),
            limit: 10_000,
            ..ListQuery::default()
        };
        let (sizes, caveat) = match self.nodes(&everything).await {
            Ok(page) => (page.items, None),
            Err(error) => (Vec::new(), Some(format!("no percentages: {error}"))),
        };
        let sizes: HashMap<_, _> = sizes
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
            let size = sizes.get(metric.metadata.name.as_str());
            NodeUsage {
                usage,
                cpu_percent: size
                    .and_then(|size| percent(usage.cpu_millicores, size.cpu_millicores)),
                memory_percent: size
                    .and_then(|size| percent(usage.memory_bytes, size.memory_bytes)),
                name: metric.metadata.name,
            }
        });
        let nodes = nodes.collect();
        let mut page = largest(nodes, query.limit, |node: &NodeUsage| {
            node.usage.in_order(order)
        });
        page.caveat = caveat;
        Ok(page)
    }

    /// A metrics server knows nothing of pages: all come at once.
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
        let selected = list_params(query.label_selector.as_deref(), None);
        let answer: Metrics = self
            .raw(
                &operation,
                request(&operation, path, &selected)?,
                "application/json",
            )
            .await
            .map_err(|error| absent(&operation, error))?;
        Ok(answer.items)
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

/// Most clusters that fail here have never had a metrics server.
fn absent(operation: &Operation<'_>, error: ClusterError) -> ClusterError {
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
        let one = Usage::read(&container.usage);
        usage.cpu_millicores = usage.cpu_millicores.saturating_add(one.cpu_millicores);
        usage.memory_bytes = usage.memory_bytes.saturating_add(one.memory_bytes);
        containers.insert(container.name, one);
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

fn largest<T>(mut items: Vec<T>, limit: usize, size: impl Fn(&T) -> u64) -> Page<T> {
    items.sort_by_key(|item| std::cmp::Reverse(size(item)));
    let left = items.len().saturating_sub(limit);
    items.truncate(limit);
    Page::new(items, More::Exactly(left))
}

// === impl Usage ===

impl Usage {
    fn read(amounts: &BTreeMap<String, String>) -> Self {
        let amount = |what: &str| amounts.get(what).map(String::as_str);
        Self::of(amount("cpu"), amount("memory"))
    }

    fn of<S: AsRef<str>>(cpu: Option<S>, memory: Option<S>) -> Self {
        let amount = |text: Option<S>| text.and_then(|text| quantity::parse(text.as_ref()));
        Self {
            cpu_millicores: whole(amount(cpu).unwrap_or_default() * 1000.0),
            memory_bytes: whole(amount(memory).unwrap_or_default()),
        }
    }

    fn in_order(self, order: UsageOrder) -> u64 {
        match order {
            UsageOrder::Cpu => self.cpu_millicores,
            UsageOrder::Memory => self.memory_bytes,
        }
    }
}

/// Rounded up, as kubectl does: what runs uses something.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a float stops at the bounds"
)]
fn whole(amount: f64) -> u64 {
    amount.ceil() as u64
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
        let page = largest(vec![3_u64, 9, 1, 7], 2, |size| *size);
        assert_eq!((page.items, page.more), (vec![9, 7], More::Exactly(2)));
    }
}
