//! `nodes_top`: which nodes use most.

use rmcp::schemars;
use serde::Deserialize;

use super::{
    Entry, Output, ToolContext, ToolError, arguments, limit,
    pods_top::{SortBy, cpu, memory, order},
    schema,
};
use crate::output::Listing;
use kubecrier_k8s::{Cluster, ListQuery, NodeUsage};

pub(super) const ENTRY: Entry = Entry {
    name: "nodes_top",
    title: "Nodes: top",
    description: "CPU and memory that nodes use now, largest first (needs metrics-server).",
    idempotent: true,
    schema: schema::of::<Args>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schemars(crate = "rmcp::schemars")]
struct Args {
    /// Context of the kubeconfig
    context: Option<String>,
    /// As `kubectl -l`
    label_selector: Option<String>,
    /// Sort by (default: cpu)
    sort_by: Option<SortBy>,
    /// At most so many (1-1000, default 50)
    limit: Option<u32>,
}

const LISTING: Listing<NodeUsage> = Listing {
    header: &["NAME", "CPU", "CPU%", "MEMORY", "MEMORY%"],
    cells: |row| {
        let percent = |part: Option<u64>| part.map(|part| format!("{part}%")).unwrap_or_default();
        vec![
            row.name.clone(),
            cpu(row.usage),
            percent(row.cpu_percent),
            memory(row.usage),
            percent(row.memory_percent),
        ]
    },
    plural: "nodes",
    narrow: "narrow by labelSelector, or raise limit",
};

async fn call(context: ToolContext<'_>, args: Args) -> Result<Output, ToolError> {
    let query = &ListQuery {
        label_selector: args.label_selector,
        limit: limit(args.limit, 50, 1000)?,
        ..ListQuery::default()
    };
    let by = order(args.sort_by);
    let ask = |cluster: Cluster| async move { cluster.node_usage(query, by).await };
    let page = context.ask(args.context.as_deref(), ask).await?;
    Ok(LISTING.show(page, context.limits.output_bytes))
}

/// What it answers, for its page: the demo has no metrics.
#[cfg(test)]
pub(super) fn example() -> Output {
    use kubecrier_k8s::{More, Page, Usage};
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
    let page = Page::new(rows, More::Exactly(0));
    LISTING.show(page, 64 * 1024)
}
