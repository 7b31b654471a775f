//! The kinds of a cluster, custom ones included, by discovery.

use std::{sync::Arc, time::Duration};

use futures_util::future;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};

use kubecrier_core::ttl_cache::{CacheLimits, TtlCache};
use kubecrier_k8s_api::{kinds::SECRET, names};

use super::{
    client::Cluster,
    error::{ClusterError, ErrorKind, Operation},
    name::Name,
    read_only::Refused,
};

/// The lifetime of a discovery; a kind that is not in it leads to a new one at once.
const DISCOVERY_TTL: Duration = Duration::from_mins(5);

/// No new discovery for an unknown kind within this time of the last one.
const REDISCOVERY_PAUSE: Duration = Duration::from_secs(2);

/// More kinds than any cluster has; the rest is not known here.
const KINDS_MAX: usize = 10_000;

/// Names that are offered for one that does not exist.
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
    short: Vec<String>,
    pub(super) namespaced: bool,
    listable: bool,
}

/// The kinds of one cluster, as of the last discovery.
#[derive(Debug)]
pub(super) struct KnownKinds(TtlCache<(), Arc<[ApiKind]>>);

impl Default for KnownKinds {
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

    /// The path of its objects.
    pub(super) fn path(&self, namespace: Option<&Name>) -> String {
        let namespace = namespace.filter(|_| self.namespaced).map(Name::as_str);
        names::collection_path(&self.group, &self.version, &self.plural, namespace)
    }

    pub(super) fn is_secret(&self) -> bool {
        (self.group.as_str(), self.kind.as_str()) == (SECRET.group, SECRET.kind)
    }

    fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let names = [&self.kind, &self.plural, &self.singular].into_iter();
        names.chain(&self.short).map(String::as_str)
    }

    /// Whether it is what a caller means by `deploy`, `Deployment`,
    /// `deployments.apps` or `deployments.v1.apps`.
    fn is(&self, word: &str, api_version: Option<&str>) -> bool {
        if api_version.is_some_and(|version| version != self.api_version()) {
            return false;
        }
        let (word, rest) = word.split_once('.').unwrap_or((word, ""));
        let place = rest.is_empty()
            || rest == self.group
            || rest == format!("{}.{}", self.version, self.group);
        place && self.names().any(|name| name.eq_ignore_ascii_case(word))
    }

    /// Nothing that a server says becomes part of a path unless it could be one.
    fn checked(self) -> Option<Self> {
        let group = self.group.is_empty() || Name::dns("group", &self.group).is_ok();
        let rest = Name::label("version", &self.version).and(Name::dns("kind", &self.plural));
        let readable = group && rest.is_ok() && self.listable && self.kind.len() <= 253;
        readable.then_some(self)
    }
}

// === impl Cluster ===

impl Cluster {
    /// The kind that a caller means.
    pub(super) async fn kind(
        &self,
        word: &str,
        api_version: Option<&str>,
    ) -> Result<ApiKind, ClusterError> {
        let kinds = self.kinds(DISCOVERY_TTL).await?;
        let found = choose(&kinds, word, api_version).cloned();
        let kinds = match found {
            Some(kind) => return self.allowed(kind),
            // It may have been made since.
            None => self.kinds(REDISCOVERY_PAUSE).await?,
        };
        match choose(&kinds, word, api_version).cloned() {
            Some(kind) => self.allowed(kind),
            None => Err(unknown(&kinds, word, api_version, self.context())),
        }
    }

