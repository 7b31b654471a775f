//! `resources_get`: one object of any kind.

use rmcp::schemars;
use serde::Deserialize;

use super::{
    Entry, Output, ToolContext, ToolError, arguments, namespace,
    resources_list::{Form, kind, show},
    schema,
};
use crate::output::show_documents;
use kubecrier_k8s::{Cluster, Name};

pub(super) const ENTRY: Entry = Entry {
    name: "resources_get",
    title: "Resources: get",
    description: "Get one object of any kind, custom resources too: kubectl's columns, or all of it \
                  as YAML. Never the values of Secrets.",
    idempotent: true,
    schema: schema::of::<Args>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
struct Args {
    /// Context of the kubeconfig
    context: Option<String>,
    /// Kind, plural or short name, e.g. Deployment, ingresses, certificates.cert-manager.io
    kind: String,
    /// e.g. apps/v1, if the kind alone is ambiguous
    api_version: Option<String>,
    /// Name
    name: String,
    /// Namespace (default: the context's)
    namespace: Option<String>,
    /// table (default) or yaml
    output: Option<Form>,
}

async fn call(context: ToolContext<'_>, args: Args) -> Result<Output, ToolError> {
    let kind = &kind(args.kind, args.api_version)?;
    let name = &Name::object("resource", &args.name)?;
    let wanted = &namespace(args.namespace)?;
    let (in_context, bytes_max) = (args.context.as_deref(), context.limits.output_bytes);
    if let Some(Form::Yaml) = args.output {
        let ask = |cluster: Cluster| async move {
            let space = cluster.namespace_or_usual(wanted.as_ref())?;
            cluster.object_text(kind, Some(&space), name).await
        };
        let found = context.ask(in_context, ask).await?;
        return Ok(show_documents(
            &found.resource,
            "",
            found.documents,
            bytes_max,
        ));
    }
    let ask = |cluster: Cluster| async move {
        let space = cluster.namespace_or_usual(wanted.as_ref())?;
        cluster.object(kind, Some(&space), name).await
    };
    let found = context.ask(in_context, ask).await?;
    Ok(show(found, "", bytes_max))
}
