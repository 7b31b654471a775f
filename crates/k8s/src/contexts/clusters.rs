//! Which cluster each context names.

use std::collections::BTreeMap;

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
    /// Which cluster each context names now. Another user or another namespace is no other
    /// cluster.
    pub fn named_clusters(&self) -> Result<NamedClusters, ClusterError> {
        let source = self.source()?;
        let Some(file) = source.file() else {
            return Ok(NamedClusters::default());
        };
        let described = |name: &str| {
            let named = file.clusters.iter().find(|named| named.name == name)?;
            serde_json::to_string(named.cluster.as_ref()?).ok()
        };
        let cluster = |named: &kube::config::NamedContext| {
            let context = named.context.as_ref()?;
            Some((named.name.clone(), described(&context.cluster)?))
        };
        let all = file.contexts.iter().filter_map(cluster);
        Ok(NamedClusters(all.collect()))
    }
}
