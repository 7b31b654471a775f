//! The kinds of a cluster, custom ones included, by discovery.

use std::{sync::Arc, time::Duration};

use futures_util::future;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};

use kubecrier_core::ttl_cache::{CacheLimits, TtlCache};
use kubecrier_k8s_api::{
    BuiltinKind,
    kinds::{EVENT, EVENTS_K8S_IO_EVENT, NAMESPACE, SECRET},
    names,
};

use super::{
    client::Cluster,
    error::{ClusterError, ErrorKind, Operation},
    name::Name,
    read_only::RefusedRequest,
};

/// How long discovery is cached; an unknown kind leads to a new discovery at once.
const DISCOVERY_TTL: Duration = Duration::from_mins(5);

/// The shortest time between two discoveries for unknown kinds.
const REDISCOVERY_PAUSE: Duration = Duration::from_secs(2);

/// Kinds that are kept; more than any cluster has.
const KINDS_MAX: usize = 10_000;

/// Names that are suggested for a kind that does not exist.
const NEAREST_MAX: usize = 5;

/// A kind of object that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiKind {
    /// Empty for the core group.
    pub(super) group: String,
    pub(super) version: String,
    /// As objects spell it: `Deployment`.
    pub(super) kind: String,
    /// As paths spell it: `deployments`.
    pub(super) plural: String,
    singular: String,
    short_names: Vec<String>,
    pub(super) namespaced: bool,
    listable: bool,
}

/// The kinds of one cluster, as of the last discovery.
#[derive(Debug)]
pub(super) struct DiscoveryCache(TtlCache<(), Arc<[ApiKind]>>);

impl Default for DiscoveryCache {
    fn default() -> Self {
        Self(TtlCache::new(CacheLimits::new(1, DISCOVERY_TTL)))
    }
}

// === impl ApiKind ===

impl ApiKind {
    /// As `apiVersion` is written.
    pub(super) fn api_version(&self) -> String {
        names::group_version(&self.group, &self.version)
    }

    /// As kubectl and RBAC spell it: `deployments.apps`.
    pub(super) fn full_name(&self) -> String {
        names::group_resource(&self.group, &self.plural)
    }

    /// The path of the collection.
    pub(super) fn path(&self, namespace: Option<&Name>) -> String {
        let namespace = namespace.filter(|_| self.namespaced).map(Name::as_str);
        names::collection_path(&self.group, &self.version, &self.plural, namespace)
    }

    pub(super) fn is_namespace(&self) -> bool {
        NAMESPACE.is_resource(&self.group, &self.plural)
    }

    /// Whether it is Event, of either group.
    pub(super) fn is_event(&self) -> bool {
        let is = |kind: &BuiltinKind| kind.is_resource(&self.group, &self.plural);
        is(&EVENT) || is(&EVENTS_K8S_IO_EVENT)
    }

    pub(super) fn is_secret(&self) -> bool {
        (self.group.as_str(), self.kind.as_str()) == (SECRET.group, SECRET.kind)
    }

    fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let names = [&self.kind, &self.plural, &self.singular].into_iter();
        names.chain(&self.short_names).map(String::as_str)
    }

    /// Whether a caller names this kind: as `deploy`, `Deployment`, `deployments.apps` or
    /// `deployments.v1.apps`.
    fn is(&self, requested: &str, api_version: Option<&str>) -> bool {
        if api_version.is_some_and(|version| version != self.api_version()) {
            return false;
        }
        let (requested, rest) = requested.split_once('.').unwrap_or((requested, ""));
        let is_group_match = rest.is_empty()
            || rest == self.group
            || rest == format!("{}.{}", self.version, self.group);
        is_group_match
            && self
                .names()
                .any(|name| name.eq_ignore_ascii_case(requested))
    }

    /// Drops a kind whose names are not valid in a path: they come from a server.
    fn validated(self) -> Option<Self> {
        let group = self.group.is_empty() || Name::dns("group", &self.group).is_ok();
        let rest = Name::label("version", &self.version).and(Name::dns("kind", &self.plural));
        let readable = group && rest.is_ok() && self.listable && self.kind.len() <= 253;
        readable.then_some(self)
    }
}

