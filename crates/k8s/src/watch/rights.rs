//! Rights that a subscription will miss later, told when it is made.

use futures_util::future::join_all;
use kubecrier_k8s_api::{BuiltinKind, kinds::POD};
use tokio::time::Duration;

use super::{Watches, scope::Scope, source::WatchStart};
use crate::{
    checkup::Permission,
    client::Cluster,
    error::{ClusterError, ErrorKind},
    impersonation::Actor,
    name::Name,
};
use kubecrier_core::{
    filters::{Filters, Mode},
    ttl_cache::{CacheLimits, TtlCache},
};

/// Rights change rarely, and many subscriptions need the same.
const RIGHTS: CacheLimits = CacheLimits::new(1024, Duration::from_mins(1));

/// Namespaces whose rights are reviewed for one subscription.
const REVIEWED_MAX: usize = 8;

/// Answers to access reviews: whether something may be had there.
#[derive(Debug)]
pub(super) struct Rights {
    granted: TtlCache<RightKey, bool>,
}

/// The kubeconfig's generation, the context, the resource, and the namespace or all.
type RightKey = (u64, String, Resource, Option<String>);

/// A resource that a right is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Resource {
    group: &'static str,
    /// As RBAC spells it, with its subresource.
    name: &'static str,
    namespaced: bool,
}

// === impl Rights ===

impl Default for Rights {
    fn default() -> Self {
        Self {
            granted: TtlCache::new(RIGHTS),
        }
    }
}

// === impl Resource ===

impl From<BuiltinKind> for Resource {
    fn from(kind: BuiltinKind) -> Self {
        Self {
            group: kind.group,
            name: kind.plural,
            namespaced: kind.namespaced,
        }
    }
}

impl Watches {
    /// Warns of what a subscription needs and will be refused: the pods and logs of faults,
    /// and the labels of the objects that it selects by them.
    pub(super) async fn missing_rights(
        &self,
        context: &str,
        filters: &Filters,
        starts: &[(Scope, WatchStart)],
        warnings: &mut Vec<String>,
    ) {
        if filters.selects_labels() {
            self.unreadable_labels(context, filters, starts, warnings)
                .await;
        }
        if filters.mode() == Mode::Events {
            return;
        }
        // Without the pod its logs are not even asked for.
        let pods = Resource::from(POD);
        let logs = Resource {
            name: "pods/log",
            ..pods
        };
        let alone = "faults come without evidence, only with their event";
        for (resource, consequence) in [(pods, alone), (logs, "faults come without logs")] {
            if resource == logs && self.shared.contexts.hides_logs() {
                warnings.push(format!("{consequence}: the operator has switched logs off"));
                return;
            }
            if let Some(place) = self.forbidden(context, resource, starts).await {
                let name = resource.name;
                warnings.push(format!(
                    "{consequence}: getting `{name}` is forbidden {place}; grant it with the \
                     rule {{apiGroups: [\"\"], resources: [\"{name}\"], verbs: [\"get\"]}}"
                ));
                return;
            }
        }
    }

    /// Warns of labels that cannot be known. Of kinds that the filters do not name, only pods
    /// are reviewed: most events are about them, and a notice tells of the others.
    async fn unreadable_labels(
        &self,
        context: &str,
        filters: &Filters,
        starts: &[(Scope, WatchStart)],
        warnings: &mut Vec<String>,
    ) {
        let kind = filters.involved().0.unwrap_or("Pod");
        if kind == "Secret" {
            warnings.push(
                "the labels of Secrets are never read, so that no event about one matches a label \
                 selector"
                    .to_owned(),
            );
            return;
        }
        // Of other kinds it turns out with their first event.
        let Some(known) = BuiltinKind::of_kind(kind) else {
            return;
        };
        if let Some(place) = self
            .forbidden(context, Resource::from(*known), starts)
            .await
        {
            warnings.push(format!(
                "the labels of a {kind} cannot be known, so that no event about one matches a label \
                 selector: getting `{}` is forbidden {place}",
                known.plural
            ));
        }
    }

    /// Where getting this resource is forbidden, if it is and that can be known.
    async fn forbidden(
        &self,
        context: &str,
        resource: Resource,
        starts: &[(Scope, WatchStart)],
    ) -> Option<String> {
        let namespaces = starts.iter().map(|(scope, _)| scope.namespace.as_deref());
        let refused = namespaces.take(REVIEWED_MAX).map(async |namespace| {
            let granted = self.may_get(context, resource, namespace).await;
            (granted == Some(false)).then(|| namespace.map(str::to_owned))
        });
        let refused: Vec<_> = join_all(refused).await.into_iter().flatten().collect();
        match refused.as_slice() {
            [] => None,
            [None, ..] => Some("in namespaces without a Role that grants it".to_owned()),
            named => {
                let named: Vec<_> = named.iter().flatten().map(String::as_str).collect();
                Some(format!("in `{}`", named.join("`, `")))
            }
        }
    }

    /// Whether this may be read there; `None` if the cluster does not say.
    async fn may_get(
        &self,
        context: &str,
        resource: Resource,
        namespace: Option<&str>,
    ) -> Option<bool> {
        let contexts = &self.shared.contexts;
        let key = (
            contexts.generation(),
            context.to_owned(),
            resource,
            namespace.map(str::to_owned),
        );
        if let Some(known) = self.shared.rights.granted.get(&key) {
            return Some(known);
        }
        let namespace = namespace.map(|name| Name::label("namespace", name));
        let namespace = namespace.transpose().ok()?;
        let permission = Permission {
            verb: "get",
            group: resource.group,
            resource: resource.name,
            namespaced: resource.namespaced,
            required: false,
            purpose: "",
        };
        let review = async |cluster: Cluster| {
            let namespace = namespace.as_ref();
            cluster.is_allowed(permission, namespace).await
        };
        let granted: Result<bool, ClusterError> = contexts
            .with_cluster(&Actor::Server, Some(context), review)
            .await;
        let granted = granted.ok()?;
        self.shared.rights.granted.insert(key, granted);
        Some(granted)
    }
}

/// The scopes that may be read; a warning names those that may not, if others may.
pub(super) fn without_forbidden(
    probes: Vec<(Scope, Result<WatchStart, ClusterError>)>,
    warnings: &mut Vec<String>,
) -> Result<Vec<(Scope, WatchStart)>, ClusterError> {
    let (mut starts, mut refused) = (Vec::new(), Vec::new());
    let mut first_error = None;
    for (scope, probe) in probes {
        match probe {
            Ok(start) => starts.push((scope, start)),
            Err(error) if error.kind() == ErrorKind::Forbidden => {
                refused.extend(scope.namespace);
                first_error.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match first_error {
        Some(error) if starts.is_empty() => Err(error),
        Some(_) => {
            warnings.push(format!(
                "events of `{}` may not be read, the other namespaces are watched; grant `list` and \
                 `watch` of `events` there, and subscribe again",
                refused.join("`, `")
            ));
            Ok(starts)
        }
        None => Ok(starts),
    }
}
