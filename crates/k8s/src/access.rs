//! Asks the API server of a context what a user may do there: SubjectAccessReview, with the
//! server's own credentials.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};

use super::{client::Cluster, contexts::Contexts, error::ClusterError, impersonation::Actor};
use kubecrier_core::{
    KubernetesUser,
    access::{AccessQuestion, AccessReviewer, ReviewError},
};

/// Asks by SubjectAccessReview.
#[derive(Debug)]
pub struct ClusterReviewer(Arc<Contexts>);

// === impl ClusterReviewer ===

impl ClusterReviewer {
    /// Asks the API servers of these contexts.
    pub fn new(contexts: Arc<Contexts>) -> Self {
        Self(contexts)
    }
}

impl AccessReviewer for ClusterReviewer {
    fn review<'a>(
        &'a self,
        context: &'a str,
        user: &'a KubernetesUser,
        question: &'a AccessQuestion,
    ) -> BoxFuture<'a, Result<bool, ReviewError>> {
        Box::pin(async move {
            // There it is somebody else, who may have rights.
            if self.0.check_account(user, context).is_err() {
                return Ok(false);
            }
            let review = &review(user, question);
            let ask = async |cluster: Cluster| cluster.review_access(review).await;
            let answer = (self.0).with_cluster(&Actor::Server, Some(context), ask);
            let answer = answer.await;
            answer.map_err(|error| ReviewError(error.to_string()))
        })
    }
}

impl Cluster {
    async fn review_access(&self, review: &SubjectAccessReview) -> Result<bool, ClusterError> {
        let api: Api<SubjectAccessReview> = Api::all(self.client());
        let operation = self.operation("create", "subjectaccessreviews");
        let params = PostParams::default();
        let asked = api.create(&params, review);
        let reviewed = self.request(&operation, asked).await.map_err(|error| {
            error.with_hint(
                "grant it with the rule {apiGroups: [\"authorization.k8s.io\"], resources: \
                 [\"subjectaccessreviews\"], verbs: [\"create\"]} in a ClusterRole of the server",
            )
        })?;
        Ok(reviewed.status.is_some_and(|status| status.allowed))
    }
}

fn review(user: &KubernetesUser, question: &AccessQuestion) -> SubjectAccessReview {
    let AccessQuestion { action, namespace } = question;
    let groups = user.groups().iter().map(|group| group.as_ref().to_owned());
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.name().to_owned()),
            groups: Some(groups.collect()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(action.verb.to_owned()),
                group: Some(action.group.clone().into_owned()),
                resource: Some(action.resource.clone().into_owned()),
                subresource: action.subresource.map(str::to_owned),
                namespace: namespace.as_deref().map(str::to_owned),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubecrier_core::access::Action;

    #[test]
    fn a_review_has_all_that_authorizers_look_at() {
        let user = KubernetesUser::new("ann", ["dev"]).unwrap();
        let asked = review(&user, &AccessQuestion::within(Action::GET_LOGS, "shop"));
        let expected = serde_json::json!({
            "user": "ann", "groups": ["dev", "system:authenticated"],
            "resourceAttributes": {
                "group": "", "resource": "pods", "subresource": "log", "verb": "get",
                "namespace": "shop",
            },
        });
        assert_eq!(serde_json::to_value(asked.spec).unwrap(), expected);
        let wide = review(&user, &AccessQuestion::within(Action::LIST_EVENTS, ""));
        assert_eq!(wide.spec.resource_attributes.unwrap().namespace, None);
    }
}
