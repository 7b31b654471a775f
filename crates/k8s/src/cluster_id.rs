//! Which cluster a context leads to, for servers that share what they see of it: contexts of one
//! name may lead to different clusters, and that of a pod is called the same in each.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use super::{
    Actor, Contexts,
    client::Cluster,
    error::{ClusterError, ErrorKind, Operation},
};

/// A namespace that every cluster has from its beginning to its end.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// Characters of a name that are part of a shared one, for people.
const NAME_MAX: usize = 40;

/// What tells a cluster from others, asked for once.
#[derive(Debug, Default)]
pub(super) struct KnownId {
    /// The certificates that its API server is trusted by.
    authorities: Vec<Vec<u8>>,
    id: OnceCell<Arc<str>>,
}

/// A key for what servers share, which is the same on all of them: `kind.name_hash`. No other
/// list of parts has it.
pub fn shared_name(kind: &str, name: &str, parts: &[&str]) -> String {
    let letters = name.chars().take(NAME_MAX).map(|letter| {
        let is_plain = letter.is_ascii_alphanumeric() || letter == '-';
        if is_plain { letter } else { '_' }
    });
    let parts = parts.iter().map(|part| part.as_bytes());
    format!("{kind}.{}_{}", letters.collect::<String>(), digest(parts))
}

fn digest<'a>(parts: impl Iterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // With its length, so that no two lists of parts are one text.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let hash = hash.finalize();
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

// === impl KnownId ===

impl KnownId {
    pub(super) fn trusting(authorities: Vec<Vec<u8>>) -> Self {
        Self {
            authorities,
            id: OnceCell::new(),
        }
    }
}

// === impl Contexts ===

impl Contexts {
    /// What tells the cluster of a context from all others, on every server: the uid of its
    /// system namespace. Where that may not be read, the address and the certificates of its API
    /// server; then servers need the same kubeconfig, or are pods of the cluster.
    pub async fn cluster_id(&self, context: &str) -> Result<Arc<str>, ClusterError> {
        let id = |cluster: Cluster| async move { cluster.id().await };
        self.with_cluster(&Actor::Server, Some(context), id).await
    }
}

// === impl Cluster ===

impl Cluster {
    async fn id(&self) -> Result<Arc<str>, ClusterError> {
        let known = self.known_id();
        let find = async || {
            let id = match self.uid().await? {
                Some(uid) => digest([uid.as_bytes()].into_iter()),
                None => {
                    let authorities = known.authorities.iter().map(Vec::as_slice);
                    digest([self.server().as_bytes()].into_iter().chain(authorities))
                }
            };
            Ok(Arc::from(id))
        };
        known.id.get_or_try_init(find).await.cloned()
    }

    /// The uid of the cluster, if it may be read.
    async fn uid(&self) -> Result<Option<String>, ClusterError> {
        let scope = self.scope();
        let is_hidden = scope.denied.denies_object("v1", "Namespace");
        if is_hidden || !scope.namespaces.allows(SYSTEM_NAMESPACE) {
            return Ok(None);
        }
        let operation = Operation {
            verb: "get",
            resource: "namespaces",
            name: Some(SYSTEM_NAMESPACE),
            namespace: None,
            context: self.context(),
        };
        let api: Api<Namespace> = Api::all(self.own_client());
        let asked = self.request(&operation, api.get_metadata_opt(SYSTEM_NAMESPACE));
        match asked.await {
            Ok(found) => Ok(found.and_then(|found| found.metadata.uid)),
            Err(error) if error.kind() == ErrorKind::Forbidden => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use demo_cluster::DemoCluster;
    use serde_json::json;

    use super::*;

    async fn id(uid: Option<&str>) -> Arc<str> {
        let cluster = DemoCluster::default();
        if let Some(uid) = uid {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": SYSTEM_NAMESPACE, "uid": uid},
            });
            cluster.put(namespace).unwrap();
        }
        let contexts = Contexts::of_demo(&cluster);
        contexts.cluster_id("demo").await.unwrap()
    }

    #[tokio::test]
    async fn clusters_of_one_name_and_one_address_are_told_apart() {
        let first = id(Some("5f1c")).await;
        assert_eq!(first, id(Some("5f1c")).await, "on every server");
        assert_ne!(first, id(Some("77aa")).await);
        let unreadable = id(None).await;
        assert_ne!(unreadable, first);
        assert_eq!(unreadable, id(None).await);
    }

    #[test]
    fn a_shared_name_is_a_key_and_no_two_lists_have_the_same() {
        let long = "arn:aws:eks:eu-west-1:123456789012:cluster/payments-";
        let (one, two) = (format!("{long}one"), format!("{long}two"));
        let names = [
            shared_name("events", &one, &[&one, "id"]),
            shared_name("events", &two, &[&two, "id"]),
            shared_name("events", &one, &[&one, "", "id"]),
            shared_name("events", &one, &[&format!("{one}id"), ""]),
        ];
        for (index, name) in names.iter().enumerate() {
            assert_eq!(kubecrier_history::check_key(name), Ok(()), "{name}");
            assert!(!names[index + 1..].contains(name), "{name}");
        }
    }
}
