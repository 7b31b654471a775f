//! `pods_list`.

use rmcp::schemars;
use serde::Deserialize;

use super::{Output, ToolContext, ToolEntry, ToolError, arguments, limit, namespace, schema};
use crate::{
    cell::Cell,
    output::{Listing, age},
};
use kubecrier_k8s::{Cluster, ListQuery, PodRow};

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "pods_list",
    title: "Pods: list",
    description: "List pods of a namespace, or of all: readiness, status as kubectl shows it \
                  (Running, CrashLoopBackOff, ...), restarts, age, node.",
    schema: schema::of::<PodsListArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schemars(crate = "rmcp::schemars")]
struct PodsListArgs {
    /// Kubeconfig context
    context: Option<String>,
    /// Namespace (default: all)
    namespace: Option<String>,
    /// Label selector, e.g. app=web,tier!=cache
    label_selector: Option<String>,
    /// Field selector, e.g. status.phase=Failed
    field_selector: Option<String>,
    /// Maximum number of rows (1-1000, default 100)
    limit: Option<u32>,
}

const LISTING: Listing<PodRow> = Listing {
    header: &[
        "NAMESPACE",
        "NAME",
        "READY",
        "STATUS",
        "RESTARTS",
        "AGE",
        "NODE",
    ],
    cells: |row| {
        vec![
            Cell::name(&row.namespace),
            Cell::name(&row.name),
            Cell::Clean(format!("{}/{}", row.ready, row.containers)),
            Cell::word(&row.status),
            Cell::Clean(restarts(row)),
            Cell::Clean(age(row.created)),
            Cell::Name(row.node.clone().unwrap_or_default()),
        ]
    },
    composed: &[],
    plural: "pods",
    narrow: "narrow by namespace, labelSelector or fieldSelector, or raise limit",
};

/// The number of restarts, and how long ago the last one was, as kubectl shows it.
fn restarts(row: &PodRow) -> String {
    match row.last_restart {
        Some(last) if row.restarts > 0 => format!("{} ({} ago)", row.restarts, age(Some(last))),
        _ => row.restarts.to_string(),
    }
}

async fn call(context: ToolContext<'_>, args: PodsListArgs) -> Result<Output, ToolError> {
    let query = &ListQuery {
        namespace: namespace(args.namespace)?,
        label_selector: args.label_selector,
        field_selector: args.field_selector,
        limit: limit(args.limit, 100, 1000)?,
    };
    let request = |cluster: Cluster| async move { cluster.pods(query).await };
    let page = context
        .with_cluster(args.context.as_deref(), request)
        .await?;
    Ok(LISTING.show(context.redactor, page, context.limits.output_bytes))
}