    fn allowed(&self, kind: ApiKind) -> Result<ApiKind, ClusterError> {
        let names: Vec<_> = kind.names().collect();
        if !self.denied().denies(&kind.group, names) {
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
            &Refused::Denied(kind.kind),
        ))
    }

    /// Every kind, discovered not longer ago than this.
    async fn kinds(&self, age_max: Duration) -> Result<Arc<[ApiKind]>, ClusterError> {
        if let Some(kinds) = self.known_kinds().0.get_younger_than(&(), age_max) {
            return Ok(kinds);
        }
        let operation = Operation {
            verb: "get",
            resource: "api kinds",
            name: None,
            namespace: None,
            context: self.context(),
        };
        let client = self.client();
        let (core, groups) = future::try_join(
            self.request(&operation, client.list_core_api_versions_aggregated()),
            self.request(&operation, client.list_api_groups_aggregated()),
        )
        .await?;
        let mut kinds: Vec<_> = core
            .items
            .into_iter()
            .chain(groups.items)
            .flat_map(of_group)
            .collect();
        if kinds.is_empty() {
            kinds = self.kinds_by_group(&operation).await?;
        }
        let kinds = kinds.into_iter().filter_map(ApiKind::checked);
        let kinds: Arc<[ApiKind]> = kinds.take(KINDS_MAX).collect();
        self.known_kinds().0.insert((), Arc::clone(&kinds));
        Ok(kinds)
    }

    /// The same from a server that tells them only group by group.
    async fn kinds_by_group(
        &self,
        operation: &Operation<'_>,
    ) -> Result<Vec<ApiKind>, ClusterError> {
        let client = self.client();
        let core = self
            .request(operation, client.list_core_api_resources("v1"))
            .await?;
        let groups = self.request(operation, client.list_api_groups()).await?;
        let mut kinds: Vec<_> = core
            .resources
            .into_iter()
            .map(|one| of_list("", "v1", one))
            .collect();
        for group in groups.groups {
            let Some(version) = group
                .preferred_version
                .or(group.versions.into_iter().next())
            else {
                continue;
            };
            let asked = client.list_api_group_resources(&version.group_version);
            // One extension that is down does not hide the others.
            let Ok(answer) = self.request(operation, asked).await else {
                continue;
            };
            let each = |one| of_list(&group.name, &version.version, one);
            kinds.extend(answer.resources.into_iter().map(each));
        }
        Ok(kinds)
    }
}

/// The kinds of a group, each in the version that its server prefers.
fn of_group(group: APIGroupDiscovery) -> Vec<ApiKind> {
    let name = group
        .metadata
        .and_then(|meta| meta.name)
        .unwrap_or_default();
    let mut kinds: Vec<ApiKind> = Vec::new();
    for version in group.versions {
        let number = version.version.unwrap_or_default();
        for resource in version.resources {
            kinds.push(of_resource(&name, &number, resource));
        }
    }
    kinds
}

fn of_resource(group: &str, version: &str, one: APIResourceDiscovery) -> ApiKind {
    ApiKind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: one
            .response_kind
            .and_then(|kind| kind.kind)
            .unwrap_or_default(),
        plural: one.resource.unwrap_or_default(),
        singular: one.singular_resource.unwrap_or_default(),
        short: one.short_names,
        namespaced: one.scope.as_deref() == Some("Namespaced"),
        listable: one.verbs.iter().any(|verb| verb == "list"),
    }
}

fn of_list(group: &str, version: &str, one: APIResource) -> ApiKind {
    ApiKind {
        group: group.to_owned(),
        version: version.to_owned(),
        // A subresource has a slash, which no path part may have.
        plural: one.name,
        kind: one.kind,
        singular: one.singular_name,
        short: one.short_names.unwrap_or_default(),
        namespaced: one.namespaced,
        listable: one.verbs.iter().any(|verb| verb == "list"),
    }
}

/// The API server's own order decides, as it does for kubectl; the core group is
/// first, and an exact spelling comes before a short name.
fn choose<'a>(kinds: &'a [ApiKind], word: &str, api_version: Option<&str>) -> Option<&'a ApiKind> {
    let mut fitting = kinds.iter().filter(|kind| kind.is(word, api_version));
    let first = fitting.next()?;
    let exact = |kind: &&ApiKind| {
        let base = word.split('.').next().unwrap_or(word);
        kind.kind == base || kind.plural.eq_ignore_ascii_case(base)
    };
    if exact(&first) {
        return Some(first);
    }
    fitting.find(exact).or(Some(first))
}

