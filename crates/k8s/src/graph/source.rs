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
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use tokio::time::Duration;

use super::{
    OBJECTS_MAX, Scope,
    read::{Lenient, Named, Shape},
};
use crate::{
    Contexts,
    client::Cluster,
    error::{ClusterError, ErrorKind, Operation},
    list::PAGE,
    watch::{
        bound_context::BoundContext,
        source::{WatchError, WatchFrame, WatchSource, watch_error},
    },
};
use kubecrier_topology::{Kind, ObjectId, ObjectSummary};

const JSON: &str = "application/json";

/// A list may be overtaken by the cleaning of old versions, or have pages that are too
/// large; then it begins anew, with smaller ones.
const PAGES: [u32; 3] = [PAGE, PAGE / 5, PAGE / 25];

/// A change of one object.
#[derive(Debug)]
pub(super) enum ObjectChange {
    /// It was added or modified.
    Applied(ObjectSummary),
    Deleted(ObjectId),
}

/// All objects of a kind, at one version.
#[derive(Debug, Default)]
pub(super) struct RelistedObjects {
    pub(super) version: String,
    pub(super) all: Vec<ObjectSummary>,
}

/// The objects of one kind in a cluster, of which as much is decoded as `T` has.
pub(super) struct KindSource<T> {
    bound: BoundContext,
    kind: Kind,
    namespace: Option<String>,
    /// How long the API server is asked to keep a watch open.
    renewal: Duration,
    decoding: Arc<DecodeFallback>,
    shape: PhantomData<fn() -> T>,
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
struct Page<T> {
    metadata: PageMeta,
    #[serde(default)]
    items: Option<Vec<T>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

// === impl KindSource ===

impl<T: Shape + Named> KindSource<T> {
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
            shape: PhantomData,
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

    /// Of the namespaces only that of the graph.
    fn selector(&self) -> Option<String> {
        let namespace = self.namespace.as_deref();
        let own = namespace.filter(|_| self.kind == Kind::Namespace);
        own.map(|name| format!("metadata.name={name}"))
    }

    async fn list<I>(&self, cluster: &Cluster, size: u32) -> Result<RelistedObjects, ClusterError>
    where
        I: Named + DeserializeOwned,
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
            let request = request.map_err(|error| built(&operation, error))?;
            let page: Page<I> = cluster.raw(&operation, request, JSON).await?;
            if listed.version.is_empty() {
                listed.version = page.metadata.resource_version;
            }
            let items = page.items.into_iter().flatten();
            let facts = |one: I| {
                self.decoding.inspect(&one, self.kind, self.bound.context());
                one.facts(self.kind, cluster.redactor(), cluster.denied())
            };
            listed.all.extend(items.map(facts));
            next = page.metadata.next.filter(|token| !token.is_empty());
            if next.is_none() || listed.all.len() > OBJECTS_MAX {
                return Ok(listed);
            }
        }
    }

    async fn latest_version_of(&self, cluster: Cluster) -> Result<String, ClusterError> {
        let operation = self.operation("list");
        let request = self.request().list(&ListParams::default().limit(1));
        let request = request.map_err(|error| built(&operation, error))?;
        let page: Page<IgnoredAny> = cluster.raw(&operation, request, JSON).await?;
        Ok(page.metadata.resource_version)
    }

    async fn list_until_whole(&self, cluster: Cluster) -> Result<RelistedObjects, ClusterError> {
        let mut listed = if self.decoding.lenient() {
            self.list::<Lenient<T>>(&cluster, PAGES[0]).await
        } else {
            self.list::<T>(&cluster, PAGES[0]).await
        };
        for size in &PAGES[1..] {
            match &listed {
                Err(error) if error.kind() == ErrorKind::Other => {
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
        I: Named + Clone + DeserializeOwned + Send + 'static,
    {
        let params = WatchParams {
            field_selector: self.selector(),
            timeout: Some(u32::try_from(self.renewal.as_secs()).unwrap_or(u32::MAX)),
            bookmarks: true,
            ..WatchParams::default()
        };
        let operation = self.operation("watch");
        let request = self.request().watch(&params, version);
        let request = request.map_err(|error| WatchError::Request(built(&operation, error)))?;
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
            let seen =
                |change: ObjectChange, version: &str| WatchFrame::Item(change, version.to_owned());
            let broken = |error: &kube::Error| {
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
                Ok(WatchEvent::Added(one) | WatchEvent::Modified(one)) => {
                    decoding.inspect(&one, kind, &context);
                    let version = one.version().to_owned();
                    let facts = one.facts(kind, cluster.redactor(), cluster.denied());
                    Ok(seen(ObjectChange::Applied(facts), &version))
                }
                Ok(WatchEvent::Deleted(one)) => {
                    Ok(seen(ObjectChange::Deleted(one.id(kind)), one.version()))
                }
                Ok(WatchEvent::Bookmark(mark)) => {
                    Ok(WatchFrame::Bookmark(mark.metadata.resource_version))
                }
                Ok(WatchEvent::Error(status)) => broken(&kube::Error::Api(status)),
                Err(error) => {
                    // The next watch would meet it again.
                    if is_not_understood(&error) {
                        decoding.lenient.store(true, Ordering::Relaxed);
                    }
                    broken(&error)
                }
            }
        });
        Ok(frames.boxed())
    }
}

impl<T: Shape + Named> WatchSource for KindSource<T> {
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
        let list = |cluster| self.list_until_whole(cluster);
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
    fn inspect(&self, one: &impl Named, kind: Kind, context: &str) {
        if one.is_whole() {
            return;
        }
        self.lenient.store(true, Ordering::Relaxed);
        if !self.logged.swap(true, Ordering::Relaxed) {
            let object = one.id(kind);
            tracing::warn!(%object, context, "not understood: the graph shows its name, labels and owners only");
        }
    }
}

/// Whether a line of a watch could not be read. The client takes a line that is no event
/// for the answer that something went wrong, which then says nothing at all.
fn is_not_understood(error: &kube::Error) -> bool {
    match error {
        kube::Error::SerdeError(_) => true,
        kube::Error::Api(status) => status.code == 0 && status.reason.is_empty(),
        _ => false,
    }
}

fn built(operation: &Operation<'_>, error: kube::core::request::Error) -> ClusterError {
    ClusterError::from_kube(operation, &kube::Error::BuildRequest(error))
}
