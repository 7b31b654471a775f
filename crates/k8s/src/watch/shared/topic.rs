//! Where what is seen of a scope is written.

use crate::{cluster_id::shared_name, watch::scope::Scope};

/// The name of the topic and of the lease of a scope in a cluster: the same on every server whose
/// context has that name and leads to that cluster.
pub(in crate::watch) fn topic(scope: &Scope, cluster: &str) -> String {
    let Scope {
        context,
        namespace,
        selector,
    } = scope;
    let parts = [
        context.as_str(),
        namespace.as_deref().unwrap_or_default(),
        selector.as_deref().unwrap_or_default(),
        cluster,
    ];
    shared_name("events", context, &parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scope_has_a_topic_of_its_own_that_is_a_key() {
        let scope = |context: &str, namespace: Option<&str>, selector: Option<&str>| Scope {
            context: context.to_owned(),
            namespace: namespace.map(str::to_owned),
            selector: selector.map(str::to_owned),
        };
        let scopes = [
            scope("dev", None, None),
            scope("dev", Some("shop"), None),
            scope("dev", None, Some("shop")),
            scope("dev.", None, None),
            scope("arn:aws:eks:eu/prod\u{e9}", None, None),
        ];
        let mut topics: Vec<_> = scopes.iter().map(|scope| topic(scope, "5f1c")).collect();
        topics.push(topic(&scopes[0], "77aa"));
        for topic in &topics {
            assert_eq!(kubecrier_history::check_key(topic), Ok(()), "{topic}");
        }
        assert!(topics[0].starts_with("events.dev_"));
        topics.sort();
        topics.dedup();
        assert_eq!(topics.len(), scopes.len() + 1);
    }
}
