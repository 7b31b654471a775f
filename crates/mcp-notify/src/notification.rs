//! A notification: serialised once, shared by every session that gets it.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde::Serialize;
use thiserror::Error;

use crate::method::{CustomMethod, Method};
use crate::metrics::ResourceType;

/// One JSON-RPC notification, ready to be sent any number of times.
///
/// The whole frame is serialised when the notification is built. A clone is a
/// reference count; sending the same notification to thousands of sessions
/// does no JSON work and copies no payload.
///
/// Parameters that cannot be serialised make a notification that *exists* and
/// cannot be sent: [`frame`](Self::frame) is an error, and delivery reports it
/// through the same log record and counter as every other failure instead of
/// losing it at the place where it was built.
#[derive(Clone)]
pub struct Notification(Arc<Inner>);

struct Inner {
    method: Method,
    body: Result<Body, EncodeError>,
    key: Option<CoalesceKey>,
    tier: Tier,
    about: Option<About>,
}

struct Body {
    frame: Bytes,
    /// Where the parameters lie in the frame; empty without parameters.
    params: Range<usize>,
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
    params: Option<Result<Vec<u8>, EncodeError>>,
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
            params: None,
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
        &self.0.method
    }

    /// The whole JSON-RPC message, on one line and without a line end.
    ///
    /// # Errors
    /// [`EncodeError`] if the parameters could not be serialised.
    pub fn frame(&self) -> Result<&Bytes, &EncodeError> {
        self.0.body.as_ref().map(|body| &body.frame)
    }

    /// The parameters alone: a slice of the frame. `None` without parameters.
    ///
    /// # Errors
    /// [`EncodeError`] if the parameters could not be serialised.
    pub fn params(&self) -> Result<Option<Bytes>, &EncodeError> {
        let Body { frame, params } = self.0.body.as_ref()?;
        Ok((!params.is_empty()).then(|| frame.slice(params.clone())))
    }

    /// The key under which a newer notification replaces this one, if any.
    pub fn coalesce_key(&self) -> Option<&CoalesceKey> {
        self.0.key.as_ref()
    }

    /// How urgent it is.
    pub fn tier(&self) -> Tier {
        self.0.tier
    }

    /// What it is about, if that was said.
    pub fn about(&self) -> Option<&About> {
        self.0.about.as_ref()
    }

    /// Bytes on the wire; zero for one that cannot be sent.
    pub fn bytes_len(&self) -> usize {
        self.0.body.as_ref().map_or(0, |body| body.frame.len())
    }

    /// Whether both are the very same notification, not merely equal ones.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            method,
            body,
            key,
            tier,
            about,
        } = &*self.0;
        let frame = body
            .as_ref()
            .map(|body| String::from_utf8_lossy(&body.frame));
        f.debug_struct("Notification")
            .field("method", method)
            .field("frame", &frame)
            .field("key", &key.as_ref().map(|key| &key.text))
            .field("tier", tier)
            .field("about", about)
            .finish()
    }
}

// === impl NotificationBuilder ===

impl NotificationBuilder {
    /// Serialises the parameters, now and once.
    pub fn params(mut self, params: &impl Serialize) -> Self {
        let encoded = serde_json::to_vec(params).map_err(|e| EncodeError::Json(Arc::new(e)));
        self.params = Some(encoded.and_then(|mut bytes| match bytes.first() {
            Some(b'{') => {
                // JSON that was kept as text may have line ends, and none of
                // them inside a string: a frame is one line.
                for byte in &mut bytes {
                    if matches!(byte, b'\n' | b'\r') {
                        *byte = b' ';
                    }
                }
                Ok(bytes)
            }
            _ => Err(EncodeError::NotAnObject),
        }));
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
            params,
            key,
            tier,
            about,
        } = self;
        let body = match params {
            None => Ok(Body::new(&method, &[])),
            Some(Ok(params)) => Ok(Body::new(&method, &params)),
            Some(Err(error)) => Err(error),
        };
        Notification(Arc::new(Inner {
            method,
            body,
            key,
            tier,
            about,
        }))
    }
}

impl Body {
    fn new(method: &Method, params: &[u8]) -> Self {
        const HEAD: &str = r#"{"jsonrpc":"2.0","method":""#;
        const PARAMS: &str = r#","params":"#;
        let method = method.as_str();
        let mut frame = Vec::with_capacity(
            HEAD.len() + method.len() + PARAMS.len() + params.len() + "\"}".len(),
        );
        frame.extend_from_slice(HEAD.as_bytes());
        frame.extend_from_slice(method.as_bytes());
        frame.push(b'"');
        if !params.is_empty() {
            frame.extend_from_slice(PARAMS.as_bytes());
        }
        let start = frame.len();
        frame.extend_from_slice(params);
        let params = start..frame.len();
        frame.push(b'}');
        Self {
            frame: frame.into(),
            params,
        }
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
