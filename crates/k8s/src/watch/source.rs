//! What a watch loop reads: the events of a scope, behind a trait that tests can script.

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;

use std::{future::Future, sync::Arc};

use futures_util::{Stream, StreamExt, stream::BoxStream};
use kube::{
    Api,
    api::{ListParams, WatchEvent, WatchParams},
    core::Status,
};
use tokio::time::Duration;

use super::{
    bound_context::BoundContext,
    labels::{FoundLabels, LabelSource},
    scope::Scope,
};
use crate::{
    Actor, Contexts,
    body_limit::TooLarge,
    client::Cluster,
    contexts::RequestError,
    error::{ClusterError, Operation, too_large},
    events::{self, WireEvent},
    list::{PAGE_SIZE, PageSize},
};
use kubecrier_core::{Event, InvolvedObject, subscriptions::LabelUse, ttl_cache::Lookup};
use kubecrier_redact::Redactor;

/// The number of objects that a relist reads.
const RELIST_MAX: usize = 5000;

/// Something that can be listed and watched.
pub(crate) trait WatchSource: Send + Sync + 'static {
    /// An object that was added or changed.
    type Item: Send;
    /// The answer to a list of everything.
    type Relisted: Send;
    /// The frames of an open watch.
    type Frames: Stream<Item = Result<WatchFrame<Self::Item>, WatchError>> + Send + Unpin;

    /// Opens a watch of what comes after this version.
    fn open(&self, version: &str) -> impl Future<Output = Result<Self::Frames, WatchError>> + Send;

    /// Lists everything, after the history since this version has expired.
    fn relist(
        &self,
        version: &str,
    ) -> impl Future<Output = Result<Self::Relisted, WatchError>> + Send;

    /// The newest version of the cluster.
    fn latest_version(&self) -> impl Future<Output = Result<String, WatchError>> + Send;

    /// The version of a list.
    fn version(listed: &Self::Relisted) -> &str;

    /// Notes that a watch is opened in another way than by [`Self::open`]: from here on a change
    /// of the kubeconfig counts as one.
    fn begin(&self) -> Result<(), ClusterError> {
        Ok(())
    }

    /// Waits until the kubeconfig has changed, so that a new watch might go to another
    /// cluster than the open one. Cancel-safe.
    fn changed(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Makes the next request on a new connection: the open ones may be dead.
    fn reconnect(&self) {}

    /// Redacts a text that leaves the server.
    fn redact(&self, text: &str) -> String;
}

/// Looks up labels.
pub(super) trait LabelLookup {
    /// The labels of the involved object of an event.
    fn labels(&self, object: &InvolvedObject, needed: LabelUse) -> Lookup<FoundLabels>;
}

/// One frame of a watch, with its resourceVersion.
#[derive(Debug)]
pub(crate) enum WatchFrame<T> {
    /// An object was added or changed.
    Item(T, String),
    /// A change that is not delivered; only its version counts.
    Skipped(String),
    /// The newest version of the cluster.
    Bookmark(String),
}

/// The end of a watch.
#[derive(Clone, Debug)]
pub(crate) enum WatchError {
    /// 410 Gone: the history does not reach back to the version.
    Expired,
    /// The context names another cluster than before, whose versions are unrelated.
    ClusterReplaced,
    /// Any other failure of a request.
    Request(ClusterError),
}

/// What a relist found.
#[derive(Debug, Default)]
pub(super) struct RelistedEvents {
    /// The version to watch from.
    pub(super) version: String,
    /// Events after the last known version, the oldest first.
    pub(super) events: Vec<(Event, String)>,
    /// Whether the list was read to its end.
    pub(super) complete: bool,
}

/// Where a new watch starts.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchStart {
    /// The version to watch from.
    pub(super) version: String,
    /// The number of events there are now.
    pub(super) count: Option<usize>,
}

/// The events of a scope.
pub(super) struct EventSource {
    bound: BoundContext,
    labels: Arc<LabelSource>,
    scope: Scope,
    /// How long the API server is asked to keep a watch open.
    renewal: Duration,
}

