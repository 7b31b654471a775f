//! What a family of resources is: the seam that everything readable by URI
//! implements.

use std::{fmt, future::Future, pin::Pin};

use mcp_notify::{ResourceType, Session};
use rmcp::{
    ErrorData,
    model::{Resource, ResourceContents, ResourceTemplate},
};
use serde_json::json;

use super::{
    Updates,
    completion::{Completing, Completion},
};
use crate::caller::Caller;

/// Resources of one kind, told by their URIs.
pub trait Family: Send + Sync + 'static {
    /// Whether the URI is one of this family's, as far as its text tells. Of two
    /// families that say so the first one has it.
    fn owns(&self, uri: &str) -> bool;

    /// What failures to tell of a change count as, if they do.
    fn resource_type(&self) -> Option<ResourceType> {
        None
    }

    /// What `resources/list` shows. What belongs to one session shows only there;
    /// the part that everybody sees is what `list_changed` follows, and it is asked
    /// for every few seconds.
    fn entries(&self, who: &Who) -> Vec<Resource>;

    /// What `resources/templates/list` shows.
    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// The content of a URI of this family, or why there is none. A URI that the
    /// family owns by its text may still be [not found](ResourceError::not_found):
    /// that is also the answer for what belongs to another session.
    fn read<'a>(&'a self, uri: &'a str, who: &'a Who) -> Reading<'a>;

    /// The same, in less room, where there can be more than fits.
    fn read_within<'a>(&'a self, uri: &'a str, who: &'a Who, _bytes_max: usize) -> Reading<'a> {
        self.read(uri, who)
    }

    /// Whether `who` may subscribe to a URI of this family. Quick: it is asked
    /// before anything is acknowledged.
    ///
    /// # Errors
    /// What the client is told instead.
    fn may_subscribe(&self, uri: &str, who: &Who) -> Result<(), ResourceError>;

    /// Whether there is something to subscribe to, as the cluster has it now. Asked
    /// where there is somebody who waits for the answer: not by a listen.
    fn check<'a>(&'a self, _uri: &'a str, _who: &'a Who) -> Checking<'a> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether an update is sent once following has begun. If it is not, a listen is
    /// told at once: what changed before it was there it cannot know.
    fn says_when_it_follows(&self) -> bool {
        false
    }

    /// The URI has its first subscriber, of whatever protocol version: follow it,
    /// and say when it changes. The lease is dropped when the last subscriber has
    /// gone, for whatever reason. Must not block.
    fn follow(&self, uri: &str, updates: &Updates) -> Lease;

    /// Values for a variable of one of this family's templates; `None` if the
    /// template is not of this family.
    fn complete<'a>(&'a self, _asked: Completion<'a>) -> Option<Completing<'a>> {
        None
    }
}

/// What following a URI holds on to; dropped when nobody wants to hear any more.
#[must_use]
pub struct Lease(#[expect(dead_code, reason = "to hold it is all it is for")] Box<dyn Send + Sync>);

/// A read under way.
pub type Reading<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<ResourceContents>, ResourceError>> + Send + 'a>>;

/// A look whether there is something to subscribe to.
pub type Checking<'a> = Pin<Box<dyn Future<Output = Result<(), ResourceError>> + Send + 'a>>;

/// Whose request it is.
#[derive(Clone, Debug)]
pub struct Who {
    /// The session; requests of the newest protocol have none.
    pub session: Option<Session>,
    /// The caller, as authentication tells.
    pub caller: Caller,
    /// Which kind of protocol.
    pub era: Era,
}

/// The two kinds of protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// With sessions: up to 2025-11-25.
    Legacy,
    /// Without: every request stands alone, 2026-07-28.
    Modern,
}

/// Why there is no content, or no subscription.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// There is none, or none that this session may know of.
    #[error("no resource `{uri}`; {hint}")]
    NotFound {
        /// What was asked for.
        uri: String,
        /// What to do instead.
        hint: String,
    },
    /// The URI says something that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// A limit is reached.
    #[error("{0}")]
    Refused(String),
    /// What the content comes from did not play along: what happened and what to do.
    #[error("{0}")]
    Unavailable(String),
}

// === impl Lease ===

impl Lease {
    /// Holds whatever must be dropped to stop following.
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        Self(Box::new(held))
    }

    /// Nothing has to be stopped.
    pub fn none() -> Self {
        Self::new(())
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lease")
    }
}

// === impl ResourceError ===

impl ResourceError {
    /// There is no such resource.
    pub fn not_found(uri: &str) -> Self {
        Self::NotFound {
            uri: uri.to_owned(),
            hint: "resources/list has all there are".to_owned(),
        }
    }
}

impl From<ResourceError> for ErrorData {
    fn from(error: ResourceError) -> Self {
        let text = error.to_string();
        match error {
            // rmcp makes of it the code that the session's version has.
            ResourceError::NotFound { uri, .. } => {
                Self::resource_not_found(text, Some(json!({"uri": uri})))
            }
            ResourceError::Invalid(_) => Self::invalid_params(text, None),
            ResourceError::Refused(_) | ResourceError::Unavailable(_) => {
                Self::internal_error(text, None)
            }
        }
    }
}
