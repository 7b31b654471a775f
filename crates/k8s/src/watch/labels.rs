//! The labels of involved objects: looked up once and cached.

use std::sync::Arc;

use futures_util::FutureExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api,
    core::{DynamicObject, GroupVersionKind},
    discovery::{self, ApiResource, Scope},
};
use kubecrier_k8s_api::{BuiltinKind, names::split_group_version};
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Duration, timeout},
};

use crate::{
    Actor, Contexts, Name,
    client::Cluster,
    error::{ClusterError, Operation},
    events,
};
use kubecrier_core::{
    InvolvedObject, Labels,
    subscriptions::LabelUse,
    ttl_cache::{CacheLimits, Lookup, TtlCache},
};
use kubecrier_lifecycle::Lifecycle;

/// Concurrent requests for labels, over all clusters.
const REQUESTS_MAX: usize = 16;

/// The longest time for a request for labels, including the wait for its turn.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time that an event waits for its labels.
pub(super) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);

/// How old labels may be that decide what is delivered: an object that is relabelled
/// matches by its new labels after this time. An object with events costs one request in
/// that time, however many subscriptions select by its labels.
const MATCHED_AGE_MAX: Duration = Duration::from_secs(8);

/// How long it is remembered that a kind could not be read in a namespace.
const UNREADABLE: CacheLimits = CacheLimits::new(1024, Duration::from_mins(1));

const OBJECTS: CacheLimits =
    CacheLimits::new(8192, Duration::from_mins(5)).negative_ttl(Duration::from_secs(10));

const KINDS: CacheLimits =
    CacheLimits::new(512, Duration::from_mins(10)).negative_ttl(Duration::from_mins(1));

/// The resource of a kind, by context and API version, and whether it is namespaced.
type Kinds = TtlCache<(String, String, String), (ApiResource, bool)>;

/// What a lookup of labels finds, if the object is there.
#[derive(Clone, Debug)]
pub(super) enum FoundLabels {
    /// The labels of the object.
    Known(Labels),
    /// The object cannot be read.
    Unreadable,
}

/// Kinds that could not be read, by context, namespace and kind.
type Unreadable = TtlCache<(String, String, String), ()>;

/// Looks up labels and caches them.
pub(super) struct LabelSource {
    contexts: Arc<Contexts>,
    objects: TtlCache<Key, Labels>,
    unreadable: Arc<Unreadable>,
    kinds: Arc<Kinds>,
    requests: Arc<Semaphore>,
    lifecycle: Lifecycle,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    context: String,
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    /// An object that was made anew under the same name, or in the cluster that a
    /// context now names, has labels of its own.
    uid: String,
}

// === impl LabelSource ===

impl LabelSource {
    pub(super) fn new(contexts: Arc<Contexts>, lifecycle: Lifecycle) -> Self {
        Self {
            contexts,
            objects: TtlCache::new(OBJECTS),
            unreadable: Arc::new(TtlCache::new(UNREADABLE)),
            kinds: Arc::new(TtlCache::new(KINDS)),
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            lifecycle,
        }
    }

    /// The labels of an object, if it is there and may be read.
    pub(super) fn of(
        &self,
        context: &str,
        object: &InvolvedObject,
        needed: LabelUse,
    ) -> Lookup<FoundLabels> {
        // Secrets are never requested, not even their metadata.
        if object.kind == "Secret" {
            return Lookup::Ready(Some(FoundLabels::Unreadable));
        }
        if object.kind.is_empty() || object.name.is_empty() {
            return Lookup::Ready(None);
        }
        // These come from an event, and become part of a path.
        let safe = is_api_version(&object.api_version)
            && object.kind.chars().all(|c| c.is_ascii_alphanumeric())
            && Name::dns("object", &object.name).is_ok()
            && (object.namespace.is_empty() || Name::label("namespace", &object.namespace).is_ok());
        if !safe {
            return Lookup::Ready(None);
        }
        let key = Key {
            context: context.to_owned(),
            api_version: api_version(object),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
        };
        let age_max = match needed {
            LabelUse::Matched => MATCHED_AGE_MAX,
            LabelUse::None | LabelUse::Shown => OBJECTS.ttl,
        };
        let unreadable = Arc::clone(&self.unreadable);
        let place = (context.to_owned(), key.namespace.clone(), key.kind.clone());
        let found = move |labels: Option<Labels>| match labels {
            Some(labels) => Some(FoundLabels::Known(labels)),
            None => (unreadable.get(&place)).map(|()| FoundLabels::Unreadable),
        };
        match self.request(key, age_max) {
            Lookup::Ready(labels) => Lookup::Ready(found(labels)),
            Lookup::Pending(request, stale) => Lookup::Pending(
                request.map(found).boxed().shared(),
                stale.map(FoundLabels::Known),
            ),
        }
    }

