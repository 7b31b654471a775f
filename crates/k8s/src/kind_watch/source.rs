//! The objects of one kind, listed and watched.

use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{StreamExt, stream::BoxStream};
use kube::api::{ListParams, WatchEvent, WatchParams};
use serde::{Deserialize, de::IgnoredAny};
use tokio::time::Duration;

use super::{
    OBJECTS_MAX, Scope,
    object::{Lenient, ListedKind, ObjectName, WatchedObject},
};
use crate::{
    Contexts,
    client::Cluster,
    error::{ClusterError, ErrorKind, Operation},
    list::PAGE_SIZE,
    watch::{
        bound_context::BoundContext,
        source::{WatchError, WatchFrame, WatchSource, watch_error},
    },
};
use kubecrier_k8s_api::kinds;

const JSON: &str = "application/json";

/// Page sizes of successive attempts: a list may expire between pages, or have pages that are
/// too large; then it begins anew, with smaller ones.
const PAGE_SIZES: [u32; 3] = [PAGE_SIZE, PAGE_SIZE / 5, PAGE_SIZE / 25];

/// Objects that are converted before other tasks get their turn.
const CONVERTED_AT_ONCE: usize = 16;

/// A change of one object, of which `K` is kept.
#[derive(Debug)]
pub(crate) enum ObjectChange<K> {
    /// It was added or modified.
    Applied(K),
    Deleted(ObjectName),
}

/// What is kept of all objects of a kind, at one resourceVersion.
#[derive(Debug)]
pub(crate) struct RelistedObjects<K> {
    pub(crate) version: String,
    pub(crate) objects: Vec<K>,
}

/// The objects of one kind in a cluster, with the fields of `T`.
pub(crate) struct KindSource<T: WatchedObject> {
    bound: BoundContext,
    kind: T::Kind,
    namespace: Option<String>,
    /// The `timeoutSeconds` of a watch request.
    renewal: Duration,
    decoding: Arc<DecodeFallback>,
    object_type: PhantomData<fn() -> T>,
}

type Frames<T> =
    BoxStream<'static, Result<WatchFrame<ObjectChange<<T as WatchedObject>::Kept>>, WatchError>>;

/// Whether a kind has objects that cannot be decoded as they should be. Such a kind is
/// decoded leniently, which is slower.
#[derive(Debug, Default)]
struct DecodeFallback {
    lenient: AtomicBool,
    logged: AtomicBool,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct ListResponse<T> {
    metadata: ListMeta,
    #[serde(default)]
    items: Option<Vec<T>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

// === impl KindSource ===

impl<T: WatchedObject> KindSource<T> {
    pub(crate) fn new(
        contexts: Arc<Contexts>,
        scope: &Scope,
        kind: T::Kind,
        renewal: Duration,
    ) -> Self {
        Self {
            bound: BoundContext::new(contexts, &scope.context),
            kind,
            namespace: scope.namespace.clone(),
            renewal,
            decoding: Arc::default(),
            object_type: PhantomData,
        }
    }

    fn operation(&self, verb: &'static str) -> Operation<'_> {
        let namespace = self.namespace.as_deref();
        Operation {
            verb,
            resource: self.kind.resource().plural,
            name: None,
            namespace: namespace.filter(|_| self.kind.resource().namespaced),
            context: self.bound.context(),
        }
    }

    fn request(&self) -> kube::core::Request {
        kube::core::Request::new(self.kind.resource().path(self.namespace.as_deref()))
    }

    /// The field selector: of namespaces, only that of the scope.
    fn selector(&self) -> Option<String> {
        let namespace = self.namespace.as_deref();
        let own = namespace.filter(|_| *self.kind.resource() == kinds::NAMESPACE);
        own.map(|name| format!("metadata.name={name}"))
    }

    async fn list<I>(
        &self,
        cluster: &Cluster,
        size: u32,
    ) -> Result<RelistedObjects<T::Kept>, ClusterError>
    where
        I: WatchedObject<Kind = T::Kind, Kept = T::Kept>,
    {
        let operation = self.operation("list");
        let mut listed = RelistedObjects {
            version: String::new(),
            objects: Vec::new(),
        };
        let mut next = None;
        loop {
            let params = ListParams {
                field_selector: self.selector(),
                limit: Some(size),
                continue_token: next.take(),
                ..ListParams::default()
            };
            let request = self.request().list(&params);
            let request = request.map_err(|error| build_error(&operation, error))?;
            let page: ListResponse<I> = cluster.raw(&operation, request, JSON).await?;
            if listed.version.is_empty() {
                listed.version = page.metadata.resource_version;
            }
            for (index, object) in page.items.into_iter().flatten().enumerate() {
                self.decoding
                    .inspect(&object, self.kind, self.bound.context());
                listed
                    .objects
                    .push(object.keep(self.kind, cluster.redactor(), cluster.scope()));
                // What is kept is redacted: a page of it would keep others waiting.
                if index % CONVERTED_AT_ONCE == CONVERTED_AT_ONCE - 1 {
                    tokio::task::yield_now().await;
                }
            }
            next = page.metadata.next.filter(|token| !token.is_empty());
            if next.is_none() || listed.objects.len() > OBJECTS_MAX {
                return Ok(listed);
            }
        }
    }

    async fn latest_version_of(&self, cluster: Cluster) -> Result<String, ClusterError> {
        let operation = self.operation("list");
        let params = ListParams {
            field_selector: self.selector(),
            limit: Some(1),
            ..ListParams::default()
        };
        let request = self.request().list(&params);
        let request = request.map_err(|error| build_error(&operation, error))?;
        let page: ListResponse<IgnoredAny> = cluster.raw(&operation, request, JSON).await?;
        Ok(page.metadata.resource_version)
    }

    async fn list_with_smaller_pages(
        &self,
        cluster: Cluster,
    ) -> Result<RelistedObjects<T::Kept>, ClusterError> {
        let mut listed = if self.decoding.lenient() {
            self.list::<Lenient<T>>(&cluster, PAGE_SIZES[0]).await
        } else {
            self.list::<T>(&cluster, PAGE_SIZES[0]).await
        };
        for size in &PAGE_SIZES[1..] {
            match &listed {
                Err(error) if matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::Other) => {
                    listed = self.list::<Lenient<T>>(&cluster, *size).await;
                }
                _ => break,
            }
        }
        listed
    }

    pub(crate) async fn watch<I>(
        &self,
        cluster: Cluster,
        version: &str,
    ) -> Result<Frames<T>, WatchError>
    where
        I: WatchedObject<Kind = T::Kind, Kept = T::Kept>,
    {
        let params = WatchParams {
            field_selector: self.selector(),
            timeout: Some(u32::try_from(self.renewal.as_secs()).unwrap_or(u32::MAX)),
            bookmarks: true,
            ..WatchParams::default()
        };
        let operation = self.operation("watch");
        let request = self.request().watch(&params, version);
        let request =
            request.map_err(|error| WatchError::Request(build_error(&operation, error)))?;
        let client = cluster.client();
        let opening = client.request_events::<I>(request);
        let frames = match tokio::time::timeout(cluster.timeout(), opening).await {
            Ok(Ok(frames)) => frames,
            Ok(Err(error)) => return Err(watch_error(&operation, &error)),
            Err(_elapsed) => {
                let seconds = cluster.timeout().as_secs_f64();
                return Err(WatchError::Request(ClusterError::timeout(
                    &operation, seconds,
                )));
            }
        };
        let (kind, context) = (self.kind, self.bound.context().to_owned());
        let decoding = Arc::clone(&self.decoding);
        let frames = frames.map(move |frame| {
            let item = |change, version: &str| WatchFrame::Item(change, version.to_owned());
            let failed = |error: &kube::Error| {
                let operation = Operation {
                    verb: "watch",
                    resource: kind.resource().plural,
                    name: None,
                    namespace: None,
                    context: &context,
                };
                Err(watch_error(&operation, error))
            };
            match frame {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    decoding.inspect(&object, kind, &context);
                    let version = object.version().to_owned();
                    let kept = object.keep(kind, cluster.redactor(), cluster.scope());
                    Ok(item(ObjectChange::Applied(kept), &version))
                }
                Ok(WatchEvent::Deleted(object)) => {
                    Ok(item(ObjectChange::Deleted(object.name()), object.version()))
                }
                Ok(WatchEvent::Bookmark(mark)) => {
                    Ok(WatchFrame::Bookmark(mark.metadata.resource_version))
                }
                Ok(WatchEvent::Error(status)) => failed(&kube::Error::Api(status)),
                Err(error) => {
                    // The next watch would fail at the same object.
                    if is_decode_error(&error) {
                        decoding.lenient.store(true, Ordering::Relaxed);
                    }
                    failed(&error)
                }
            }
        });
        Ok(frames.boxed())
    }
}

impl<T: WatchedObject> WatchSource for KindSource<T> {
    type Item = ObjectChange<T::Kept>;
    type Relisted = RelistedObjects<T::Kept>;
    type Frames = Frames<T>;

