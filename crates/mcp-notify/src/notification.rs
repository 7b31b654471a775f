//! A notification: serialised once, shared by every session that gets it.

mod body;
mod spoken;

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde::Serialize;
use thiserror::Error;

use self::body::Body;
pub(crate) use self::spoken::Opening;
pub use self::spoken::SharedMembers;
use self::spoken::Spoken;
use crate::method::{CustomMethod, Method};
use crate::metrics::ResourceType;

/// One JSON-RPC notification, ready to be sent any number of times.
///
/// The whole frame is serialised when the notification is built. A clone is a
/// reference count; sending the same notification to thousands of sessions
/// does no JSON work and copies no payload. One that was said by a
/// [`Voice`](crate::Voice) is kept in the pieces that it shares with others.
///
/// Parameters that cannot be serialised make a notification that *exists* and
/// cannot be sent: [`frame`](Self::frame) is an error, and delivery reports it
/// through the same log record and counter as every other failure instead of
/// losing it at the place where it was built.
#[derive(Clone)]
pub struct Notification(Arc<Inner>);

enum Inner {
    Built(Built),
    Spoken(Spoken),
}

struct Built {
    method: Method,
    body: Result<Body, EncodeError>,
    key: Option<CoalesceKey>,
    tier: Tier,
    about: Option<About>,
}

/// How urgent a notification is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Goes out before everything informational and is dropped last.
    Critical,
    /// The ordinary case.
    #[default]
    Informational,
}

/// What a notification is about: the fields of its failure record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// The label of the failure counter; a resource without one is logged and
    /// not counted.
    pub resource_type: Option<ResourceType>,
    /// The resource.
    pub uri: Arc<str>,
}

/// Notifications with an equal key replace each other while they wait.
///
/// The text is hashed once, here, with a key of this process: pushing to ten
/// thousand outboxes hashes it no second time, and nobody can choose texts
/// that collide.
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
    /// JSON-RPC parameters of MCP are an object.
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
    tier: Tier,
    about: Option<About>,
}

// === impl Notification ===

impl Notification {
    /// Starts a notification with this name and no parameters.
    pub fn builder(method: Method) -> NotificationBuilder {
        NotificationBuilder {
            method,
            body: None,
            key: None,
            tier: Tier::default(),
            about: None,
        }
    }

    /// A notification outside the protocol; see [`CustomMethod`] for what that costs.
    pub fn custom(method: CustomMethod, params: &impl Serialize) -> Self {
        Self::builder(method.into_method()).params(params).build()
    }

    /// The name.
    pub fn method(&self) -> &Method {
        match &*self.0 {
            Inner::Built(built) => &built.method,
            Inner::Spoken(spoken) => &spoken.opening.method,
        }
    }

    /// The whole JSON-RPC message, on one line and without a line end. If it is kept
    /// in pieces they are joined when this is first asked for.
    ///
    /// # Errors
    /// [`EncodeError`] if the parameters could not be serialised.
    pub fn frame(&self) -> Result<&Bytes, &EncodeError> {
        match &*self.0 {
            Inner::Built(built) => built.body.as_ref().map(|body| &body.frame),
            Inner::Spoken(spoken) => Ok(spoken.frame()),
        }
    }

    /// The same, in the pieces that it is kept in, some of which may be empty: who
    /// copies it anyway need not have it joined first.
    ///
    /// # Errors
    /// [`EncodeError`] if the parameters could not be serialised.
    pub fn pieces(&self) -> Result<[&[u8]; 4], &EncodeError> {
        match &*self.0 {
            Inner::Built(built) => Ok([&built.body.as_ref()?.frame, &[], &[], &[]]),
            Inner::Spoken(spoken) => Ok(spoken.pieces()),
        }
    }

