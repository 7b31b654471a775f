//! `pods_get`: one pod in detail.

use rmcp::schemars;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Output, ToolContext, ToolEntry, ToolError, arguments, namespace, resources_list::OutputFormat,
    schema,
};
use crate::output::{age, show_documents};
use kubecrier_core::faults::ContainerContext;
use kubecrier_k8s::{Cluster, KindQuery, Name, PodDetail};
use kubecrier_redact::Redactor;

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "pods_get",
    title: "Pods: get",
    description: "Get one pod: status, conditions, each container's image, state, restarts and \
                  last termination, the owner; or all of it as YAML.",
    schema: schema::of::<PodsGetArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
struct PodsGetArgs {
    /// Kubeconfig context
    context: Option<String>,
    /// Pod name
    name: String,
    /// Namespace (default: the context's)
    namespace: Option<String>,
    /// table (default) or yaml
    output: Option<OutputFormat>,
}

async fn call(context: ToolContext<'_>, args: PodsGetArgs) -> Result<Output, ToolError> {
    let (name, wanted) = (&Name::dns("pod", &args.name)?, &namespace(args.namespace)?);
    let in_context = args.context.as_deref();
    if let Some(OutputFormat::Yaml) = args.output {
        let kind = &KindQuery {
            kind: "pods".to_owned(),
            api_version: Some("v1".to_owned()),
            refused: Vec::new(),
        };
        let request = |cluster: Cluster| async move {
            let space = cluster.namespace_or_default(wanted.as_ref())?;
            cluster.object_text(kind, Some(&space), name).await
        };
        let found = context.with_cluster(in_context, request).await?;
        let bytes_max = context.limits.output_bytes;
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
        cluster.pod(&space, name).await
    };
    let pod = context.with_cluster(in_context, request).await?;
    Ok(show(context.redactor, &pod))
}

/// Renders a pod. The cluster crate redacts it and bounds the size of its state.
fn show(redactor: &Redactor, pod: &PodDetail) -> Output {
    let PodDetail { row, ip, state, .. } = pod;
    let mut text = format!(
        "{}/{}: {}, {}/{} ready, {} restarts, age {}\n",
        row.namespace,
        row.name,
        row.status,
        row.ready,
        row.containers,
        row.restarts,
        age(row.created),
    );
    let named = [
        ("node", row.node.clone()),
        ("ip", ip.clone()),
        ("reason", state.reason.clone()),
        (
            "owner",
            state
                .owners
                .first()
                .map(|one| format!("{}/{}", one.kind, one.name)),
        ),
    ];
    for (what, value) in named {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            text.push_str(&format!("{what}: {value}\n"));
        }
    }
    text.push_str("containers, failing ones first:\n");
    for one in &state.containers {
        text.push_str(&container(one));
    }
    let bad = state.conditions.iter().filter(|one| one.status != "True");
    for one in bad {
        let why = [one.reason.as_deref(), one.message.as_deref()];
        let why: Vec<_> = why.into_iter().flatten().collect();
        text.push_str(&format!(
            "condition {} is {}: {}\n",
            one.kind,
            one.status,
            why.join(", ")
        ));
    }
    if state.shortened {
        text.push_str("NOTE: not all of its state is shown; ask for output yaml\n");
    }
    let data = match serde_json::to_value(pod) {
        Ok(Value::Object(data)) => data,
        _ => Map::new(),
    };
    Output::new(redactor, text, data)
}

fn container(one: &ContainerContext) -> String {
    let ContainerContext {
        name,
        image,
        state,
        restart_count,
        last_termination,
    } = one;
    let mut text = format!("  {name}: {state}, {restart_count} restarts, image {image}\n");
    if let Some(end) = last_termination {
        let ended = [
            Some(format!("exit code {}", end.exit_code)),
            end.signal.map(|signal| format!("signal {signal}")),
            end.reason.clone(),
            end.finished_at.map(|at| format!("{} ago", age(Some(at)))),
            end.message.clone(),
        ];
        let ended: Vec<_> = ended.into_iter().flatten().collect();
        text.push_str(&format!("    ended last: {}\n", ended.join(", ")));
    }
    text
}
