//! `pods_list`.

use rmcp::schemars;
use serde::Deserialize;

use super::{Entry, Output, ToolContext, ToolError, arguments, limit, namespace, schema};
use crate::output::{Listing, age};
use kubecrier_k8s::{Cluster, ListQuery, PodRow};

pub(super) const ENTRY: Entry = Entry {
    name: "pods_list",
    title: "Pods: list",
    description: "List pods of a namespace, or of all: readiness, status as kubectl shows it \
                  (Running, CrashLoopBackOff, ...), restarts, age, node.",
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
    /// Namespace (default: all)
    namespace: Option<String>,
    /// As `kubectl -l`, e.g. app=web,tier!=cache
    label_selector: Option<String>,
    /// As `kubectl --field-selector`, e.g. status.phase=Failed
    field_selector: Option<String>,
    /// At most so many (1-1000, default 100)
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
            row.namespace.clone(),
            row.name.clone(),
            format!("{}/{}", row.ready, row.containers),
            row.status.clone(),
            row.restarts.to_string(),
            age(row.created),
            row.node.clone().unwrap_or_default(),
        ]
    },
    plural: "pods",
    narrow: "narrow by namespace, labelSelector or fieldSelector, or raise limit",
};

async fn call(context: ToolContext<'_>, args: Args) -> Result<Output, ToolError> {
    let query = &ListQuery {
        namespace: namespace(args.namespace)?,
        label_selector: args.label_selector,
        field_selector: args.field_selector,
        limit: limit(args.limit, 100, 1000)?,
    };
    let ask = |cluster: Cluster| async move { cluster.pods(query).await };
    let page = context.ask(args.context.as_deref(), ask).await?;
    Ok(LISTING.show(page, context.limits.output_bytes))
}
