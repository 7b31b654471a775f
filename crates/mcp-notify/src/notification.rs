//! A notification: serialised once, shared by every session it is sent to.

mod body;
mod mark;
mod templated;

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde::Serialize;
use thiserror::Error;

use self::body::Body;
pub use self::mark::Mark;
use self::mark::PackedMark;
pub(crate) use self::templated::Prefix;
pub use self::templated::SharedMembers;
use self::templated::Templated;
use crate::gate::{Admission, Gate};
use crate::method::{CustomMethod, Method};
use crate::metrics::ResourceType;

/// One JSON-RPC notification, ready to be sent any number of times.
///
/// The whole frame is serialised when the notification is built. A clone is a
/// reference count; sending the same notification to thousands of sessions
/// does no JSON work and copies no payload. One that was rendered by a
/// [`MessageTemplate`](crate::MessageTemplate) is stored as pieces, most of which it
/// shares with other notifications.
///
/// Parameters that cannot be serialised make a notification that exists and
/// cannot be sent: [`frame`](Self::frame) is an error. Delivery reports that error
/// through the same log record and counter as every other failure, so that it is
/// not lost where the notification is built.
#[derive(Clone)]
pub struct Notification(Arc<Inner>);

enum Inner {
    Built(Built),
    Templated(Templated),
    /// One that is shared, or has a gate already, behind another gate.
    Gated(Notification, Arc<dyn Gate>),
}

struct Built {
    method: Method,
    body: Result<Body, EncodeError>,
    key: Option<CoalesceKey>,
    priority: Priority,
    resource: Option<ResourceRef>,
    mark: PackedMark,
    gate: Option<Arc<dyn Gate>>,
}

/// The priority of a notification in an outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Sent before everything informational, and dropped last.
    Critical,
    /// The default.
    #[default]
    Informational,
}

/// The resource that a notification is about: fields of its failure record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceRef {
    /// The label of the failure counter. A failure without one is logged and not
    /// counted.
    pub resource_type: Option<ResourceType>,
    /// The URI of the resource.
    pub uri: Arc<str>,
}

/// The coalescing key: a newer notification replaces a pending one with an equal key.
///
/// The text is hashed once, when the key is made: pushing to ten thousand outboxes
/// does not hash it again. The hash has a random seed per process, so that a client
/// cannot choose texts that collide.
#[derive(Clone, Debug)]
pub struct CoalesceKey {
    hash: u64,
    text: Arc<str>,
}

/// Why a notification has no bytes.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The parameters' own `Serialize` failed.
    #[error("the parameters cannot be serialised: {0}")]
    Json(#[source] Arc<serde_json::Error>),
    /// The parameters of an MCP notification have to be a JSON object.
    #[error("the parameters are not a JSON object")]
    NotAnObject,
}

/// Builds a [`Notification`]; made by [`Notification::builder`].
#[derive(Debug)]
#[must_use]
pub struct NotificationBuilder {
    method: Method,
    body: Option<Result<Body, EncodeError>>,
    key: Option<CoalesceKey>,
    priority: Priority,
    resource: Option<ResourceRef>,
}

// === impl Notification ===

impl Notification {
    /// A builder for a notification of this method, without parameters so far.
    pub fn builder(method: Method) -> NotificationBuilder {
        NotificationBuilder {
            method,
            body: None,
            key: None,
            priority: Priority::default(),
            resource: None,
        }
    }

    /// A notification that the protocol does not define; see [`CustomMethod`] for the
    /// consequences.
    pub fn custom(method: CustomMethod, params: &impl Serialize) -> Self {
        Self::builder(method.into_method()).params(params).build()
    }

    /// The method.
    pub fn method(&self) -> &Method {
        match &*self.0 {
            Inner::Built(built) => &built.method,
            Inner::Templated(templated) => &templated.prefix.method,
            Inner::Gated(inner, _) => inner.method(),
        }
    }

