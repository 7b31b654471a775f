//! `resources_graph`: the neighbourhood of one object.

use rmcp::schemars;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Output, ToolContext, ToolEntry, ToolError, arguments, namespace, schema};
use kubecrier_k8s::{Cluster, GraphRead, GraphView, Name};
use kubecrier_redact::Redactor;
use kubecrier_topology::{Kind, Neighbourhood, ObjectId};

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "resources_graph",
    title: "Resources: graph",
    description: "Show what an object is related to, with the status of each: owners, pods, \
                  services, ingresses, autoscalers, nodes, names of ConfigMaps, Secrets and \
                  volumes in use.",
    schema: schema::of::<ResourcesGraphArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
struct ResourcesGraphArgs {
    /// Kubeconfig context
    context: Option<String>,
    /// Kind, plural or short name, e.g. Deployment, svc
    kind: String,
    /// Object name
    name: String,
    /// Namespace (default: the context's)
    namespace: Option<String>,
    /// Maximum distance (1-5, default 2)
    depth: Option<u32>,
    /// text (default: a tree), json or mermaid
    output: Option<GraphFormat>,
}

#[derive(Clone, Copy, Default, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(crate = "rmcp::schemars")]
enum GraphFormat {
    #[default]
    Text,
    Json,
    Mermaid,
}

const DEPTH_DEFAULT: usize = 2;
const DEPTH_MAX: usize = 5;

/// More nodes are no neighbourhood.
const NODES_MAX: usize = 500;

async fn call(context: ToolContext<'_>, args: ResourcesGraphArgs) -> Result<Output, ToolError> {
    let name = &Name::object("resource", &args.name)?;
    let wanted = &namespace(args.namespace)?;
    let depth = depth(args.depth)?;
    let word = args.kind.trim();
    if word.is_empty() {
        return Err(ToolError::Arguments(
            "`kind` is empty; write for example Deployment or services".to_owned(),
        ));
    }
    let in_context = args.context.as_deref().filter(|name| !name.is_empty());
    let request = |cluster: Cluster| async move {
        let kind = cluster.graph_kind(word).await?;
        Ok((kind, cluster.namespace_or_default(wanted.as_ref())?))
    };
    let (kind, space) = context.with_cluster(in_context, request).await?;
    // An object without a namespace may be related to objects of every namespace.
    let scope = match kind {
        Kind::Namespace => Some(Name::label("namespace", name.as_str())?),
        kind => kind.is_namespaced().then_some(space.clone()),
    };
    let requester = &context.client.requester;
    let viewer = context.subscriptions.viewer(requester)?;
    let (caller, graphs) = (requester.share_key(), context.graphs);
    let view = graphs.read(&caller, &viewer, in_context, scope.as_ref());
    let view = view.await?;
    let id = ObjectId::new(kind, space.as_str(), name.as_str());
    let form = args.output.unwrap_or_default();
    let bytes_max = context.limits.output_bytes;
    fitting(context.redactor, &view, &id, depth, form, bytes_max)
}

fn depth(asked: Option<u32>) -> Result<usize, ToolError> {
    match asked.map(|asked| usize::try_from(asked).unwrap_or(usize::MAX)) {
        None => Ok(DEPTH_DEFAULT),
        Some(asked) if (1..=DEPTH_MAX).contains(&asked) => Ok(asked),
        Some(asked) => Err(ToolError::Arguments(format!(
            "`depth` is {asked}, but must be from 1 to {DEPTH_MAX}"
        ))),
    }
}

/// Renders as much of the neighbourhood as fits.
fn fitting(
    redactor: &Redactor,
    view: &GraphView,
    id: &ObjectId,
    depth: usize,
    form: GraphFormat,
    bytes_max: usize,
) -> Result<Output, ToolError> {
    let mut nodes_max = NODES_MAX;
    loop {
        let seen = view.around(id, depth, nodes_max)?;
        let found = seen.what.len();
        let output = show(redactor, seen, view.context(), form);
        let data = Value::Object(output.data().clone()).to_string();
        let bytes = output.text().len() + data.len();
        // At least one node: an empty answer would not say why.
        if bytes <= bytes_max || found == 1 {
            return Ok(output);
        }
        let share = found * bytes_max / bytes;
        nodes_max = share.clamp(1, found - 1);
    }
}

/// Renders a neighbourhood, whose names are names and whose statuses are redacted.
fn show(
    redactor: &Redactor,
    seen: GraphRead<Neighbourhood>,
    context: &str,
    form: GraphFormat,
) -> Output {
    let GraphRead { what, notes, .. } = seen;
    let Value::Object(mut data) = what.data() else {
        return Output::json(redactor, Map::new());
    };
    data.insert("context".to_owned(), context.into());
    if !notes.is_empty() {
        data.insert("notes".to_owned(), notes.clone().into());
    }
    let mut text = match form {
        GraphFormat::Text => what.text(),
        GraphFormat::Mermaid => what.mermaid(),
        // JSON has everything that the other formats add below.
        GraphFormat::Json => {
            let output = Output::new(redactor, String::new(), data);
            let text = Value::Object(output.data().clone()).to_string();
            return output.with_text(text);
        }
    };
    let comment = match form {
        GraphFormat::Mermaid => "%% ",
        _ => "",
    };
    if what.more() > 0 {
        let more = what.more();
        text.push_str(&format!(
            "{comment}... {more} more; lower depth, or begin closer to them\n"
        ));
    }
    for note in &notes {
        text.push_str(&format!("{comment}NOTE: {note}\n"));
    }
    Output::new(redactor, text, data)
}
