//! `nodes_list`.

use rmcp::schemars;
use serde::Deserialize;

use super::{Output, ToolContext, ToolEntry, ToolError, arguments, limit, schema};
use crate::{
    cell::Cell,
    output::{Listing, age},
};
use kubecrier_k8s::{Cluster, ListQuery, NodeRow};

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "nodes_list",
    title: "Nodes: list",
    description: "List nodes: readiness, problems (DiskPressure, ...), taints, allocatable CPU, \
                  memory and pods.",
    schema: schema::of::<NodesListArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schemars(crate = "rmcp::schemars")]
struct NodesListArgs {
    /// Kubeconfig context
    context: Option<String>,
    /// Label selector
    label_selector: Option<String>,
    /// Maximum number of rows (1-1000, default 100)
    limit: Option<u32>,
}

const LISTING: Listing<NodeRow> = Listing {
    header: &[
        "NAME", "STATUS", "ROLES", "AGE", "VERSION", "CPU", "MEMORY", "PODS", "TAINTS", "PROBLEMS",
    ],
    cells: |row| {
        vec![
            Cell::name(&row.name),
            Cell::word(&row.status),
            Cell::Text(row.roles.join(",")),
            Cell::Clean(age(row.created)),
            Cell::text(&row.version),
            Cell::text(&row.cpu),
            Cell::text(&row.memory),
            Cell::text(&row.pods),
            Cell::Text(row.taints.join(",")),
            Cell::Text(row.problems.join(", ")),
        ]
    },
    composed: &[],
    plural: "nodes",
    narrow: "narrow by labelSelector, or raise limit",
};

async fn call(context: ToolContext<'_>, args: NodesListArgs) -> Result<Output, ToolError> {
    let query = &ListQuery {
        label_selector: args.label_selector,
        limit: limit(args.limit, 100, 1000)?,
        ..ListQuery::default()
    };
    let request = |cluster: Cluster| async move { cluster.nodes(query).await };
    let page = context
        .with_cluster(args.context.as_deref(), request)
        .await?;
    Ok(LISTING.show(context.redactor, page, context.limits.output_bytes))
}
