//! Where a watch gets its events from: the seam under the state machine.

use std::{future::Future, sync::Arc};

use futures_util::{Stream, StreamExt, stream::BoxStream};
use kube::{
    Api,
    api::{ListParams, WatchEvent, WatchParams},
    core::Status,
};
use tokio::time::Duration;

use super::{home::Home, labels::LabelSource, memo::Said, scope::Scope};
use crate::{
    Contexts,
    error::{ClusterError, Operation},
    events::{self, WireEvent},
    list::PAGE,
    target::Cluster,
};
use kubecrier_core::{Event, InvolvedObject, Labels};
use kubecrier_redact::Redactor;

/// Objects that are looked at when the history is gone.
const CATCH_UP_MAX: usize = 5000;

/// Something that can be watched.
pub(crate) trait Source: Send + Sync + 'static {
    /// What is seen.
    type Item: Send;
    /// What a look at everything shows.
    type Look: Send;
    /// What comes out of a watch.
    type Frames: Stream<Item = Result<Frame<Self::Item>, Fault>> + Send + Unpin;

    /// Starts to watch after that version.
    fn open(&self, version: &str) -> impl Future<Output = Result<Self::Frames, Fault>> + Send;

    /// What is there, now that the history since a version is gone.
    fn since(&self, version: &str) -> impl Future<Output = Result<Self::Look, Fault>> + Send;

    /// The version that the cluster is at.
    fn newest(&self) -> impl Future<Output = Result<String, Fault>> + Send;

    /// The version that was looked at.
    fn version(look: &Self::Look) -> &str;

    /// Waits until a watch that is open may be of another place than a new one would
    /// be. Cancel-safe.
    fn changed(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// A text as it may leave.
    fn clean(&self, text: &str) -> String;
}

/// Where labels come from.
pub(super) trait Labelled {
    /// The labels of what an event is about.
    fn labels(&self, object: &InvolvedObject) -> Said<Labels>;
}

/// What a watch says.
#[derive(Debug)]
pub(crate) enum Frame<T> {
    /// Something has happened, and how far we are with it.
    Seen(T, String),
    /// Something that is no news; it shows how far we are.
    Passed(String),
    /// Nothing but how far the cluster is.
    Bookmark(String),
}

/// Why a watch says nothing more.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The history does not reach back to that version.
    Gone,
    /// It is another cluster than before: versions mean something else.
    Moved,
    /// Anything else.
    Failed(ClusterError),
}

/// What a look at everything has shown.
#[derive(Debug, Default)]
pub(super) struct CaughtUp {
    /// Where to watch on.
    pub(super) version: String,
    /// Newer than what was known, the oldest first.
    pub(super) events: Vec<(Box<Event>, String)>,
    /// Whether everything was looked at.
    pub(super) complete: bool,
}

/// How it stands when somebody begins to watch.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    /// Where to watch on.
    pub(super) version: String,
    /// How many events there are now.
    pub(super) count: Option<usize>,
}

/// Events of a real cluster.
pub(super) struct ClusterSource {
    home: Home,
    labels: Arc<LabelSource>,
    scope: Scope,
    /// How long the API server is asked to keep a watch open.
    renewal: Duration,
}

// === impl ClusterSource ===

impl ClusterSource {
    pub(super) fn new(
        contexts: Arc<Contexts>,
        labels: Arc<LabelSource>,
        scope: Scope,
        renewal: Duration,
    ) -> Self {
        Self {
            home: Home::new(contexts, &scope.context),
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
    ) -> Result<BoxStream<'static, kube::Result<WatchEvent<WireEvent>>>, Fault> {
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
            Ok(Err(error)) => Err(fault(&self.operation("watch"), &error)),
            Err(_elapsed) => Err(Fault::Failed(ClusterError::timeout(
                &self.operation("watch"),
                cluster.timeout().as_secs_f64(),
            ))),
        }
    }

    async fn look(&self, cluster: Cluster, version: &str) -> Result<CaughtUp, ClusterError> {
        let api = api(&cluster, &self.scope);
        let operation = self.operation("list");
        let after: Option<u64> = version.parse().ok();
        let mut caught = CaughtUp::default();
        let mut scanned = 0;
        let mut next = None;
        loop {
            let params = ListParams {
                field_selector: self.scope.selector.clone(),
                limit: Some(PAGE),
                continue_token: next.take(),
                ..ListParams::default()
            };
            let page = cluster.ask(&operation, api.list(&params)).await?;
            if scanned == 0 {
                caught.version = page.metadata.resource_version.unwrap_or_default();
            }
            scanned += page.items.len();
            let newer = page.items.into_iter().map(|one| plain(one, cluster.redactor())).filter(|(event, _)| {
                matches!((event.version, after), (Some(is), Some(after)) if is > after)
            });
            caught.events.extend(newer);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                None => {
                    caught.complete = after.is_some();
                    break;
                }
                Some(_) if scanned >= CATCH_UP_MAX => break,
                token => next = token,
            }
        }
        caught.events.sort_by_key(|(event, _)| event.version);
        Ok(caught)
    }
}

