//! Fixtures shared by the tests of several modules.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::{
    ErrorType, FailureCounter, Metrics, Notification, NotificationSink, ResourceType,
    ResourceTypes, ResourceUpdated, SendError, SendFuture, Session,
};

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A custom notification that carries a number, without a key.
pub(crate) fn numbered(number: usize) -> Notification {
    let method = crate::CustomMethod::new("notifications/test/numbered").unwrap();
    Notification::custom(method, &json!({ "number": number }))
}

/// A `resources/updated` of a counted type.
pub(crate) fn updated(resource_type: FileResource, uri: &str) -> Notification {
    ResourceUpdated::new(uri)
        .resource_type(resource_type)
        .to_notification()
}

/// The resource types of a file server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileResource {
    Folder,
    Document,
    Link,
}

impl ResourceTypes for FileResource {
    const ALL: &'static [Self] = &[Self::Folder, Self::Document, Self::Link];

    fn as_str(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Document => "document",
            Self::Link => "link",
        }
    }
}

// === a sink that follows a script ===

/// How the sink handles one send.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Accept,
    Fail(SendError),
    Hang,
    Panic,
    Close,
}

/// Handles the sends of each session as scripted, then accepts all; records every send.
#[derive(Clone, Default)]
pub(crate) struct Scripted(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    acts: HashMap<String, VecDeque<Act>>,
    always: HashMap<String, Act>,
    sends: Vec<Sent>,
}

#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) session: String,
    pub(crate) frame: String,
    pub(crate) at: Instant,
    pub(crate) accepted: bool,
}

impl Scripted {
    pub(crate) fn then(self, session: &str, acts: impl IntoIterator<Item = Act>) -> Self {
        self.0
            .lock()
            .acts
            .entry(session.to_owned())
            .or_default()
            .extend(acts);
        self
    }

    pub(crate) fn always(self, session: &str, act: Act) -> Self {
        self.0.lock().always.insert(session.to_owned(), act);
        self
    }

    pub(crate) fn sends(&self) -> Vec<Sent> {
        self.0.lock().sends.clone()
    }

    pub(crate) fn accepted(&self, session: &str) -> Vec<String> {
        let sends = self.sends().into_iter();
        sends
            .filter(|s| s.accepted && s.session == session)
            .map(|s| s.frame)
            .collect()
    }
}

impl NotificationSink for Scripted {
    fn send<'a>(&'a self, session: &'a Session, notification: &'a Notification) -> SendFuture<'a> {
        let mut script = self.0.lock();
        let id: &str = session.id();
        let next = script.acts.get_mut(id).and_then(VecDeque::pop_front);
        let act = next
            .or_else(|| script.always.get(id).cloned())
            .unwrap_or(Act::Accept);
        let frame = String::from_utf8(notification.frame().unwrap().to_vec()).unwrap();
        let accepted = matches!(act, Act::Accept);
        script.sends.push(Sent {
            session: id.to_owned(),
            frame,
            at: Instant::now(),
            accepted,
        });
        drop(script);
        Box::pin(async move {
            match act {
                Act::Accept => Ok(()),
                Act::Fail(error) => Err(error),
                Act::Hang => std::future::pending().await,
                Act::Panic => panic!("the sink broke"),
                Act::Close => {
                    session.close(crate::CloseReason::Requested);
                    Err(SendError::Closed)
                }
            }
        })
    }
}

// === a counter ===

#[derive(Default)]
pub(crate) struct Counted(Mutex<BTreeMap<(&'static str, &'static str), u64>>);

impl Counted {
    pub(crate) fn new() -> (Arc<Self>, Metrics) {
        let counted = Arc::new(Self::default());
        (Arc::clone(&counted), Metrics::new(counted))
    }

    pub(crate) fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.0
            .lock()
            .iter()
            .map(|((resource, error), n)| (*resource, *error, *n))
            .collect()
    }
}

impl FailureCounter for Counted {
    fn failed(&self, resource_type: ResourceType, error_type: ErrorType) {
        *self
            .0
            .lock()
            .entry((resource_type.as_str(), error_type.as_str()))
            .or_default() += 1;
    }
}

// === a log ===

/// Captures the log records of this crate on this thread until it is dropped.
pub(crate) struct Log {
    records: Arc<Mutex<Vec<Record>>>,
    _guard: DefaultGuard,
}

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) level: tracing::Level,
    pub(crate) message: String,
    pub(crate) fields: BTreeMap<String, String>,
}

impl Log {
    pub(crate) fn capture() -> Self {
        let records = Arc::<Mutex<Vec<Record>>>::default();
        let subscriber = tracing_subscriber::registry().with(Recorder(Arc::clone(&records)));
        Self {
            records,
            _guard: tracing::subscriber::set_default(subscriber),
        }
    }

    pub(crate) fn at(&self, level: tracing::Level) -> Vec<Record> {
        self.records
            .lock()
            .iter()
            .filter(|record| record.level == level)
            .cloned()
            .collect()
    }
}

struct Recorder(Arc<Mutex<Vec<Record>>>);

impl<S: tracing::Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        let message = fields.0.remove("message").unwrap_or_default();
        self.0.lock().push(Record {
            level: *event.metadata().level(),
            message,
            fields: fields.0,
        });
    }
}

struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}