    /// The whole JSON-RPC message, on one line and without a line end. A notification
    /// that is stored in pieces joins them on the first call.
    ///
    /// # Errors
    /// [`EncodeError`] if the parameters could not be serialised.
    pub fn frame(&self) -> Result<&Bytes, &EncodeError> {
        match &*self.0 {
            Inner::Built(built) => built.body.as_ref().map(|body| &body.frame),
            Inner::Templated(templated) => Ok(templated.frame()),
            Inner::Gated(inner, _) => inner.frame(),
        }
    }

    /// The same message as the pieces it is stored in, some of which may be empty: a
    /// writer that copies the bytes anyway saves joining them first.
    ///
    /// # Errors
    /// [`EncodeError`] if the parameters could not be serialised.
    pub fn pieces(&self) -> Result<[&[u8]; 5], &EncodeError> {
        match &*self.0 {
            Inner::Built(built) => Ok([&built.body.as_ref()?.frame, &[], &[], &[], &[]]),
            Inner::Templated(templated) => Ok(templated.pieces()),
            Inner::Gated(inner, _) => inner.pieces(),
        }
    }

    /// The parameters alone, as a slice of the frame. `None` without parameters.
    ///
    /// # Errors
    /// [`EncodeError`] if the parameters could not be serialised.
    pub fn params(&self) -> Result<Option<Bytes>, &EncodeError> {
        match &*self.0 {
            Inner::Built(built) => Ok(built.body.as_ref()?.params()),
            Inner::Templated(templated) => Ok(Some(templated.params())),
            Inner::Gated(inner, _) => inner.params(),
        }
    }

    /// The coalescing key, if there is one.
    pub fn coalesce_key(&self) -> Option<&CoalesceKey> {
        match &*self.0 {
            Inner::Built(built) => built.key.as_ref(),
            Inner::Templated(_) => None,
            Inner::Gated(inner, _) => inner.coalesce_key(),
        }
    }

    /// The priority.
    pub fn priority(&self) -> Priority {
        match &*self.0 {
            Inner::Built(built) => built.priority,
            Inner::Templated(_) => Priority::default(),
            Inner::Gated(inner, _) => inner.priority(),
        }
    }

    /// The resource it is about, if the builder was given one.
    pub fn resource(&self) -> Option<&ResourceRef> {
        match &*self.0 {
            Inner::Built(built) => built.resource.as_ref(),
            Inner::Templated(templated) => templated.prefix.resource.as_ref(),
            Inner::Gated(inner, _) => inner.resource(),
        }
    }

    /// The same notification behind a gate, which is asked when it would be sent.
    #[must_use]
    pub fn gated(self, gate: Arc<dyn Gate>) -> Self {
        let mut this = self;
        // Most are new and not shared: thousands of them may be pending or replayable, so they
        // take no allocation of their own for it.
        let own = match Arc::get_mut(&mut this.0) {
            Some(Inner::Built(built)) => Some(&mut built.gate),
            Some(Inner::Templated(templated)) => Some(&mut templated.gate),
            Some(Inner::Gated(..)) | None => None,
        };
        match own {
            Some(own @ None) => {
                *own = Some(gate);
                this
            }
            Some(Some(_)) | None => Self(Arc::new(Inner::Gated(this, gate))),
        }
    }

    /// Whether it may be sent now; one without a gate always may.
    pub fn admit(&self) -> Admission {
        let own = |gate: &Option<Arc<dyn Gate>>| match gate {
            Some(gate) => gate.admit(),
            None => Admission::Open,
        };
        match &*self.0 {
            Inner::Built(built) => own(&built.gate),
            Inner::Templated(templated) => own(&templated.gate),
            Inner::Gated(inner, gate) => match gate.admit() {
                Admission::Open => inner.admit(),
                other => other,
            },
        }
    }

    /// The size of the frame in bytes; zero if it cannot be sent.
    pub fn bytes_len(&self) -> usize {
        let pieces = self.pieces().unwrap_or_default();
        pieces.iter().map(|piece| piece.len()).sum()
    }

