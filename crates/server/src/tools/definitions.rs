//! Definitions of tools as `tools/list` shows them: made once, and again when what they
//! depend on changes. rmcp asks for one at every call of the newest protocol, and every
//! `initialize` needs all of them.

use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::Tool;

use super::{TOOLS, ToolEntry};
use crate::tool_filter::ToolFilter;
use kubecrier_k8s::Contexts;

/// The definitions that were made last, and what they were made of.
#[derive(Debug)]
pub(crate) struct DefinitionCache<K, T = Tool> {
    // A lock because requests come from many tasks; nothing is awaited under it.
    last: Mutex<Option<(K, Arc<[T]>)>>,
}

/// The contexts that a call may name: all that the built-in definitions depend on
/// besides the operator's filter, which never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContextChoice {
    pub(crate) names: Vec<String>,
    pub(crate) default: Option<String>,
    /// Whether the names are not listed.
    pub(crate) hidden: bool,
}

// === impl DefinitionCache ===

impl<K: PartialEq, T> DefinitionCache<K, T> {
    /// The definitions for `key`, made only if the last ones were for another.
    pub(crate) fn get(&self, key: K, make: impl FnOnce(&K) -> Vec<T>) -> Arc<[T]> {
        let mut last = self.last.lock();
        if let Some((made_of, tools)) = &*last
            && *made_of == key
        {
            return Arc::clone(tools);
        }
        let tools: Arc<[T]> = make(&key).into();
        *last = Some((key, Arc::clone(&tools)));
        tools
    }
}

impl DefinitionCache<ContextChoice> {
    /// The built-in tools that the operator's filter includes.
    pub(crate) fn built_in(&self, contexts: &Contexts, filter: &ToolFilter) -> Arc<[Tool]> {
        let choice = ContextChoice {
            hidden: !filter.shows_contexts(),
            ..ContextChoice::of(contexts)
        };
        self.get(choice, |choice| {
            let included = TOOLS.iter().filter(|entry| filter.includes(entry));
            included
                .map(|entry: &ToolEntry| entry.definition(choice))
                .collect()
        })
    }
}

impl<K, T> Default for DefinitionCache<K, T> {
    fn default() -> Self {
        Self {
            last: Mutex::new(None),
        }
    }
}

// === impl ContextChoice ===

impl ContextChoice {
    /// The contexts of the kubeconfig. Without a readable kubeconfig there is no choice,
    /// and the tools say why when they are called.
    fn of(contexts: &Contexts) -> Self {
        let all = contexts.list().unwrap_or_default();
        Self {
            default: all
                .iter()
                .find(|one| one.default)
                .map(|one| one.name.clone()),
            names: all.into_iter().map(|one| one.name).collect(),
            hidden: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_made_again_only_when_the_contexts_change() {
        let cache = DefinitionCache::default();
        let mut made = 0;
        let mut get = |names: &[&str]| {
            let choice = ContextChoice {
                names: names.iter().map(ToString::to_string).collect(),
                ..ContextChoice::default()
            };
            cache.get(choice, |choice| {
                made += 1;
                TOOLS.iter().map(|entry| entry.definition(choice)).collect()
            })
        };
        let first = get(&["dev"]);
        assert!(Arc::ptr_eq(&first, &get(&["dev"])));
        let more = get(&["dev", "prod"]);
        assert!(!Arc::ptr_eq(&first, &more));
        assert!(Arc::ptr_eq(&more, &get(&["dev", "prod"])));
        assert_eq!(made, 2);
    }
}
