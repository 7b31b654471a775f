//! The labels of what an event is about: asked for once, remembered for a while.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api,
    core::{DynamicObject, GroupVersionKind},
    discovery::{self, ApiResource, Scope},
};
use tokio::{sync::Semaphore, time::Duration};

use super::memo::{Memo, MemoLimits, Said};
use crate::{
    cluster::{Contexts, Name, events::clean, target::Cluster},
    subscriptions::{InvolvedObject, Labels},
};

/// Requests for labels at once, over all clusters.
const REQUESTS_MAX: usize = 16;

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
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    context: String,
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
}

// === impl LabelSource ===

impl LabelSource {
    pub(super) fn new(contexts: Arc<Contexts>) -> Self {
        Self {
            contexts,
            objects: Memo::new(OBJECTS),
            kinds: Arc::new(Memo::new(KINDS)),
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
        }
    }

    /// The labels of an object, if it is there and may be read.
    pub(super) fn of(&self, context: &str, object: &InvolvedObject) -> Said<Labels> {
        // A secret is not looked at, not even at its labels.
        if object.kind == "Secret" || object.kind.is_empty() || object.name.is_empty() {
            return Said::Now(None);
        }
        // What somebody wrote into an event becomes part of a path.
        let safe = Name::dns("object", &object.name).is_ok()
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
        };
        self.objects.get(&key.clone(), || {
            let contexts = Arc::clone(&self.contexts);
            let kinds = Arc::clone(&self.kinds);
            let requests = Arc::clone(&self.requests);
            async move {
                let _place = requests.acquire_owned().await.ok()?;
                ask(&contexts, &kinds, key).await
            }
        })
    }
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
    let asked = tokio::time::timeout(cluster.timeout(), api.get_metadata_opt(&key.name));
    let object = asked.await.ok()?.ok()??;
    let ObjectMeta { labels, .. } = object.metadata;
    Some(clean(labels.unwrap_or_default(), cluster.redactor()))
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
    let (resource, capabilities) = tokio::time::timeout(cluster.timeout(), asked)
        .await
        .ok()?
        .ok()?;
    Some((resource, capabilities.scope == Scope::Namespaced))
}
