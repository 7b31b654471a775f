//! The labels of what an event is about: asked for once, remembered for a while.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api,
    core::{DynamicObject, GroupVersionKind},
    discovery::{self, ApiResource, Scope},
};
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Duration, timeout},
};

use super::memo::{Memo, MemoLimits, Said};
use crate::{Contexts, Name, events::clean, target::Cluster};
use kubecrier_core::{InvolvedObject, Labels};
use kubecrier_lifecycle::Lifecycle;

/// Requests for labels at once, over all clusters.
const REQUESTS_MAX: usize = 16;

/// A request for labels takes no longer, its wait for a place included.
const GIVE_UP: Duration = Duration::from_secs(5);

/// An event does not wait longer for its labels.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

const OBJECTS: MemoLimits = MemoLimits {
    entries_max: 8192,
    known: Duration::from_mins(5),
    unknown: Duration::from_secs(10),
};

const KINDS: MemoLimits = MemoLimits {
    entries_max: 512,
    known: Duration::from_mins(10),
    unknown: Duration::from_mins(1),
};

/// How a kind of a context, of an API version, is called in a path, and whether it
/// lives in namespaces.
type Kinds = Memo<(String, String, String), (ApiResource, bool)>;

/// Where labels come from.
pub(super) struct LabelSource {
    contexts: Arc<Contexts>,
    objects: Memo<Key, Labels>,
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
    /// What was made anew under the same name, or lies in the cluster that a context
    /// now stands for, has its own labels.
    uid: String,
}

// === impl LabelSource ===

impl LabelSource {
    pub(super) fn new(contexts: Arc<Contexts>, lifecycle: Lifecycle) -> Self {
        Self {
            contexts,
            objects: Memo::new(OBJECTS),
            kinds: Arc::new(Memo::new(KINDS)),
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            lifecycle,
        }
    }

    /// The labels of an object, if it is there and may be read.
    pub(super) fn of(&self, context: &str, object: &InvolvedObject) -> Said<Labels> {
        // A secret is not looked at, not even at its labels.
        if object.kind == "Secret" || object.kind.is_empty() || object.name.is_empty() {
            return Said::Now(None);
        }
        // What somebody wrote into an event becomes part of a path.
        let safe = is_api_version(&object.api_version)
            && object.kind.chars().all(|c| c.is_ascii_alphanumeric())
            && Name::dns("object", &object.name).is_ok()
            && (object.namespace.is_empty() || Name::label("namespace", &object.namespace).is_ok());
        if !safe {
            return Said::Now(None);
        }
        let key = Key {
            context: context.to_owned(),
            api_version: api_version(object).to_owned(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
        };
        self.objects.get(&key.clone(), || {
            let contexts = Arc::clone(&self.contexts);
            let kinds = Arc::clone(&self.kinds);
            let requests = Arc::clone(&self.requests);
            let draining = self.lifecycle.draining().clone();
            let (tell, told) = oneshot::channel();
            // A task of its own: when an event has lost its patience, the request must
            // still come to its end, or it would keep its place for ever.
            self.lifecycle.spawn("labels", async move {
                let asking = async {
                    let _place = requests.acquire_owned().await.ok()?;
                    ask(&contexts, &kinds, key).await
                };
                let labels = tokio::select! {
                    labels = timeout(GIVE_UP, asking) => labels.ok().flatten(),
                    () = draining.cancelled() => None,
                };
                let _nobody_waits = tell.send(labels);
            });
            async move { told.await.ok().flatten() }
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
fn api_version(object: &InvolvedObject) -> &str {
    match (object.api_version.as_str(), object.kind.as_str()) {
        ("", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => "apps/v1",
        ("", "Job" | "CronJob") => "batch/v1",
        ("", _) => "v1",
        (version, _) => version,
    }
}

async fn ask(contexts: &Contexts, kinds: &Kinds, key: Key) -> Option<Labels> {
    let cluster = contexts.cluster(Some(&key.context)).await.ok()?;
    let which = (
        key.context.clone(),
        key.api_version.clone(),
        key.kind.clone(),
    );
    let known = kinds.get(&which, || {
        resource(cluster.clone(), key.api_version.clone(), key.kind.clone())
    });
    let (resource, namespaced) = match known {
        Said::Now(known) => known?,
        Said::Later(answer, _) => answer.await?,
    };
    let api: Api<DynamicObject> = if namespaced && !key.namespace.is_empty() {
        Api::namespaced_with(cluster.client(), &key.namespace, &resource)
    } else {
        Api::all_with(cluster.client(), &resource)
    };
    let asked = timeout(cluster.timeout(), api.get_metadata_opt(&key.name));
    let meta = asked.await.ok()?.ok()??.metadata;
    if !is_meant(&key, &meta) {
        return None;
    }
    Some(clean(meta.labels.unwrap_or_default(), cluster.redactor()))
}

/// Whether it is the object that the event is about, and not another that has its name
/// now. A kubelet names its node by the name alone, and a pod that it runs from a file
/// by the hash of that file.
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

/// How a kind is called in a path, and whether it lives in namespaces.
async fn resource(
    cluster: Cluster,
    api_version: String,
    kind: String,
) -> Option<(ApiResource, bool)> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let kind = GroupVersionKind::gvk(group, version, &kind);
    let client = cluster.client();
    let asked = discovery::pinned_kind(&client, &kind);
    let (resource, capabilities) = timeout(cluster.timeout(), asked).await.ok()?.ok()?;
    // What an API says of itself becomes part of a path, too.
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
        let about = |uid: &str| {
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
        assert!(about("uid-2") && about("") && about("node-1") && about("hash"));
        assert!(!about("uid-1"), "it was made anew");
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
