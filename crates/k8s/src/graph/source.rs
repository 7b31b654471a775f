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
    error::{ClusterError, ErrorKind, Operation},
    list::PAGE,
    target::Cluster,
    watch::{
        home::Home,
        source::{Fault, Frame, Source, fault},
    },
};
use kubecrier_topology::{Facts, Id, Kind};

const JSON: &str = "application/json";

/// A list may be overtaken by the cleaning of old versions, or have pages that are too
/// large; then it begins anew, with smaller ones.
const PAGES: [u32; 3] = [PAGE, PAGE / 5, PAGE / 25];

/// Something has happened to an object.
#[derive(Debug)]
pub(super) enum Change {
    /// It says this now.
    Set(Facts),
    /// It is gone.
    Gone(Id),
}

/// Everything of a kind, at one version.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) version: String,
    pub(super) all: Vec<Facts>,
}

/// The objects of one kind in a real cluster, of which as much is read as `T` has.
pub(super) struct KindSource<T> {
    home: Home,
    kind: Kind,
    namespace: Option<String>,
    /// How long the API server is asked to keep a watch open.
    renewal: Duration,
    odd: Arc<Odd>,
    shape: PhantomData<fn() -> T>,
}

/// Whether there are objects that have not the form that they should. Such a kind is read
/// with care, which is slower.
#[derive(Debug, Default)]
struct Odd {
    careful: AtomicBool,
    said: AtomicBool,
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
            home: Home::new(contexts, &scope.context),
            kind,
            namespace: scope.namespace.clone(),
            renewal,
            odd: Arc::default(),
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
            context: self.home.context(),
        }
    }

    fn request(&self) -> kube::core::Request {
        let version = match self.kind {
            Kind::HorizontalPodAutoscaler => "v2",
            _ => "v1",
        };
        let root = match self.kind.group() {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        let plural = self.kind.plural();
        kube::core::Request::new(match &self.namespace {
            Some(namespace) if self.kind.is_namespaced() => {
                format!("{root}/namespaces/{namespace}/{plural}")
            }
            _ => format!("{root}/{plural}"),
        })
    }

    /// Of namespaces, the one that the graph is of.
    fn selector(&self) -> Option<String> {
        let namespace = self.namespace.as_deref();
        let own = namespace.filter(|_| self.kind == Kind::Namespace);
        own.map(|name| format!("metadata.name={name}"))
    }

    async fn list<I>(&self, cluster: &Cluster, size: u32) -> Result<Listed, ClusterError>
    where
        I: Named + DeserializeOwned,
    {
        let operation = self.operation("list");
        let mut listed = Listed::default();
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
                self.odd.look_at(&one, self.kind, self.home.context());
                one.facts(self.kind, cluster.redactor(), cluster.denied())
            };
            listed.all.extend(items.map(facts));
            next = page.metadata.next.filter(|token| !token.is_empty());
            if next.is_none() || listed.all.len() > OBJECTS_MAX {
                return Ok(listed);
            }
        }
    }

    async fn newest_of(&self, cluster: Cluster) -> Result<String, ClusterError> {
        let operation = self.operation("list");
        let request = self.request().list(&ListParams::default().limit(1));
        let request = request.map_err(|error| built(&operation, error))?;
        let page: Page<IgnoredAny> = cluster.raw(&operation, request, JSON).await?;
        Ok(page.metadata.resource_version)
    }

    async fn list_until_whole(&self, cluster: Cluster) -> Result<Listed, ClusterError> {
        let mut listed = if self.odd.careful() {
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
    ) -> Result<BoxStream<'static, Result<Frame<Change>, Fault>>, Fault>
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
        let request = request.map_err(|error| Fault::Failed(built(&operation, error)))?;
        let client = cluster.client();
        let opening = client.request_events::<I>(request);
        let frames = match tokio::time::timeout(cluster.timeout(), opening).await {
            Ok(Ok(frames)) => frames,
            Ok(Err(error)) => return Err(fault(&operation, &error)),
            Err(_elapsed) => {
                let seconds = cluster.timeout().as_secs_f64();
                return Err(Fault::Failed(ClusterError::timeout(&operation, seconds)));
            }
        };
        let (kind, context) = (self.kind, self.home.context().to_owned());
        let odd = Arc::clone(&self.odd);
        let frames = frames.map(move |said| {
            let seen = |change: Change, version: &str| Frame::Seen(change, version.to_owned());
            let broken = |error: &kube::Error| {
                let operation = Operation {
                    verb: "watch",
                    resource: kind.plural(),
                    name: None,
                    namespace: None,
                    context: &context,
                };
                Err(fault(&operation, error))
            };
            match said {
                Ok(WatchEvent::Added(one) | WatchEvent::Modified(one)) => {
                    odd.look_at(&one, kind, &context);
                    let version = one.version().to_owned();
                    let facts = one.facts(kind, cluster.redactor(), cluster.denied());
                    Ok(seen(Change::Set(facts), &version))
                }
                Ok(WatchEvent::Deleted(one)) => Ok(seen(Change::Gone(one.id(kind)), one.version())),
                Ok(WatchEvent::Bookmark(mark)) => {
                    Ok(Frame::Bookmark(mark.metadata.resource_version))
                }
                Ok(WatchEvent::Error(status)) => broken(&kube::Error::Api(status)),
                Err(error) => {
                    // The next watch would meet it again.
                    if is_not_understood(&error) {
                        odd.careful.store(true, Ordering::Relaxed);
                    }
                    broken(&error)
                }
            }
        });
        Ok(frames.boxed())
    }
}

impl<T: Shape + Named> Source for KindSource<T> {
    type Item = Change;
    type Look = Listed;
    type Frames = BoxStream<'static, Result<Frame<Change>, Fault>>;

    async fn open(&self, version: &str) -> Result<Self::Frames, Fault> {
        if self.odd.careful() {
            let watch = |cluster| self.watch::<Lenient<T>>(cluster, version);
            return self.home.open(watch).await;
        }
        let watch = |cluster| self.watch::<T>(cluster, version);
        self.home.open(watch).await
    }

    async fn since(&self, _version: &str) -> Result<Listed, Fault> {
        self.home
            .look(|cluster| self.list_until_whole(cluster))
            .await
    }

    async fn newest(&self) -> Result<String, Fault> {
        self.home.ask(|cluster| self.newest_of(cluster)).await
    }

    fn version(look: &Listed) -> &str {
        &look.version
    }

    async fn changed(&self) {
        self.home.changed().await;
    }

    fn clean(&self, text: &str) -> String {
        self.home.clean(text)
    }
}

// === impl Odd ===

impl Odd {
    fn careful(&self) -> bool {
        self.careful.load(Ordering::Relaxed)
    }

    /// An operator is told of the first one.
    fn look_at(&self, one: &impl Named, kind: Kind, context: &str) {
        if one.is_whole() {
            return;
        }
        self.careful.store(true, Ordering::Relaxed);
        if !self.said.swap(true, Ordering::Relaxed) {
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