// === impl EventSource ===

impl EventSource {
    pub(super) fn new(
        contexts: Arc<Contexts>,
        labels: Arc<LabelSource>,
        scope: Scope,
        renewal: Duration,
    ) -> Self {
        Self {
            bound: BoundContext::new(contexts, &scope.context),
            labels,
            scope,
            renewal,
        }
    }

    fn operation(&self, verb: &'static str) -> Operation<'_> {
        operation(&self.scope, verb)
    }

    async fn watch(
        &self,
        cluster: &Cluster,
        version: &str,
    ) -> Result<BoxStream<'static, kube::Result<WatchEvent<WireEvent>>>, WatchError> {
        let params = WatchParams {
            field_selector: self.scope.selector.clone(),
            timeout: Some(u32::try_from(self.renewal.as_secs()).unwrap_or(u32::MAX)),
            bookmarks: true,
            ..WatchParams::default()
        };
        let api = api(cluster, &self.scope);
        let opening = tokio::time::timeout(cluster.timeout(), api.watch(&params, version));
        match opening.await {
            Ok(Ok(frames)) => Ok(frames.boxed()),
            Ok(Err(error)) => Err(watch_error(&self.operation("watch"), &error)),
            Err(_elapsed) => Err(WatchError::Request(ClusterError::timeout(
                &self.operation("watch"),
                cluster.timeout().as_secs_f64(),
            ))),
        }
    }

    async fn list_since(
        &self,
        cluster: Cluster,
        version: &str,
    ) -> Result<RelistedEvents, ClusterError> {
        let api = api(&cluster, &self.scope);
        let operation = &self.operation("list");
        let mut size = PageSize::new(PAGE_SIZE);
        let after: Option<u64> = version.parse().ok();
        let mut caught = RelistedEvents::default();
        let mut scanned = 0;
        let mut next = None;
        loop {
            let (token, api, cluster) = (next.take(), &api, &cluster);
            let request = |limit| {
                let params = ListParams {
                    field_selector: self.scope.selector.clone(),
                    limit: Some(limit),
                    continue_token: token.clone(),
                    ..ListParams::default()
                };
                async move { cluster.request(operation, api.list(&params)).await }
            };
            let page = size.request(request).await?;
            if scanned == 0 {
                caught.version = page.metadata.resource_version.unwrap_or_default();
            }
            scanned += page.items.len();
            for event in page.items {
                let version = event.metadata.resource_version.as_deref();
                let version = version.and_then(|text| text.parse::<u64>().ok());
                let is_newer = version.zip(after).is_some_and(|(is, after)| is > after);
                if is_newer && !event.is_hidden(cluster.scope()) {
                    caught.events.push(plain(event, cluster.redactor()));
                    // A conversion redacts: a page of them would keep others waiting.
                    tokio::task::yield_now().await;
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                None => {
                    caught.complete = after.is_some();
                    break;
                }
                Some(_) if scanned >= RELIST_MAX => break,
                token => next = token,
            }
        }
        caught.events.sort_by_key(|(event, _)| event.version);
        Ok(caught)
    }
}

impl WatchSource for EventSource {
    type Item = Event;
    type Relisted = RelistedEvents;
    type Frames = BoxStream<'static, Result<WatchFrame<Event>, WatchError>>;

    async fn open(&self, version: &str) -> Result<Self::Frames, WatchError> {
        let open = |cluster: Cluster| async move {
            let frames = self.watch(&cluster, version).await?;
            Ok::<_, WatchError>((frames, cluster))
        };
        let (frames, cluster) = self.bound.open(open).await?;
        let scope = self.scope.clone();
        let frames = frames.map(move |event| frame(&scope, &cluster, event));
        Ok(frames.boxed())
    }

    async fn relist(&self, version: &str) -> Result<RelistedEvents, WatchError> {
        let list = |cluster| self.list_since(cluster, version);
        self.bound.open(list).await
    }

    async fn latest_version(&self) -> Result<String, WatchError> {
        let latest = |cluster| start(cluster, &self.scope);
        Ok(self.bound.request(latest).await?.version)
    }