    /// Whether both are clones of one notification. Equal content is not enough.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Notification {
    /// The prefix for notifications that have these parameters and add members to the
    /// object that is the last parameter.
    pub(crate) fn prefix(&self) -> Result<Prefix, EncodeError> {
        let frame = match &*self.0 {
            Inner::Built(built) => built.body.as_ref().map_err(Clone::clone)?,
            Inner::Templated(_) | Inner::Gated(..) => return Err(EncodeError::NotAnObject),
        };
        Prefix::new(self.method().clone(), frame)
    }

    /// A notification with this prefix.
    pub(crate) fn templated(
        prefix: &Arc<Prefix>,
        own: &impl Serialize,
        shared: SharedMembers,
    ) -> Self {
        let inner = match Templated::new(prefix, own, shared) {
            Ok(templated) => Inner::Templated(templated),
            Err(error) => Inner::Built(Built {
                method: prefix.method.clone(),
                body: Err(error),
                key: None,
                priority: Priority::default(),
                resource: prefix.resource.clone(),
                mark: PackedMark::default(),
                gate: None,
            }),
        };
        Self(Arc::new(inner))
    }
}

impl fmt::Debug for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frame = self.frame().map(|frame| String::from_utf8_lossy(frame));
        f.debug_struct("Notification")
            .field("method", self.method())
            .field("frame", &frame)
            .field("key", &self.coalesce_key().map(|key| &key.text))
            .field("priority", &self.priority())
            .field("resource", &self.resource())
            .finish()
    }
}

// === impl NotificationBuilder ===

impl NotificationBuilder {
    /// Sets the parameters and serialises them, once.
    pub fn params(mut self, params: &impl Serialize) -> Self {
        self.body = Some(Body::with_params(&self.method, params));
        self
    }

    /// Lets a newer notification with the same method and `key` replace this one while
    /// it is pending.
    pub fn coalesce(mut self, key: &str) -> Self {
        self.key = Some(CoalesceKey::new(&self.method, key));
        self
    }

    /// Sets the priority to [`Priority::Critical`].
    pub fn critical(mut self) -> Self {
        self.priority = Priority::Critical;
        self
    }

    /// Sets the resource it is about.
    pub fn resource(mut self, resource: ResourceRef) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Builds the notification. This never fails; see [`Notification`] for parameters
    /// that could not be serialised.
    pub fn build(self) -> Notification {
        let Self {
            method,
            body,
            key,
            priority,
            resource,
        } = self;
        let body = body.unwrap_or_else(|| Ok(Body::without_params(&method)));
        Notification(Arc::new(Inner::Built(Built {
            method,
            body,
            key,
            priority,
            resource,
            mark: PackedMark::default(),
            gate: None,
        })))
    }
}

// === impl ResourceRef ===

impl ResourceRef {
    /// A resource of a counted type.
    pub fn new(resource_type: impl Into<ResourceType>, uri: impl Into<Arc<str>>) -> Self {
        Self {
            resource_type: Some(resource_type.into()),
            uri: uri.into(),
        }
    }

    /// A resource without a type: a failure is logged and not counted.
    pub fn untyped(uri: impl Into<Arc<str>>) -> Self {
        Self {
            resource_type: None,
            uri: uri.into(),
        }
    }
}

// === impl CoalesceKey ===

impl CoalesceKey {
    fn new(method: &Method, key: &str) -> Self {
        static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        // A method contains no space, so two different pairs never make the same text.
        let text: Arc<str> = format!("{method} {key}").into();
        Self {
            hash: SEED.hash_one(&*text),
            text,
        }
    }
}

impl PartialEq for CoalesceKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.text, &other.text) || self.text == other.text)
    }
}

impl Eq for CoalesceKey {}

impl Hash for CoalesceKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

#[cfg(test)]
mod tests;
