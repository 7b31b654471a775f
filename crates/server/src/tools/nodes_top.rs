//! `nodes_top`: resource usage of nodes.

use rmcp::schemars;
use serde::Deserialize;

use super::{
    Output, ToolContext, ToolEntry, ToolError, arguments, limit,
    pods_top::{SortBy, cpu, memory, order},
    schema,
};
use crate::{cell::Cell, output::Listing};
use kubecrier_k8s::{Cluster, ListQuery, NodeUsage};

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "nodes_top",
    title: "Nodes: top",
    description: "Show current CPU and memory usage of nodes, highest first (needs metrics-server).",
    schema: schema::of::<NodesTopArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schemars(crate = "rmcp::schemars")]
struct NodesTopArgs {
    /// Kubeconfig context
    context: Option<String>,
    /// Label selector
    label_selector: Option<String>,
    /// Sort order (default: cpu)
    sort_by: Option<SortBy>,
    /// Maximum number of rows (1-1000, default 50)
    limit: Option<u32>,
}

const LISTING: Listing<NodeUsage> = Listing {
    header: &["NAME", "CPU", "CPU%", "MEMORY", "MEMORY%"],
    cells: |row| {
        let percent = |part: Option<u64>| part.map(|part| format!("{part}%")).unwrap_or_default();
        vec![
            Cell::name(&row.name),
            Cell::Clean(cpu(row.usage)),
            Cell::Clean(percent(row.cpu_percent)),
            Cell::Clean(memory(row.usage)),
            Cell::Clean(percent(row.memory_percent)),
        ]
    },
    composed: &[],
    plural: "nodes",
    narrow: "narrow by labelSelector, or raise limit",
};

async fn call(context: ToolContext<'_>, args: NodesTopArgs) -> Result<Output, ToolError> {
    let query = &ListQuery {
        label_selector: args.label_selector,
        limit: limit(args.limit, 50, 1000)?,
        ..ListQuery::default()
    };
    let by = order(args.sort_by);
    let request = |cluster: Cluster| async move { cluster.node_usage(query, by).await };
    let page = context
        .with_cluster(args.context.as_deref(), request)
        .await?;
    Ok(LISTING.show(context.redactor, page, context.limits.output_bytes))
}

/// The example of its page: the demo has no metrics.
#[cfg(test)]
pub(super) fn example() -> Output {
    use kubecrier_k8s::{Page, Remaining, Usage};
    let row = |name: &str, cpu_millicores, mebibytes: u64| NodeUsage {
        name: name.to_owned(),
        usage: Usage {
            cpu_millicores,
            memory_bytes: mebibytes << 20,
        },
        cpu_percent: Some(cpu_millicores / 40),
        memory_percent: Some(mebibytes * 100 / 8192),
    };
    let rows = vec![row("node-2", 1480, 6144), row("node-1", 320, 2048)];
    let page = Page::new(rows, Remaining::Exactly(0));
    LISTING.show(&kubecrier_redact::Redactor::default(), page, 64 * 1024)
}
