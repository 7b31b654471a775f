//! `changes_list`: recent changes, newest first.

use rmcp::schemars;
use serde::Deserialize;

use super::{Output, ToolContext, ToolEntry, ToolError, arguments, limit, namespace, schema};
use crate::{
    cell::Cell,
    output::{Listing, age},
};
use kubecrier_core::duration;
use kubecrier_k8s::{ChangeQuery, ChangeRow, Cluster};

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "changes_list",
    title: "Changes: list",
    description: "List recent changes in a namespace, newest first: rollouts and their images, \
                  scaling, configuration, created and deleted objects, and the program that made \
                  them. Call this first when something broke.",
    schema: schema::of::<ChangesListArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schemars(crate = "rmcp::schemars")]
struct ChangesListArgs {
    /// Kubeconfig context
    context: Option<String>,
    /// Namespace (default: the context's)
    namespace: Option<String>,
    /// Only newer than this, e.g. 15m, 2h (default 1h)
    since: Option<String>,
    /// Maximum number of rows (1-1000, default 100)
    limit: Option<u32>,
}

const LISTING: Listing<ChangeRow> = Listing {
    header: &["AGO", "CHANGE", "OBJECT", "BY", "WHAT"],
    cells: |row| {
        vec![
            Cell::Clean(age(Some(row.at))),
            Cell::Clean(row.change.as_str().to_owned()),
            Cell::Reference(row.object.clone()),
            Cell::Name(row.by.clone().unwrap_or_default()),
            Cell::Clean(row.detail.clone()),
        ]
    },
    composed: &["detail"],
    plural: "changes",
    narrow: "narrow by since, or raise limit",
};

async fn call(context: ToolContext<'_>, args: ChangesListArgs) -> Result<Output, ToolError> {
    let since = duration::parse(args.since.as_deref().unwrap_or("1h"))?;
    let limit = limit(args.limit, 100, 1000)?;
    let wanted = &namespace(args.namespace)?;
    let request = |cluster: Cluster| async move {
        let query = ChangeQuery {
            namespace: cluster.namespace_or_default(wanted.as_ref())?,
            since,
            limit,
        };
        cluster.changes(&query).await
    };
    let page = context
        .with_cluster(args.context.as_deref(), request)
        .await?;
    Ok(LISTING.show(context.redactor, page, context.limits.output_bytes))
}