// === impl Cluster ===

impl Cluster {
    /// Resolves a kind as a caller names it.
    pub(super) async fn kind(
        &self,
        requested: &str,
        api_version: Option<&str>,
    ) -> Result<ApiKind, ClusterError> {
        let kinds = self.kinds(DISCOVERY_TTL).await?;
        let found = choose(&kinds, requested, api_version).cloned();
        let kinds = match found {
            Some(kind) => return self.check_not_denied(kind),
            // It may have been created since.
            None => self.kinds(REDISCOVERY_PAUSE).await?,
        };
        match choose(&kinds, requested, api_version).cloned() {
            Some(kind) => self.check_not_denied(kind),
            None => Err(unknown(&kinds, requested, api_version, self.context())),
        }
    }

    fn check_not_denied(&self, kind: ApiKind) -> Result<ApiKind, ClusterError> {
        let names: Vec<_> = kind.names().collect();
        if !self.scope().denied.denies(&kind.group, names) {
            return Ok(kind);
        }
        let operation = Operation {
            verb: "read",
            resource: &kind.full_name(),
            name: None,
            namespace: None,
            context: self.context(),
        };
        Err(ClusterError::refused(
            &operation,
            &RefusedRequest::Denied(kind.kind),
        ))
    }

    /// All kinds, from a discovery of at most this age.
    async fn kinds(&self, age_max: Duration) -> Result<Arc<[ApiKind]>, ClusterError> {
        if let Some(kinds) = self.discovery_cache().0.get_younger_than(&(), age_max) {
            return Ok(kinds);
        }
        let operation = Operation {
            verb: "get",
            resource: "api kinds",
            name: None,
            namespace: None,
            context: self.context(),
        };
        let client = self.own_client();
        let (core, groups) = future::try_join(
            self.request(&operation, client.list_core_api_versions_aggregated()),
            self.request(&operation, client.list_api_groups_aggregated()),
        )
        .await?;
        let mut kinds: Vec<_> = core
            .items
            .into_iter()
            .chain(groups.items)
            .flat_map(from_group)
            .collect();
        if kinds.is_empty() {
            kinds = self.kinds_by_group(&operation).await?;
        }
        let kinds = kinds.into_iter().filter_map(ApiKind::validated);
        let kinds: Arc<[ApiKind]> = kinds.take(KINDS_MAX).collect();
        self.discovery_cache().0.insert((), Arc::clone(&kinds));
        Ok(kinds)
    }

    /// All kinds, from an API server without aggregated discovery.
    async fn kinds_by_group(
        &self,
        operation: &Operation<'_>,
    ) -> Result<Vec<ApiKind>, ClusterError> {
        let client = self.own_client();
        let core = self
            .request(operation, client.list_core_api_resources("v1"))
            .await?;
        let groups = self.request(operation, client.list_api_groups()).await?;
        let mut kinds: Vec<_> = core
            .resources
            .into_iter()
            .map(|resource| from_api_resource("", "v1", resource))
            .collect();
        for group in groups.groups {
            let Some(version) = group
                .preferred_version
                .or(group.versions.into_iter().next())
            else {
                continue;
            };
            let resources_request = client.list_api_group_resources(&version.group_version);
            // One aggregated API that is down must not hide the others.
            let Ok(list) = self.request(operation, resources_request).await else {
                continue;
            };
            let each = |resource| from_api_resource(&group.name, &version.version, resource);
            kinds.extend(list.resources.into_iter().map(each));
        }
        Ok(kinds)
    }
}