    fn request(&self, key: Key, age_max: Duration) -> Lookup<Labels> {
        let unreadable = Arc::clone(&self.unreadable);
        self.objects.lookup_younger_than(&key.clone(), age_max, || {
            let contexts = Arc::clone(&self.contexts);
            let kinds = Arc::clone(&self.kinds);
            let requests = Arc::clone(&self.requests);
            let draining = self.lifecycle.draining().clone();
            let (sender, receiver) = oneshot::channel();
            // A task of its own: when an event has stopped waiting, the request must
            // still come to its end, or it would hold its permit for ever.
            self.lifecycle.spawn("labels", async move {
                let request = async {
                    let _permit = requests.acquire_owned().await.ok()?;
                    let context = Some(key.context.as_str());
                    let fetch = |cluster| fetch(cluster, &kinds, &key);
                    contexts
                        .with_cluster(&Actor::Server, context, fetch)
                        .await
                        .ok()
                };
                let found = tokio::select! {
                    found = timeout(REQUEST_TIMEOUT, request) => found.ok().flatten(),
                    () = draining.cancelled() => None,
                };
                if found.is_none() {
                    let Key {
                        context,
                        namespace,
                        kind,
                        ..
                    } = key;
                    unreadable.insert((context, namespace, kind), ());
                }
                let labels = found.flatten();
                // Without a receiver the event was delivered without its labels.
                let _unreceived = sender.send(labels);
            });
            async move { receiver.await.ok().flatten() }
        })
    }
}

/// `v1` or `apps/v1`, or nothing; anything else would ask for another path.
fn is_api_version(text: &str) -> bool {
    let (group, version) = match text.split_once('/') {
        Some((group, version)) => (Some(group), version),
        None => (None, text),
    };
    let is_version = |text: &str| {
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        !text.is_empty() && text.chars().all(word)
    };
    text.is_empty()
        || (is_version(version) && group.is_none_or(|group| Name::dns("group", group).is_ok()))
}

/// Some reporters leave the version of well-known kinds out.
fn api_version(object: &InvolvedObject) -> String {
    if !object.api_version.is_empty() {
        return object.api_version.clone();
    }
    BuiltinKind::of_kind(&object.kind).map_or("v1".to_owned(), BuiltinKind::api_version)
}

async fn fetch(cluster: Cluster, kinds: &Kinds, key: &Key) -> Result<Option<Labels>, ClusterError> {
    let kind = (
        key.context.clone(),
        key.api_version.clone(),
        key.kind.clone(),
    );
    let found = kinds.lookup(&kind, || {
        resource(cluster.clone(), key.api_version.clone(), key.kind.clone())
    });
    let found = match found {
        Lookup::Ready(found) => found,
        Lookup::Pending(request, stale) => request.await.or(stale),
    };
    let Some((resource, namespaced)) = found else {
        return Ok(None);
    };
    let namespace = Some(key.namespace.as_str()).filter(|name| namespaced && !name.is_empty());
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(cluster.client(), namespace, &resource),
        None => Api::all_with(cluster.client(), &resource),
    };
    let operation = Operation {
        verb: "get",
        resource: &resource.plural,
        name: Some(&key.name),
        namespace,
        context: &key.context,
    };
    let request = api.get_metadata_opt(&key.name);
    let Some(object) = cluster.request(&operation, request).await? else {
        return Ok(None);
    };
    let meta = object.metadata;
    let labels = || events::labels(meta.labels.clone().unwrap_or_default(), cluster.redactor());
    Ok(is_meant(key, &meta).then(labels))
}

/// Whether this is the involved object, and not a later one of the same name. A kubelet
/// gives the name of its node in place of a uid, and the hash of the file for a pod that
/// it runs from one.
fn is_meant(key: &Key, meta: &ObjectMeta) -> bool {
    let hash = |name: &str| meta.annotations.as_ref()?.get(name).map(String::as_str);
    let names = [
        Some(key.name.as_str()),
        meta.uid.as_deref(),
        hash("kubernetes.io/config.hash"),
        hash("kubernetes.io/config.mirror"),
    ];
    key.uid.is_empty() || names.contains(&Some(&key.uid))
}

