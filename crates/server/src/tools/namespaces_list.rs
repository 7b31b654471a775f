//! `namespaces_list`.

use rmcp::schemars;
use serde::Deserialize;

use super::{Entry, Output, ToolContext, ToolError, arguments, limit, schema};
use crate::output::{Listing, age};
use kubecrier_k8s::{Cluster, ListQuery, NamespaceRow};

pub(super) const ENTRY: Entry = Entry {
    name: "namespaces_list",
    title: "Namespaces: list",
    description: "List the namespaces of a cluster, with status and age.",
    idempotent: true,
    schema: schema::of::<Args>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schemars(crate = "rmcp::schemars")]
#[derive(Default)]
struct Args {
    /// Context of the kubeconfig
    context: Option<String>,
    /// As `kubectl -l`, e.g. team=payments
    label_selector: Option<String>,
    /// As `kubectl --field-selector`, e.g. status.phase=Active
    field_selector: Option<String>,
    /// At most so many (1-1000, default 200)
    limit: Option<u32>,
}

const LISTING: Listing<NamespaceRow> = Listing {
    header: &["NAME", "STATUS", "AGE"],
    cells: |row| vec![row.name.clone(), row.status.clone(), age(row.created)],
    plural: "namespaces",
    narrow: "narrow by labelSelector, or raise limit",
};

async fn call(context: ToolContext<'_>, args: Args) -> Result<Output, ToolError> {
    let query = &ListQuery {
        namespace: None,
        label_selector: args.label_selector,
        field_selector: args.field_selector,
        limit: limit(args.limit, 200, 1000)?,
    };
    let ask = |cluster: Cluster| async move { cluster.namespaces(query).await };
    let page = context.ask(args.context.as_deref(), ask).await?;
    Ok(LISTING.show(page, context.limits.output_bytes))
}
