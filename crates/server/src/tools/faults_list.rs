//! `faults_list`: current faults of pods.

use jiff::Timestamp;
use rmcp::schemars;
use serde::{Deserialize, Serialize};
use tokio::time::Duration;

use super::{Output, ToolContext, ToolEntry, ToolError, arguments, limit, namespace, schema};
use crate::{
    cell::Cell,
    output::{Listing, age},
};
use kubecrier_core::duration;
use kubecrier_k8s::{Cluster, Page, Remaining};

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "faults_list",
    title: "Faults: list",
    description: "List current faults of pods: one row per fault (a warning about a container or \
                  pod, however often it repeats), newest first, with the log line of the crash \
                  if it is known. faults_get shows the evidence.",
    idempotent: true,
    schema: schema::of::<FaultsListArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schemars(crate = "rmcp::schemars")]
struct FaultsListArgs {
    /// Kubeconfig context
    context: Option<String>,
    /// Namespace (default: all)
    namespace: Option<String>,
    /// Only seen within this time, e.g. 15m (default 1h)
    since: Option<String>,
    /// Maximum number of rows (1-200, default 50)
    limit: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FaultRow {
    fault_id: String,
    namespace: String,
    pod: String,
    reason: String,
    count: i32,
    first_seen: Timestamp,
    last_seen: Timestamp,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    crash: Option<String>,
}

const LISTING: Listing<FaultRow> = Listing {
    header: &[
        "FAULT",
        "LAST SEEN",
        "COUNT",
        "REASON",
        "NAMESPACE",
        "POD",
        "WHAT",
    ],
    cells: |row| {
        vec![
            Cell::Clean(row.fault_id.clone()),
            Cell::Clean(age(Some(row.last_seen))),
            Cell::Clean(row.count.to_string()),
            Cell::word(&row.reason),
            Cell::name(&row.namespace),
            Cell::name(&row.pod),
            Cell::text(row.crash.as_ref().unwrap_or(&row.message)),
        ]
    },
    composed: &[],
    plural: "faults",
    narrow: "narrow by namespace or since, or raise limit",
};

async fn call(context: ToolContext<'_>, args: FaultsListArgs) -> Result<Output, ToolError> {
    let in_namespace = &namespace(args.namespace)?;
    let since = args.since.as_deref().map(duration::parse).transpose()?;
    let since = since.unwrap_or(Duration::from_hours(1));
    let limit = limit(args.limit, 50, 200)?;
    let request =
        |cluster: Cluster| async move { cluster.faults(in_namespace.as_ref(), since).await };
    let open = context
        .with_cluster(args.context.as_deref(), request)
        .await?;
    let board = context.subscriptions.faults().store();
    let total = open.faults.len();
    let row = |fault: &kubecrier_k8s::OpenFault| {
        let known = board.get(&fault.fault_id);
        FaultRow {
            crash: known.and_then(|known| known.report.headline().map(str::to_owned)),
            fault_id: fault.fault_id.clone(),
            namespace: fault.event.namespace.clone(),
            pod: fault.event.involved.name.clone(),
            reason: fault.event.reason.clone(),
            count: fault.count,
            first_seen: fault.first_seen,
            last_seen: fault.event.timestamp,
            message: fault.event.message.clone(),
        }
    };
    let rows: Vec<_> = open.faults.iter().take(limit).map(row).collect();
    let left = total - rows.len();
    let mut page = Page::new(rows, Remaining::Exactly(left));
    if open.cut {
        page.more = Remaining::AtLeast(left);
        page.caveat = Some(
            "there are more warnings than are looked at: name a namespace to see all of its faults"
                .to_owned(),
        );
    }
    Ok(LISTING.show(context.redactor, page, context.limits.output_bytes))
}
