//! Values for what a template or a prompt leaves open: contexts, namespaces, pods
//! and containers, as the cluster has them now.

use std::{future::Future, pin::Pin, time::Duration};

use crate::{doors::Door, tool_filter::ToolFilter};
use kubecrier_k8s::{Actor, Cluster, Contexts, Name};

/// A person waits for the completion while typing.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(3);

/// A request for values.
#[derive(Clone, Copy)]
pub struct CompletionRequest<'a> {
    /// The template, or the name of a prompt.
    pub template: &'a str,
    /// The variable of the template, or the argument of the prompt.
    pub variable: &'a str,
    /// The beginning of the value.
    pub given: &'a str,
    /// The values of the other variables.
    pub chosen: &'a (dyn Fn(&str) -> Option<String> + Send + Sync),
    /// On whose behalf a cluster is asked.
    pub actor: &'a Actor,
}

/// A running completion.
pub type CompletionFuture<'a> = Pin<Box<dyn Future<Output = Vec<String>> + Send + 'a>>;

/// The values that begin as given.
pub(crate) fn matching<'a>(values: Vec<String>, given: &str) -> CompletionFuture<'a> {
    let fitting = fitting(values, given);
    Box::pin(std::future::ready(fitting))
}

/// Values from a cluster; `None` if the variable does not name an object of a cluster.
/// What the operator has switched off completes nothing.
/// A cluster that does not answer completes nothing.
pub(crate) fn complete_from_cluster<'a>(
    contexts: &'a Contexts,
    tool_filter: &'a ToolFilter,
    asked: CompletionRequest<'a>,
) -> Option<CompletionFuture<'a>> {
    let door = match asked.variable {
        "context" => Door::ContextNames,
        "namespace" => Door::NamespaceNames,
        "pod" => Door::PodNames,
        "service" => Door::ServiceNames,
        "container" => Door::ContainerNames,
        _ => return None,
    };
    if tool_filter.check(door).is_err() {
        return Some(matching(Vec::new(), asked.given));
    }
    Some(Box::pin(async move {
        let found = tokio::time::timeout(COMPLETION_TIMEOUT, query_cluster(contexts, asked)).await;
        let found = found.ok().flatten().unwrap_or_default();
        fitting(found, asked.given)
    }))
}

async fn query_cluster(contexts: &Contexts, asked: CompletionRequest<'_>) -> Option<Vec<String>> {
    if asked.variable == "context" {
        let all = contexts.list().ok()?;
        return Some(all.into_iter().map(|one| one.name).collect());
    }
    let chosen = |name: &str| (asked.chosen)(name).filter(|value| !value.is_empty());
    let context = contexts.resolve(chosen("context").as_deref()).ok()?;
    let namespace = || Name::label("namespace", &chosen("namespace")?).ok();
    let pod = || Name::dns("pod", &chosen("pod")?).ok();
    let (namespace, pod) = (&namespace(), &pod());
    let question = |cluster: Cluster| async move {
        match (asked.variable, namespace, pod) {
            ("namespace", ..) => cluster.namespace_names().await,
            ("pod", Some(namespace), _) => cluster.pod_names(namespace).await,
            ("service", Some(namespace), _) => cluster.service_names(namespace).await,
            ("container", Some(namespace), Some(pod)) => cluster.containers(namespace, pod).await,
            // A variable that it depends on has no value yet.
            _ => Ok(Vec::new()),
        }
    };
    let asking = contexts.with_cluster(asked.actor, Some(&context), question);
    asking.await.ok()
}

fn fitting(mut values: Vec<String>, given: &str) -> Vec<String> {
    values.retain(|value| value.starts_with(given));
    values
}
