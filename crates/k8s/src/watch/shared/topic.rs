//! Where what is seen of a scope is written.

use sha2::{Digest, Sha256};

use crate::watch::scope::Scope;

/// Characters of the name of a context that are part of the topic's, for people.
const NAME_MAX: usize = 40;

/// The name of the topic and of the lease of a scope: the same on every server whose context has
/// that name.
pub(in crate::watch) fn topic(scope: &Scope) -> String {
    let Scope {
        context,
        namespace,
        selector,
    } = scope;
    let mut hash = Sha256::new();
    let parts = [
        Some(context.as_str()),
        namespace.as_deref(),
        selector.as_deref(),
    ];
    for part in parts {
        let part = part.unwrap_or_default();
        // With its length, so that no two lists of parts are one text.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let hash: String = hash.finalize()[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let letters = context.chars().take(NAME_MAX).map(|letter| {
        let is_plain = letter.is_ascii_alphanumeric() || letter == '-';
        if is_plain { letter } else { '_' }
    });
    format!("events.{}_{hash}", letters.collect::<String>())
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
        let mut topics: Vec<_> = scopes.iter().map(topic).collect();
        for topic in &topics {
            assert_eq!(kubecrier_history::check_key(topic), Ok(()), "{topic}");
        }
        assert!(topics[0].starts_with("events.dev_"));
        topics.sort();
        topics.dedup();
        assert_eq!(topics.len(), scopes.len());
    }
}
