//! Looking a cluster over: does it answer, how fast, is its clock ours, and what may
//! we do there.

use std::time::Duration;

use futures_util::future::join_all;
use http::{Request, header};
use jiff::{Timestamp, fmt::rfc2822};
use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
};
use kube::{Api, api::PostParams, client::Body};
use kubecrier_k8s_api::{BuiltinKind, kinds};
use serde::Serialize;
use tokio::time::Instant;

use super::{
    client::Cluster,
    error::{ClusterError, Operation},
    name::Name,
};

/// Something that a feature has to do in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Need {
    /// As RBAC spells it.
    pub verb: &'static str,
    /// The API group; the core one is empty.
    pub group: &'static str,
    /// As RBAC spells it, with its subresource.
    pub resource: &'static str,
    /// Whether it can be granted in a namespace.
    pub namespaced: bool,
    /// Whether tools fail without it, or only know less.
    pub required: bool,
    /// What is done with it.
    pub purpose: &'static str,
}

/// Everything that is asked of an API server, but for objects of kinds that a caller
/// names.
pub fn needs() -> Vec<Need> {
    let graph = GRAPH
        .iter()
        .flat_map(|kind| ["list", "watch"].map(|verb| need(verb, kind, false, "resources_graph")));
    // The metrics API calls its resources as the core group calls what they measure.
    let usage = [kinds::POD, kinds::NODE].map(|kind| Need {
        group: "metrics.k8s.io",
        ..need("list", &kind, false, "pods_top, nodes_top")
    });
    NEEDS.iter().copied().chain(graph).chain(usage).collect()
}

/// What the graph is made of, in the order in which it is reported.
const GRAPH: [BuiltinKind; 12] = [
    kinds::NAMESPACE,
    kinds::NODE,
    kinds::POD,
    kinds::SERVICE,
    kinds::DEPLOYMENT,
    kinds::REPLICA_SET,
    kinds::STATEFUL_SET,
    kinds::DAEMON_SET,
    kinds::JOB,
    kinds::CRON_JOB,
    kinds::INGRESS,
    kinds::HORIZONTAL_POD_AUTOSCALER,
];

const NEEDS: &[Need] = &[
    need(
        "list",
        &kinds::EVENT,
        true,
        "events_list, faults_list, subscriptions",
    ),
    need("watch", &kinds::EVENT, true, "subscriptions, faults"),
    need("list", &kinds::POD, true, "pods_list"),
    need("get", &kinds::POD, true, "the evidence of faults, labels"),
    Need {
        resource: "pods/log",
        ..need("get", &kinds::POD, true, "pods_log, the logs of faults")
    },
    need(
        "get",
        &kinds::REPLICA_SET,
        false,
        "the deployment behind a fault's pod",
    ),
    need(
        "list",
        &kinds::NAMESPACE,
        false,
        "namespaces_list, patterns of namespaces",
    ),
];

/// How a cluster is.
#[derive(Clone, Debug)]
pub struct Checkup {
    /// Its version, as it says.
    pub version: String,
    /// How long the first request took, with the connection.
    pub first: Duration,
    /// How long another one took.
    pub latency: Duration,
    /// How many seconds its clock is ahead of ours, if it says what time it is.
    pub ahead_seconds: Option<i64>,
    /// Who we are there, if it says.
    pub user: Option<String>,
    /// What we may do.
    pub rights: Vec<Right>,
}

/// Whether a need is met.
#[derive(Clone, Debug)]
pub struct Right {
    /// The need.
    pub need: Need,
    /// Where we may.
    pub granted: Granted,
}

/// Where we may do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Granted {
    /// In all namespaces.
    Everywhere,
    /// In these; in none if there are none.
    Only(Vec<String>),
    /// Nobody says.
    Unknown(String),
}

const fn need(
    verb: &'static str,
    kind: &BuiltinKind,
    required: bool,
    purpose: &'static str,
) -> Need {
    Need {
        verb,
        group: kind.group,
        resource: kind.plural,
        namespaced: kind.namespaced,
        required,
        purpose,
    }
}

// === impl Cluster ===

impl Cluster {
    /// Looks it over; rights that are not granted everywhere are looked for in these
    /// namespaces.
    pub async fn check_up(&self, namespaces: &[Name]) -> Result<Checkup, ClusterError> {
        let began = Instant::now();
        let client = self.client();
        let version = self
            .request(
                &self.operation("get", "version"),
                client.apiserver_version(),
            )
            .await?;
        let first = began.elapsed();
        let began = Instant::now();
        let before = Timestamp::now();
        let ahead_seconds = self.date().await?.map(|date| {
            // Theirs is cut to the second, and from the middle of the request.
            let middle = before + began.elapsed() / 2;
            date.as_second() - middle.as_second()
        });
        let latency = began.elapsed();
        let (user, rights) = futures_util::join!(
            self.user(),
            join_all(needs().into_iter().map(|need| self.right(need, namespaces)))
        );
        Ok(Checkup {
            version: version.git_version,
            first,
            latency,
            ahead_seconds,
            user,
            rights,
        })
    }

    fn operation(&self, verb: &'static str, resource: &'static str) -> Operation<'_> {
        Operation {
            verb,
            resource,
            name: None,
            namespace: None,
            context: self.context(),
        }
    }

    /// What time the server thinks it is.
    async fn date(&self) -> Result<Option<Timestamp>, ClusterError> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = http::Uri::from_static("/version");
        let client = self.client();
        let response = self
            .request(&self.operation("get", "version"), client.send(request))
            .await?;
        let date = response.headers().get(header::DATE);
        Ok(date
            .and_then(|date| rfc2822::parse(date.to_str().ok()?).ok())
            .map(|date| date.timestamp()))
    }

    async fn user(&self) -> Option<String> {
        let api: Api<SelfSubjectReview> = Api::all(self.client());
        let review = SelfSubjectReview::default();
        let operation = self.operation("create", "selfsubjectreviews");
        let params = PostParams::default();
        let answer = self.request(&operation, api.create(&params, &review)).await;
        answer.ok()?.status?.user_info?.username
    }

    async fn right(&self, need: Need, namespaces: &[Name]) -> Right {
        let granted = match self.may(need, None).await {
            Ok(true) => Granted::Everywhere,
            Err(error) => Granted::Unknown(error.to_string()),
            Ok(false) if !need.namespaced => Granted::Only(Vec::new()),
            Ok(false) => {
                let asked = namespaces.iter().map(async |name| {
                    let may = self.may(need, Some(name)).await.unwrap_or_default();
                    may.then(|| name.as_str().to_owned())
                });
                Granted::Only(join_all(asked).await.into_iter().flatten().collect())
            }
        };
        Right { need, granted }
    }

    async fn may(&self, need: Need, namespace: Option<&Name>) -> Result<bool, ClusterError> {
        let (resource, subresource) = match need.resource.split_once('/') {
            Some((resource, sub)) => (resource, Some(sub.to_owned())),
            None => (need.resource, None),
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    group: Some(need.group.to_owned()),
                    resource: Some(resource.to_owned()),
                    subresource,
                    verb: Some(need.verb.to_owned()),
                    namespace: namespace.map(|name| name.as_str().to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client());
        let operation = self.operation("create", "selfsubjectaccessreviews");
        let params = PostParams::default();
        let answer = self
            .request(&operation, api.create(&params, &review))
            .await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

// === impl Granted ===

impl Granted {
    /// Whether there is a place where we may.
    pub fn somewhere(&self) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Only(places) => !places.is_empty(),
            Self::Unknown(_) => false,
        }
    }
}