fn unknown(
    kinds: &[ApiKind],
    word: &str,
    api_version: Option<&str>,
    context: &str,
) -> ClusterError {
    let shown: String = word.chars().take(100).collect();
    let shown = shown.escape_debug();
    let version = api_version.map(|text| {
        let text: String = text.chars().take(100).collect();
        format!(" of apiVersion `{}`", text.escape_debug())
    });
    let other = kinds.iter().find(|kind| kind.is(word, None));
    let hint = match other {
        Some(kind) if api_version.is_some() => {
            format!(
                "`{}` is served as apiVersion {}",
                kind.full_name(),
                kind.api_version()
            )
        }
        _ => format!("nearest: {}", nearest(kinds, word).join(", ")),
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

/// The names that a typing error is fewest letters away from.
fn nearest(kinds: &[ApiKind], word: &str) -> Vec<String> {
    let word: String = word
        .split('.')
        .next()
        .unwrap_or(word)
        .chars()
        .take(63)
        .collect();
    let word = word.to_lowercase();
    let distance = |kind: &ApiKind| {
        let each = |name: &str| {
            let name = name.to_lowercase();
            let apart = strsim::damerau_levenshtein(&name, &word);
            // Somebody who knows a part of the name knows more than letters.
            let part = word.len() > 2 && (name.contains(&word) || word.contains(&name));
            if part && name.len() > 2 {
                apart.min(2)
            } else {
                apart
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

    fn kind(group: &str, version: &str, kind: &str, plural: &str, short: &[&str]) -> ApiKind {
        ApiKind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short: short.iter().map(ToString::to_string).collect(),
            namespaced: true,
            listable: true,
        }
    }

    fn some() -> Vec<ApiKind> {
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
    fn check(word: &str, api_version: Option<&str>, expected: &str) {
        let kinds = some();
        let found = choose(&kinds, word, api_version).map(ApiKind::full_name);
        assert_eq!(found.unwrap_or_default(), expected, "{word}");
    }

    #[test]
    fn kinds_are_written_as_kubectl_takes_them() {
        for word in ["Pod", "pod", "pods", "po", "PODS"] {
            check(word, None, "pods");
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
        let near = |word: &str| nearest(&some(), word).remove(0);
        assert_eq!(near("deploymnet"), "deployments.apps");
        assert_eq!(near("cronjbo"), "cronjobs.batch");
        assert_eq!(near("job"), "cronjobs.batch");
        let long = "x".repeat(100_000);
        assert!(unknown(&some(), &long, None, "dev").to_string().len() < 300);
        let hint = unknown(&some(), "Pod", Some("v9"), "dev");
        assert_eq!(hint.hint(), Some("`pods` is served as apiVersion v1"));
    }

    #[test]
    fn nothing_a_server_says_leaves_its_place_in_a_path() {
        let safe = kind("x.io", "v1", "A", "as", &[]);
        assert!(safe.clone().checked().is_some());
        for (group, version, plural) in [
            ("x.io/v1/secrets", "v1", "as"),
            ("..", "v1", "as"),
            ("x.io", "v1/../..", "as"),
            ("x.io", "v1", "as/b"),
            ("x.io", "v1", "as?x="),
            ("x.io", "", "as"),
        ] {
            assert!(
                kind(group, version, "A", plural, &[]).checked().is_none(),
                "{group} {plural}"
            );
        }
        let unreadable = ApiKind {
            listable: false,
            ..safe
        };
        assert!(unreadable.checked().is_none());
    }

    proptest::proptest! {
        #[test]
        fn fuzz_any_word_is_a_kind_or_has_neighbours(word in "\\PC{0,80}|[a-z.]{0,30}") {
            let kinds = some();
            if choose(&kinds, &word, None).is_none() {
                let error = unknown(&kinds, &word, None, "dev");
                proptest::prop_assert!(error.hint().is_some_and(|hint| hint.starts_with("nearest: ")));
            }
        }
    }
}
