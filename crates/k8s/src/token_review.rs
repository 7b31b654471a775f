//! Whose a token of a service account is: the cluster is asked (TokenReview), with this
//! server's own rights.

use http::Request;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::{
    Resource,
    api::{PostParams, Request as ApiRequest},
};
use kubecrier_core::KubernetesUser;

use super::{client::Cluster, contexts::Contexts, error::ClusterError, impersonation::Actor};

/// Marks a request that this server sends for itself, and for no caller: an extension.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForServer;

// === impl Contexts ===

impl Contexts {
    /// The user of a token, if the cluster of calls that name none accepts it for this audience.
    pub async fn review_token(
        &self,
        token: &str,
        audience: &str,
    ) -> Result<Option<KubernetesUser>, ClusterError> {
        let review = |cluster: Cluster| async move { cluster.review_token(token, audience).await };
        self.with_cluster(&Actor::Server, None, review).await
    }
}

// === impl Cluster ===

impl Cluster {
    async fn review_token(
        &self,
        token: &str,
        audience: &str,
    ) -> Result<Option<KubernetesUser>, ClusterError> {
        let operation = self.operation("create", "tokenreviews");
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![audience.to_owned()]),
                token: Some(token.to_owned()),
            },
            ..TokenReview::default()
        };
        let client = self.client();
        let sent = async {
            let request = request(&review)?;
            client.request::<TokenReview>(request).await
        };
        let reviewed = self.request(&operation, sent).await?;
        Ok(reviewed.status.and_then(|status| {
            let audiences = status.audiences.unwrap_or_default();
            // An API server that does not know audiences answers without them.
            let is_ours = audiences.iter().any(|one| one == audience);
            let is_authenticated = status.authenticated.unwrap_or_default();
            user(status.user?).filter(|_| is_authenticated && is_ours)
        }))
    }
}

fn request(review: &TokenReview) -> Result<Request<Vec<u8>>, kube::Error> {
    let body = serde_json::to_vec(review).map_err(kube::Error::SerdeError)?;
    let path = TokenReview::url_path(&(), None);
    let request = ApiRequest::new(path).create(&PostParams::default(), body);
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.extensions_mut().insert(ForServer);
    Ok(request)
}

/// The user without its uid and extra: those of a service account are of this token and of the
/// pod that has it, so that a renewed token would be another caller, and to impersonate them
/// takes rights of their own.
fn user(info: UserInfo) -> Option<KubernetesUser> {
    let name = info.username?;
    let user = KubernetesUser::new(&name, info.groups.unwrap_or_default());
    let user = user.inspect_err(|error| tracing::warn!(%error, "a reviewed token is of no user"));
    user.ok()
}
