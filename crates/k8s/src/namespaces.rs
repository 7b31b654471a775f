//! Namespaces as rows of a list.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::ListParams};
use serde::Serialize;

use super::{
    client::Cluster,
    each_namespace::gather,
    error::{ClusterError, Operation},
    list::{ListQuery, PAGE_SIZE, Page},
};

/// One namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamespaceRow {
    /// Name of the namespace.
    pub name: String,
    /// Active or Terminating.
    pub status: String,
    /// Creation time.
    pub created: Option<Timestamp>,
}

impl Cluster {
    /// The namespaces of the cluster.
    pub async fn namespaces(&self, query: &ListQuery) -> Result<Page<NamespaceRow>, ClusterError> {
        let operation = Operation {
            verb: "list",
            resource: "namespaces",
            name: None,
            namespace: None,
            context: self.context(),
        };
        let (operation, api) = (&operation, &Api::<Namespace>::all(self.client()));
        let queries = self.namespace_queries(query).await?;
        let label = |query: &ListQuery| query.field_selector.clone().unwrap_or_default();
        let ask = async |query: ListQuery| self.list(operation, api, &query).await;
        let pages = gather(queries, label, ask).await?;
        Ok(pages.into_page(query.limit).map(row))
    }

    /// The names of all namespaces, up to one page.
    pub async fn namespace_names(&self) -> Result<Vec<String>, ClusterError> {
        Ok(self.first_namespace_names(PAGE_SIZE).await?.0)
    }

    /// The names of the first namespaces, and the number of namespaces beyond `max`. Where
    /// only some are allowed, names are taken as they are written, and patterns are compared.
    pub(super) async fn first_namespace_names(
        &self,
        max: u32,
    ) -> Result<(Vec<String>, usize), ClusterError> {
        let allowed = &self.scope().namespaces;
        if let Some(names) = allowed.literal() {
            return Ok((names.into_iter().map(str::to_owned).collect(), 0));
        }
        let api: Api<Namespace> = Api::all(self.client());
        let params = ListParams::default().limit(max);
        let operation = Operation {
            verb: "list",
            resource: "namespaces",
            name: None,
            namespace: None,
            context: self.context(),
        };
        let page = self.request(&operation, api.list_metadata(&params)).await?;
        let rest = page.metadata.remaining_item_count.unwrap_or_default();
        let names = page
            .items
            .into_iter()
            .filter_map(|namespace| namespace.metadata.name)
            .filter(|name| allowed.allows(name));
        // How many others there are is nothing for those who may not see them.
        let rest = if allowed.is_restricted() { 0 } else { rest };
        Ok((names.collect(), usize::try_from(rest).unwrap_or_default()))
    }

    /// Whether a namespace exists; `None` if the lookup fails or is forbidden.
    pub(super) async fn has_namespace(&self, name: &str) -> Option<bool> {
        let api: Api<Namespace> = Api::all(self.client());
        let lookup = tokio::time::timeout(self.timeout(), api.get_metadata_opt(name));
        Some(lookup.await.ok()?.ok()?.is_some())
    }
}

fn row(namespace: Namespace) -> NamespaceRow {
    NamespaceRow {
        name: namespace.metadata.name.unwrap_or_default(),
        status: namespace
            .status
            .and_then(|status| status.phase)
            .unwrap_or_default(),
        created: namespace.metadata.creation_timestamp.map(|time| time.0),
    }
}
