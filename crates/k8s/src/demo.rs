//! A cluster in memory in place of a kubeconfig: everything above the client is the
//! production code.

use std::{fmt, time::Duration};

use demo_cluster::DemoCluster;
use kube::client::ClientBuilder;

use super::{
    allowed::ReadScope, body_limit::BodyLimitLayer, client::Cluster, contexts::ContextInfo,
    read_only,
};

/// The name of the one context.
pub(super) const CONTEXT: &str = "demo";
const SERVER: &str = "https://demo.invalid/";
const NAMESPACE: &str = "default";

/// The in-memory cluster that serves the client of the demo.
#[derive(Clone)]
pub struct Demo {
    cluster: DemoCluster,
}

// === impl Demo ===

impl Demo {
    /// A demo of this cluster.
    pub fn new(cluster: &DemoCluster) -> Self {
        Self {
            cluster: cluster.clone(),
        }
    }

    /// The only context of the demo.
    pub(super) fn info() -> ContextInfo {
        ContextInfo {
            name: CONTEXT.to_owned(),
            server: SERVER.to_owned(),
            namespace: NAMESPACE.to_owned(),
            default: true,
        }
    }

    pub(super) fn connect(&self, timeout: Duration, scope: ReadScope) -> Cluster {
        let client = ClientBuilder::new(self.cluster.service(), NAMESPACE);
        let client = client
            .with_layer(&read_only::layer(scope.clone()))
            .with_layer(&BodyLimitLayer)
            .build();
        let cluster = Cluster::new(
            CONTEXT,
            client,
            SERVER.to_owned(),
            NAMESPACE.to_owned(),
            timeout,
        );
        cluster.with_scope(scope)
    }
}

impl fmt::Debug for Demo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Demo").finish_non_exhaustive()
    }
}
