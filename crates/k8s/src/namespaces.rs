//! Namespaces, as a reader wants them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::ListParams};
use serde::Serialize;

use super::{
    client::Cluster,
    error::{ClusterError, Operation},
    list::{ListQuery, PAGE, Page},
};

/// One namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamespaceRow {
    /// Its name.
    pub name: String,
    /// Active or Terminating.
    pub status: String,
    /// When it was made.
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
        let api: Api<Namespace> = Api::all(self.client());
        let page = self.list(&operation, &api, query).await?;
        Ok(page.map(row))
    }

    /// The names of all namespaces, as far as one page goes.
    pub async fn namespace_names(&self) -> Result<Vec<String>, ClusterError> {
        Ok(self.first_namespace_names(PAGE).await?.0)
    }

    /// The names of the first namespaces, so many at most, and how many more there are.
    pub(super) async fn first_namespace_names(
        &self,
        max: u32,
    ) -> Result<(Vec<String>, usize), ClusterError> {
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
        let names = page.items.into_iter().filter_map(|one| one.metadata.name);
        Ok((names.collect(), usize::try_from(rest).unwrap_or_default()))
    }

    /// Whether a namespace is there; nothing if that may not be known.
    pub(super) async fn has_namespace(&self, name: &str) -> Option<bool> {
        let api: Api<Namespace> = Api::all(self.client());
        let asked = tokio::time::timeout(self.timeout(), api.get_metadata_opt(name));
        Some(asked.await.ok()?.ok()?.is_some())
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
