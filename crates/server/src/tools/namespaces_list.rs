//! `namespaces_list`.

use rmcp::schemars;
use serde::Deserialize;

use super::{Output, ToolContext, ToolEntry, ToolError, arguments, limit, schema};
use crate::{
    cell::Cell,
    output::{Listing, age},
};
use kubecrier_k8s::{Cluster, ListQuery, NamespaceRow};

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "namespaces_list",
    title: "Namespaces: list",
    description: "List the namespaces of a cluster, with status and age.",
    schema: schema::of::<NamespacesListArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schemars(crate = "rmcp::schemars")]
#[derive(Default)]
struct NamespacesListArgs {
    /// Kubeconfig context
    context: Option<String>,
    /// Label selector, e.g. team=payments
    label_selector: Option<String>,
    /// Field selector, e.g. status.phase=Active
    field_selector: Option<String>,
    /// Maximum number of rows (1-1000, default 200)
    limit: Option<u32>,
}

const LISTING: Listing<NamespaceRow> = Listing {
    header: &["NAME", "STATUS", "AGE"],
    cells: |row| {
        vec![
            Cell::name(&row.name),
            Cell::word(&row.status),
            Cell::Clean(age(row.created)),
        ]
    },
    composed: &[],
    plural: "namespaces",
    narrow: "narrow by labelSelector, or raise limit",
};

async fn call(context: ToolContext<'_>, args: NamespacesListArgs) -> Result<Output, ToolError> {
    let query = &ListQuery {
        namespace: None,
        label_selector: args.label_selector,
        field_selector: args.field_selector,
        limit: limit(args.limit, 200, 1000)?,
    };
    let request = |cluster: Cluster| async move { cluster.namespaces(query).await };
    let page = context
        .with_cluster(args.context.as_deref(), request)
        .await?;
    Ok(LISTING.show(context.redactor, page, context.limits.output_bytes))
}
