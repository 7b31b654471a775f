//! `nodes_list`.

use rmcp::schemars;
use serde::Deserialize;

use super::{Entry, Output, ToolContext, ToolError, arguments, limit, schema};
use crate::output::{Listing, age};
use kubecrier_k8s::{Cluster, ListQuery, NodeRow};

pub(super) const ENTRY: Entry = Entry {
    name: "nodes_list",
    title: "Nodes: list",
    description: "List nodes: readiness, what is wrong (DiskPressure, ...), taints, allocatable \
                  CPU, memory and pods.",
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
    /// At most so many (1-1000, default 100)
    limit: Option<u32>,
}

const LISTING: Listing<NodeRow> = Listing {
    header: &[
        "NAME", "STATUS", "ROLES", "AGE", "VERSION", "CPU", "MEMORY", "PODS", "TAINTS", "PROBLEMS",
    ],
    cells: |row| {
        vec![
            row.name.clone(),
            row.status.clone(),
            row.roles.join(","),
            age(row.created),
            row.version.clone(),
            row.cpu.clone(),
            row.memory.clone(),
            row.pods.clone(),
            row.taints.join(","),
            row.problems.join(", "),
        ]
    },
    plural: "nodes",
    narrow: "narrow by labelSelector, or raise limit",
};

async fn call(context: ToolContext<'_>, args: Args) -> Result<Output, ToolError> {
    let query = &ListQuery {
        label_selector: args.label_selector,
        limit: limit(args.limit, 100, 1000)?,
        ..ListQuery::default()
    };
    let ask = |cluster: Cluster| async move { cluster.nodes(query).await };
    let page = context.ask(args.context.as_deref(), ask).await?;
    Ok(LISTING.show(page, context.limits.output_bytes))
}
