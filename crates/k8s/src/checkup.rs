//! The checkup of a cluster: reachability, latency, clock skew and permissions.

mod impersonation;

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

pub use self::impersonation::{ConstrainedScope, Impersonated, ImpersonationReview};
use super::{
    client::Cluster,
    error::{ClusterError, Operation},
    incidents::{blind_without, incident_kinds},
    name::Name,
};

/// A permission that a feature uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Permission {
    /// Verb, as RBAC spells it.
    pub verb: &'static str,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resource, as RBAC spells it, with its subresource.
    pub resource: &'static str,
    /// Whether a Role in a namespace can grant it.
    pub namespaced: bool,
    /// Whether tools fail without it; otherwise they only show less.
    pub required: bool,
    /// Features that use it.
    pub purpose: &'static str,
}

/// All permissions that the server uses, except for kinds that a caller names.
pub fn permissions() -> Vec<Permission> {
    let graph = GRAPH_KINDS.iter().flat_map(|kind| {
        ["list", "watch"].map(|verb| permission(verb, kind, false, "resources_graph"))
    });
    // The metrics API names its resources like the core resources that they measure.
    let usage = [kinds::POD, kinds::NODE].map(|kind| Permission {
        group: "metrics.k8s.io",
        ..permission("list", &kind, false, "pods_top, nodes_top")
    });
    let incidents = incident_kinds()
        .flat_map(|kind| ["list", "watch"].map(|verb| permission(verb, kind, false, INCIDENTS)));
    PERMISSIONS
        .iter()
        .copied()
        .chain(graph)
        .chain(incidents)
        .chain(usage)
        .collect()
}

/// The purpose of permissions for incidents.
const INCIDENTS: &str = "incidents";

/// Kinds of the graph, in the order of the report.
const GRAPH_KINDS: [BuiltinKind; 12] = [
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

const PERMISSIONS: &[Permission] = &[
    permission(
        "list",
        &kinds::EVENT,
        true,
        "events_list, faults_list, subscriptions",
    ),
    permission("watch", &kinds::EVENT, true, "subscriptions, faults"),
    permission("list", &kinds::POD, true, "pods_list"),
    permission("get", &kinds::POD, true, "the evidence of faults, labels"),
    Permission {
        resource: "pods/log",
        ..permission("get", &kinds::POD, true, "pods_log, the logs of faults")
    },
    permission(
        "get",
        &kinds::REPLICA_SET,
        false,
        "the deployment behind a fault's pod",
    ),
    permission(
        "list",
        &kinds::NAMESPACE,
        false,
        "namespaces_list, patterns of namespaces",
    ),
];

// === impl Permission ===

impl Permission {
    /// The detectors of incidents that see nothing, or less, without it.
    pub fn detectors(&self) -> Vec<&'static str> {
        let mut kinds = incident_kinds().filter(|_| self.purpose == INCIDENTS);
        let kind = kinds.find(|kind| kind.is_resource(self.group, self.resource));
        kind.map_or_else(Vec::new, |kind| blind_without(kind).collect())
    }
}

/// The result of a checkup.
#[derive(Clone, Debug)]
pub struct Checkup {
    /// Version that the API server reports.
    pub version: String,
    /// Version that it behaves as, such as `v1.35`, where that is an older one
    /// (`--emulated-version`).
    pub emulated: Option<String>,
    /// Time of the first request, including the connection.
    pub first_latency: Duration,
    /// Time of a request on an open connection.
    pub latency: Duration,
    /// Seconds that the clock of the API server is ahead of the local clock, if it sends a Date.
    pub clock_skew_seconds: Option<i64>,
    /// User name of the credentials, if the API server reports it.
    pub user: Option<String>,
    /// Review of each permission.
    pub permissions: Vec<PermissionReview>,
}

/// The review of one permission.
#[derive(Clone, Debug)]
pub struct PermissionReview {
    /// Permission that was reviewed.
    pub permission: Permission,
    /// Where it is granted.
    pub granted: GrantedScope,
}