impl Source for ClusterSource {
    type Item = Box<Event>;
    type Look = CaughtUp;
    type Frames = BoxStream<'static, Result<Frame<Box<Event>>, Fault>>;

    async fn open(&self, version: &str) -> Result<Self::Frames, Fault> {
        let open = |cluster: Cluster| async move {
            let frames = self.watch(&cluster, version).await?;
            Ok((frames, cluster.redactor().clone()))
        };
        let (frames, redactor) = self.home.open(open).await?;
        let scope = self.scope.clone();
        let frames = frames.map(move |said| frame(&scope, &redactor, said));
        Ok(frames.boxed())
    }

    async fn since(&self, version: &str) -> Result<CaughtUp, Fault> {
        self.home.look(|cluster| self.look(cluster, version)).await
    }

    async fn newest(&self) -> Result<String, Fault> {
        let ask = |cluster| start(cluster, &self.scope);
        Ok(self.home.ask(ask).await?.version)
    }

    fn version(look: &CaughtUp) -> &str {
        &look.version
    }

    async fn changed(&self) {
        self.home.changed().await;
    }

    fn clean(&self, text: &str) -> String {
        self.home.clean(text)
    }
}

impl Labelled for ClusterSource {
    fn labels(&self, object: &InvolvedObject) -> Said<Labels> {
        self.labels.of(&self.scope.context, object)
    }
}

/// The version that a watch of this scope can begin at, and whether it may be read.
pub(super) async fn begin(contexts: &Contexts, scope: &Scope) -> Result<Start, ClusterError> {
    let context = &scope.context;
    contexts.ask(context, |cluster| start(cluster, scope)).await
}

async fn start(cluster: Cluster, scope: &Scope) -> Result<Start, ClusterError> {
    // Without the selector: with one, the API server does not count.
    let params = ListParams::default().limit(1);
    let api = api(&cluster, scope);
    let request = api.list(&params);
    let page = cluster.ask(&operation(scope, "list"), request).await?;
    let rest = page.metadata.remaining_item_count.unwrap_or_default();
    let rest = usize::try_from(rest).unwrap_or_default();
    Ok(Start {
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

fn plain(event: WireEvent, redactor: &Redactor) -> (Box<Event>, String) {
    let version = event.metadata.resource_version.clone().unwrap_or_default();
    (Box::new(events::plain(event, redactor)), version)
}

fn frame(
    scope: &Scope,
    redactor: &Redactor,
    said: kube::Result<WatchEvent<WireEvent>>,
) -> Result<Frame<Box<Event>>, Fault> {
    match said {
        Ok(WatchEvent::Added(event) | WatchEvent::Modified(event)) => {
            let (event, version) = plain(event, redactor);
            Ok(Frame::Seen(event, version))
        }
        // It has lived its time.
        Ok(WatchEvent::Deleted(event)) => Ok(Frame::Passed(
            event.metadata.resource_version.unwrap_or_default(),
        )),
        Ok(WatchEvent::Bookmark(mark)) => Ok(Frame::Bookmark(mark.metadata.resource_version)),
        Ok(WatchEvent::Error(status)) => {
            Err(fault(&operation(scope, "watch"), &kube::Error::Api(status)))
        }
        Err(error) => Err(fault(&operation(scope, "watch"), &error)),
    }
}

pub(crate) fn fault(operation: &Operation<'_>, error: &kube::Error) -> Fault {
    match error {
        kube::Error::Api(status) if status.code == 410 || is_ahead(status) => Fault::Gone,
        error => Fault::Failed(ClusterError::from_kube(operation, error)),
    }
}

/// Whether the version is one that the cluster has not come to: it was made anew, or
/// restored.
fn is_ahead(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "ResourceVersionTooLarge")
}

#[cfg(test)]
mod tests {
    use demo_cluster::{DemoCluster, Fault as Wrong, Matching};

    use super::*;
    use crate::ErrorKind;
    use kubecrier_lifecycle::Lifecycle;

    /// As an API server says it that keeps a kind in memory.
    #[test]
    fn a_version_to_come_is_one_whose_history_is_gone() {
        let said = |cause: &str| {
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
            fault(&operation(&scope, "watch"), &error)
        };
        assert!(matches!(said("ResourceVersionTooLarge"), Fault::Gone));
        assert!(matches!(said("Another"), Fault::Failed(_)));
    }

    /// A token that has run out is renewed for a look at everything, too.
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
        let source = ClusterSource::new(contexts, Arc::new(labels), scope, renewal);
        let lists = || Matching::any().verb("list").resource("events");
        cluster.fail_next(lists(), 1, Wrong::Unauthorized);
        assert!(source.since("1").await.unwrap().complete);
        cluster.fail_next(lists(), 2, Wrong::Unauthorized);
        let Err(Fault::Failed(error)) = source.since("1").await else {
            panic!("it fails again");
        };
        assert_eq!(error.kind(), ErrorKind::Unauthorized);
    }
}
