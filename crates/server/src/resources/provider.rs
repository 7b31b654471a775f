//! The provider of resources: the trait that everything readable by URI implements.

use std::{fmt, future::Future, net::IpAddr, pin::Pin};

use kubecrier_core::ResourceType;
use mcp_notify::Session;
use rmcp::{
    ErrorData,
    model::{Resource, ResourceContents, ResourceTemplate},
};
use serde_json::json;

use super::{
    UpdatePublisher,
    completion::{CompletionFuture, CompletionRequest},
};
use crate::shared_reads::SharedRead;
use crate::{caller::Caller, share};
use kubecrier_core::shares::ShareKey;
use kubecrier_k8s::{Actor, ErrorKind};

/// A provider of resources, which it recognises by their URIs.
pub trait ResourceProvider: Send + Sync + 'static {
    /// Whether the URI is one of this provider's, by its text. Of two providers that
    /// own a URI the first one serves it.
    fn owns(&self, uri: &str) -> bool;

    /// Whether anything is served: the operator may have switched it off.
    fn is_open(&self) -> bool {
        true
    }

    /// The metrics label of failed updates; `None` if they are not counted by type.
    fn resource_type(&self) -> Option<ResourceType> {
        None
    }

    /// What its updates are made of, if that is read once for all callers with the rights of
    /// the server.
    fn shared_updates(&self) -> Option<SharedRead>;

    /// Whether a read may run an executable, instead of reading from a cluster.
    fn is_executed(&self) -> bool {
        false
    }

    /// The resources of `resources/list`. A session's own resources are shown only to
    /// that session. The part that every client sees is compared every few seconds for
    /// `list_changed`.
    fn list(&self, requester: &Requester) -> Vec<Resource>;

    /// The templates of `resources/templates/list`.
    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// The content of a URI of this family, or why there is none. A URI that the
    /// family owns by its text may still be [not found](ResourceError::not_found):
    /// that is also the answer for what belongs to another session.
    fn read<'a>(&'a self, uri: &'a str, requester: &'a Requester) -> ReadFuture<'a>;

    /// Reads with a smaller limit, where there can be more than fits.
    fn read_within<'a>(
        &'a self,
        uri: &'a str,
        requester: &'a Requester,
        _bytes_max: usize,
    ) -> ReadFuture<'a> {
        self.read(uri, requester)
    }

    /// Checks whether `requester` may subscribe to a URI of this provider. Must be
    /// quick: it runs before a subscription is acknowledged.
    ///
    /// # Errors
    /// The error that the client gets.
    fn may_subscribe(&self, uri: &str, requester: &Requester) -> Result<(), ResourceError>;

    /// Checks that the resource exists in the cluster now. A listen does not check: its
    /// acknowledgement cannot wait.
    fn check<'a>(&'a self, _uri: &'a str, _requester: &'a Requester) -> CheckFuture<'a> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Counts a URI for a subscriber under the limits that callers share, until the guard is
    /// dropped. Must not block.
    ///
    /// # Errors
    /// If the subscriber has its share.
    fn claim(&self, _uri: &str, _requester: &Requester) -> Result<FollowGuard, ResourceError> {
        Ok(FollowGuard::none())
    }

    /// Whether the provider publishes an update when following has begun. If it does
    /// not, a listen gets one at once: it cannot know what changed before.
    fn notifies_on_start(&self) -> bool {
        false
    }

    /// Follows a URI that has its first subscriber, of whatever protocol version, and
    /// publishes its changes. The guard is dropped when the last subscriber has gone,
    /// for whatever reason. Must not block.
    fn follow(&self, uri: &str, updates: &UpdatePublisher) -> FollowGuard;

    /// Values for a variable of one of this family's templates; `None` if the
    /// template is not of this family.
    fn complete<'a>(&'a self, _asked: CompletionRequest<'a>) -> Option<CompletionFuture<'a>> {
        None
    }
}

/// Keeps a URI followed, or counted; dropped with its last subscriber, or with the one that
/// it is counted for.
#[must_use]
pub struct FollowGuard(
    #[expect(dead_code, reason = "to hold it is all it is for")] Box<dyn Send + Sync>,
);

/// A running read.
pub type ReadFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<ResourceContents>, ResourceError>> + Send + 'a>>;

/// A check that is running.
pub type CheckFuture<'a> = Pin<Box<dyn Future<Output = Result<(), ResourceError>> + Send + 'a>>;

/// The client of a request.
#[derive(Clone, Debug)]
pub struct Requester {
    /// The session; requests of the newest protocol have none.
    pub session: Option<Session>,
    /// The authenticated caller.
    pub caller: Caller,
    /// The address that it came from, over HTTP.
    pub peer: Option<IpAddr>,
    /// The protocol era of the request.
    pub era: ProtocolEra,
}

/// The two kinds of protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolEra {
    /// With sessions: up to 2025-11-25.
    Legacy,
    /// Without sessions, 2026-07-28: every request is self-contained.
    Modern,
}

/// Why there is no content, or no subscription.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// There is none, or none that this session may know of.
    #[error("no resource `{uri}`; {hint}")]
    NotFound {
        /// The URI.
        uri: String,
        /// What to do instead.
        hint: String,
    },
    /// A part of the URI is not valid.
    #[error("{0}")]
    Invalid(String),
    /// A limit is reached.
    #[error("{0}")]
    Refused(String),
    /// The cluster does not let the requester read it.
    #[error("{0}")]
    Forbidden(String),
    /// The source of the content failed: the cause, and what to do.
    #[error("{0}")]
    Unavailable(String),
}

// === impl Requester ===

impl Requester {
    /// A caller without a session, as every request of the newest protocol has it.
    pub(crate) fn stateless(caller: Caller, peer: Option<IpAddr>) -> Self {
        Self {
            session: None,
            caller,
            peer,
            era: ProtocolEra::Modern,
        }
    }

    /// The requester of the lists that every client sees.
    pub(crate) fn anonymous() -> Self {
        Self::stateless(Caller::ANONYMOUS, None)
    }

    /// On whose behalf requests to clusters are made for it.
    pub(crate) fn actor(&self) -> Actor {
        self.caller.actor()
    }

    /// For whom the request counts under the limits that callers share.
    pub(crate) fn share_key(&self) -> ShareKey {
        let session = self.session.as_ref().map(Session::id);
        share::key(&self.caller, self.peer, session)
    }
}

// === impl FollowGuard ===

impl FollowGuard {
    /// Holds whatever must be dropped to stop following.
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        Self(Box::new(held))
    }

    /// A guard that keeps nothing.
    pub fn none() -> Self {
        Self::new(())
    }
}

impl fmt::Debug for FollowGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lease")
    }
}

// === impl ResourceError ===

impl ResourceError {
    /// The error of an unknown resource.
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
            ResourceError::Refused(_) => {
                Self::internal_error(text, Some(json!({"kind": "refused"})))
            }
            ResourceError::Forbidden(_) => {
                Self::internal_error(text, Some(json!({"kind": ErrorKind::Forbidden.as_str()})))
            }
            ResourceError::Unavailable(_) => Self::internal_error(text, None),
        }
    }
}
