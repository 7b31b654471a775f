//! Tokens of service accounts, reviewed by the cluster that has issued them.

use std::sync::Arc;

use kubecrier_k8s::Contexts;

use super::bearer::{ReviewError, ReviewFuture, TokenReviewer};

/// Asks the cluster of calls that name none.
#[derive(Debug)]
pub(crate) struct ClusterReviewer {
    pub(crate) contexts: Arc<Contexts>,
    /// What a token has to be for.
    pub(crate) audience: String,
}

impl TokenReviewer for ClusterReviewer {
    fn review<'a>(&'a self, token: &'a str) -> ReviewFuture<'a> {
        Box::pin(async move {
            let reviewed = self.contexts.review_token(token, &self.audience).await;
            reviewed.map_err(|error| ReviewError(error.to_string()))
        })
    }

    fn cluster(&self) -> String {
        self.contexts.default_cluster().unwrap_or_default()
    }
}