    /// The parameters alone: a slice of the frame. `None` without parameters.
    ///
    /// # Errors
    /// [`EncodeError`] if the parameters could not be serialised.
    pub fn params(&self) -> Result<Option<Bytes>, &EncodeError> {
        match &*self.0 {
            Inner::Built(built) => Ok(built.body.as_ref()?.params()),
            Inner::Spoken(spoken) => Ok(Some(spoken.params())),
        }
    }

    /// The key under which a newer notification replaces this one, if any.
    pub fn coalesce_key(&self) -> Option<&CoalesceKey> {
        match &*self.0 {
            Inner::Built(built) => built.key.as_ref(),
            Inner::Spoken(_) => None,
        }
    }

    /// How urgent it is.
    pub fn tier(&self) -> Tier {
        match &*self.0 {
            Inner::Built(built) => built.tier,
            Inner::Spoken(_) => Tier::default(),
        }
    }

    /// What it is about, if that was said.
    pub fn about(&self) -> Option<&About> {
        match &*self.0 {
            Inner::Built(built) => built.about.as_ref(),
            Inner::Spoken(spoken) => spoken.opening.about.as_ref(),
        }
    }

    /// Bytes on the wire; zero for one that cannot be sent.
    pub fn bytes_len(&self) -> usize {
        let pieces = self.pieces().unwrap_or_default();
        pieces.iter().map(|piece| piece.len()).sum()
    }

    /// Whether both are the very same notification, not merely equal ones.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Notification {
    /// What others begin with that have the same parameters and more: members of the
    /// object that is the last of the parameters.
    pub(crate) fn opening(&self) -> Result<Opening, EncodeError> {
        let frame = match &*self.0 {
            Inner::Built(built) => built.body.as_ref().map_err(Clone::clone)?,
            Inner::Spoken(_) => return Err(EncodeError::NotAnObject),
        };
        Opening::new(self.method().clone(), frame)
    }

    /// One that begins like that.
    pub(crate) fn spoken(
        opening: &Arc<Opening>,
        own: &impl Serialize,
        shared: SharedMembers,
    ) -> Self {
        let inner = match Spoken::new(opening, own, shared) {
            Ok(spoken) => Inner::Spoken(spoken),
            Err(error) => Inner::Built(Built {
                method: opening.method.clone(),
                body: Err(error),
                key: None,
                tier: Tier::default(),
                about: opening.about.clone(),
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
            .field("tier", &self.tier())
            .field("about", &self.about())
            .finish()
    }
}

// === impl NotificationBuilder ===

impl NotificationBuilder {
    /// Serialises the parameters, now and once.
    pub fn params(mut self, params: &impl Serialize) -> Self {
        self.body = Some(Body::with_params(&self.method, params));
        self
    }

    /// Lets a newer notification with the same method and `key` replace this one.
    pub fn coalesce(mut self, key: &str) -> Self {
        self.key = Some(CoalesceKey::new(&self.method, key));
        self
    }

    /// Puts it before everything informational.
    pub fn critical(mut self) -> Self {
        self.tier = Tier::Critical;
        self
    }

    /// Says which resource it is about.
    pub fn about(mut self, about: About) -> Self {
        self.about = Some(about);
        self
    }

    /// The finished notification. Never fails; see [`Notification`] for
    /// parameters that could not be serialised.
    pub fn build(self) -> Notification {
        let Self {
            method,
            body,
            key,
            tier,
            about,
        } = self;
        let body = body.unwrap_or_else(|| Ok(Body::without_params(&method)));
        Notification(Arc::new(Inner::Built(Built {
            method,
            body,
            key,
            tier,
            about,
        })))
    }
}

// === impl About ===

impl About {
    /// A resource of one of the counted types.
    pub fn resource(resource_type: ResourceType, uri: impl Into<Arc<str>>) -> Self {
        Self {
            resource_type: Some(resource_type),
            uri: uri.into(),
        }
    }

    /// Any other resource: logged on failure, not counted.
    pub fn uri(uri: impl Into<Arc<str>>) -> Self {
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
        // No method contains a space, so no two pairs make the same text.
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
