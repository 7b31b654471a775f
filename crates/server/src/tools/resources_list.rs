//! `resources_list`: objects of any kind, as a table or YAML.

use rmcp::schemars;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Output, ToolContext, ToolEntry, ToolError, arguments, limit, namespace, schema};
use crate::{
    doors::ReadVerb,
    output::{show_documents, show_rows},
};
use kubecrier_k8s::{Cluster, KindQuery, ListQuery, ObjectTable, RefusedKind};
use kubecrier_redact::Redactor;

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "resources_list",
    title: "Resources: list",
    description: "List objects of any kind, custom resources too, in the columns kubectl shows, or \
                  as YAML. Secrets only as a table, never their values.",
    schema: schema::of::<ResourcesListArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
struct ResourcesListArgs {
    /// Kubeconfig context
    context: Option<String>,
    /// Kind, plural or short name, e.g. Deployment, ingresses, certificates.cert-manager.io
    kind: String,
    /// API version, e.g. apps/v1, if ambiguous
    api_version: Option<String>,
    /// Namespace (default: all)
    namespace: Option<String>,
    /// Label selector
    label_selector: Option<String>,
    /// Field selector
    field_selector: Option<String>,
    /// table (default) or yaml
    output: Option<OutputFormat>,
    /// Maximum number of rows (1-1000, default 100)
    limit: Option<u32>,
}

/// The format of objects.
#[derive(Clone, Copy, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(crate = "rmcp::schemars")]
pub(super) enum OutputFormat {
    Table,
    Yaml,
}

const NARROW: &str = "narrow by namespace, labelSelector or fieldSelector, or raise limit";

async fn call(context: ToolContext<'_>, args: ResourcesListArgs) -> Result<Output, ToolError> {
    let refused = context.tool_filter.refused_kinds(ReadVerb::List);
    let kind = &kind(args.kind, args.api_version, refused)?;
    let query = &ListQuery {
        namespace: namespace(args.namespace)?,
        label_selector: args.label_selector,
        field_selector: args.field_selector,
        limit: limit(args.limit, 100, 1000)?,
    };
    let (in_context, bytes_max) = (args.context.as_deref(), context.limits.output_bytes);
    if let Some(OutputFormat::Yaml) = args.output {
        let request = |cluster: Cluster| async move { cluster.object_texts(kind, query).await };
        let found = context.with_cluster(in_context, request).await?;
        let narrow = format!("{NARROW}, or read one with resources_get");
        return Ok(show_documents(
            context.redactor,
            &found.resource,
            &narrow,
            found.documents,
            bytes_max,
        ));
    }
    let request = |cluster: Cluster| async move { cluster.objects(kind, query).await };
    let found = context.with_cluster(in_context, request).await?;
    Ok(show(context.redactor, found, NARROW, bytes_max))
}

/// The requested kind; an empty one is an error.
pub(super) fn kind(
    kind: String,
    api_version: Option<String>,
    refused: Vec<RefusedKind>,
) -> Result<KindQuery, ToolError> {
    if kind.trim().is_empty() {
        return Err(ToolError::Arguments(
            "`kind` is empty; write for example Deployment or ingresses".to_owned(),
        ));
    }
    Ok(KindQuery {
        kind: kind.trim().to_owned(),
        api_version: api_version.filter(|text| !text.is_empty()),
        refused,
    })
}

/// The API server's own columns.
pub(super) fn show(
    redactor: &Redactor,
    found: ObjectTable,
    narrow: &str,
    bytes_max: usize,
) -> Output {
    let ObjectTable {
        resource,
        columns,
        rows,
    } = found;
    let page = rows.map(|cells| {
        let pairs = columns
            .iter()
            .cloned()
            .zip(cells.iter().cloned().map(Value::from));
        let data: Map<_, _> = pairs.collect();
        (cells, Value::Object(data))
    });
    let output = show_rows(
        redactor,
        columns.clone(),
        &resource,
        narrow,
        page,
        bytes_max,
    );
    // Programs find the rows under one key, whatever the kind.
    output.with_rows_as_items(&resource)
}
