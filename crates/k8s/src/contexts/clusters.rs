//! Which cluster each context names.

use std::collections::BTreeMap;

use kube::config::{Kubeconfig, NamedContext};

use super::Contexts;
use crate::error::ClusterError;

/// Contexts, each with what its cluster is described by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedClusters(BTreeMap<String, String>);

// === impl NamedClusters ===

impl NamedClusters {
    /// The contexts that name another cluster here than in what was `before`.
    pub fn renamed_since(&self, before: &Self) -> Vec<&str> {
        let Self(now) = self;
        let is_other = |(context, cluster): &(&String, &String)| {
            let known = before.0.get(*context);
            known.is_some_and(|known| known != *cluster)
        };
        let renamed = now.iter().filter(is_other);
        renamed.map(|(context, _)| context.as_str()).collect()
    }

    /// Those of `self`, and what `before` knew of contexts that are gone for now.
    #[must_use]
    pub fn over(self, before: Self) -> Self {
        let Self(mut all) = before;
        all.extend(self.0);
        Self(all)
    }
}

// === impl Contexts ===

impl Contexts {
    /// Which cluster calls are for that name no context: the context, and what it names.
    pub fn default_cluster(&self) -> Result<String, ClusterError> {
        let context = self.resolve(None)?;
        let source = self.source()?;
        let file = source.file();
        let named = file.and_then(|file| {
            let mut contexts = file.contexts.iter();
            described(file, contexts.find(|named| named.name == context)?)
        });
        Ok(format!("{context}\n{}", named.unwrap_or_default()))
    }

    /// Which cluster each context names now. Another user or another namespace is no other
    /// cluster.
    pub fn named_clusters(&self) -> Result<NamedClusters, ClusterError> {
        let source = self.source()?;
        let Some(file) = source.file() else {
            return Ok(NamedClusters::default());
        };
        let contexts = file.contexts.iter();
        let all = contexts.filter_map(|named| Some((named.name.clone(), described(file, named)?)));
        Ok(NamedClusters(all.collect()))
    }
}

/// What the cluster of a context is described by.
fn described(file: &Kubeconfig, context: &NamedContext) -> Option<String> {
    let name = &context.context.as_ref()?.cluster;
    let named = file.clusters.iter().find(|named| named.name == *name)?;
    serde_json::to_string(named.cluster.as_ref()?).ok()
}