    fn version(listed: &RelistedEvents) -> &str {
        &listed.version
    }

    fn begin(&self) -> Result<(), ClusterError> {
        self.bound.record_generation()
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

impl LabelLookup for EventSource {
    fn labels(&self, object: &InvolvedObject, needed: LabelUse) -> Lookup<FoundLabels> {
        self.labels.of(&self.scope.context, object, needed)
    }
}

/// Where a watch of this scope can start; fails if the scope may not be read.
pub(super) async fn probe(contexts: &Contexts, scope: &Scope) -> Result<WatchStart, ClusterError> {
    let context = Some(scope.context.as_str());
    contexts
        .with_cluster(&Actor::Server, context, |cluster| start(cluster, scope))
        .await
}

async fn start(cluster: Cluster, scope: &Scope) -> Result<WatchStart, ClusterError> {
    // Without the selector: with one, the API server does not count.
    let params = ListParams::default().limit(1);
    let api = api(&cluster, scope);
    let request = api.list(&params);
    let page = cluster.request(&operation(scope, "list"), request).await?;
    let rest = page.metadata.remaining_item_count.unwrap_or_default();
    let rest = usize::try_from(rest).unwrap_or_default();
    Ok(WatchStart {
        version: page.metadata.resource_version.unwrap_or_default(),
        count: Some(page.items.len() + rest),
    })
}

pub(super) fn operation<'a>(scope: &'a Scope, verb: &'static str) -> Operation<'a> {
    Operation {
        verb,
        resource: "events",
        name: None,
        namespace: scope.namespace.as_deref(),
        context: &scope.context,
    }
}

fn api(cluster: &Cluster, scope: &Scope) -> Api<WireEvent> {
    match &scope.namespace {
        Some(namespace) => Api::namespaced(cluster.client(), namespace),
        None => Api::all(cluster.client()),
    }
}

fn plain(event: WireEvent, redactor: &Redactor) -> (Event, String) {
    let version = event.metadata.resource_version.clone().unwrap_or_default();
    (events::to_event(event, redactor), version)
}

fn frame(
    scope: &Scope,
    cluster: &Cluster,
    event: kube::Result<WatchEvent<WireEvent>>,
) -> Result<WatchFrame<Event>, WatchError> {
    match event {
        Ok(WatchEvent::Added(event) | WatchEvent::Modified(event))
            if event.is_hidden(cluster.scope()) =>
        {
            let version = event.metadata.resource_version;
            Ok(WatchFrame::Skipped(version.unwrap_or_default()))
        }
        Ok(WatchEvent::Added(event) | WatchEvent::Modified(event)) => {
            let (event, version) = plain(event, cluster.redactor());
            Ok(WatchFrame::Item(event, version))
        }
        // The event has expired.
        Ok(WatchEvent::Deleted(event)) => Ok(WatchFrame::Skipped(
            event.metadata.resource_version.unwrap_or_default(),
        )),
        Ok(WatchEvent::Bookmark(mark)) => Ok(WatchFrame::Bookmark(mark.metadata.resource_version)),
        Ok(WatchEvent::Error(status)) => Err(watch_error(
            &operation(scope, "watch"),
            &kube::Error::Api(status),
        )),
        Err(error) => Err(watch_error(&operation(scope, "watch"), &error)),
    }
}

impl From<ClusterError> for WatchError {
    fn from(error: ClusterError) -> Self {
        Self::Request(error)
    }
}

impl RequestError for WatchError {
    fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Request(error) if error.is_unauthorized())
    }
}

pub(crate) fn watch_error(operation: &Operation<'_>, error: &kube::Error) -> WatchError {
    match error {
        kube::Error::Api(status) if status.code == 410 || is_ahead(status) => WatchError::Expired,
        // The same frame would come again and again; a list goes past it.
        error if too_large(error) == Some(TooLarge::Frame) => {
            tracing::warn!(watch = %operation, "a frame is too large to be read, a list follows");
            WatchError::Expired
        }
        error => WatchError::Request(ClusterError::from_kube(operation, error)),
    }
}

/// Whether the cluster has yet to reach the version: it was made anew, or restored.
fn is_ahead(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "ResourceVersionTooLarge")
}