/// The resource of a kind, and whether it is namespaced.
async fn resource(
    cluster: Cluster,
    api_version: String,
    kind: String,
) -> Option<(ApiResource, bool)> {
    let (group, version) = split_group_version(&api_version);
    let kind = GroupVersionKind::gvk(group, version, &kind);
    let client = cluster.client();
    let asked = discovery::pinned_kind(&client, &kind);
    let (resource, capabilities) = timeout(cluster.timeout(), asked).await.ok()?.ok()?;
    // The plural comes from an API and becomes part of a path.
    Name::dns("resource", &resource.plural).ok()?;
    Some((resource, capabilities.scope == Scope::Namespaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_known_by_its_uid_and_by_what_kubelets_take_for_one() {
        let meta = ObjectMeta {
            uid: Some("uid-2".to_owned()),
            annotations: Some(
                [("kubernetes.io/config.mirror".to_owned(), "hash".to_owned())].into(),
            ),
            ..ObjectMeta::default()
        };
        let matches_uid = |uid: &str| {
            let key = Key {
                context: String::new(),
                api_version: String::new(),
                kind: String::new(),
                namespace: String::new(),
                name: "node-1".to_owned(),
                uid: uid.to_owned(),
            };
            is_meant(&key, &meta)
        };
        assert!(
            matches_uid("uid-2") && matches_uid("") && matches_uid("node-1") && matches_uid("hash")
        );
        assert!(!matches_uid("uid-1"), "it was made anew");
    }

    fn pod(labels: serde_json::Value) -> serde_json::Value {
        serde_json::json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []},
            "metadata": {"name": "web", "namespace": "shop", "labels": labels}})
    }

    fn involved(kind: &str) -> InvolvedObject {
        InvolvedObject {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            name: "web".to_owned(),
            namespace: "shop".to_owned(),
            ..InvolvedObject::default()
        }
    }

    async fn app(source: &LabelSource, needed: LabelUse) -> Option<String> {
        let context = source.contexts.resolve(None).unwrap();
        let found = match source.of(&context, &involved("Pod"), needed) {
            Lookup::Ready(found) => found,
            Lookup::Pending(request, stale) => request.await.or(stale),
        };
        let Some(FoundLabels::Known(labels)) = found else {
            panic!("{found:?}");
        };
        labels.get("app").map(str::to_owned)
    }

    #[tokio::test(start_paused = true)]
    async fn new_labels_count_within_ten_seconds_and_cost_one_request_in_that_time() {
        let cluster = demo_cluster::DemoCluster::default();
        cluster.put(pod(serde_json::json!({"app": "web"}))).unwrap();
        let source = LabelSource::new(Contexts::of_demo(&cluster), Lifecycle::default());
        let asked = || cluster.requests("get", "pods");
        for _ in 0..100 {
            assert_eq!(app(&source, LabelUse::Matched).await.unwrap(), "web");
        }
        assert_eq!(asked(), 1, "for all events of a while");
        cluster.put(pod(serde_json::json!({"app": "db"}))).unwrap();
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(app(&source, LabelUse::Shown).await.unwrap(), "web");
        assert_eq!(app(&source, LabelUse::Matched).await.unwrap(), "db");
        assert_eq!(asked(), 2, "what is only shown need not be so new");
        // A pod that is gone keeps the labels that it had.
        assert!(cluster.delete("pods", "shop", "web"));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(app(&source, LabelUse::Matched).await.unwrap(), "db");
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_read_is_told_from_what_is_gone() {
        let cluster = demo_cluster::DemoCluster::default();
        let source = LabelSource::new(Contexts::of_demo(&cluster), Lifecycle::default());
        let context = source.contexts.resolve(None).unwrap();
        let find = async |kind: &str| match source.of(&context, &involved(kind), LabelUse::Matched)
        {
            Lookup::Ready(found) => found,
            Lookup::Pending(request, stale) => request.await.or(stale),
        };
        assert!(find("Pod").await.is_none(), "there is none");
        let unreadable = find("Secret").await;
        assert!(matches!(unreadable, Some(FoundLabels::Unreadable)));
        assert_eq!(cluster.requests("get", "secrets"), 0);
        let pods = demo_cluster::RequestMatcher::any()
            .verb("get")
            .resource("pods");
        cluster.fail_next(pods, 1, demo_cluster::Fault::Forbidden);
        tokio::time::advance(Duration::from_secs(11)).await;
        let forbidden = find("Pod").await;
        assert!(
            matches!(forbidden, Some(FoundLabels::Unreadable)),
            "{forbidden:?}"
        );
    }

    #[test]
    fn what_an_event_says_never_leads_elsewhere() {
        for good in ["", "v1", "apps/v1", "cert-manager.io/v1alpha2"] {
            assert!(is_api_version(good), "{good}");
        }
        for bad in [
            "/v1/namespaces/x/services/http:victim:80/proxy/",
            "v1/",
            "/v1",
            "a/b/c",
            "../v1",
            "v1?watch=true",
            "v1#",
            "apps/v1/../../secrets",
            "V1",
            "v 1",
        ] {
            assert!(!is_api_version(bad), "{bad}");
        }
    }
}