/// The kinds of a group, in the order of its versions: the preferred one first.
fn from_group(group: APIGroupDiscovery) -> Vec<ApiKind> {
    let name = group
        .metadata
        .and_then(|meta| meta.name)
        .unwrap_or_default();
    let mut kinds: Vec<ApiKind> = Vec::new();
    for version in group.versions {
        let number = version.version.unwrap_or_default();
        for resource in version.resources {
            kinds.push(from_discovery(&name, &number, resource));
        }
    }
    kinds
}

fn from_discovery(group: &str, version: &str, resource: APIResourceDiscovery) -> ApiKind {
    ApiKind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: resource
            .response_kind
            .and_then(|kind| kind.kind)
            .unwrap_or_default(),
        plural: resource.resource.unwrap_or_default(),
        singular: resource.singular_resource.unwrap_or_default(),
        short_names: resource.short_names,
        namespaced: resource.scope.as_deref() == Some("Namespaced"),
        listable: resource.verbs.iter().any(|verb| verb == "list"),
    }
}

fn from_api_resource(group: &str, version: &str, resource: APIResource) -> ApiKind {
    ApiKind {
        group: group.to_owned(),
        version: version.to_owned(),
        // A subresource has a slash, which `validated` rejects.
        plural: resource.name,
        kind: resource.kind,
        singular: resource.singular_name,
        short_names: resource.short_names.unwrap_or_default(),
        namespaced: resource.namespaced,
        listable: resource.verbs.iter().any(|verb| verb == "list"),
    }
}

/// Chooses by the order of the API server, as kubectl does: the core group is first, and an
/// exact spelling comes before a short name.
fn choose<'a>(
    kinds: &'a [ApiKind],
    requested: &str,
    api_version: Option<&str>,
) -> Option<&'a ApiKind> {
    let mut candidates = kinds.iter().filter(|kind| kind.is(requested, api_version));
    let first = candidates.next()?;
    let exact = |kind: &&ApiKind| {
        let base = requested.split('.').next().unwrap_or(requested);
        kind.kind == base || kind.plural.eq_ignore_ascii_case(base)
    };
    if exact(&first) {
        return Some(first);
    }
    candidates.find(exact).or(Some(first))
}

fn unknown(
    kinds: &[ApiKind],
    requested: &str,
    api_version: Option<&str>,
    context: &str,
) -> ClusterError {
    let shown: String = requested.chars().take(100).collect();
    let shown = shown.escape_debug();
    let version = api_version.map(|text| {
        let text: String = text.chars().take(100).collect();
        format!(" of apiVersion `{}`", text.escape_debug())
    });
    let in_other_version = kinds.iter().find(|kind| kind.is(requested, None));
    let hint = match in_other_version {
        Some(kind) if api_version.is_some() => {
            format!(
                "`{}` is served as apiVersion {}",
                kind.full_name(),
                kind.api_version()
            )
        }
        _ => format!("nearest: {}", nearest(kinds, requested).join(", ")),
    };
    ClusterError::new(
        ErrorKind::NotFound,
        format!(
            "cannot read `{shown}`{} of context `{context}`",
            version.unwrap_or_default()
        ),
        "the cluster has no such kind",
        Some(hint),
    )
}