/// Where a permission is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantedScope {
    /// In all namespaces.
    Everywhere,
    /// In these namespaces; if empty, in none.
    Only(Vec<String>),
    /// The review failed with this error.
    Unknown(String),
}

const fn permission(
    verb: &'static str,
    kind: &BuiltinKind,
    required: bool,
    purpose: &'static str,
) -> Permission {
    Permission {
        verb,
        group: kind.group,
        resource: kind.plural,
        namespaced: kind.namespaced,
        required,
        purpose,
    }
}

// === impl Checkup ===

impl Checkup {
    /// Version that says what the API server can do.
    pub fn effective_version(&self) -> &str {
        self.emulated.as_deref().unwrap_or(&self.version)
    }
}

// === impl Cluster ===

impl Cluster {
    /// Checks the cluster. A permission that is not granted in all namespaces is reviewed in
    /// each of these namespaces.
    pub async fn check_up(&self, namespaces: &[Name]) -> Result<Checkup, ClusterError> {
        let began = Instant::now();
        let client = self.client();
        let version = self
            .request(
                &self.operation("get", "version"),
                client.apiserver_version(),
            )
            .await?;
        let first_latency = began.elapsed();
        let began = Instant::now();
        let before = Timestamp::now();
        let clock_skew_seconds = self.date().await?.map(|date| {
            // The Date header has whole seconds, and was taken in the middle of the request.
            let middle = before + began.elapsed() / 2;
            date.as_second() - middle.as_second()
        });
        let latency = began.elapsed();
        let (user, permissions) = futures_util::join!(
            self.user(),
            join_all(
                permissions()
                    .into_iter()
                    .map(|permission| self.review_permission(permission, namespaces))
            )
        );
        let emulated = version.emulation_major.zip(version.emulation_minor);
        let emulated = emulated.filter(|(major, minor)| {
            (major, minor) != (&version.major, &version.minor) && !minor.is_empty()
        });
        Ok(Checkup {
            version: version.git_version,
            emulated: emulated.map(|(major, minor)| format!("v{major}.{minor}")),
            first_latency,
            latency,
            clock_skew_seconds,
            user,
            permissions,
        })
    }

    pub(super) fn operation(&self, verb: &'static str, resource: &'static str) -> Operation<'_> {
        Operation {
            verb,
            resource,
            name: None,
            namespace: None,
            context: self.context(),
        }
    }

    /// The clock of the API server, by its Date header.
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
        let reviewed = self.request(&operation, api.create(&params, &review)).await;
        reviewed.ok()?.status?.user_info?.username
    }

    async fn review_permission(
        &self,
        permission: Permission,
        namespaces: &[Name],
    ) -> PermissionReview {
        let granted = match self.is_allowed(permission, None).await {
            Ok(true) => GrantedScope::Everywhere,
            Err(error) => GrantedScope::Unknown(error.to_string()),
            Ok(false) if !permission.namespaced => GrantedScope::Only(Vec::new()),
            Ok(false) => {
                let reviews = namespaces.iter().map(async |name| {
                    let is_allowed = self
                        .is_allowed(permission, Some(name))
                        .await
                        .unwrap_or_default();
                    is_allowed.then(|| name.as_str().to_owned())
                });
                GrantedScope::Only(join_all(reviews).await.into_iter().flatten().collect())
            }
        };
        PermissionReview {
            permission,
            granted,
        }
    }

    /// Whether the credentials have a permission in a namespace, or in all.
    pub(super) async fn is_allowed(
        &self,
        permission: Permission,
        namespace: Option<&Name>,
    ) -> Result<bool, ClusterError> {
        let (resource, subresource) = match permission.resource.split_once('/') {
            Some((resource, sub)) => (resource, Some(sub.to_owned())),
            None => (permission.resource, None),
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    group: Some(permission.group.to_owned()),
                    resource: Some(resource.to_owned()),
                    subresource,
                    verb: Some(permission.verb.to_owned()),
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
        let reviewed = self
            .request(&operation, api.create(&params, &review))
            .await?;
        Ok(reviewed.status.is_some_and(|status| status.allowed))
    }
}