#[cfg(test)]
mod tests {
    use demo_cluster::{DemoCluster, Fault as RequestFault, RequestMatcher};

    use super::*;
    use crate::ErrorKind;
    use kubecrier_lifecycle::Lifecycle;

    /// The response of an API server that serves a kind from its watch cache.
    #[test]
    fn a_version_to_come_is_one_whose_history_is_gone() {
        let classify = |cause: &str| {
            let status = serde_json::json!({
                "status": "Failure", "code": 504, "reason": "Timeout",
                "message": "Too large resource version: 1200, current: 7",
                "details": {"causes": [{"reason": cause, "message": "Too large resource version"}]},
            });
            let status: Status = serde_json::from_value(status).unwrap();
            let scope = Scope {
                context: "dev".to_owned(),
                namespace: None,
                selector: None,
            };
            let error = kube::Error::Api(Box::new(status));
            watch_error(&operation(&scope, "watch"), &error)
        };
        assert!(matches!(
            classify("ResourceVersionTooLarge"),
            WatchError::Expired
        ));
        assert!(matches!(classify("Another"), WatchError::Request(_)));
    }

    /// An expired token is renewed for a relist, too.
    #[tokio::test(start_paused = true)]
    async fn a_look_renews_credentials_once() {
        let cluster = DemoCluster::default();
        let contexts = Contexts::of_demo(&cluster);
        let labels = LabelSource::new(Arc::clone(&contexts), Lifecycle::default());
        let scope = Scope {
            context: contexts.resolve(None).unwrap(),
            namespace: None,
            selector: None,
        };
        let renewal = Duration::from_mins(1);
        let source = EventSource::new(contexts, Arc::new(labels), scope, renewal);
        let lists = || RequestMatcher::any().verb("list").resource("events");
        cluster.fail_next(lists(), 1, RequestFault::Unauthorized);
        assert!(source.relist("1").await.unwrap().complete);
        cluster.fail_next(lists(), 2, RequestFault::Unauthorized);
        let Err(WatchError::Request(error)) = source.relist("1").await else {
            panic!("it fails again");
        };
        assert_eq!(error.kind(), ErrorKind::Unauthorized);
    }

    /// The same frame would come again with every new watch, so a list has to go past it.
    #[tokio::test(start_paused = true)]
    async fn a_frame_that_is_too_large_leads_to_a_list() {
        let cluster = DemoCluster::default();
        let contexts = Contexts::of_demo(&cluster);
        let labels = LabelSource::new(Arc::clone(&contexts), Lifecycle::default());
        let scope = Scope {
            context: contexts.resolve(None).unwrap(),
            namespace: None,
            selector: None,
        };
        let renewal = Duration::from_mins(1);
        let source = EventSource::new(contexts, Arc::new(labels), scope, renewal);
        let put = |name: &str, message: String| {
            let event = serde_json::json!({
                "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "Large",
                "metadata": {"name": name, "namespace": "shop"},
                "involvedObject": {"kind": "Pod", "name": "web", "namespace": "shop"},
                "message": message,
            });
            cluster.put(event).unwrap();
        };
        let version = source.latest_version().await.unwrap();
        let mut frames = source.open(&version).await.unwrap();
        put("small.1", "small".to_owned());
        let first = frames.next().await.unwrap();
        assert!(matches!(first, Ok(WatchFrame::Item(..))), "{first:?}");
        put("large.1", "x".repeat(9 << 20));
        let second = frames.next().await.unwrap();
        assert!(matches!(second, Err(WatchError::Expired)), "{second:?}");
        let listed = source.relist(&version).await.unwrap();
        assert_eq!((listed.events.len(), listed.complete), (2, true));
        let mut frames = source.open(&listed.version).await.unwrap();
        put("small.2", "small".to_owned());
        assert!(frames.next().await.unwrap().is_ok(), "it goes on after it");
    }
}