/// The names with the smallest edit distance.
fn nearest(kinds: &[ApiKind], requested: &str) -> Vec<String> {
    let requested: String = requested
        .split('.')
        .next()
        .unwrap_or(requested)
        .chars()
        .take(63)
        .collect();
    let requested = requested.to_lowercase();
    let distance = |kind: &ApiKind| {
        let each = |name: &str| {
            let name = name.to_lowercase();
            let edits = strsim::damerau_levenshtein(&name, &requested);
            // A part of the name is a better match than its edit distance suggests.
            let is_part =
                requested.len() > 2 && (name.contains(&requested) || requested.contains(&name));
            if is_part && name.len() > 2 {
                edits.min(2)
            } else {
                edits
            }
        };
        kind.names().filter(|name| !name.is_empty()).map(each).min()
    };
    let mut all: Vec<_> = kinds
        .iter()
        .map(|kind| (distance(kind), kind.full_name()))
        .collect();
    all.sort();
    let mut names: Vec<_> = all.into_iter().map(|(_, name)| name).collect();
    names.dedup();
    names.truncate(NEAREST_MAX);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str, version: &str, kind: &str, plural: &str, short_names: &[&str]) -> ApiKind {
        ApiKind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: short_names.iter().map(ToString::to_string).collect(),
            namespaced: true,
            listable: true,
        }
    }

    fn sample_kinds() -> Vec<ApiKind> {
        vec![
            kind("", "v1", "Pod", "pods", &["po"]),
            kind("", "v1", "Event", "events", &["ev"]),
            kind("apps", "v1", "Deployment", "deployments", &["deploy"]),
            kind("batch", "v1", "CronJob", "cronjobs", &["cj"]),
            kind("events.k8s.io", "v1", "Event", "events", &["ev"]),
            kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", &[]),
            kind("x.io", "v2", "Pod", "pods", &["po"]),
        ]
    }

    #[track_caller]
    fn check(requested: &str, api_version: Option<&str>, expected: &str) {
        let kinds = sample_kinds();
        let found = choose(&kinds, requested, api_version).map(ApiKind::full_name);
        assert_eq!(found.unwrap_or_default(), expected, "{requested}");
    }

    #[test]
    fn kinds_are_written_as_kubectl_takes_them() {
        for requested in ["Pod", "pod", "pods", "po", "PODS"] {
            check(requested, None, "pods");
        }
        check("deploy", None, "deployments.apps");
        check("deployments.apps", None, "deployments.apps");
        check("Deployment.v1.apps", None, "deployments.apps");
        check("PodMetrics", None, "pods.metrics.k8s.io");
        check("pods.x.io", None, "pods.x.io");
        check("Pod", Some("x.io/v2"), "pods.x.io");
        check("Event", Some("events.k8s.io/v1"), "events.events.k8s.io");
        check("Pod", Some("v2"), "");
        check("pods.y.io", None, "");
        check("", None, "");
    }

    #[test]
    fn the_nearest_names_are_offered() {
        let near = |requested: &str| nearest(&sample_kinds(), requested).remove(0);
        assert_eq!(near("deploymnet"), "deployments.apps");
        assert_eq!(near("cronjbo"), "cronjobs.batch");
        assert_eq!(near("job"), "cronjobs.batch");
        let long = "x".repeat(100_000);
        assert!(
            unknown(&sample_kinds(), &long, None, "dev")
                .to_string()
                .len()
                < 300
        );
        let hint = unknown(&sample_kinds(), "Pod", Some("v9"), "dev");
        assert_eq!(hint.hint(), Some("`pods` is served as apiVersion v1"));
    }

    #[test]
    fn nothing_a_server_says_leaves_its_place_in_a_path() {
        let safe = kind("x.io", "v1", "A", "as", &[]);
        assert!(safe.clone().validated().is_some());
        for (group, version, plural) in [
            ("x.io/v1/secrets", "v1", "as"),
            ("..", "v1", "as"),
            ("x.io", "v1/../..", "as"),
            ("x.io", "v1", "as/b"),
            ("x.io", "v1", "as?x="),
            ("x.io", "", "as"),
        ] {
            assert!(
                kind(group, version, "A", plural, &[]).validated().is_none(),
                "{group} {plural}"
            );
        }
        let unreadable = ApiKind {
            listable: false,
            ..safe
        };
        assert!(unreadable.validated().is_none());
    }

    proptest::proptest! {
        #[test]
        fn fuzz_any_word_is_a_kind_or_has_neighbours(requested in "\\PC{0,80}|[a-z.]{0,30}") {
            let kinds = sample_kinds();
            if choose(&kinds, &requested, None).is_none() {
                let error = unknown(&kinds, &requested, None, "dev");
                proptest::prop_assert!(error.hint().is_some_and(|hint| hint.starts_with("nearest: ")));
            }
        }
    }
}
