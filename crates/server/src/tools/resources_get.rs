//! `resources_get`: one object of any kind.

use rmcp::schemars;
use serde::Deserialize;

use super::{
    Output, ToolContext, ToolEntry, ToolError, arguments, namespace,
    resources_list::{OutputFormat, kind, show},
    schema,
};
use crate::{doors::ReadVerb, output::show_documents};
use kubecrier_k8s::{Cluster, Name};

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "resources_get",
    title: "Resources: get",
    description: "Get one object of any kind, custom resources too: kubectl's columns, or all of it \
                  as YAML. Never the values of Secrets.",
    schema: schema::of::<ResourcesGetArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
struct ResourcesGetArgs {
    /// Kubeconfig context
    context: Option<String>,
    /// Kind, plural or short name, e.g. Deployment, ingresses, certificates.cert-manager.io
    kind: String,
    /// API version, e.g. apps/v1, if ambiguous
    api_version: Option<String>,
    /// Object name
    name: String,
    /// Namespace (default: the context's)
    namespace: Option<String>,
    /// table (default) or yaml
    output: Option<OutputFormat>,
}

async fn call(context: ToolContext<'_>, args: ResourcesGetArgs) -> Result<Output, ToolError> {
    let refused = context.tool_filter.refused_kinds(ReadVerb::Get);
    let kind = &kind(args.kind, args.api_version, refused)?;
    let name = &Name::object("resource", &args.name)?;
    let wanted = &namespace(args.namespace)?;
    let (in_context, bytes_max) = (args.context.as_deref(), context.limits.output_bytes);
    if let Some(OutputFormat::Yaml) = args.output {
        let request = |cluster: Cluster| async move {
            let space = cluster.namespace_or_default(wanted.as_ref())?;
            cluster.object_text(kind, Some(&space), name).await
        };
        let found = context.with_cluster(in_context, request).await?;
        return Ok(show_documents(
            context.redactor,
            &found.resource,
            "",
            found.documents,
            bytes_max,
        ));
    }
    let request = |cluster: Cluster| async move {
        let space = cluster.namespace_or_default(wanted.as_ref())?;
        cluster.object(kind, Some(&space), name).await
    };
    let found = context.with_cluster(in_context, request).await?;
    Ok(show(context.redactor, found, "", bytes_max))
}
