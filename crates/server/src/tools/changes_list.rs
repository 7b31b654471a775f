//! `changes_list`: what somebody did of late.

use rmcp::schemars;
use serde::Deserialize;

use super::{Entry, Output, ToolContext, ToolError, arguments, limit, namespace, schema};
use crate::output::{Listing, age};
use kubecrier_core::duration;
use kubecrier_k8s::{ChangeQuery, ChangeRow, Cluster};

pub(super) const ENTRY: Entry = Entry {
    name: "changes_list",
    title: "Changes: list",
    description: "What changed in a namespace of late, newest first: rollouts and their images, \
                  scaling, configuration, what is new or being deleted, and by which program. Ask \
                  this first when something broke.",
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
    /// Namespace (default: the context's)
    namespace: Option<String>,
    /// How far back, e.g. 15m, 2h (default 1h)
    since: Option<String>,
    /// At most so many (1-1000, default 100)
    limit: Option<u32>,
}

const LISTING: Listing<ChangeRow> = Listing {
    header: &["AGO", "CHANGE", "OBJECT", "BY", "WHAT"],
    cells: |row| {
        vec![
            age(Some(row.at)),
            row.change.as_str().to_owned(),
            row.object.clone(),
            row.by.clone().unwrap_or_default(),
            row.detail.clone(),
        ]
    },
    plural: "changes",
    narrow: "narrow by since, or raise limit",
};

async fn call(context: ToolContext<'_>, args: Args) -> Result<Output, ToolError> {
    let since = duration::parse(args.since.as_deref().unwrap_or("1h"))?;
    let limit = limit(args.limit, 100, 1000)?;
    let wanted = &namespace(args.namespace)?;
    let ask = |cluster: Cluster| async move {
        let query = ChangeQuery {
            namespace: cluster.namespace_or_usual(wanted.as_ref())?,
            since,
            limit,
        };
        cluster.changes(&query).await
    };
    let page = context.ask(args.context.as_deref(), ask).await?;
    Ok(LISTING.show(page, context.limits.output_bytes))
}
