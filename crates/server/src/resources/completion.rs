//! Values for what a template or a prompt leaves open: contexts, namespaces, pods
//! and containers, as the cluster has them now.

use std::{future::Future, pin::Pin, time::Duration};

use kubecrier_k8s::{Cluster, Contexts, Name};

/// Somebody waits with a finger on a key.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is to be completed.
#[derive(Clone, Copy)]
pub struct Completion<'a> {
    /// The template, or the name of a prompt.
    pub template: &'a str,
    /// Which of its variables.
    pub variable: &'a str,
    /// How the value begins.
    pub given: &'a str,
    /// What was chosen for the others.
    pub chosen: &'a (dyn Fn(&str) -> Option<String> + Send + Sync),
}

/// Values on their way.
pub type Completing<'a> = Pin<Box<dyn Future<Output = Vec<String>> + Send + 'a>>;

/// Those of the words that begin as it was given.
pub(crate) fn words<'a>(words: Vec<String>, given: &str) -> Completing<'a> {
    let fitting = fitting(words, given);
    Box::pin(std::future::ready(fitting))
}

/// What a cluster knows to say; nothing if the variable is not about a cluster. A
/// cluster that does not answer completes nothing.
pub(crate) fn of_cluster<'a>(
    contexts: &'a Contexts,
    asked: Completion<'a>,
) -> Option<Completing<'a>> {
    let of_a_cluster = ["context", "namespace", "pod", "service", "container"];
    if !of_a_cluster.contains(&asked.variable) {
        return None;
    }
    Some(Box::pin(async move {
        let found = tokio::time::timeout(PATIENCE, ask(contexts, asked)).await;
        let found = found.ok().flatten().unwrap_or_default();
        fitting(found, asked.given)
    }))
}

async fn ask(contexts: &Contexts, asked: Completion<'_>) -> Option<Vec<String>> {
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
            // What it hangs on has not been chosen.
            _ => Ok(Vec::new()),
        }
    };
    contexts.ask(&context, question).await.ok()
}

fn fitting(mut words: Vec<String>, given: &str) -> Vec<String> {
    words.retain(|word| word.starts_with(given));
    words
}