    async fn open(&self, version: &str) -> Result<Self::Frames, WatchError> {
        if self.decoding.lenient() {
            let watch = |cluster| self.watch::<Lenient<T>>(cluster, version);
            return self.bound.open(watch).await;
        }
        let watch = |cluster| self.watch::<T>(cluster, version);
        self.bound.open(watch).await
    }

    async fn relist(&self, _version: &str) -> Result<Self::Relisted, WatchError> {
        let list = |cluster| self.list_with_smaller_pages(cluster);
        self.bound.open(list).await
    }

    async fn latest_version(&self) -> Result<String, WatchError> {
        self.bound
            .request(|cluster| self.latest_version_of(cluster))
            .await
    }

    fn version(listed: &Self::Relisted) -> &str {
        &listed.version
    }

    async fn changed(&self) {
        self.bound.changed().await;
    }

    fn reconnect(&self) {
        self.bound.reconnect();
    }

    fn redact(&self, text: &str) -> String {
        self.bound.redact(text)
    }
}

// === impl DecodeFallback ===

impl DecodeFallback {
    fn lenient(&self) -> bool {
        self.lenient.load(Ordering::Relaxed)
    }

    /// Logs the first object that could not be decoded.
    fn inspect<T: WatchedObject>(&self, object: &T, kind: T::Kind, context: &str) {
        if object.is_complete() {
            return;
        }
        self.lenient.store(true, Ordering::Relaxed);
        if !self.logged.swap(true, Ordering::Relaxed) {
            let (kind, name) = (kind.resource().kind, object.name());
            tracing::warn!(
                kind,
                namespace = &*name.namespace,
                name = &*name.name,
                context,
                "not understood: as much of it is shown as can be"
            );
        }
    }
}

/// Whether a line of a watch could not be decoded. The client library takes a line that is no
/// event for a Status, which is then empty.
fn is_decode_error(error: &kube::Error) -> bool {
    match error {
        kube::Error::SerdeError(_) => true,
        kube::Error::Api(status) => status.code == 0 && status.reason.is_empty(),
        _ => false,
    }
}

fn build_error(operation: &Operation<'_>, error: kube::core::request::Error) -> ClusterError {
    ClusterError::from_kube(operation, &kube::Error::BuildRequest(error))
}
