//! `configuration_contexts_list`: the contexts of the kubeconfig.

use rmcp::schemars;
use serde::Deserialize;

use super::{Output, ToolContext, ToolEntry, ToolError, arguments, schema};
use crate::{cell::Cell, output::Listing};
use kubecrier_k8s::{ContextInfo, Page, Remaining};

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "configuration_contexts_list",
    title: "Contexts: list",
    description: "List the contexts of the kubeconfig and the address of each API server. Pass a \
                  name as `context` to the other tools; without it they use the default one.",
    schema: schema::of::<ConfigurationContextsListArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?) }),
};

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
struct ConfigurationContextsListArgs {}

const LISTING: Listing<ContextInfo> = Listing {
    header: &["DEFAULT", "NAME", "NAMESPACE", "SERVER"],
    cells: |row| {
        let mark = if row.default { "*" } else { "" };
        vec![
            Cell::Clean(mark.to_owned()),
            Cell::name(&row.name),
            Cell::name(&row.namespace),
            Cell::text(&row.server),
        ]
    },
    composed: &[],
    plural: "contexts",
    narrow: "the kubeconfig has more than fit here; name the one you want",
};

fn call(
    context: ToolContext<'_>,
    ConfigurationContextsListArgs {}: ConfigurationContextsListArgs,
) -> Result<Output, ToolError> {
    let items = context.contexts.list()?;
    Ok(LISTING.show(
        context.redactor,
        Page::new(items, Remaining::NONE),
        context.limits.output_bytes,
    ))
}
