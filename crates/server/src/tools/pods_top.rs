//! `pods_top`: resource usage of pods, and the text for usage.

use rmcp::schemars;
use serde::Deserialize;

use super::{Output, ToolContext, ToolEntry, ToolError, arguments, limit, namespace, schema};
use crate::{cell::Cell, output::Listing};
use kubecrier_k8s::{Cluster, ListQuery, PodUsage, Usage, UsageOrder};

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "pods_top",
    title: "Pods: top",
    description: "Show current CPU and memory usage of pods, highest first (needs metrics-server).",
    schema: schema::of::<PodsTopArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schemars(crate = "rmcp::schemars")]
struct PodsTopArgs {
    /// Kubeconfig context
    context: Option<String>,
    /// Namespace (default: all)
    namespace: Option<String>,
    /// Label selector
    label_selector: Option<String>,
    /// Sort order (default: cpu)
    sort_by: Option<SortBy>,
    /// Maximum number of rows (1-1000, default 50)
    limit: Option<u32>,
}

/// The order of rows.
#[derive(Clone, Copy, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(crate = "rmcp::schemars")]
pub(super) enum SortBy {
    Cpu,
    Memory,
}

const LISTING: Listing<PodUsage> = Listing {
    header: &["NAMESPACE", "NAME", "CPU", "MEMORY", "CONTAINERS"],
    cells: |row| {
        let each = row.containers.iter().enumerate();
        let each = each.flat_map(|(index, (name, one))| {
            let before = if index == 0 { "" } else { ", " };
            [
                Cell::Clean(before.to_owned()),
                Cell::name(name),
                Cell::Clean(format!(" {} {}", cpu(*one), memory(*one))),
            ]
        });
        vec![
            Cell::name(&row.namespace),
            Cell::name(&row.name),
            Cell::Clean(cpu(row.usage)),
            Cell::Clean(memory(row.usage)),
            Cell::Joined(each.collect()),
        ]
    },
    composed: &[],
    plural: "pods",
    narrow: "narrow by namespace or labelSelector, or raise limit",
};

pub(super) fn order(given: Option<SortBy>) -> UsageOrder {
    match given {
        None | Some(SortBy::Cpu) => UsageOrder::Cpu,
        Some(SortBy::Memory) => UsageOrder::Memory,
    }
}

pub(super) fn cpu(usage: Usage) -> String {
    format!("{}m", usage.cpu_millicores)
}

pub(super) fn memory(usage: Usage) -> String {
    format!("{}Mi", usage.memory_bytes.div_ceil(1024 * 1024))
}

async fn call(context: ToolContext<'_>, args: PodsTopArgs) -> Result<Output, ToolError> {
    let query = &ListQuery {
        namespace: namespace(args.namespace)?,
        label_selector: args.label_selector,
        limit: limit(args.limit, 50, 1000)?,
        ..ListQuery::default()
    };
    let by = order(args.sort_by);
    let request = |cluster: Cluster| async move { cluster.pod_usage(query, by).await };
    let page = context
        .with_cluster(args.context.as_deref(), request)
        .await?;
    Ok(LISTING.show(context.redactor, page, context.limits.output_bytes))
}

/// The example of its page: the demo has no metrics.
#[cfg(test)]
pub(super) fn example() -> Output {
    use kubecrier_k8s::{Page, Remaining};
    let usage = |cpu_millicores, mebibytes: u64| Usage {
        cpu_millicores,
        memory_bytes: mebibytes << 20,
    };
    let row = |name: &str, usage, containers: &[(&str, Usage)]| PodUsage {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        usage,
        containers: (containers.iter())
            .map(|(name, one)| ((*name).to_owned(), *one))
            .collect(),
    };
    let parts = [("web", usage(180, 96)), ("proxy", usage(12, 24))];
    let rows = vec![
        row("checkout-6d5f7c9b8-x2k4q", usage(192, 120), &parts),
        row("payment-7c9d5b6f4-9tqzv", usage(35, 61), &[]),
    ];
    let page = Page::new(rows, Remaining::Exactly(0));
    LISTING.show(&kubecrier_redact::Redactor::default(), page, 64 * 1024)
}
