//! The objects of one kind, listed and watched.

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;

use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{StreamExt, stream::BoxStream};
use kube::api::{ListParams, WatchEvent, WatchParams};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use tokio::time::Duration;

use super::{
    OBJECTS_MAX, Scope,
    read::{DecodedObject, GraphObject, Lenient},
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
use kubecrier_topology::{Kind, ObjectId, ObjectSummary};

const JSON: &str = "application/json";

/// Page sizes of successive attempts: a list may expire between pages, or have pages that are
/// too large; then it begins anew, with smaller ones.
const PAGE_SIZES: [u32; 3] = [PAGE_SIZE, PAGE_SIZE / 5, PAGE_SIZE / 25];

/// Objects that are converted before other tasks get their turn.
const CONVERTED_AT_ONCE: usize = 16;

/// A change of one object.
#[derive(Debug)]
pub(super) enum ObjectChange {
    /// It was added or modified.
    Applied(ObjectSummary),
    Deleted(ObjectId),
}

/// All objects of a kind, at one resourceVersion.
#[derive(Debug, Default)]
pub(super) struct RelistedObjects {
    pub(super) version: String,
    pub(super) objects: Vec<ObjectSummary>,
}

/// The objects of one kind in a cluster, with the fields of `T`.
pub(super) struct KindSource<T> {
    bound: BoundContext,
    kind: Kind,
    namespace: Option<String>,
    /// The `timeoutSeconds` of a watch request.
    renewal: Duration,
    decoding: Arc<DecodeFallback>,
    object_type: PhantomData<fn() -> T>,
}

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

impl<T: GraphObject + DecodedObject> KindSource<T> {
    pub(super) fn new(
        contexts: Arc<Contexts>,
        scope: &Scope,
        kind: Kind,
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
            resource: self.kind.plural(),
            name: None,
            namespace: namespace.filter(|_| self.kind.is_namespaced()),
            context: self.bound.context(),
        }
    }

    fn request(&self) -> kube::core::Request {
        kube::core::Request::new(self.kind.resource().path(self.namespace.as_deref()))
    }

    /// The field selector: of namespaces, only that of the graph.
    fn selector(&self) -> Option<String> {
        let namespace = self.namespace.as_deref();
        let graph_namespace = namespace.filter(|_| self.kind == Kind::Namespace);
        graph_namespace.map(|name| format!("metadata.name={name}"))
    }

    async fn list<I>(&self, cluster: &Cluster, size: u32) -> Result<RelistedObjects, ClusterError>
    where
        I: DecodedObject + DeserializeOwned,
    {
        let operation = self.operation("list");
        let mut listed = RelistedObjects::default();
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
                let summary = object.into_summary(self.kind, cluster.redactor(), cluster.scope());
                listed.objects.push(summary);
                // A summary is redacted: a page of them would keep others waiting.
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
    ) -> Result<RelistedObjects, ClusterError> {
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

    async fn watch<I>(
        &self,
        cluster: Cluster,
        version: &str,
    ) -> Result<BoxStream<'static, Result<WatchFrame<ObjectChange>, WatchError>>, WatchError>
    where
        I: DecodedObject + Clone + DeserializeOwned + Send + 'static,
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
            let item =
                |change: ObjectChange, version: &str| WatchFrame::Item(change, version.to_owned());
            let failed = |error: &kube::Error| {
                let operation = Operation {
                    verb: "watch",
                    resource: kind.plural(),
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
                    let summary = object.into_summary(kind, cluster.redactor(), cluster.scope());
                    Ok(item(ObjectChange::Applied(summary), &version))
                }
                Ok(WatchEvent::Deleted(object)) => Ok(item(
                    ObjectChange::Deleted(object.id(kind)),
                    object.version(),
                )),
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

impl<T: GraphObject + DecodedObject> WatchSource for KindSource<T> {
    type Item = ObjectChange;
    type Relisted = RelistedObjects;
    type Frames = BoxStream<'static, Result<WatchFrame<ObjectChange>, WatchError>>;

    async fn open(&self, version: &str) -> Result<Self::Frames, WatchError> {
        if self.decoding.lenient() {
            let watch = |cluster| self.watch::<Lenient<T>>(cluster, version);
            return self.bound.open(watch).await;
        }
        let watch = |cluster| self.watch::<T>(cluster, version);
        self.bound.open(watch).await
    }

    async fn relist(&self, _version: &str) -> Result<RelistedObjects, WatchError> {
        let list = |cluster| self.list_with_smaller_pages(cluster);
        self.bound.open(list).await
    }

    async fn latest_version(&self) -> Result<String, WatchError> {
        self.bound
            .request(|cluster| self.latest_version_of(cluster))
            .await
    }

    fn version(listed: &RelistedObjects) -> &str {
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
    fn inspect(&self, object: &impl DecodedObject, kind: Kind, context: &str) {
        if object.is_complete() {
            return;
        }
        self.lenient.store(true, Ordering::Relaxed);
        if !self.logged.swap(true, Ordering::Relaxed) {
            let object = object.id(kind);
            tracing::warn!(%object, context, "not understood: the graph shows its name, labels and owners only");
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
