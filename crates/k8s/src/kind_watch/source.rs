//! The objects of one kind, listed and watched.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{StreamExt, stream::BoxStream};
use kube::{
    api::{ListParams, WatchParams},
    core::Status,
};
use tokio::time::Duration;

use super::{
    OBJECTS_MAX, Scope,
    decoder::{self, DecodedEvent, DecodedPage, Decoder, Decoding, Keep},
    object::{ListedKind, ObjectName},
};
use crate::{
    Contexts,
    client::Cluster,
    error::{ClusterError, ErrorKind, Operation},
    list::PAGE_SIZE,
    raw,
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

/// A change of one object, of which `P` is kept.
#[derive(Debug)]
pub(crate) enum ObjectChange<P> {
    /// It was added or modified.
    Applied(P),
    Deleted(ObjectName),
}

/// What is kept of all objects of a kind, at one resourceVersion.
#[derive(Debug)]
pub(crate) struct RelistedObjects<P> {
    pub(crate) version: String,
    pub(crate) objects: Vec<P>,
}

/// The objects of one kind in a cluster, of which `P` is kept.
pub(crate) struct KindSource<K, P> {
    bound: BoundContext,
    kind: K,
    decoder: Decoder<K, P>,
    namespace: Option<String>,
    /// The `timeoutSeconds` of a watch request.
    renewal: Duration,
    decoding: Arc<DecodeFallback>,
}

type Frames<P> = BoxStream<'static, Result<WatchFrame<ObjectChange<P>>, WatchError>>;

/// Whether a kind has objects that cannot be decoded as they should be. Such a kind is
/// decoded leniently, which is slower.
#[derive(Debug, Default)]
struct DecodeFallback {
    lenient: AtomicBool,
    logged: AtomicBool,
}

// === impl KindSource ===

impl<K: ListedKind, P: Send + 'static> KindSource<K, P> {
    pub(crate) fn new(
        contexts: Arc<Contexts>,
        scope: &Scope,
        kind: K,
        decoder: Decoder<K, P>,
        renewal: Duration,
    ) -> Self {
        Self {
            bound: BoundContext::new(contexts, &scope.context),
            kind,
            decoder,
            namespace: scope.namespace.clone(),
            renewal,
            decoding: Arc::default(),
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

    async fn list(
        &self,
        cluster: &Cluster,
        size: u32,
        lenient: bool,
    ) -> Result<RelistedObjects<P>, ClusterError> {
        let operation = self.operation("list");
        let keep = Keep {
            kind: self.kind,
            redactor: cluster.redactor(),
            scope: cluster.scope(),
        };
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
            let bytes = cluster.raw_bytes(&operation, request, JSON).await?;
            let page = self.decoder.decoding(lenient).page(&bytes, keep);
            let DecodedPage { metadata, objects } =
                page.map_err(|error| raw::undecodable(&operation, &error))?;
            drop(bytes);
            if listed.version.is_empty() {
                listed.version = metadata.resource_version;
            }
            for (index, object) in objects.enumerate() {
                if let Some(name) = &object.partial {
                    self.decoding.note(name, self.kind, self.bound.context());
                }
                listed.objects.push(object.kept);
                // What is kept is redacted: a page of it would keep others waiting.
                if index % CONVERTED_AT_ONCE == CONVERTED_AT_ONCE - 1 {
                    tokio::task::yield_now().await;
                }
            }
            next = metadata.next.filter(|token| !token.is_empty());
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
        let page = cluster.raw_bytes(&operation, request, JSON).await?;
        decoder::version(&page).map_err(|error| raw::undecodable(&operation, &error))
    }

    async fn list_with_smaller_pages(
        &self,
        cluster: Cluster,
    ) -> Result<RelistedObjects<P>, ClusterError> {
        let lenient = self.decoding.lenient();
        let mut listed = self.list(&cluster, PAGE_SIZES[0], lenient).await;
        for size in &PAGE_SIZES[1..] {
            match &listed {
                Err(error) if matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::Other) => {
                    listed = self.list(&cluster, *size, true).await;
                }
                _ => break,
            }
        }
        listed
    }

    pub(crate) async fn watch(
        &self,
        cluster: Cluster,
        version: &str,
        lenient: bool,
    ) -> Result<Frames<P>, WatchError> {
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
        let opening = raw::lines(cluster.client(), request);
        let lines = match tokio::time::timeout(cluster.timeout(), opening).await {
            Ok(Ok(lines)) => lines,
            Ok(Err(error)) => return Err(watch_error(&operation, &error)),
            Err(_elapsed) => {
                let seconds = cluster.timeout().as_secs_f64();
                return Err(WatchError::Request(ClusterError::timeout(
                    &operation, seconds,
                )));
            }
        };
        let reader = LineReader {
            cluster,
            context: self.bound.context().to_owned(),
            kind: self.kind,
            way: self.decoder.decoding(lenient),
            decoding: Arc::clone(&self.decoding),
        };
        let frames = lines.filter_map(move |line| {
            ready(match line {
                Ok(line) => reader.read(&line),
                Err(error) => Some(Err(reader.failed(&error))),
            })
        });
        Ok(frames.boxed())
    }
}

impl<K: ListedKind, P: Send + 'static> WatchSource for KindSource<K, P> {
    type Item = ObjectChange<P>;
    type Relisted = RelistedObjects<P>;
    type Frames = Frames<P>;

    async fn open(&self, version: &str) -> Result<Self::Frames, WatchError> {
        let lenient = self.decoding.lenient();
        let watch = |cluster| self.watch(cluster, version, lenient);
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

/// Makes frames of the lines of one watch.
struct LineReader<K, P> {
    cluster: Cluster,
    context: String,
    kind: K,
    way: Decoding<K, P>,
    decoding: Arc<DecodeFallback>,
}

// === impl LineReader ===

impl<K: ListedKind, P> LineReader<K, P> {
    /// None for what is left of a line when a watch is closed in the middle of it.
    fn read(&self, line: &str) -> Option<Result<WatchFrame<ObjectChange<P>>, WatchError>> {
        let keep = Keep {
            kind: self.kind,
            redactor: self.cluster.redactor(),
            scope: self.cluster.scope(),
        };
        Some(match self.way.event(line, keep) {
            Ok(DecodedEvent::Applied(object, version)) => {
                if let Some(name) = &object.partial {
                    self.decoding.note(name, self.kind, &self.context);
                }
                Ok(WatchFrame::Item(
                    ObjectChange::Applied(object.kept),
                    version,
                ))
            }
            Ok(DecodedEvent::Deleted(name, version)) => {
                Ok(WatchFrame::Item(ObjectChange::Deleted(name), version))
            }
            Ok(DecodedEvent::Bookmark(version)) => Ok(WatchFrame::Bookmark(version)),
            Ok(DecodedEvent::Error(status)) => Err(self.failed(&kube::Error::Api(status))),
            Err(error) if error.is_eof() => return None,
            Err(error) => Err(self.undecodable(line, error)),
        })
    }

    /// A line that is no event may be a Status.
    fn undecodable(&self, line: &str, error: serde_json::Error) -> WatchError {
        if let Ok(status) = serde_json::from_str::<Status>(line)
            && (status.code != 0 || !status.reason.is_empty())
        {
            return self.failed(&kube::Error::Api(Box::new(status)));
        }
        // The next watch would fail at the same object.
        self.decoding.lenient.store(true, Ordering::Relaxed);
        self.failed(&kube::Error::SerdeError(error))
    }

    fn failed(&self, error: &kube::Error) -> WatchError {
        let operation = Operation {
            verb: "watch",
            resource: self.kind.resource().plural,
            name: None,
            namespace: None,
            context: &self.context,
        };
        watch_error(&operation, error)
    }
}

// === impl DecodeFallback ===

impl DecodeFallback {
    fn lenient(&self) -> bool {
        self.lenient.load(Ordering::Relaxed)
    }

    /// There is an object that could not be decoded; logs the first one.
    fn note(&self, name: &ObjectName, kind: impl ListedKind, context: &str) {
        self.lenient.store(true, Ordering::Relaxed);
        if !self.logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                kind = kind.resource().kind,
                namespace = &*name.namespace,
                name = &*name.name,
                context,
                "not understood: as much of it is shown as can be"
            );
        }
    }
}

fn build_error(operation: &Operation<'_>, error: kube::core::request::Error) -> ClusterError {
    ClusterError::from_kube(operation, &kube::Error::BuildRequest(error))
}
