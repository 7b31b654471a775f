//! The namespaces that are watched where the whole cluster may not be, and those that do
//! not exist yet.

use futures_util::future::join_all;

use super::{
    Watches,
    scope::{self, Scope},
    source::{self, WatchStart},
};
use crate::{client::Cluster, error::ClusterError, impersonation::Actor, name::Name};
use kubecrier_core::filters::Filters;

/// Namespaces that are watched one by one where the whole cluster may not be.
const FALLBACK_MAX: usize = 50;

/// Namespaces that are tried for it, a few at a time: the one that may be watched can
/// be any of them.
const TRIED_MAX: usize = 1000;
const TRIED_AT_ONCE: usize = 20;

/// Namespaces whose names are asked for, to find those that filters name by a pattern.
const LISTED_MAX: u32 = 5000;

impl Watches {
    /// One scope for each namespace that the filters and the operator allow; `None` where the
    /// operator allows all.
    pub(super) async fn confined(
        &self,
        context: &str,
        filters: &Filters,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Vec<Scope>>, ClusterError> {
        let contexts = &self.shared.contexts;
        if !contexts.is_confined() {
            return Ok(None);
        }
        let names: Vec<Name> = match filters.exact_namespaces() {
            Some(named) => {
                let named = named.into_iter().map(|name| {
                    let name = Name::label("namespace", name)?;
                    contexts.check_namespace(context, &name).map(|()| name)
                });
                named.collect::<Result<_, _>>()?
            }
            None => {
                let list = async |cluster: Cluster| cluster.namespaces_to_ask(None).await;
                let listed = contexts
                    .with_cluster(&Actor::Server, Some(context), list)
                    .await?;
                listed.unwrap_or_default()
            }
        };
        let names = names.iter().map(Name::as_str);
        let names: Vec<_> = names
            .filter(|name| filters.admits_namespace(name))
            .collect();
        if names.is_empty() || names.len() > FALLBACK_MAX {
            let count = names.len();
            return Err(ClusterError::invalid(
                format!("cannot watch events of context `{context}`"),
                format!(
                    "of the namespaces that --allowed-namespaces names, the filters match {count}, \
                     but must match 1 to {FALLBACK_MAX}"
                ),
                "name namespaces that are allowed",
            ));
        }
        if filters.exact_namespaces().is_none() {
            warnings.push(format!(
                "only the namespaces are watched that --allowed-namespaces names, and none that is \
                 made later: {}",
                names.join(", ")
            ));
        }
        let whole = Scope::whole(context, filters);
        Ok(Some(
            names.into_iter().map(|name| whole.within(name)).collect(),
        ))
    }

    /// The namespaces that may be watched, where the whole cluster may not.
    pub(super) async fn allowed_namespaces(
        &self,
        whole: &Scope,
        filters: &Filters,
        denied: ClusterError,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<(Scope, WatchStart)>, ClusterError> {
        let contexts = &self.shared.contexts;
        let (names, unseen) = match filters.exact_namespaces() {
            Some(named) => (named.into_iter().map(str::to_owned).collect(), 0),
            None => {
                let list = async |cluster: Cluster| cluster.first_namespace_names(LISTED_MAX).await;
                let listed = contexts
                    .with_cluster(&Actor::Server, Some(&whole.context), list)
                    .await;
                listed.map_err(|_error: ClusterError| denied.clone())?
            }
        };
        let candidates: Vec<_> = (names.iter())
            .filter(|name| filters.admits_namespace(name))
            .map(|name| whole.within(name))
            .collect();
        let probe = |scope: Scope| async move {
            let start = source::probe(contexts, &scope).await.ok()?;
            Some((scope, start))
        };
        let mut starts = Vec::new();
        let mut tried = 0;
        let most = candidates.len().min(TRIED_MAX);
        for some in candidates[..most].chunks(TRIED_AT_ONCE) {
            let room = FALLBACK_MAX - starts.len();
            let some = &some[..some.len().min(room)];
            tried += some.len();
            let ready = join_all(some.iter().cloned().map(probe)).await;
            starts.extend(ready.into_iter().flatten());
        }
        if starts.is_empty() {
            return Err(denied);
        }
        let seen: Vec<_> = (starts.iter())
            .filter_map(|(scope, _)| scope.namespace.as_deref())
            .collect();
        let mut warning = format!(
            "events of the whole cluster may not be read: only these {} of {} namespaces are watched, and \
             none that is made later: {}",
            seen.len(),
            candidates.len() + unseen,
            seen.join(", ")
        );
        let rest = candidates.len() - tried + unseen;
        if rest > 0 {
            warning.push_str(&format!("; {rest} were not tried, name them"));
        }
        warnings.push(warning);
        Ok(starts)
    }

    /// Warns of namespaces that do not exist; they may be created later.
    pub(super) async fn missing_namespaces(
        &self,
        context: &str,
        filters: &Filters,
        warnings: &mut Vec<String>,
    ) {
        let names = filters.exact_namespaces().unwrap_or_default();
        let Ok(cluster) = self
            .shared
            .contexts
            .cluster(&Actor::Server, Some(context))
            .await
        else {
            return;
        };
        let missing = |name: &str| {
            let (cluster, name) = (cluster.clone(), name.to_owned());
            async move { (cluster.has_namespace(&name).await == Some(false)).then_some(name) }
        };
        let missing = names.into_iter().take(scope::NAMESPACES_MAX).map(missing);
        for name in join_all(missing).await.into_iter().flatten() {
            warnings.push(format!(
                "there is no namespace `{name}` yet; its events will be told when it comes"
            ));
        }
    }
}
